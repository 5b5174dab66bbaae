//! Shell completion and man pages, made from the command line itself.

use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

use anyhow::Context as _;
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::exit_status::HEADING;
use crate::stdout::document;

const ENVIRONMENT: [(&str, &str); 5] = [
    ("KUBECONFIG", "Kubeconfigs, as kubectl reads it. `--kubeconfig` comes first."),
    ("VISUAL, EDITOR", "Editor of `weaver sync edit` and its like."),
    ("DOCKER_HOST", "Docker's socket, for clusters of k3d."),
    (
        "DOCKER_CONTEXT, DOCKER_CONFIG",
        "Docker's context and the directory of its configuration, where DOCKER_HOST is not set.",
    ),
    ("NO_COLOR", "Prints no colours, if it is set."),
];

const FILES: [(&str, &str); 4] = [
    ("~/.kube/config", "Kubeconfig, where neither `--kubeconfig` nor KUBECONFIG names one."),
    ("/etc/rancher/k3s/k3s.yaml", "Kubeconfig of k3s, on a node without ~/.kube/config."),
    ("/run/weaver/report.json", "What the node agent found; `weaver doctor` begins with it."),
    ("/boot/firmware/weaver.toml", "Configuration of a card; `weaver config` writes and checks one."),
];

#[derive(Args)]
pub struct Completion {
    /// Shell: `weaver completion bash | sudo tee /etc/bash_completion.d/weaver`
    shell: Shell,
}

/// Prints the completion of a shell.
pub fn completion(options: &Completion, mut command: Command) -> anyhow::Result<ExitCode> {
    // Written at once: clap exits the program if the pipe is closed.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command, "weaver", &mut script);
    document(&String::from_utf8(script).context("writing the completion")?)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a page for the program and one for each verb.
pub fn man(directory: &Path, command: Command) -> anyhow::Result<ExitCode> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_pages(&command, "weaver", directory)
        .with_context(|| format!("cannot write man pages to {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn write_pages(command: &Command, name: &str, directory: &Path) -> io::Result<()> {
    fs::write(directory.join(format!("{name}.1")), page(command, name)?)?;
    verbs(command, name).try_for_each(|(verb, name)| write_pages(verb, &name, directory))
}

/// Sections in the order of man-pages(7).
fn page(command: &Command, name: &str) -> io::Result<Vec<u8>> {
    let about = command.get_long_about().or_else(|| command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let (about, own) = about.split_once(HEADING).unwrap_or((&about, ""));
    let below = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (examples, shared) = below.split_once(HEADING).unwrap_or((&below, ""));
    let man = Man::new(command.clone().long_about(about.trim_end().to_owned()))
        .title(name.to_uppercase())
        .source(concat!("weaver ", env!("CARGO_PKG_VERSION")))
        .manual("Config Weaver");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    man.render_options_section(&mut text)?;
    let mut rest = Roff::new();
    let status = if own.is_empty() { shared } else { own };
    let statuses = status.trim_end_matches('.').split("; ");
    section(&mut rest, "EXIT STATUS", statuses.filter_map(|item| item.split_once(' ')));
    if name == "weaver" {
        section(&mut rest, "ENVIRONMENT", ENVIRONMENT);
        section(&mut rest, "FILES", FILES);
    }
    if !examples.is_empty() {
        rest.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in examples.trim_end().lines().skip(1) {
            rest.text([roman(line.trim_start())]);
        }
        rest.control("fi", []);
    }
    let above = name.rsplit_once('-').map(|(above, _)| above.to_owned());
    let others: Vec<_> = above.into_iter().chain(verbs(command, name).map(|(_, name)| name)).collect();
    rest.control("SH", ["SEE ALSO"]).text([roman(others.join("(1), ") + "(1)")]);
    rest.to_writer(&mut text)?;
    Ok(text)
}

/// Verbs of a command that users type, with the names of their pages.
fn verbs<'a>(command: &'a Command, name: &'a str) -> impl Iterator<Item = (&'a Command, String)> {
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    verbs.map(move |verb| (verb, format!("{name}-{}", verb.get_name())))
}

fn section<'a>(page: &mut Roff, title: &str, items: impl IntoIterator<Item = (&'a str, &'a str)>) {
    let mut items = items.into_iter().peekable();
    if items.peek().is_some() {
        page.control("SH", [title]);
    }
    for (name, text) in items {
        page.control("TP", []).text([bold(name)]).text([roman(text)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_verb_has_a_page_and_is_completed() {
        let dir = tempfile::tempdir().unwrap();
        man(dir.path(), crate::command("weaver")).unwrap();
        let pages: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|page| page.unwrap().file_name()).collect();
        let page = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
        let program = page("weaver.1");
        for wanted in ["ENVIRONMENT", "FILES", "KUBECONFIG", "weaver\\-doctor(1)"] {
            assert!(program.contains(wanted), "{wanted}: {program}");
        }
        let doctor = page("weaver-doctor.1");
        let status = doctor.split_once(".SH \"EXIT STATUS\"\n").unwrap().1;
        assert!(status.starts_with(".TP\n\\fB0\\fR\nno problem found\n.TP\n\\fB1\\fR\n"), "{status}");
        assert!(
            status.contains(".SH EXAMPLES\n.nf\n# Find out what is wrong, from the laptop\nweaver doctor\n"),
            "{status}"
        );
        assert!(status.ends_with(".SH \"SEE ALSO\"\nweaver(1)\n"), "{status}");
        assert!(!doctor.contains(HEADING), "once only: {doctor}");
        let get = page("weaver-sync-get.1");
        let status = get.split_once(".SH \"EXIT STATUS\"\n").unwrap().1;
        assert!(status.starts_with(".TP\n\\fB0\\fR\ndone\n.TP\n\\fB1\\fR\n"), "{status}");
        for verb in ["weaver.1", "weaver-doctor.1", "weaver-kubeconfig-export.1"] {
            assert!(pages.iter().any(|page| page == verb), "{pages:?}");
        }
        let mut script = Vec::new();
        clap_complete::generate(Shell::Bash, &mut crate::command("weaver"), "weaver", &mut script);
        let script = String::from_utf8(script).unwrap();
        assert!(script.contains("doctor") && script.contains("--tls-server-name"), "{script}");
    }
}

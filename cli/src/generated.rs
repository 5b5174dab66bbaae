//! Shell completion and man pages, made from the command line itself.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::stdout::document;

#[derive(Args)]
pub struct Completion {
    /// Shell: `weaver completion bash | sudo tee /etc/bash_completion.d/weaver`
    shell: Shell,
}

/// Prints the completion of a shell.
pub fn completion(options: &Completion, mut command: Command) -> anyhow::Result<ExitCode> {
    // In one go: clap ends the program where no one reads on.
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut command, "weaver", &mut script);
    document(&String::from_utf8(script).context("writing the completion")?)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes a page for the program and one for each verb.
pub fn man(directory: &Path, command: Command) -> anyhow::Result<ExitCode> {
    clap_mangen::generate_to(command, directory)
        .with_context(|| format!("cannot write man pages to {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn each_verb_has_a_page_and_is_completed() {
        let dir = tempfile::tempdir().unwrap();
        man(dir.path(), crate::Args::command()).unwrap();
        let pages: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|page| page.unwrap().file_name()).collect();
        for verb in ["weaver.1", "weaver-doctor.1", "weaver-kubeconfig-export.1"] {
            assert!(pages.iter().any(|page| page == verb), "{pages:?}");
        }
        let mut script = Vec::new();
        clap_complete::generate(Shell::Bash, &mut crate::Args::command(), "weaver", &mut script);
        let script = String::from_utf8(script).unwrap();
        assert!(script.contains("doctor") && script.contains("--tls-server-name"), "{script}");
    }
}

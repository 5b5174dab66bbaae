//! What it means that a file of k3s is missing, or could not be read. Pure.
//!
//! What stops us need not stop k3s, which is root and knows no limit: only what the file itself shows is bad.

use super::READ_UNITS;
use crate::finding::{Code, Finding, Place, RESTART_K3S, Remedy, Severity};
use crate::hidden::TEMPORARY;
use crate::k3s_unit::Setting;
use crate::serving;
use crate::shell::quoted;
use crate::text_file::TextFile;
use crate::yaml_node;

/// What a file is to k3s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileUse {
    /// Its configuration, or a drop-in of it.
    Config,
    /// The directory of the drop-ins.
    DropIns,
    Registries,
    /// Its unit, a drop-in of that, or a file of its environment.
    Unit,
    /// The CA of the serving certificates.
    ServerCa,
}

/// Why a file was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// This process could not, and k3s may.
    ByUs(String),
    /// The unit of this process hides this directory from it.
    Hidden { why: String, directory: String },
    /// It is no text.
    NotText(String),
}

/// A file that was not read.
pub fn unread(of: FileUse, path: &str, unread: &Unread) -> Finding {
    let (Unread::ByUs(why) | Unread::Hidden { why, .. } | Unread::NotText(why)) = unread;
    let mut finding = cannot_read(path, why);
    if let Unread::Hidden { directory, .. } = unread {
        finding = finding.remedy(show_hidden(directory));
    }
    match (of, unread) {
        (FileUse::Config, Unread::NotText(_)) => finding,
        // systemd may still read it: what it says is then unknown, not bad.
        (FileUse::Unit, _) => finding.milder(Severity::Warn),
        (FileUse::Config | FileUse::DropIns | FileUse::Registries | FileUse::ServerCa, _) => {
            finding.milder(Severity::Unknown)
        }
    }
}

/// What lets the agent's units read what is in a directory that they do not see.
pub fn show_hidden(directory: &str) -> Remedy {
    let (what, setting, file) = if TEMPORARY.contains(&directory) {
        ("what others have in /tmp and /var/tmp", "PrivateTmp=no", "50-tmp.conf")
    } else {
        ("the directories of users", "ProtectHome=read-only", "50-home.conf")
    };
    let drop_in = format!(
        "for unit in weaver-boot-config weaver-preflight weaver-node-agent; do sudo mkdir -p \
         /etc/systemd/system/$unit.service.d; printf '[Service]\\n{setting}\\n' | sudo tee \
         /etc/systemd/system/$unit.service.d/{file}; done"
    );
    Remedy::new(format!(
        "k3s reads it, and the services of Config Weaver do not see {what}: move it to another directory, such as \
         /etc/rancher/k3s, and name it there, or let the services read it by this drop-in"
    ))
    .command(drop_in)
    .command("sudo systemctl daemon-reload")
    .command("sudo systemctl restart weaver-node-agent")
}

/// k3s starts without its default file, but not without one that `--config` names.
pub fn missing_config(named: &Setting) -> Finding {
    let Setting { value: path, origin } = named;
    let message = format!("{path} does not exist, {origin} names it, and k3s does not start without it");
    Finding::new(Code::K3sFileUnreadable, message)
        .saw(origin.clone(), format!("configuration file {path}"))
        .remedy(
            Remedy::new(format!("write {path}, or remove its name from {origin}"))
                .command(READ_UNITS)
                .command(RESTART_K3S),
        )
}

/// Names that the configuration has in its place, and that k3s does not read.
pub const MISNAMED: [&str; 3] = ["config.yml", "config.json", "config.yaml.txt"];

/// A file in the place of the configuration `wanted`, which does not exist.
pub fn misnamed(path: &str, wanted: &str) -> Finding {
    let place = Place::file(path);
    let message = format!("{place}: k3s reads {wanted} only");
    let remedy = Remedy::new(format!("rename it to {wanted}, then restart k3s"));
    let remedy = remedy.command(format!("sudo mv {} {}", quoted(path), quoted(wanted))).command(RESTART_K3S);
    Finding::new(Code::SettingMisspelled, message)
        .saw(place, "not read")
        .remedy(remedy)
        .milder(Severity::Warn)
}

/// What comes after the first document, which is all that k3s reads.
pub(crate) fn second_document(file: &TextFile) -> Option<Finding> {
    let line = yaml_node::second_document(&file.text)?;
    let what = "k3s reads only what is above the line `---`, and nothing from here on";
    let remedy =
        Remedy::new("remove the line `---`, or write each part into a file of its own in config.yaml.d");
    let finding = Finding::at(Code::SettingMisspelled, Place::line(&file.path, line), what);
    Some(finding.remedy(remedy.command(RESTART_K3S)).milder(Severity::Warn))
}

/// As it is before k3s' first start.
pub fn missing_ca(path: &str) -> Finding {
    serving::unknown(&format!("{path} does not exist: k3s has not created its CA yet"))
        .saw(Place::file(path), "missing")
}

/// A CA that no certificate can be verified by.
pub fn broken_ca(path: &str, why: &str) -> Finding {
    cannot_read(path, why)
}

/// A CA that k3s was writing when the power was cut.
pub fn empty_ca(path: &str) -> Finding {
    let directory = path.rsplit_once('/').map_or("/", |(directory, _)| directory);
    cannot_read(path, "it is empty, as a power cut leaves a file that is being written")
        .remedy(without_empty_files(&quoted(directory)))
}

/// What helps where k3s finds files that a power cut left empty. `of`: the directory, and how deep: arguments of `find`.
pub fn without_empty_files(of: &str) -> Remedy {
    Remedy::new(
        "remove what is empty and start k3s again: it makes what is missing. Its CA it takes from its datastore; where that has \
         none, it makes another, and agents and kubeconfigs of the old one are refused",
    )
    .command(format!("sudo find {of} -type f -empty -print -delete"))
    .command(RESTART_K3S)
}

fn cannot_read(path: &str, why: &str) -> Finding {
    Finding::new(Code::K3sFileUnreadable, format!("{path} cannot be read: {why}"))
        .saw(Place::file(path), why)
        .remedy(
            Remedy::new(format!("make {path} a text file that root can read"))
                .command(format!("sudo ls -l {}", quoted(path)))
                .command("sudo weaver-node-agent check"),
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_configuration_that_is_no_text_is_known_bad() {
        let by_us = Unread::ByUs("permission denied".to_owned());
        let why = "the service does not see what is in /home".to_owned();
        let hidden = Unread::Hidden { why, directory: "/home".to_owned() };
        let not_text = Unread::NotText("it is binary, not text".to_owned());
        for (of, why, want) in [
            (FileUse::Config, &by_us, Severity::Unknown),
            (FileUse::Config, &hidden, Severity::Unknown),
            (FileUse::ServerCa, &hidden, Severity::Unknown),
            (FileUse::Config, &not_text, Severity::Fail),
            (FileUse::DropIns, &by_us, Severity::Unknown),
            (FileUse::DropIns, &not_text, Severity::Unknown),
            (FileUse::Registries, &by_us, Severity::Unknown),
            (FileUse::Registries, &not_text, Severity::Unknown),
            (FileUse::Unit, &by_us, Severity::Warn),
            (FileUse::Unit, &not_text, Severity::Warn),
            (FileUse::ServerCa, &by_us, Severity::Unknown),
            (FileUse::ServerCa, &not_text, Severity::Unknown),
        ] {
            let found = unread(of, "/f", why);
            assert_eq!((found.severity(), found.code), (want, Code::K3sFileUnreadable), "{of:?} {why:?}");
            assert!(found.message.starts_with("/f cannot be read: "), "{found:?}");
            let remedy = found.remedy.unwrap();
            let is_shown = remedy.commands.iter().any(|command| command.contains("ProtectHome=read-only"));
            assert_eq!(is_shown, *why == hidden, "{remedy:?}");
            assert_eq!(remedy.explain.contains("/f "), *why != hidden, "{remedy:?}");
        }
        let commands = unread(FileUse::Config, "/c d;e.yaml", &not_text).remedy.unwrap().commands;
        assert_eq!(commands[0], "sudo ls -l '/c d;e.yaml'");
    }

    #[test]
    fn the_drop_in_shows_the_directory_that_is_hidden_and_no_other() {
        for (directory, setting) in [
            ("/home", "ProtectHome=read-only"),
            ("/root", "ProtectHome=read-only"),
            ("/tmp", "PrivateTmp=no"),
            ("/var/tmp", "PrivateTmp=no"),
        ] {
            let drop_in = show_hidden(directory).commands[0].to_string();
            assert!(drop_in.contains(&format!(r"printf '[Service]\n{setting}\n' | sudo tee")), "{drop_in}");
        }
    }

    #[test]
    fn a_second_document_is_named_with_its_line() {
        let found =
            second_document(&TextFile::new("/c.yaml", "---\ntls-san: pi\n---\ntoken: hunter2\n")).unwrap();
        assert_eq!((found.severity(), found.code), (Severity::Warn, Code::SettingMisspelled));
        assert!(found.message.starts_with("/c.yaml:4: k3s reads only"), "{}", found.message);
        assert!(!format!("{found:?}").contains("hunter2"));
        assert_eq!(second_document(&TextFile::new("/c.yaml", "---\ntls-san: pi\n...\n")), None);
    }

    #[test]
    fn a_file_in_the_place_of_the_configuration() {
        let found = misnamed("/etc/rancher/k3s/config.yml", "/etc/rancher/k3s/config.yaml");
        assert_eq!(found.message, "/etc/rancher/k3s/config.yml: k3s reads /etc/rancher/k3s/config.yaml only");
        assert_eq!((found.code, found.severity()), (Code::SettingMisspelled, Severity::Warn));
        assert!(found.remedy.unwrap().commands[0].starts_with("sudo mv /etc/rancher/k3s/config.yml "));
    }

    #[test]
    fn what_is_missing_is_named_with_what_names_it() {
        let named = Setting { value: "/none.yaml".to_owned(), origin: Place::line("/k3s.service", 2) };
        let found = missing_config(&named);
        assert_eq!(found.severity(), Severity::Fail);
        assert!(found.message.starts_with("/none.yaml does not exist, /k3s.service:2 names it"));
        let found = missing_ca("/ca.crt");
        assert_eq!((found.severity(), found.code), (Severity::Unknown, Code::ServingNamesUnknown));
        let found = broken_ca("/ca.crt", "it holds no certificate");
        assert_eq!((found.severity(), found.code), (Severity::Fail, Code::K3sFileUnreadable));
        let found = empty_ca("/tls/ca.crt");
        assert_eq!((found.severity(), found.code), (Severity::Fail, Code::K3sFileUnreadable));
        assert_eq!(found.remedy.unwrap().commands[0], "sudo find /tls -type f -empty -print -delete");
    }
}

//! A command that resolves names on this machine, and only it: kubectl under a SAN.
//!
//! In a mount namespace of its own, a hosts file of its own covers `/etc/hosts`; no other process on the machine sees
//! it and no name server is asked. As another user than root it needs user namespaces. Failure: the message of unshare
//! or mount, on the command's standard error, with exit code 1.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::programs;

const INSIDE: &str = "mount --bind \"$1\" /etc/hosts && shift && exec \"$@\"";

/// Names that mean 127.0.0.1 for the commands made here.
#[derive(Clone, Debug)]
pub struct HostNames {
    file: PathBuf,
}

impl HostNames {
    /// Writes the hosts file, this machine's own with `names` in front, to `file`.
    ///
    /// # Errors
    /// When a name cannot be in a hosts file, or the file cannot be written.
    pub fn write(file: &Path, names: &[String]) -> Result<Self> {
        let machine = fs::read_to_string("/etc/hosts").unwrap_or_default();
        let text = hosts(names, &machine)?;
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
        Ok(Self { file: file.to_owned() })
    }

    /// The arguments in front of a command that needs the names.
    pub fn args(&self) -> Vec<String> {
        let root = fs::metadata("/proc/self").is_ok_and(|me| me.uid() == 0);
        let map = if root { &[][..] } else { &["--map-root-user"] };
        let args = ["unshare", "--mount", "--propagation", "private"].iter().chain(map);
        let args = args.chain(&["sh", "-c", INSIDE, "hosts"]).map(ToString::to_string);
        args.chain([self.file.display().to_string()]).collect()
    }

    /// A command that finds the names.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let args = self.args();
        let mut command = programs::command("unshare");
        command.args(&args[1..]).arg(program);
        command
    }
}

fn hosts(names: &[String], machine: &str) -> Result<String> {
    let mut text = String::new();
    for name in names {
        let good = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-')
            && !name.starts_with(['.', '-'])
            && !name.ends_with('.');
        if !good {
            bail!("`{name}` is not valid in a hosts file; use a DNS name such as pi.test");
        }
        text.push_str("127.0.0.1 ");
        text.push_str(name);
        text.push('\n');
    }
    Ok(text + machine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_names_come_first() {
        let names = ["pi.test".to_owned(), "raspi".to_owned()];
        let text = hosts(&names, "127.0.0.1 localhost\n").unwrap();
        assert_eq!(text, "127.0.0.1 pi.test\n127.0.0.1 raspi\n127.0.0.1 localhost\n");
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for bad in ["", "a b", "a\nb", "*.test", ".test", "pi.test.", "-x", "a#b"] {
            let error = hosts(&[bad.to_owned()], "").unwrap_err().to_string();
            assert!(error.contains("is not valid in a hosts file"), "{bad:?}: {error}");
        }
    }

    #[test]
    fn only_the_command_sees_the_name() {
        let dir = tempfile::tempdir().unwrap();
        let before = fs::read("/etc/hosts").unwrap();
        let names = HostNames::write(&dir.path().join("hosts"), &["pi.weaver.test".to_owned()]).unwrap();
        let found = programs::run(names.command("getent").args(["hosts", "pi.weaver.test"])).unwrap();
        assert!(String::from_utf8(found).unwrap().starts_with("127.0.0.1"));
        assert_eq!(fs::read("/etc/hosts").unwrap(), before);
        assert!(programs::run(programs::command("getent").args(["hosts", "pi.weaver.test"])).is_err());
    }

    #[test]
    fn the_commands_own_failure_is_passed_on() {
        let dir = tempfile::tempdir().unwrap();
        let names = HostNames::write(&dir.path().join("hosts"), &[]).unwrap();
        let status = names.command("sh").args(["-c", "exit 7"]).status().unwrap();
        assert_eq!(status.code(), Some(7));
        fs::remove_file(dir.path().join("hosts")).unwrap();
        assert_ne!(names.command("true").status().unwrap().code(), Some(0), "no hosts file, no command");
    }
}

//! Commands inside the guest, by the system's ssh with a throw-away key.
//!
//! Guarantee: nothing of the user's ssh is read or written, there is no password prompt, every call has a deadline; the
//! key is in the run's directory, 0600. Failure: the exit code and the message of the command, or ssh's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::programs;

/// The user that logs in; may do everything by sudo.
pub const USER: &str = "weaver-admin";

/// Exit codes of ssh and `timeout` themselves.
const NO_CONNECTION: i32 = 255;
const TIMED_OUT: i32 = 124;

/// A key pair for one run.
#[derive(Clone, Debug)]
pub struct SshKey {
    private: PathBuf,
}

/// What a command in the guest did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl SshKey {
    /// The pair in `dir`; made if there is none.
    ///
    /// # Errors
    /// When ssh-keygen is missing or fails.
    pub fn in_dir(dir: &Path) -> Result<Self> {
        let private = dir.join("id_ed25519");
        if !private.exists() {
            let mut command = programs::command("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-C", "weaver-boot", "-f"]);
            programs::run(command.arg(&private))?;
        }
        Ok(Self { private })
    }

    /// The public half, one line.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn public(&self) -> Result<String> {
        let path = self.private.with_extension("pub");
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(text.trim().to_owned())
    }

    /// The arguments of an ssh command to the guest behind `port`.
    pub fn args(&self, port: u16) -> Vec<String> {
        let mut args = vec!["ssh".to_owned(), "-F".to_owned(), "/dev/null".to_owned()];
        for option in [
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "IdentitiesOnly=yes",
            "BatchMode=yes",
            "LogLevel=ERROR",
            // The key exchange takes seconds under emulation on a busy machine.
            "ConnectTimeout=30",
            // A lost connection to the guest is noticed.
            "ServerAliveInterval=10",
            "ServerAliveCountMax=6",
        ] {
            args.extend(["-o".to_owned(), option.to_owned()]);
        }
        args.extend(["-i".to_owned(), self.private.display().to_string(), "-p".to_owned(), port.to_string()]);
        args.push(format!("{USER}@127.0.0.1"));
        args
    }

    /// Runs a shell command as root in the guest.
    ///
    /// # Errors
    /// When there is no connection, or no end within `limit`.
    pub fn run(&self, port: u16, script: &str, limit: Duration) -> Result<Ran> {
        let mut args = self.args(port);
        args.splice(1..1, shared_connection(port));
        let mut command: Command = programs::command("timeout");
        command.args(["--kill-after=5", &limit.as_secs().max(1).to_string()]).args(args);
        command.arg(format!("sudo -n sh -c {}", quoted(script)));
        let output = command.output().map_err(|error| programs::not_started(&command, error))?;
        let ran = Ran {
            // Killed by a signal: as if there were no connection.
            code: output.status.code().unwrap_or(NO_CONNECTION),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        match ran.code {
            NO_CONNECTION => bail!("no ssh connection to the guest: {}", ran.stderr.trim()),
            TIMED_OUT => bail!("`{script}` did not end in the guest within {} s", limit.as_secs()),
            _ => Ok(ran),
        }
    }
}

/// Options by which the commands of this process share one connection: each new one costs seconds of key exchange
/// under emulation. It ends with the machine, or when it was idle for half a minute.
fn shared_connection(port: u16) -> impl Iterator<Item = String> {
    let socket = std::env::temp_dir().join(format!("weaver-ssh-{}-{port}", std::process::id()));
    let path = format!("ControlPath={}", socket.display());
    ["ControlMaster=auto".to_owned(), path, "ControlPersist=30".to_owned()]
        .into_iter()
        .flat_map(|option| ["-o".to_owned(), option])
}

/// One word of a shell.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use proptest::prelude::*;
    use weaver_devstack::ports;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_private() {
        let dir = tempfile::tempdir().unwrap();
        let key = SshKey::in_dir(dir.path()).unwrap();
        let public = key.public().unwrap();
        assert!(public.starts_with("ssh-ed25519 "), "{public}");
        let mode = fs::metadata(dir.path().join("id_ed25519")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(SshKey::in_dir(dir.path()).unwrap().public().unwrap(), public);
    }

    #[test]
    fn no_one_at_the_port_is_no_connection() {
        let dir = tempfile::tempdir().unwrap();
        let key = SshKey::in_dir(dir.path()).unwrap();
        let error = key.run(ports::disposable().unwrap(), "true", Duration::from_secs(20)).unwrap_err();
        assert!(error.to_string().starts_with("no ssh connection to the guest: "), "{error}");
    }

    #[test]
    fn a_silent_port_ends_at_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let key = SshKey::in_dir(dir.path()).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let error = key.run(port, "true", Duration::from_secs(1)).unwrap_err();
        assert_eq!(error.to_string(), "`true` did not end in the guest within 1 s");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn a_quoted_word_stays_one_word(word in "[^\0]*") {
            let output = Command::new("sh").args(["-c", &format!("printf %s {}", quoted(&word))]).output().unwrap();
            prop_assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}

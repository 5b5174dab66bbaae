//! Where everything of one stack lies.
//!
//! `make up` uses `.run/`; each disposable stack of the tests has a directory
//! of its own with the same layout. Nothing is written outside of it.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::files;
use crate::process;

/// A cold `up` builds the testbed under the lock.
pub const LOCK_PATIENCE: Duration = Duration::from_mins(15);

/// The directory of one stack.
#[derive(Clone, Debug)]
pub struct Layout {
    dir: PathBuf,
}

impl Layout {
    /// Makes the directory and what must exist inside it.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn create(dir: &Path) -> Result<Self> {
        files::make_dir(dir)?;
        // Keys and tokens lie below; the database would be readable else.
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(dir, private).map_err(|error| files::explained(dir, error))?;
        let layout = Self::existing(dir)?.with_context(|| format!("{} vanished", dir.display()))?;
        for sub in ["bin", "data", "k3s/config.yaml.d", "logs", "pids", "weaver"] {
            files::make_dir(&layout.dir.join(sub))?;
        }
        Ok(layout)
    }

    /// The layout of a directory that is there already; `None` if it is not.
    ///
    /// # Errors
    /// When the directory is there and cannot be looked at.
    pub fn existing(dir: &Path) -> Result<Option<Self>> {
        match dir.canonicalize() {
            Ok(dir) => Ok(Some(Self { dir })),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot look into {}", dir.display())),
        }
    }

    /// The directory itself, absolute; also the mark of its processes.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Kubeconfig of an administrator, written by the API server.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.dir.join("admin.kubeconfig")
    }

    /// Programs that k3s looks for on its `PATH`.
    pub fn bin(&self) -> PathBuf {
        self.dir.join("bin")
    }

    /// The API server's data.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// The API server's configuration; drop-ins lie in `config.yaml.d` next to it.
    pub fn config(&self) -> PathBuf {
        self.dir.join("k3s/config.yaml")
    }

    /// What a shell reads to type commands that mean this stack.
    pub fn env_file(&self) -> PathBuf {
        self.dir.join("env")
    }

    /// The log of one process.
    pub fn log(&self, process: &str) -> PathBuf {
        self.dir.join("logs").join(process).with_extension("log")
    }

    /// The pid file of one process.
    pub fn pid_file(&self, process: &str) -> PathBuf {
        self.dir.join("pids").join(process)
    }

    /// The agent's runtime directory: report, operator's kubeconfig and token.
    pub fn runtime(&self) -> PathBuf {
        self.dir.join("weaver")
    }

    /// The conversion webhook's CA and certificate.
    pub fn certificates(&self) -> PathBuf {
        self.dir.join("webhook")
    }

    /// The port and the program of the API server that runs here.
    pub fn server_record(&self) -> PathBuf {
        self.dir.join("server.json")
    }

    /// The audit policy, where one is asked for.
    pub fn audit_policy(&self) -> PathBuf {
        self.dir.join("k3s/audit-policy.yaml")
    }

    /// The audit log, where one is asked for.
    pub fn audit_log(&self) -> PathBuf {
        self.dir.join("logs/audit.log")
    }

    /// Waits for this stack's lock, so that two commands do not interleave.
    /// The lock is the kernel's: it ends with the process, however that ends.
    ///
    /// # Errors
    /// When another command has the lock for longer than `patience`.
    pub fn lock(&self, patience: Duration) -> Result<File> {
        let path = self.dir.join("lock");
        let file = File::create(&path).map_err(|error| files::explained(&path, error))?;
        let mut said = false;
        let mut failed = None;
        let locked = process::poll(patience, || match file.try_lock() {
            Ok(()) => true,
            Err(TryLockError::WouldBlock) => {
                if !said {
                    eprintln!("another command is at work in {}; waiting for it", self.dir.display());
                    said = true;
                }
                false
            }
            Err(TryLockError::Error(error)) => {
                failed = Some(error);
                true
            }
        });
        if let Some(error) = failed {
            return Err(error).with_context(|| format!("cannot lock {}", path.display()));
        }
        if !locked {
            bail!(
                "another command has been at work in {} for {} s; see who holds {} with `fuser {2}`",
                self.dir.display(),
                patience.as_secs(),
                path.display()
            );
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_private_and_absolute() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::create(&dir.path().join("a/../b")).unwrap();
        assert!(layout.dir().is_absolute() && layout.dir().ends_with("b"));
        assert_eq!(fs::metadata(layout.dir()).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(layout.data().is_dir());
        assert!(Layout::existing(&dir.path().join("none")).unwrap().is_none());
    }

    #[test]
    fn the_second_command_waits_and_then_says_for_what() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::create(dir.path()).unwrap();
        let held = layout.lock(Duration::ZERO).unwrap();
        let text = layout.lock(Duration::from_millis(10)).unwrap_err().to_string();
        assert!(text.contains("another command has been at work"), "{text}");
        drop(held);
        layout.lock(Duration::ZERO).unwrap();
    }
}

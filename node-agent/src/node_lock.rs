//! The lock of this node: one process at a time changes it.
//!
//! A backup, a restore, an upgrade of k3s, an update of our packages, a repair and the move of k3s' data each stop or
//! replace what another one reads, so all of them take this one lock. Guarantees: it ends with its process, however
//! that ends; its file says what runs. Failure: [`Busy`], which names that.

use std::fs::{self, File, Permissions, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The file in the state directory.
const NAME: &str = "node.lock";
/// How long to wait for it in any case: a process that is just being started has it for a moment, open as all files of
/// the one that starts it.
const STARTING: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);
/// Pause between two attempts after that.
const PATIENT_POLL: Duration = Duration::from_secs(1);
/// What a process of the timer's backup has at the end of a line of its `/proc/PID/cgroup`.
const TIMERS_BACKUP: &str = "/weaver-backup.service";

/// Something else changes this node now.
#[derive(Debug, thiserror::Error)]
#[error("{0}: wait until it has finished, then try again")]
pub struct Busy(
    /// What runs.
    pub String,
);

impl Busy {
    /// By what is in the file of the lock.
    fn of(path: &Path) -> Self {
        let holder = holder(path);
        let cgroup = holder.as_ref().map(|holder| format!("/proc/{}/cgroup", holder.pid));
        let cgroup = cgroup.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        Self(running(holder, &cgroup))
    }
}

/// What is in the file.
#[derive(Debug, Serialize, Deserialize)]
struct Holder {
    what: String,
    pid: u32,
    /// By a clock that may be wrong.
    since: String,
}

/// The lock, held by this process.
#[derive(Debug)]
pub struct NodeLock {
    file: File,
}

impl NodeLock {
    /// Takes the lock in a directory that is made where it is missing; `what` runs is for others to read.
    ///
    /// # Errors
    /// [`Busy`], or the lock cannot be made.
    pub fn take(state_dir: &Path, what: &str) -> anyhow::Result<Self> {
        Self::take_within(state_dir, what, Duration::ZERO, |_| {})
    }

    /// The same, but waits for that long while something else changes this node: `waits` gets to know what, once. Blocks
    /// its thread.
    pub fn take_within(
        state_dir: &Path,
        what: &str,
        patience: Duration,
        waits: impl FnOnce(&Busy),
    ) -> anyhow::Result<Self> {
        fs::create_dir_all(state_dir)
            .with_context(|| format!("cannot make {}: run this as root", state_dir.display()))?;
        let path = state_dir.join(NAME);
        let cannot = || format!("cannot write {}: run this as root", path.display());
        // A user who may read it could lock it, too, and keep an upgrade from beginning.
        let open = File::options().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let mut file = open.with_context(cannot)?;
        file.set_permissions(Permissions::from_mode(0o600)).with_context(cannot)?;
        let (begun, mut waits) = (Instant::now(), Some(waits));
        while let Err(error) = file.try_lock() {
            if let TryLockError::Error(error) = error {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
            let waited = begun.elapsed();
            if waited < STARTING {
                sleep(POLL);
                continue;
            }
            let busy = Busy::of(&path);
            if waited >= patience {
                bail!(busy);
            }
            if let Some(waits) = waits.take() {
                waits(&busy);
            }
            sleep(PATIENT_POLL);
        }
        let since = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let holder = Holder { what: what.to_owned(), pid: std::process::id(), since };
        let text = serde_json::to_string(&holder).context("writing the lock as JSON")? + "\n";
        // Where the disk is full it is held all the same, and a rollback needs it: others cannot say by what.
        let _ = file.set_len(0).and_then(|()| file.write_all(text.as_bytes()));
        Ok(Self { file })
    }

    /// The same lock, for a part of the work that may outlive this value.
    ///
    /// # Errors
    /// The process has too many open files.
    pub fn share(&self) -> anyhow::Result<Self> {
        // A lock is that of the open file, which a duplicate has in common.
        Ok(Self { file: self.file.try_clone().context("cannot share the lock of this node")? })
    }
}

/// Whether a process does this now.
pub fn runs(state_dir: &Path, what: &str) -> bool {
    let path = state_dir.join(NAME);
    let is_held =
        File::open(&path).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)));
    is_held && holder(&path).is_some_and(|holder| holder.what == what)
}

/// `None` where it cannot be read, or is just being written.
fn holder(path: &Path) -> Option<Holder> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// What runs, and how it is ended where nothing is lost by that; `cgroup` is that of its process.
fn running(holder: Option<Holder>, cgroup: &str) -> String {
    // It may take hours, and the timer makes it again within the hour.
    let may_be_stopped = cgroup.lines().any(|line| line.ends_with(TIMERS_BACKUP));
    let remedy = if may_be_stopped { "; `sudo systemctl stop weaver-backup` ends it" } else { "" };
    match holder {
        Some(Holder { what, pid, since }) => {
            format!("{what} is running on this node (process {pid}, since {since}{remedy})")
        }
        None => "another command that changes this node is running".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_changes_the_node_and_the_next_one_is_refused_with_what_runs() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        assert!(!runs(&state, "a restore"));
        let held = NodeLock::take(&state, "a restore").unwrap();
        assert!(runs(&state, "a restore") && !runs(&state, "a backup"));
        let begun = Instant::now();
        let error = NodeLock::take(&state, "a backup").unwrap_err();
        assert!(begun.elapsed() >= STARTING, "it did not wait for a process that is just being started");
        let said = error.downcast_ref::<Busy>().unwrap().to_string();
        let process = format!("a restore is running on this node (process {}, since 2", std::process::id());
        assert!(said.starts_with(&process) && said.contains("wait until it has finished"), "{said}");
        // One that is shared outlives the first.
        let shared = held.share().unwrap();
        drop(held);
        assert!(NodeLock::take(&state, "a backup").unwrap_err().is::<Busy>());
        drop(shared);
        let until = Instant::now() + STARTING;
        while runs(&state, "a restore") {
            assert!(Instant::now() < until, "its name stays in the file, and nothing holds it");
            sleep(POLL);
        }
        let _held = NodeLock::take(&state, "a backup").unwrap();
        assert!(runs(&state, "a backup"));
    }

    #[test]
    fn what_is_patient_says_for_what_it_waits_and_changes_the_node_after_that() {
        let dir = tempfile::tempdir().unwrap();
        let mut held = Some(NodeLock::take(dir.path(), "a restore").unwrap());
        let (begun, patience) = (Instant::now(), STARTING + POLL);
        let error = NodeLock::take_within(dir.path(), "an update", patience, |_| {}).unwrap_err();
        assert!(error.is::<Busy>() && begun.elapsed() >= patience, "{error} after {:?}", begun.elapsed());
        let mut said = String::new();
        let waits = |busy: &Busy| {
            said = busy.to_string();
            drop(held.take());
        };
        let _held = NodeLock::take_within(dir.path(), "an update", Duration::from_mins(10), waits).unwrap();
        assert!(said.starts_with("a restore is running on this node (process "), "{said}");
        assert!(runs(dir.path(), "an update"));
    }

    #[test]
    fn a_lock_whose_file_says_nothing_is_a_lock() {
        let dir = tempfile::tempdir().unwrap();
        let _held = NodeLock::take(dir.path(), "a restore").unwrap();
        fs::write(dir.path().join(NAME), "").unwrap();
        let said = NodeLock::take(dir.path(), "a backup").unwrap_err().to_string();
        assert!(said.starts_with("another command that changes this node is running: wait"), "{said}");
    }

    #[test]
    fn only_a_backup_of_the_timer_is_named_as_one_to_stop() {
        let holder = || Some(Holder { what: "a backup".to_owned(), pid: 812, since: "2026".to_owned() });
        for (cgroup, remedy) in [
            ("", ""),
            ("0::/user.slice/user-1000.slice/session-1.scope\n", ""),
            ("0::/weaver.slice/weaver-data-disk.service\n", ""),
            ("0::/weaver.slice/weaver-backup.service\n", "; `sudo systemctl stop weaver-backup` ends it"),
            (
                "1:name=systemd:/weaver-backup.service\n0::/\n",
                "; `sudo systemctl stop weaver-backup` ends it",
            ),
        ] {
            let said = running(holder(), cgroup);
            assert_eq!(said, format!("a backup is running on this node (process 812, since 2026{remedy})"));
        }
    }

    /// Only its owner may lock it, also where it was made with another mode.
    #[test]
    fn no_other_user_may_hold_it() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join(NAME);
        for before in [None, Some(0o644)] {
            if let Some(mode) = before {
                fs::set_permissions(&lock, Permissions::from_mode(mode)).unwrap();
            }
            drop(NodeLock::take(dir.path(), "a repair").unwrap());
            assert_eq!(fs::metadata(&lock).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}

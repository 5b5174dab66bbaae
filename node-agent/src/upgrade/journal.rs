//! The record of the work in progress: one upgrade at a time, and a record of the last one; of k3s, and of our own
//! packages.
//!
//! Guarantees: it is on its disk before a program is changed, so that the next run knows what an interrupted upgrade
//! intended.

use std::fs::{self, File, Permissions, TryLockError};
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use weaver_diagnostics::finding::{Finding, Place};
use weaver_diagnostics::k3s_upgrade::record::UpgradeRecord;
use weaver_host::durable_file;

use crate::host_args::STATE_DIR;
use crate::host_root::HostRoot;

/// How long to wait for a lock.
const STARTING: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);

/// A record that is kept in a journal of its own.
pub trait Recorded: Serialize + DeserializeOwned {
    const NAME: &str;
    const LOCK: &str;
    /// What is recorded, as text.
    const WHAT: &str;

    /// A warning where it was interrupted and no process finishes it now; `place` is the file of the record.
    fn judge(&self, is_under_way: bool, place: Place) -> Option<Finding>;
}

impl Recorded for UpgradeRecord {
    const NAME: &str = "k3s-upgrade.json";
    const LOCK: &str = "k3s-upgrade.lock";
    const WHAT: &str = "upgrade of k3s";

    fn judge(&self, is_under_way: bool, place: Place) -> Option<Finding> {
        self.judge(is_under_way, place)
    }
}

/// The journal, locked against other upgrades.
pub struct Journal<R = UpgradeRecord> {
    directory: PathBuf,
    _lock: File,
    of: PhantomData<R>,
}

/// The last upgrade, for readers that take no lock.
///
/// # Errors
/// The journal cannot be read.
pub fn last<R: Recorded>(directory: &Path) -> anyhow::Result<Option<R>> {
    let path = directory.join(R::NAME);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let record = serde_json::from_str(&text);
    record.map(Some).with_context(|| {
        format!(
            "{} is damaged; move it away, which also discards the record of the last {}",
            path.display(),
            R::WHAT
        )
    })
}

/// A warning where an upgrade was interrupted and is not being finished; what cannot be read is reported by the next
/// upgrade.
#[must_use]
pub fn finding<R: Recorded>(root: &HostRoot) -> Option<Finding> {
    let directory = root.real(STATE_DIR);
    let record = last::<R>(&directory).ok()??;
    let lock = File::open(directory.join(R::LOCK));
    let is_held = lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)));
    record.judge(is_held, Place::file(Path::new(STATE_DIR).join(R::NAME).display().to_string()))
}

/// Writes a record.
///
/// # Errors
/// It cannot be written.
pub fn note<R: Recorded>(directory: &Path, record: &R) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(record).context("writing the journal as JSON")? + "\n";
    Ok(durable_file::replace(&directory.join(R::NAME), text.as_bytes(), 0o600)?)
}

/// One at a time, by a lock in a directory that is made where it is missing.
///
/// # Errors
/// Another one runs, or the lock cannot be made.
pub fn lock<R: Recorded>(directory: &Path) -> anyhow::Result<File> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}: run this as root", directory.display()))?;
    hold(&directory.join(R::LOCK), R::WHAT)
}

/// Takes a lock; the error says that another `what` is running.
///
/// # Errors
/// It is taken, or cannot be written.
pub fn hold(path: &Path, what: &str) -> anyhow::Result<File> {
    let cannot = || format!("cannot write {}: run this as root", path.display());
    // A user who may read it could lock it, too, and keep an upgrade from beginning.
    let open = File::options().write(true).create(true).truncate(false).mode(0o600).open(path);
    let lock = open.with_context(cannot)?;
    lock.set_permissions(Permissions::from_mode(0o600)).with_context(cannot)?;
    // A process that is just being started has it for a moment, open as all files of the one that starts it.
    let until = Instant::now() + STARTING;
    while let Err(error) = lock.try_lock() {
        if Instant::now() >= until {
            return Err(error)
                .with_context(|| format!("another {what} is running: wait until it has finished"));
        }
        sleep(POLL);
    }
    Ok(lock)
}

impl<R: Recorded> Journal<R> {
    /// The journal in `directory`, which is made where it is missing.
    ///
    /// # Errors
    /// It cannot be made, or another upgrade is under way.
    pub fn lock(directory: &Path) -> anyhow::Result<Self> {
        Ok(Self { directory: directory.to_owned(), _lock: lock::<R>(directory)?, of: PhantomData })
    }

    /// Records the progress of an upgrade.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn note(&self, record: &R) -> anyhow::Result<()> {
        note(&self.directory, record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weaver_diagnostics::k3s_upgrade::record::{K3sBuild, UpgradePhase};

    #[test]
    fn one_that_was_cut_off_is_reported_and_one_that_is_under_way_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        let reported = || finding::<UpgradeRecord>(&root).map(|finding| finding.message);
        let build = |version: &str| K3sBuild { version: version.to_owned(), sha256: String::new() };
        let (from, to) = (build("v1.36.3+k3s1"), build("v1.36.4+k3s1"));
        let begun = "2026-11-23T08:00:00Z".to_owned();
        let mut record = UpgradeRecord {
            begun,
            from,
            to,
            names: Vec::new(),
            to_the_one_before: false,
            phase: UpgradePhase::Forward,
        };
        assert_eq!(reported(), None);
        for (phase, want) in [
            (
                UpgradePhase::Forward,
                Some("an upgrade of k3s from v1.36.3+k3s1 to v1.36.4+k3s1 was interrupted"),
            ),
            (UpgradePhase::Back, Some("an upgrade of k3s from v1.36.3+k3s1 to v1.36.4+k3s1 was interrupted")),
            (UpgradePhase::Done, None),
            (UpgradePhase::WentBack, None),
        ] {
            let journal = Journal::<UpgradeRecord>::lock(&root.real(STATE_DIR)).unwrap();
            record.phase = phase;
            journal.note(&record).unwrap();
            assert_eq!(reported(), None, "{phase:?} is under way");
            drop(journal);
            assert_eq!(reported().as_deref(), want, "{phase:?}");
        }
    }

    #[test]
    fn one_at_a_time_and_the_last_one_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        assert_eq!(last::<UpgradeRecord>(&state).unwrap(), None);
        let build = |sha256: &str| K3sBuild { version: "v1.36.4+k3s1".to_owned(), sha256: sha256.to_owned() };
        let (from, to) = (build("a"), build("b"));
        let begun = String::new();
        let mut record = UpgradeRecord {
            begun,
            from,
            to,
            names: Vec::new(),
            to_the_one_before: false,
            phase: UpgradePhase::Forward,
        };
        let journal = Journal::<UpgradeRecord>::lock(&state).unwrap();
        record.phase = UpgradePhase::Back;
        journal.note(&record).unwrap();
        assert_eq!(last::<UpgradeRecord>(&state).unwrap().unwrap().phase, UpgradePhase::Back);
        let begun = Instant::now();
        let error = Journal::<UpgradeRecord>::lock(&state).map(drop).unwrap_err().to_string();
        assert!(error.contains("another upgrade of k3s is running"), "{error}");
        assert!(begun.elapsed() >= STARTING, "it did not wait for a process that is just being started");
        drop(journal);
        drop(Journal::<UpgradeRecord>::lock(&state).unwrap());
        // Only its owner may lock it, also where an earlier release has made it.
        let lock = state.join(UpgradeRecord::LOCK);
        let mode = || fs::metadata(&lock).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&lock, Permissions::from_mode(0o644)).unwrap();
        drop(Journal::<UpgradeRecord>::lock(&state).unwrap());
        assert_eq!(mode(), 0o600);
        fs::write(state.join(UpgradeRecord::NAME), "{\"phase\":").unwrap();
        let error = last::<UpgradeRecord>(&state).unwrap_err().to_string();
        assert!(error.contains("k3s-upgrade.json is damaged; move it away"), "{error}");
    }
}

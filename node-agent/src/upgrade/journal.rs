//! The record of the work in progress: one upgrade at a time, and a record of the last one; of k3s, and of our own
//! packages.
//!
//! Guarantees: it is on its disk before a program is changed, so that the next run knows what an interrupted upgrade
//! intended.

use std::fs;
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use serde::de::DeserializeOwned;
use weaver_diagnostics::finding::{Finding, Place};
use weaver_diagnostics::k3s_upgrade::record::UpgradeRecord;
use weaver_host::durable_file;

use crate::host_args::STATE_DIR;
use crate::host_root::HostRoot;
use crate::node_lock::{self, Busy, NodeLock};

/// A record that is kept in a journal of its own.
pub trait Recorded: Serialize + DeserializeOwned {
    const NAME: &str;
    /// What is recorded, as text: it holds the lock of the node under this name.
    const WHAT: &str;

    /// A warning where it was interrupted and no process finishes it now; `place` is the file of the record.
    fn judge(&self, is_under_way: bool, place: Place) -> Option<Finding>;
}

impl Recorded for UpgradeRecord {
    const NAME: &str = "k3s-upgrade.json";
    const WHAT: &str = "an upgrade of k3s";

    fn judge(&self, is_under_way: bool, place: Place) -> Option<Finding> {
        self.judge(is_under_way, place)
    }
}

/// The journal, with the lock of the node.
pub struct Journal<R = UpgradeRecord> {
    directory: PathBuf,
    lock: NodeLock,
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
        format!("{} is damaged; move it away, which also discards the record of {}", path.display(), R::WHAT)
    })
}

/// A warning where an upgrade was interrupted and is not being finished; what cannot be read is reported by the next
/// upgrade.
#[must_use]
pub fn finding<R: Recorded>(root: &HostRoot) -> Option<Finding> {
    let directory = root.real(STATE_DIR);
    let record = last::<R>(&directory).ok()??;
    let is_under_way = node_lock::runs(&directory, R::WHAT);
    record.judge(is_under_way, Place::file(Path::new(STATE_DIR).join(R::NAME).display().to_string()))
}

/// Writes a record.
///
/// # Errors
/// It cannot be written.
pub fn note<R: Recorded>(directory: &Path, record: &R) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(record).context("writing the journal as JSON")? + "\n";
    Ok(durable_file::replace(&directory.join(R::NAME), text.as_bytes(), 0o600)?)
}

impl<R: Recorded> Journal<R> {
    /// The journal in `directory`, which is made where it is missing.
    ///
    /// # Errors
    /// It cannot be made, or something else changes this node.
    pub fn lock(directory: &Path) -> anyhow::Result<Self> {
        Self::lock_within(directory, Duration::ZERO, |_| {})
    }

    /// The same, with the patience of [`NodeLock::take_within`].
    ///
    /// # Errors
    /// As [`Self::lock`].
    pub fn lock_within(
        directory: &Path,
        patience: Duration,
        waits: impl FnOnce(&Busy),
    ) -> anyhow::Result<Self> {
        let lock = NodeLock::take_within(directory, R::WHAT, patience, waits)?;
        Ok(Self { directory: directory.to_owned(), lock, of: PhantomData })
    }

    /// The lock, for what is a part of this work.
    #[must_use]
    pub const fn held(&self) -> &NodeLock {
        &self.lock
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
            // A process that another test is just starting has it for a moment.
            fs::File::open(root.real(STATE_DIR).join("node.lock")).unwrap().lock_shared().unwrap();
            assert_eq!(reported().as_deref(), want, "{phase:?}");
        }
    }

    #[test]
    fn the_last_one_is_remembered() {
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
        fs::write(state.join(UpgradeRecord::NAME), "{\"phase\":").unwrap();
        let error = last::<UpgradeRecord>(&state).unwrap_err().to_string();
        assert!(error.contains("k3s-upgrade.json is damaged; move it away"), "{error}");
    }
}

//! The record of the work in progress: one upgrade at a time, and a record of the last one; of k3s, and of our own
//! packages.
//!
//! Guarantees: it is on its disk before a program is changed, so that the next run knows what an interrupted upgrade
//! intended; a version does not act on a record that only another one understands. Failure: names that version.

use std::fs;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weaver_diagnostics::finding::{Code, Finding, Place, Remedy, Severity};
use weaver_diagnostics::k3s_upgrade::plan::UpgradeRefusal;
use weaver_diagnostics::k3s_upgrade::record::UpgradeRecord;
use weaver_host::durable_file;

use crate::host_args::STATE_DIR;
use crate::host_root::HostRoot;
use crate::node_lock::{self, Busy, NodeLock};
use crate::record_version::{VERSION, unusable};

/// A record that is kept in a journal of its own.
pub trait Recorded: Serialize + DeserializeOwned {
    const NAME: &str;
    /// What is recorded, as text: it holds the lock of the node under this name.
    const WHAT: &str;
    const INTERRUPTED: Code;
    /// The form of the record. A change that an older version must not ignore raises it: one with a lower number does
    /// not act on the record until it has ended. That holds for the way back of an update too, which the version before
    /// may have to complete.
    const FORMAT: u32 = 1;

    /// Whether nothing is left to do.
    fn has_ended(&self) -> bool;
}

#[derive(Serialize)]
struct WrittenRecord<'a, R> {
    by: &'static str,
    format: u32,
    #[serde(flatten)]
    record: &'a R,
}

/// What any version reads of one.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RecordWriter {
    by: Option<String>,
    format: u32,
}

impl RecordWriter {
    fn of(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }
}

impl Recorded for UpgradeRecord {
    const NAME: &str = "k3s-upgrade.json";
    const WHAT: &str = "an upgrade of k3s";
    const INTERRUPTED: Code = Code::UpgradeInterrupted;

    fn has_ended(&self) -> bool {
        self.phase.is_end()
    }
}

/// The journal, with the lock of the node.
pub struct Journal<R = UpgradeRecord> {
    directory: PathBuf,
    lock: NodeLock,
    of: PhantomData<R>,
}

/// The last upgrade, for those who act on it; they need no lock to read it.
///
/// # Errors
/// The journal cannot be read, or only another version may act on it.
pub fn last<R: Recorded>(directory: &Path) -> anyhow::Result<Option<R>> {
    let path = directory.join(R::NAME);
    let Some(text) = text(&path)? else { return Ok(None) };
    let RecordWriter { by, format } = RecordWriter::of(&text);
    let unusable = || unusable(&path, R::WHAT, by.as_deref());
    let record: R = serde_json::from_str(&text).with_context(unusable)?;
    if format > R::FORMAT && !record.has_ended() {
        bail!(unusable());
    }
    Ok(Some(record))
}

fn text(path: &Path) -> anyhow::Result<Option<String>> {
    durable_file::found(fs::read_to_string(path)).with_context(|| format!("cannot read {}", path.display()))
}

/// A warning where an upgrade was interrupted and is not being finished, or where that is not known. A file that cannot
/// be read at all is reported by the next upgrade.
pub fn finding<R: Recorded>(
    root: &HostRoot,
    judge: fn(&R, bool, Place) -> Option<Finding>,
) -> Option<Finding> {
    let directory = root.real(STATE_DIR);
    let text = text(&directory.join(R::NAME)).ok()??;
    let known_as = Path::new(STATE_DIR).join(R::NAME);
    let Ok(record) = serde_json::from_str::<R>(&text) else { return Some(not_known::<R>(&known_as, &text)) };
    let is_under_way = node_lock::runs(&directory, R::WHAT);
    judge(&record, is_under_way, Place::file(known_as.display().to_string()))
}

fn not_known<R: Recorded>(path: &Path, text: &str) -> Finding {
    let UpgradeRefusal { what, remedy } = unusable(path, R::WHAT, RecordWriter::of(text).by.as_deref());
    let message = format!("whether {} was interrupted is not known: {what}", R::WHAT);
    Finding::new(R::INTERRUPTED, message).milder(Severity::Unknown).remedy(Remedy::new(remedy))
}

/// Writes a record.
pub fn note<R: Recorded>(directory: &Path, record: &R) -> anyhow::Result<()> {
    let written = WrittenRecord { by: VERSION, format: R::FORMAT, record };
    let text = serde_json::to_string_pretty(&written).context("writing the journal as JSON")? + "\n";
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
    pub fn lock_within(
        directory: &Path,
        patience: Duration,
        waits: impl FnOnce(&Busy),
    ) -> anyhow::Result<Self> {
        let lock = NodeLock::take_within(directory, R::WHAT, patience, waits)?;
        Ok(Self { directory: directory.to_owned(), lock, of: PhantomData })
    }

    /// The lock, for what is a part of this work.
    pub const fn held(&self) -> &NodeLock {
        &self.lock
    }

    /// Records the progress of an upgrade.
    pub fn note(&self, record: &R) -> anyhow::Result<()> {
        note(&self.directory, record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use weaver_diagnostics::k3s_upgrade::record::{K3sBuild, UpgradePhase};

    #[test]
    fn one_that_was_cut_off_is_reported_and_one_that_is_under_way_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        let reported = || finding(&root, UpgradeRecord::judge).map(|finding| finding.message);
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
        assert!(error.contains("k3s-upgrade.json is damaged: move it away"), "{error}");
    }

    /// Notes a record, and changes these fields in the file; what was written before that.
    fn noted_with(root: &HostRoot, fields: &[(&str, Value)]) -> Value {
        let build = || K3sBuild { version: "v1.36.4+k3s1".to_owned(), sha256: String::new() };
        let (begun, names) = (String::new(), Vec::new());
        let (from, to, to_the_one_before, phase) = (build(), build(), false, UpgradePhase::Forward);
        let directory = root.real(STATE_DIR);
        fs::create_dir_all(&directory).unwrap();
        note(&directory, &UpgradeRecord { begun, from, to, names, to_the_one_before, phase }).unwrap();
        let path = directory.join(UpgradeRecord::NAME);
        let written: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let mut changed = written.clone();
        for (name, value) in fields {
            changed[*name] = value.clone();
        }
        fs::write(path, changed.to_string()).unwrap();
        written
    }

    #[test]
    fn a_record_of_another_version_is_acted_on_only_by_one_that_knows_its_form() {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        let last = || last::<UpgradeRecord>(&root.real(STATE_DIR)).map_err(|error| format!("{error:#}"));
        let phase = || last().unwrap().unwrap().phase;
        let seen =
            || finding(&root, UpgradeRecord::judge).map(|finding| (finding.severity(), finding.message));
        let is_refused = || {
            let said = last().unwrap_err();
            let whose = format!(
                "k3s-upgrade.json was written by Config Weaver 9.0.0, and {VERSION} cannot act on it"
            );
            assert!(said.contains(&whose) && said.contains(": install 9.0.0 again"), "{said}");
        };
        let (by, newer, done) = (("by", json!("9.0.0")), ("format", json!(2)), ("phase", json!("done")));

        let written = noted_with(&root, &[by.clone(), ("newer", json!({"x": 1}))]);
        assert_eq!((&written["by"], &written["format"]), (&json!(VERSION), &json!(1)));
        assert_eq!(phase(), UpgradePhase::Forward, "a field that may be ignored");

        noted_with(&root, &[by.clone(), newer.clone()]);
        is_refused();
        assert_eq!(seen().unwrap().0, Severity::Warn, "it is known to be interrupted");
        noted_with(&root, &[by.clone(), newer, done]);
        assert_eq!((phase(), seen()), (UpgradePhase::Done, None), "nothing is left to do");

        noted_with(&root, &[by, ("phase", json!("half-way"))]);
        is_refused();
        let (severity, message) = seen().unwrap();
        assert_eq!(severity, Severity::Unknown, "what cannot be judged is no failure");
        let not_known =
            "whether an upgrade of k3s was interrupted is not known: /var/lib/weaver/k3s-upgrade.json";
        assert!(message.starts_with(not_known), "{message}");
    }
}

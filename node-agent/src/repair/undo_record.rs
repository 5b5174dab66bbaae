//! The repairs that were made, for `--undo`.
//!
//! A repair is recorded before its first file is changed, with each file's whole text before and after.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use weaver_diagnostics::finding::FileChange;
use weaver_host::durable_file;

use crate::node_lock::NodeLock;
use crate::record_version::{VERSION, unusable};

const NAME: &str = "repairs.json";
/// Repairs that are remembered.
const KEPT: usize = 10;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairEntry {
    /// The version that made it.
    pub by: Option<String>,
    /// When it was made, by a clock that may be wrong.
    pub time: Timestamp,
    /// The codes of its causes.
    pub codes: String,
    pub changes: Vec<FileChange>,
}

/// What any version reads of an entry.
#[derive(Deserialize)]
struct EntryWriter {
    by: Option<String>,
}

/// The record, with the lock of the node.
pub struct UndoRecord {
    path: PathBuf,
    _lock: NodeLock,
}

impl UndoRecord {
    /// The record in `directory`, which is made where it is missing.
    ///
    /// # Errors
    /// It cannot be made, or something else changes this node.
    pub fn lock(directory: &Path) -> anyhow::Result<Self> {
        Ok(Self { path: directory.join(NAME), _lock: NodeLock::take(directory, "a repair")? })
    }

    /// The last repair.
    pub fn last(&self) -> anyhow::Result<Option<RepairEntry>> {
        Ok(self.entries()?.pop())
    }

    /// Records a repair.
    pub fn note(&self, time: Timestamp, codes: &str, changes: &[&FileChange]) -> anyhow::Result<()> {
        let mut entries = self.entries()?;
        // The record of an interrupted repair is this repair's own.
        if entries.last().is_some_and(|last| changes.iter().all(|change| last.changes.contains(change))) {
            return Ok(());
        }
        let changes = changes.iter().copied().cloned().collect();
        entries.push(RepairEntry { by: Some(VERSION.to_owned()), time, codes: codes.to_owned(), changes });
        entries.drain(..entries.len().saturating_sub(KEPT));
        self.write(&entries)
    }

    /// Forgets the last repair.
    pub fn forget_last(&self) -> anyhow::Result<()> {
        let mut entries = self.entries()?;
        entries.pop();
        self.write(&entries)
    }

    fn entries(&self) -> anyhow::Result<Vec<RepairEntry>> {
        let text = durable_file::found(fs::read_to_string(&self.path));
        let text = text.with_context(|| format!("cannot read {}", self.path.display()))?;
        let Some(text) = text else { return Ok(Vec::new()) };
        serde_json::from_str(&text).with_context(|| {
            let writers: Vec<EntryWriter> = serde_json::from_str(&text).unwrap_or_default();
            let by = writers.into_iter().filter_map(|entry| entry.by).rfind(|by| by != VERSION);
            unusable(&self.path, "repairs", by.as_deref())
        })
    }

    fn write(&self, entries: &[RepairEntry]) -> anyhow::Result<()> {
        let text =
            serde_json::to_string_pretty(entries).context("writing the record of repairs as JSON")? + "\n";
        Ok(durable_file::replace(&self.path, text.as_bytes(), 0o600)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_another_version_is_read_or_that_version_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let record = UndoRecord::lock(dir.path()).unwrap();
        let change = FileChange { file: "/f".to_owned(), from: None, to: "new".to_owned() };
        record.note(Timestamp::UNIX_EPOCH, "N-01", &[&change]).unwrap();
        let last = record.last().unwrap().unwrap();
        assert_eq!((last.by.as_deref(), last.changes.as_slice()), (Some(VERSION), &[change][..]));

        let write = |last: &str| {
            let first = r#"{"time": "1970-01-01T00:00:00Z", "codes": "N-01", "changes": []}"#;
            fs::write(dir.path().join(NAME), format!("[{first}, {last}]")).unwrap();
        };
        write(
            r#"{"by": "9.0.0", "time": "1970-01-01T00:00:00Z", "codes": "Z-99", "changes": [], "newer": 1}"#,
        );
        assert_eq!(record.last().unwrap().unwrap().codes, "Z-99");
        write(r#"{"by": "9.0.0", "at": 0}"#);
        let said = format!("{:#}", record.last().unwrap_err());
        let whose =
            format!("repairs.json was written by Config Weaver 9.0.0, and {VERSION} cannot act on it");
        assert!(said.contains(&whose) && said.contains("discards the record of repairs"), "{said}");
    }
}

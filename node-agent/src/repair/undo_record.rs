//! The repairs that were made, for `--undo`.
//!
//! A repair is recorded before its first file is changed, with each file's whole text before and after.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use weaver_diagnostics::finding::FileChange;
use weaver_host::durable_file;

use crate::node_lock::NodeLock;

const NAME: &str = "repairs.json";
/// Repairs that are remembered.
const KEPT: usize = 10;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairEntry {
    /// When it was made, by a clock that may be wrong.
    pub time: Timestamp,
    /// The codes of its causes.
    pub codes: String,
    pub changes: Vec<FileChange>,
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
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn last(&self) -> anyhow::Result<Option<RepairEntry>> {
        Ok(self.entries()?.pop())
    }

    /// Records a repair.
    ///
    /// # Errors
    /// The record cannot be read or written.
    pub fn note(&self, time: Timestamp, codes: &str, changes: &[&FileChange]) -> anyhow::Result<()> {
        let mut entries = self.entries()?;
        // The record of an interrupted repair is this repair's own.
        if entries.last().is_some_and(|last| changes.iter().all(|change| last.changes.contains(change))) {
            return Ok(());
        }
        let changes = changes.iter().copied().cloned().collect();
        entries.push(RepairEntry { time, codes: codes.to_owned(), changes });
        entries.drain(..entries.len().saturating_sub(KEPT));
        self.write(&entries)
    }

    /// Forgets the last repair.
    ///
    /// # Errors
    /// The record cannot be read or written.
    pub fn forget_last(&self) -> anyhow::Result<()> {
        let mut entries = self.entries()?;
        entries.pop();
        self.write(&entries)
    }

    fn entries(&self) -> anyhow::Result<Vec<RepairEntry>> {
        let text = match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            text => text.with_context(|| format!("cannot read {}", self.path.display()))?,
        };
        serde_json::from_str(&text).with_context(|| {
            format!(
                "{} is damaged; move it away, which also discards the record of repairs",
                self.path.display()
            )
        })
    }

    fn write(&self, entries: &[RepairEntry]) -> anyhow::Result<()> {
        let text =
            serde_json::to_string_pretty(entries).context("writing the record of repairs as JSON")? + "\n";
        Ok(durable_file::replace(&self.path, text.as_bytes(), 0o600)?)
    }
}

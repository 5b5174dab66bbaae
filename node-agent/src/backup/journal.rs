//! The record of a restore, and how one that was interrupted is completed.
//!
//! Guarantees: the record is on its disk before a file is moved.

use std::path::Path;

use anyhow::ensure;
use weaver_diagnostics::finding::Code;
use weaver_diagnostics::node_backup::record::{RestorePhase, RestoreRecord};

use super::swap;
use crate::host_root::HostRoot;
use crate::node_lock::NodeLock;
use crate::upgrade::journal::{self, Recorded};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

impl Recorded for RestoreRecord {
    const NAME: &str = "restore.json";
    const WHAT: &str = "a restore";
    const INTERRUPTED: Code = Code::RestoreInterrupted;

    fn has_ended(&self) -> bool {
        self.phase == RestorePhase::Done
    }
}

/// Completes a restore that was interrupted in an earlier boot; `None` where there was none.
///
/// # Errors
/// It cannot be completed.
pub fn complete(root: &HostRoot, state_dir: &Path) -> anyhow::Result<Option<RestoreRecord>> {
    let state_dir = root.real(state_dir);
    let interrupted = || -> anyhow::Result<Option<RestoreRecord>> {
        Ok(pending(&state_dir)?.filter(|record| record.boot.is_empty() || record.boot != boot(root)))
    };
    if interrupted()?.is_none() {
        return Ok(None);
    }
    let _lock = NodeLock::take(&state_dir, RestoreRecord::WHAT)?;
    // Another process may have completed it before this one had the lock.
    let Some(mut record) = interrupted()? else { return Ok(None) };
    swap::all(root, &record, &mut || Ok(()))?;
    note(&state_dir, &mut record, RestorePhase::Done)?;
    Ok(Some(record))
}

/// Which boot this is.
pub fn boot(root: &HostRoot) -> String {
    root.read_if_possible(BOOT_ID).map(|file| file.text.trim().to_owned()).unwrap_or_default()
}

/// The restore that was begun and not completed.
///
/// # Errors
/// The journal cannot be read.
pub fn pending(state_dir: &Path) -> anyhow::Result<Option<RestoreRecord>> {
    Ok(journal::last::<RestoreRecord>(state_dir)?.filter(|record| !record.has_ended()))
}

/// Records the progress of a restore.
///
/// # Errors
/// It cannot be written.
pub fn note(state_dir: &Path, record: &mut RestoreRecord, phase: RestorePhase) -> anyhow::Result<()> {
    record.phase = phase;
    journal::note(state_dir, record)
}

/// Whether what k3s keeps is whole: nothing else may read it, replace it or start k3s on it.
///
/// # Errors
/// A restore was interrupted.
pub fn ensure_whole(state_dir: &Path) -> anyhow::Result<()> {
    ensure!(
        pending(state_dir)?.is_none(),
        "a restore was interrupted, and the state is incomplete: `sudo weaver node restore --resume` first"
    );
    Ok(())
}

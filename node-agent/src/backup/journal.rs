//! The record of a restore, and how one that was interrupted is completed.
//!
//! Guarantees: the record is on its disk before a file is moved; one backup or restore at a time.

use std::fs::File;
use std::path::Path;

use weaver_diagnostics::finding::{Finding, Place};
use weaver_diagnostics::node_backup::record::{RestorePhase, RestoreRecord};

use super::swap;
use crate::host_root::HostRoot;
use crate::upgrade::journal::{self, Recorded};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

impl Recorded for RestoreRecord {
    const NAME: &str = "restore.json";
    const LOCK: &str = "backup.lock";
    const WHAT: &str = "backup or restore";

    fn judge(&self, is_under_way: bool, place: Place) -> Option<Finding> {
        self.judge(is_under_way, place)
    }
}

/// Completes a restore that was interrupted in an earlier boot; `None` where there was none.
///
/// # Errors
/// It cannot be completed.
pub fn complete(root: &HostRoot, state_dir: &Path) -> anyhow::Result<Option<RestoreRecord>> {
    let state_dir = root.real(state_dir);
    let Some(mut record) =
        pending(&state_dir)?.filter(|record| record.boot.is_empty() || record.boot != boot(root))
    else {
        return Ok(None);
    };
    let _lock = lock(&state_dir)?;
    swap::all(root, &record, &mut || Ok(()))?;
    note(&state_dir, &mut record, RestorePhase::Done)?;
    Ok(Some(record))
}

/// Which boot this is.
#[must_use]
pub fn boot(root: &HostRoot) -> String {
    root.read_if_possible(BOOT_ID).map(|file| file.text.trim().to_owned()).unwrap_or_default()
}

/// The restore that was begun and not completed.
///
/// # Errors
/// The journal cannot be read.
pub fn pending(state_dir: &Path) -> anyhow::Result<Option<RestoreRecord>> {
    Ok(journal::last::<RestoreRecord>(state_dir)?.filter(|record| record.phase != RestorePhase::Done))
}

/// Records the progress of a restore.
///
/// # Errors
/// It cannot be written.
pub fn note(state_dir: &Path, record: &mut RestoreRecord, phase: RestorePhase) -> anyhow::Result<()> {
    record.phase = phase;
    journal::note(state_dir, record)
}

/// One backup or restore at a time.
///
/// # Errors
/// Another one runs, or the lock cannot be made.
pub fn lock(state_dir: &Path) -> anyhow::Result<File> {
    journal::lock::<RestoreRecord>(state_dir)
}

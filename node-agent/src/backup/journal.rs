//! What is written down of a restore, and how one that was cut off is completed.
//!
//! Guarantees: it is on its disk before a file changes places; one backup or restore at a time.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use anyhow::Context as _;
use weaver_diagnostics::finding::{Finding, Place};
use weaver_diagnostics::node_backup::record::{Phase, Record};
use weaver_host::durable_file;

use super::swap;
use crate::host_args::STATE_DIR;
use crate::host_root::HostRoot;
use crate::upgrade::journal::hold;

const JOURNAL: &str = "restore.json";
const LOCK: &str = "backup.lock";
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Completes a restore that an earlier boot was cut off in; `None` where there was none.
///
/// # Errors
/// It cannot be completed.
pub fn complete(root: &HostRoot, state_dir: &Path) -> anyhow::Result<Option<Record>> {
    let state_dir = root.real(state_dir);
    let Some(mut record) =
        pending(&state_dir)?.filter(|record| record.boot.is_empty() || record.boot != boot(root))
    else {
        return Ok(None);
    };
    let _lock = lock(&state_dir)?;
    swap::all(root, &record, &mut || Ok(()))?;
    note(&state_dir, &mut record, Phase::Done)?;
    Ok(Some(record))
}

/// A failure where a restore was cut off and no one completes it now.
#[must_use]
pub fn finding(root: &HostRoot) -> Option<Finding> {
    let directory = root.real(STATE_DIR);
    // What cannot be read is said by the next restore.
    let record = pending(&directory).ok()??;
    let lock = File::open(directory.join(LOCK));
    let is_held = lock.is_ok_and(|lock| matches!(lock.try_lock_shared(), Err(TryLockError::WouldBlock)));
    record.judge(is_held, Place::file(Path::new(STATE_DIR).join(JOURNAL).display().to_string()))
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
pub fn pending(state_dir: &Path) -> anyhow::Result<Option<Record>> {
    let path = state_dir.join(JOURNAL);
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let record: Record = serde_json::from_str(&text)
        .with_context(|| format!("{} is damaged; move it away", path.display()))?;
    Ok((record.phase != Phase::Done).then_some(record))
}

/// Writes down how far a restore has come.
///
/// # Errors
/// It cannot be written.
pub fn note(state_dir: &Path, record: &mut Record, phase: Phase) -> anyhow::Result<()> {
    record.phase = phase;
    let text = serde_json::to_string_pretty(record).context("writing the journal as JSON")? + "\n";
    Ok(durable_file::replace(&state_dir.join(JOURNAL), text.as_bytes(), 0o600)?)
}

/// One backup or restore at a time.
///
/// # Errors
/// Another one runs, or the lock cannot be made.
pub fn lock(state_dir: &Path) -> anyhow::Result<File> {
    fs::create_dir_all(state_dir)
        .with_context(|| format!("cannot make {}: run this as root", state_dir.display()))?;
    hold(&state_dir.join(LOCK), "backup or restore")
}

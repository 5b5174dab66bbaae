//! The record of the timer's last update.

use std::path::Path;

use jiff::Timestamp;
use weaver_diagnostics::finding::{Finding, Place};
use weaver_diagnostics::package_update::schedule::{Attempt, LastUpdate};
use weaver_diagnostics::weaver_toml::plan::UPDATE;

use crate::host_args::STATE_DIR;
use crate::host_root::HostRoot;
use crate::timer_record;

const RECORD: &str = "update-timer.json";

/// # Errors
/// It cannot be read.
pub(super) fn read(state_dir: &Path) -> anyhow::Result<LastUpdate> {
    // A damaged record is replaced by the next one.
    Ok(timer_record::read(&state_dir.join(RECORD))?.unwrap_or_default())
}

/// Records an attempt that has ended.
///
/// # Errors
/// It cannot be recorded.
pub(super) fn note(state_dir: &Path, attempt: Attempt) -> anyhow::Result<()> {
    let last = read(state_dir)?.after(attempt, Timestamp::now().as_second());
    timer_record::note(&state_dir.join(RECORD), &last)
}

/// A warning where updates are configured and the last one failed.
pub fn finding(root: &HostRoot) -> Option<Finding> {
    root.read_if_possible(UPDATE)?;
    read(&root.real(STATE_DIR)).ok()?.judge(Place::file(UPDATE))
}

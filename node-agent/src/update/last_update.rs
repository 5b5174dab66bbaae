//! The record of the timer's last update.

use weaver_diagnostics::finding::{Finding, Place};
use weaver_diagnostics::package_update::schedule::LastUpdate;
use weaver_diagnostics::weaver_toml::plan::UPDATE;

use crate::host_args::STATE_DIR;
use crate::host_root::HostRoot;
use crate::timer_record;

pub(super) const RECORD: &str = "update-timer.json";

/// A warning where updates are configured and the last one failed.
#[must_use]
pub fn finding(root: &HostRoot) -> Option<Finding> {
    root.read_if_possible(UPDATE)?;
    // A damaged record is replaced by the next one.
    let last: LastUpdate = timer_record::read(&root.real(STATE_DIR).join(RECORD)).ok()??;
    last.judge(Place::file(UPDATE))
}

//! What is written down of the timer's last update.

use std::io;
use std::path::Path;

use anyhow::Context as _;
use weaver_diagnostics::finding::{Finding, Place};
use weaver_diagnostics::package_update::schedule::LastUpdate;
use weaver_diagnostics::weaver_toml::plan::UPDATE;

use crate::host_args::STATE_DIR;
use crate::host_root::HostRoot;

pub(super) const RECORD: &str = "update-timer.json";

/// A warning where updates are asked for and the last one failed.
#[must_use]
pub fn finding(root: &HostRoot) -> Option<Finding> {
    root.read_if_possible(UPDATE)?;
    // A record that is damaged is written again by the next one.
    let last = read(&root.real(STATE_DIR).join(RECORD)).ok()??;
    last.judge(Place::file(UPDATE))
}

/// `None` where there is none, or none that can be read as one.
pub(super) fn read(record: &Path) -> anyhow::Result<Option<LastUpdate>> {
    match std::fs::read(record) {
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", record.display())),
    }
}

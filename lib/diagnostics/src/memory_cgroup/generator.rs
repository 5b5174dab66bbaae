//! Debian's raspi-firmware writes `cmdline.txt` again at each change of a kernel: what shall stay on it is in a file
//! that it appends.

use super::facts::{CgroupFacts, EXTRA_CMDLINE};
use super::parts::lost;
use crate::{
    cmdline_repair::{self, Need, Repair},
    finding::{FileChange, Finding, Place, Remedy},
    kernel_cmdline::{MemorySetting, lines, memory_setting},
};

pub(super) const LATER: &str = "after the system has rewritten cmdline.txt, as each kernel update does";

/// The change that has the generator enable the controller; `None` where there is none, or it does already.
pub(super) fn repair(facts: &CgroupFacts) -> Option<Repair> {
    let text = facts.extra.as_ref().map_or("", |file| &file.text);
    if !facts.generator || matches!(memory_setting(lines(text)[0]), MemorySetting::On(_)) {
        return None;
    }
    if !text.trim().is_empty() {
        return cmdline_repair::repair(EXTRA_CMDLINE, text, Need::Enable);
    }
    let to = "cgroup_enable=memory\n".to_owned();
    let remedy = Remedy {
        explain: format!(
            "write cgroup_enable=memory into {EXTRA_CMDLINE}, or the next kernel update removes it"
        ),
        commands: vec![format!("echo cgroup_enable=memory | sudo tee {EXTRA_CMDLINE}").into()],
        diff: Some(format!("--- {EXTRA_CMDLINE}\n+++ {EXTRA_CMDLINE}\n@@ -0,0 +1 @@\n+{to}")),
        changes: vec![FileChange {
            file: EXTRA_CMDLINE.to_owned(),
            from: facts.extra.as_ref().map(|file| file.text.clone()),
            to,
        }],
    };
    Some(Repair { remedy, needs_restart: false })
}

/// The boot file is right, and the next one that is written is not.
pub(super) fn forgets(facts: &CgroupFacts) -> Option<Finding> {
    let remedy = cmdline_repair::in_order([repair(facts)?.without_restart()])?;
    Some(lost(LATER).saw(Place::file(EXTRA_CMDLINE), "no cgroup_enable=memory").remedy(remedy))
}

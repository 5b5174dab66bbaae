//! What the verdicts share.

use super::facts::{CgroupFacts, PROC_CMDLINE};
use crate::{
    cmdline_repair::{Repair, in_order},
    finding::{Code, Command, Finding, Place, Remedy},
    kernel_cmdline::{MemorySetting, Parameter, lines, memory_setting},
    next_boot::{BootFile, StagedFile},
    text_file::TextFile,
};

/// What ends the release of Debian's own kernels.
const DEBIAN_FLAVOURS: [&str; 9] =
    ["-arm64", "-arm64-16k", "-armmp", "-armmp-lpae", "-armel", "-amd64", "-686", "-686-pae", "-riscv64"];

/// Whether a kernel of this release knows `cgroup_enable=memory`. Only Debian's
/// own are known not to; Raspberry Pi's have many names (`+rpt-rpi-v8`,
/// `-raspi`, `-v8+`), and an unknown release counts as one of them.
pub fn knows_cgroup_enable(release: Option<&str>) -> bool {
    release.is_none_or(|release| {
        let release = release.trim();
        !release.contains("+deb") && !DEBIAN_FLAVOURS.iter().any(|flavour| release.ends_with(flavour))
    })
}

/// Whether this is a kernel of Raspberry Pi's, whose device tree turns the controller off: only there
/// `cgroup_enable=memory` is what helps. An unknown release counts as one.
pub(super) fn is_raspberrys(release: Option<&str>) -> bool {
    release.is_none_or(|release| {
        let release = release.trim();
        let names = ["rpi", "rpt", "raspi", "-v8", "-v7", "-v6"];
        names.iter().any(|name| release.contains(name)) && knows_cgroup_enable(Some(release))
    })
}

/// Whether the running kernel has the controller only because it was asked to. One that came up with it and
/// no parameter needs none.
pub(super) fn needs_enable(facts: &CgroupFacts) -> bool {
    let running = facts.running.as_deref().map(|text| lines(text)[0]);
    running.is_none_or(|running| memory_setting(running) != MemorySetting::Unset)
}

/// The files of the firmware's that the next boot may take, and why it may take another one than in a regular start.
pub(super) fn read_files<'a>(facts: &'a CgroupFacts) -> Vec<(&'a TextFile, Option<&'a StagedFile>)> {
    let text = |file: &'a BootFile| match file {
        BootFile::Read(file) => Some(file),
        _ => None,
    };
    let regular = text(&facts.next.file).map(|file| (file, None));
    let staged = facts.next.staged.as_ref().and_then(|staged| Some((text(&staged.file)?, Some(staged))));
    regular.into_iter().chain(staged).collect()
}

pub(super) fn is_on(running: Option<&str>) -> bool {
    running.is_some_and(|text| matches!(memory_setting(lines(text)[0]), MemorySetting::On(_)))
}

pub(super) fn without_controller() -> Finding {
    let message = "cgroup_enable=memory is set, but the kernel does not have the memory controller";
    Finding::new(Code::MemoryCgroupAbsent, message).remedy(
        Remedy::new(
            "this kernel has no memory controller, or is one from late 2024 that cannot enable it: install a current kernel and reboot",
        )
        .command("sudo apt update && sudo apt full-upgrade")
        .command(Command::Reboot),
    )
}

/// The controller is there, and will be gone.
pub(super) fn lost(when: &str) -> Finding {
    let message = format!("the memory controller is available now and will be missing {when}");
    Finding::new(Code::MemoryCgroupLostAtBoot, message)
}

pub(super) fn disabled() -> Finding {
    Finding::new(Code::MemoryCgroupDisabled, "the memory controller is turned off by cgroup_disable=memory")
}

pub(super) fn reboot_needed(file: &TextFile) -> Finding {
    let message = format!(
        "the memory controller is off until the next boot: {} is right, the running kernel was started before",
        file.path
    );
    Finding::new(Code::RebootNeeded, message).remedy(
        Remedy::new(
            "reboot; if the finding is still there afterwards, the boot loader adds cgroup_disable=memory",
        )
        .command(Command::Reboot),
    )
}

pub(super) fn repaired_by(finding: Finding, repairs: impl Iterator<Item = Repair>) -> Finding {
    match in_order(repairs) {
        Some(remedy) => finding.remedy(remedy),
        None => finding,
    }
}

/// The command line of the running kernel, as evidence.
pub(super) fn seen_running(facts: &CgroupFacts, finding: Finding) -> Finding {
    let Some(text) = facts.running.as_deref() else {
        return finding;
    };
    let place = Place::file(PROC_CMDLINE);
    match memory_setting(lines(text)[0]) {
        MemorySetting::On(parameter) | MemorySetting::Off(parameter) => finding.saw(place, parameter.text),
        MemorySetting::Unset => finding.saw(place, "no cgroup_enable=memory"),
    }
}

pub(super) fn at(file: &TextFile, parameter: &Parameter<'_>) -> Place {
    Place::at(&file.path, parameter.line, parameter.column)
}

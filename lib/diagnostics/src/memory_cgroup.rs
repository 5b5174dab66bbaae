//! Is the memory controller there, will it be after the next boot, and if not,
//! why?
//!
//! The truth for the running system is the kernel's own list of controllers;
//! the files only explain it. Raspberry Pi's kernel needs
//! `cgroup_enable=memory` after the `cgroup_disable=memory` of its device tree;
//! Debian's kernel has the controller on, does not know the first parameter and
//! obeys the second wherever it stands. Neither an unknown controller nor an
//! unreadable file is ever a failure.

mod facts;
mod generator;

use crate::{
    cmdline_repair::{Need, Repair, in_order, repair},
    finding::{Code, Finding, Place, REBOOT, Remedy, Severity},
    kernel_cmdline::{
        MemorySetting, Parameter, disable_parameter, ignored_enable, lines, memory_setting, parameters,
    },
    text_file::TextFile,
};

pub use self::facts::{BootFile, Controller, EXTRA_CMDLINE, Facts, PROC_CMDLINE};
use self::generator::lost;

/// What ends the release of Debian's own kernels.
const DEBIAN_FLAVOURS: [&str; 9] =
    ["-arm64", "-arm64-16k", "-armmp", "-armmp-lpae", "-armel", "-amd64", "-686", "-686-pae", "-riscv64"];

/// Whether a kernel of this release knows `cgroup_enable=memory`. Only Debian's
/// own are known not to; Raspberry Pi's have many names (`+rpt-rpi-v8`,
/// `-raspi`, `-v8+`), and an unknown release counts as one of them.
#[must_use]
pub fn knows_cgroup_enable(release: Option<&str>) -> bool {
    release.is_none_or(|release| {
        let release = release.trim();
        !release.contains("+deb") && !DEBIAN_FLAVOURS.iter().any(|flavour| release.ends_with(flavour))
    })
}

/// The findings: the verdict on the controller, and a boot file that is not known or not readable.
#[must_use]
pub fn findings(facts: &Facts) -> Vec<Finding> {
    let verdict = match &facts.controller {
        Controller::Unknown(why) => {
            let message = format!("it is unknown whether the kernel has the memory controller: {why}");
            Finding::new(Code::MemoryCgroupUnknown, message)
        }
        Controller::Present(place, saw) => present(facts).saw(place.clone(), saw),
        Controller::Absent(place, saw) => absent(facts).saw(place.clone(), saw),
    };
    std::iter::once(verdict).chain(boot_file(&facts.boot_file)).collect()
}

/// A boot file that is not known or not readable.
fn boot_file(boot_file: &BootFile) -> Option<Finding> {
    match boot_file {
        BootFile::Undecided { place, why } => {
            let message = format!("it is unknown which kernel command line the firmware reads: {why}");
            let remedy = Remedy::new(format!(
                "name one file for every start in {}: `cmdline=cmdline.txt` below [all], at its end; until \
                 then this file is changed by hand",
                place.file
            ));
            let finding = Finding::new(Code::BootFileUnreadable, message);
            // The firmware knows, and may be right.
            Some(finding.milder(Severity::Unknown).saw(place.clone(), why).remedy(remedy))
        }
        BootFile::Unreadable { path, why } => {
            let message = format!("{path} cannot be read as a kernel command line: {why}");
            let remedy = Remedy::new(format!(
                "restore {path} from a backup or write it again: one line of text, as shown by `cat \
                 {PROC_CMDLINE}` \
                 without what the firmware added"
            ));
            Some(Finding::new(Code::BootFileUnreadable, message).saw(Place::file(path), why).remedy(remedy))
        }
        _ => None,
    }
}

fn ok(message: &str) -> Finding {
    Finding::new(Code::MemoryCgroupOk, message)
}

/// The controller is there: is it still after the next boot?
fn present(facts: &Facts) -> Finding {
    let available = || ok("the memory controller is available");
    if !knows_cgroup_enable(facts.kernel_release.as_deref()) {
        return disable_pending(facts).unwrap_or_else(|| inert_parameters(facts, available()));
    }
    let BootFile::Read(file) = &facts.boot_file else {
        return available();
    };
    let lost = || enabled(lost("after the next boot"), file, facts);
    match memory_setting(lines(&file.text)[0]) {
        MemorySetting::On(_) => generator::forgets(facts).unwrap_or_else(available),
        MemorySetting::Off(parameter) => lost().saw(at(file, &parameter), parameter.text),
        MemorySetting::Unset => match ignored_enable(&file.text) {
            Some(parameter) => lost().saw(at(file, &parameter), ignored(&parameter)),
            None => lost().saw(Place::line(&file.path, 1), "no cgroup_enable=memory"),
        },
    }
}

/// A `cgroup_disable=memory` that the running kernel was not told of yet.
fn disable_pending(facts: &Facts) -> Option<Finding> {
    let files = disables(facts);
    let last = files.last()?;
    if last.0.path == EXTRA_CMDLINE {
        // What is running and what boots next are both right.
        let repairs = without_disables(&files).map(Repair::without_restart);
        return Some(repaired_by(shown(lost(generator::LATER), &files), repairs));
    }
    Some(repaired_by(shown(lost("after the next boot"), &files), without_disables(&files)))
}

/// The files that say `cgroup_disable=memory` where the next boot may obey it;
/// the generator's source first: what stays in it comes back.
fn disables(facts: &Facts) -> Vec<(&TextFile, Parameter<'_>)> {
    let files = facts.extra.iter().chain(boot_text(facts));
    files.filter_map(|file| Some((file, disable_parameter(lines(&file.text)[0])?))).collect()
}

fn shown(finding: Finding, files: &[(&TextFile, Parameter<'_>)]) -> Finding {
    files.iter().fold(finding, |finding, (file, parameter)| finding.saw(at(file, parameter), parameter.text))
}

fn without_disables(files: &[(&TextFile, Parameter<'_>)]) -> impl Iterator<Item = Repair> {
    files.iter().filter_map(|(file, _)| repair(&file.path, &file.text, Need::NoDisable))
}

const fn boot_text(facts: &Facts) -> Option<&TextFile> {
    match &facts.boot_file {
        BootFile::Read(file) => Some(file),
        _ => None,
    }
}

/// The controller is not there: why, and what brings it back?
fn absent(facts: &Facts) -> Finding {
    if knows_cgroup_enable(facts.kernel_release.as_deref()) {
        absent_where_enable_works(facts)
    } else {
        absent_where_only_disable_works(facts)
    }
}

fn absent_where_enable_works(facts: &Facts) -> Finding {
    let running = facts.running.as_deref().map(|text| lines(text)[0]).unwrap_or_default();
    let BootFile::Read(file) = &facts.boot_file else {
        return seen_running(facts, no_boot_file(&facts.boot_file));
    };
    match memory_setting(lines(&file.text)[0]) {
        MemorySetting::On(parameter) if matches!(memory_setting(running), MemorySetting::On(_)) => {
            let message = "cgroup_enable=memory is set, but the kernel does not have the memory controller";
            Finding::new(Code::MemoryCgroupAbsent, message)
                .saw(at(file, &parameter), parameter.text)
                .saw(Place::file(PROC_CMDLINE), "the last parameter is cgroup_enable=memory")
                .remedy(
                    Remedy::new(
                        "this kernel has no memory controller, or is one of late 2024 that cannot enable it: \
                         install a current kernel and reboot",
                    )
                    .command("sudo apt update && sudo apt full-upgrade")
                    .command(REBOOT),
                )
        }
        MemorySetting::On(parameter) => {
            let finding = reboot_needed(file).saw(at(file, &parameter), parameter.text);
            seen_running(facts, finding)
        }
        MemorySetting::Off(parameter) => {
            let finding = disabled().saw(at(file, &parameter), parameter.text);
            enabled(finding, file, facts)
        }
        MemorySetting::Unset => enabled(missing_parameter(facts, file), file, facts),
    }
}

/// No parameter on the line that counts: was it put where it does not?
fn missing_parameter(facts: &Facts, file: &TextFile) -> Finding {
    if let Some(parameter) = ignored_enable(&file.text) {
        let message = format!(
            "the memory controller is off: cgroup_enable=memory is on line {} of {}, but the firmware \
             reads only the first line",
            parameter.line, file.path
        );
        let finding = Finding::new(Code::CgroupParameterOnIgnoredLine, message);
        return finding.saw(at(file, &parameter), ignored(&parameter));
    }
    let in_stub = facts.stub.as_ref().and_then(|stub| {
        let parameter = (1..)
            .zip(lines(&stub.text))
            .flat_map(|(n, line)| parameters(line, n))
            .find(Parameter::enables_memory)?;
        Some((stub, parameter))
    });
    if let Some((stub, parameter)) = in_stub {
        let message = format!(
            "the memory controller is off: cgroup_enable=memory is in {}, which is not read; the firmware \
             reads {}",
            stub.path, file.path
        );
        return Finding::new(Code::CgroupParameterInStub, message)
            .saw(at(stub, &parameter), parameter.text)
            .saw(Place::line(&file.path, 1), "no cgroup_enable=memory");
    }
    let message = format!("the memory controller is off: {} lacks cgroup_enable=memory", file.path);
    Finding::new(Code::MemoryCgroupAbsent, message).saw(Place::line(&file.path, 1), "no cgroup_enable=memory")
}

fn absent_where_only_disable_works(facts: &Facts) -> Finding {
    let files = disables(facts);
    if !files.is_empty() {
        let finding = repaired_by(shown(disabled(), &files), without_disables(&files));
        return inert_parameters(facts, finding);
    }
    let running = facts.running.as_deref().map(|text| lines(text)[0]).unwrap_or_default();
    match (disable_parameter(running), boot_text(facts)) {
        // Debian's device trees add nothing, so the file has been mended since the last boot.
        (Some(_), Some(file)) => seen_running(facts, reboot_needed(file)),
        (Some(_), None) => seen_running(facts, disabled()).remedy(
            Remedy::new(
                "remove cgroup_disable=memory where the boot loader sets the kernel's parameters, then reboot",
            )
            .command(REBOOT),
        ),
        (None, _) => {
            let message =
                "this kernel has no memory controller, and nothing on its command line turned it off";
            inert_parameters(facts, Finding::new(Code::MemoryCgroupAbsent, message)).remedy(
                Remedy::new("boot a kernel that has it; Debian's own has (CONFIG_MEMCG=y)")
                    .command("sudo apt update && sudo apt install linux-image-arm64")
                    .command(REBOOT),
            )
        }
    }
}

fn disabled() -> Finding {
    Finding::new(Code::MemoryCgroupDisabled, "the memory controller is turned off by cgroup_disable=memory")
}

fn reboot_needed(file: &TextFile) -> Finding {
    let message = format!(
        "the memory controller is off until the next boot: {} is right, the running kernel was started before",
        file.path
    );
    Finding::new(Code::RebootNeeded, message).remedy(
        Remedy::new("reboot; if it comes back after that, the boot loader itself adds cgroup_disable=memory")
            .command(REBOOT),
    )
}

fn no_boot_file(boot_file: &BootFile) -> Finding {
    let message = "the memory controller is off, and no readable boot file shows why";
    let finding = Finding::new(Code::MemoryCgroupAbsent, message);
    if let BootFile::Undecided { place, .. } = boot_file {
        return finding.remedy(
            Remedy::new(format!(
                "add cgroup_enable=memory to the end of the single line in each file that {} may name, \
                 then reboot",
                place.file
            ))
            .command(REBOOT),
        );
    }
    finding.remedy(
        Remedy::new(
            "mount the boot partition at /boot/firmware and check again; on other boards add \
             cgroup_enable=memory to the kernel's parameters in the boot loader and reboot",
        )
        .command("sudo mount /boot/firmware")
        .command("sudo weaver-node-agent check"),
    )
}

/// Has the boot file enable the controller, and the generator keep it so.
fn enabled(finding: Finding, file: &TextFile, facts: &Facts) -> Finding {
    // The generator first: what stays wrong there comes back.
    let repairs = generator::repair(facts).into_iter().chain(repair(&file.path, &file.text, Need::Enable));
    repaired_by(finding, repairs)
}

fn repaired_by(finding: Finding, repairs: impl Iterator<Item = Repair>) -> Finding {
    match in_order(repairs) {
        Some(remedy) => finding.remedy(remedy),
        None => finding,
    }
}

/// What the running kernel was told, as evidence.
fn seen_running(facts: &Facts, finding: Finding) -> Finding {
    let Some(text) = facts.running.as_deref() else {
        return finding;
    };
    let place = Place::file(PROC_CMDLINE);
    match memory_setting(lines(text)[0]) {
        MemorySetting::On(parameter) | MemorySetting::Off(parameter) => finding.saw(place, parameter.text),
        MemorySetting::Unset => finding.saw(place, "no cgroup_enable=memory"),
    }
}

/// Names `cgroup_enable=memory` where the kernel does not know it, on whatever
/// line: it looks like a repair and is none.
fn inert_parameters(facts: &Facts, mut finding: Finding) -> Finding {
    if knows_cgroup_enable(facts.kernel_release.as_deref()) {
        return finding;
    }
    for file in boot_text(facts).into_iter().chain(&facts.extra) {
        for (number, line) in (1..).zip(lines(&file.text)) {
            for parameter in parameters(line, number).iter().filter(|t| t.enables_memory()) {
                let note = if number > 1 { " (and on a line that the firmware ignores)" } else { "" };
                finding = finding.saw(
                    at(file, parameter),
                    format!("{} has no effect on this kernel{note}", parameter.text),
                );
            }
        }
    }
    finding
}

fn ignored(parameter: &Parameter<'_>) -> String {
    format!("{} on an ignored line", parameter.text)
}

fn at(file: &TextFile, parameter: &Parameter<'_>) -> Place {
    Place::at(&file.path, parameter.line, parameter.column)
}

#[cfg(test)]
mod tests;

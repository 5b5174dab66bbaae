//! Where GRUB or U-Boot hands the parameters to the kernel: their files are judged, and left to those who write them.

use super::facts::{CgroupFacts, PROC_CMDLINE};
use super::parts::{disabled, is_on, is_raspberrys, lost, needs_enable, seen_running, without_controller};
use crate::{
    finding::{Code, Command, Finding, Place, Remedy, Severity},
    kernel_cmdline::{MemorySetting, memory_setting},
    next_boot::{Loader, LoaderLine},
};

/// What all lines together say about the controller.
enum Says<'a> {
    On(&'a LoaderLine),
    Not(&'a LoaderLine),
    /// Not to be known: what says so, and why.
    Unsure(Place, String),
}

fn says(loader: &Loader) -> Says<'_> {
    let is_on = |line: &&LoaderLine| matches!(memory_setting(&line.parameters), MemorySetting::On(_));
    let (on, not) = (loader.lines.iter().find(is_on), loader.lines.iter().find(|line| !is_on(line)));
    match (on, not, &loader.unsure) {
        (Some(on), None, _) => Says::On(on),
        (Some(on), Some(not), _) => {
            let why = format!("it lacks cgroup_enable=memory, which {} has; either may be booted", on.place);
            Says::Unsure(not.place.clone(), why)
        }
        (None, _, Some((place, why))) => Says::Unsure(place.clone(), why.clone()),
        (None, Some(not), None) => Says::Not(not),
        (None, None, None) => Says::Unsure(Place::file(PROC_CMDLINE), "no parameters were found".to_owned()),
    }
}

/// Where this line turns the controller off, or does not mention it.
fn seen(finding: Finding, line: &LoaderLine) -> Finding {
    match memory_setting(&line.parameters) {
        MemorySetting::On(parameter) | MemorySetting::Off(parameter) => {
            finding.saw(line.place.clone(), parameter.text)
        }
        MemorySetting::Unset => finding.saw(line.place.clone(), "no cgroup_enable=memory"),
    }
}

fn is_off(line: &LoaderLine) -> bool {
    matches!(memory_setting(&line.parameters), MemorySetting::Off(_))
}

/// The remedy with the restart.
fn and_reboot(remedy: &Remedy) -> Remedy {
    let remedy = remedy.clone();
    Remedy { explain: format!("{}; then reboot", remedy.explain), ..remedy }.command(Command::Reboot)
}

/// The controller is there: is it still after the next boot?
pub(super) fn present(loader: &Loader, facts: &CgroupFacts, available: impl Fn() -> Finding) -> Finding {
    match says(loader) {
        Says::Not(line) if is_off(line) || needs_enable(facts) => {
            let remedy = if is_off(line) { stop_or_enable(loader, facts) } else { &loader.to_enable };
            seen(lost("after the next boot"), line).remedy(remedy.clone())
        }
        Says::Unsure(place, why) if needs_enable(facts) => {
            let message = format!(
                "it is unknown whether the memory controller is available after the next boot: {place}: {why}"
            );
            let finding = Finding::new(Code::BootFileUnreadable, message).milder(Severity::Unknown);
            finding.saw(place, why).remedy(loader.to_enable.clone())
        }
        Says::On(_) | Says::Not(_) | Says::Unsure(..) => available(),
    }
}

/// What helps against a `cgroup_disable=memory` of the loader's: a kernel that does not have the controller
/// off by itself may not know the other parameter.
fn stop_or_enable<'a>(loader: &'a Loader, facts: &CgroupFacts) -> &'a Remedy {
    if is_raspberrys(facts.kernel_release.as_deref()) { &loader.to_enable } else { &loader.to_stop_disabling }
}

/// It is not there, and the kernel can be asked for it.
pub(super) fn absent(loader: &Loader, facts: &CgroupFacts) -> Finding {
    let running = facts.running.as_deref().map(memory_setting);
    if matches!(running, Some(MemorySetting::Off(_))) && !is_raspberrys(facts.kernel_release.as_deref()) {
        let finding = disabled().remedy(and_reboot(&loader.to_stop_disabling));
        return match loader.lines.iter().find(|line| is_off(line)) {
            Some(line) => seen(finding, line),
            None => seen_running(facts, finding),
        };
    }
    let remedy = and_reboot(&loader.to_enable);
    match says(loader) {
        Says::On(line) if is_on(facts.running.as_deref()) => seen(without_controller(), line),
        Says::On(line) => {
            let message = format!(
                "the memory controller is off until the next boot: {} is right, the running kernel was started before",
                line.place
            );
            seen(Finding::new(Code::RebootNeeded, message), line)
        }
        Says::Not(line) if is_off(line) => {
            seen(disabled(), line).remedy(and_reboot(stop_or_enable(loader, facts)))
        }
        Says::Not(line) => {
            let message = format!(
                "the memory controller is off: {} does not pass cgroup_enable=memory to the kernel",
                loader.name
            );
            seen(Finding::new(Code::MemoryCgroupAbsent, message), line).remedy(remedy)
        }
        Says::Unsure(place, why) => {
            let message = format!(
                "the memory controller is off, and it is unknown which parameters {} passes at the next boot: {place}: {why}",
                loader.name
            );
            let finding = Finding::new(Code::MemoryCgroupAbsent, message).saw(place, why).remedy(remedy);
            seen_running(facts, finding)
        }
    }
}

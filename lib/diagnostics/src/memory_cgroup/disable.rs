//! `cgroup_disable=memory`, which Debian's kernel obeys wherever it is, in each file where it may be.

use super::facts::{CgroupFacts, EXTRA_CMDLINE};
use super::generator;
use super::parts::{
    at, disabled, knows_cgroup_enable, lost, read_files, reboot_needed, repaired_by, seen_running,
};
use crate::{
    cmdline_repair::{Need, Repair, repair},
    finding::{Code, Command, Finding, Place, Remedy},
    kernel_cmdline::{disable_parameter, lines, parameters},
    next_boot::BootFile,
    text_file::TextFile,
};

/// A `cgroup_disable=memory` that the running kernel was not booted with.
pub(super) fn disable_pending(facts: &CgroupFacts) -> Option<Finding> {
    let disables = disables(facts);
    let last = disables.last()?;
    if last.place.file == EXTRA_CMDLINE {
        // What is running and what boots next are both right.
        let finding = shown(lost(generator::LATER), &disables);
        let repairs = disables.into_iter().filter_map(|it| it.repair).map(Repair::without_restart);
        return Some(repaired_by(finding, repairs));
    }
    Some(without_disables(lost("after the next boot"), disables))
}

/// A `cgroup_disable=memory` that the next boot may obey.
struct Disable {
    place: Place,
    text: String,
    repair: Option<Repair>,
}

/// The generator's source first: what stays in it comes back.
fn disables(facts: &CgroupFacts) -> Vec<Disable> {
    let read = read_files(facts).into_iter().map(|(file, _)| file);
    let of_file = |file: &TextFile| {
        let parameter = disable_parameter(lines(&file.text)[0])?;
        let repair = repair(&file.path, &file.text, Need::NoDisable);
        Some(Disable { place: at(file, &parameter), text: parameter.text.to_owned(), repair })
    };
    let files = facts.extra.iter().chain(read).filter_map(of_file);
    files.chain(of_loader(&facts.next.file)).collect()
}

/// The lines of another boot loader: one remedy for all of them.
fn of_loader(file: &BootFile) -> Vec<Disable> {
    let BootFile::Loader(loader) = file else { return Vec::new() };
    let disables = loader.lines.iter().filter_map(|line| {
        let parameter = disable_parameter(&line.parameters)?;
        Some(Disable { place: line.place.clone(), text: parameter.text.to_owned(), repair: None })
    });
    let mut disables: Vec<_> = disables.collect();
    if let Some(first) = disables.first_mut() {
        first.repair = Some(Repair { remedy: loader.to_stop_disabling.clone(), needs_restart: true });
    }
    disables
}

fn shown(finding: Finding, disables: &[Disable]) -> Finding {
    disables.iter().fold(finding, |finding, it| finding.saw(it.place.clone(), it.text.clone()))
}

fn without_disables(finding: Finding, disables: Vec<Disable>) -> Finding {
    let finding = shown(finding, &disables);
    repaired_by(finding, disables.into_iter().filter_map(|it| it.repair))
}

pub(super) fn absent_where_only_disable_works(facts: &CgroupFacts) -> Finding {
    let disables = disables(facts);
    if !disables.is_empty() {
        return inert_parameters(facts, without_disables(disabled(), disables));
    }
    let running = facts.running.as_deref().map(|text| lines(text)[0]).unwrap_or_default();
    match (disable_parameter(running), read_files(facts).first()) {
        // Debian's device trees add nothing, so the file has been mended since the last boot.
        (Some(_), Some((file, _))) => seen_running(facts, reboot_needed(file)),
        (Some(_), None) => seen_running(facts, disabled()).remedy(
            Remedy::new(
                "remove cgroup_disable=memory where the boot loader sets the kernel's parameters, then reboot",
            )
            .command(Command::Reboot),
        ),
        (None, _) => {
            let message =
                "this kernel has no memory controller, and nothing on its command line turned it off";
            inert_parameters(facts, Finding::new(Code::MemoryCgroupAbsent, message)).remedy(
                Remedy::new("boot a kernel that has it; Debian's own has (CONFIG_MEMCG=y)")
                    .command("sudo apt update && sudo apt install linux-image-arm64")
                    .command(Command::Reboot),
            )
        }
    }
}

/// Names `cgroup_enable=memory` where the kernel does not know it, on whatever
/// line: it looks like a repair and is none.
pub(super) fn inert_parameters(facts: &CgroupFacts, mut finding: Finding) -> Finding {
    if knows_cgroup_enable(facts.kernel_release.as_deref()) {
        return finding;
    }
    for file in read_files(facts).into_iter().map(|(file, _)| file).chain(&facts.extra) {
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

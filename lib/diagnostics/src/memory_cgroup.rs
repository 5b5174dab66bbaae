//! Is the memory controller there, will it be after the next boot, and if not,
//! why?
//!
//! The truth for the running system is the kernel's own list of controllers;
//! the files only explain it. Raspberry Pi's kernel needs
//! `cgroup_enable=memory` after the `cgroup_disable=memory` of its device tree;
//! Debian's kernel has the controller on, does not know the first parameter and
//! obeys the second wherever it is. Neither an unknown controller nor an unreadable file is ever a failure.

mod disable;
mod elsewhere;
mod facts;
mod generator;
mod glued;
mod nixos;
mod on_request;
mod other_loader;
mod parts;

use crate::host::storage::remounted;
use crate::{
    cmdline_repair::{Need, repair},
    finding::{Code, Command, Finding, Place, Remedy, Severity},
    kernel_cmdline::{MemorySetting, Parameter, ignored_enable, lines, memory_setting, parameters},
    next_boot::{BootFile, StagedFile},
    text_file::TextFile,
};

use self::disable::{absent_where_only_disable_works, disable_pending, inert_parameters};
pub use self::facts::{CgroupFacts, Controller, EXTRA_CMDLINE, PROC_CMDLINE};
pub use self::parts::knows_cgroup_enable;
use self::parts::{
    at, disabled, is_on, lost, needs_enable, read_files, reboot_needed, repaired_by, seen_running,
    without_controller,
};

/// The findings: the verdict on the controller, and a boot file that is not known or not readable.
pub fn findings(facts: &CgroupFacts) -> Vec<Finding> {
    let verdict = match &facts.controller {
        Controller::Unknown(why) => {
            let message = format!("it is unknown whether the kernel has the memory controller: {why}");
            Finding::new(Code::MemoryCgroupUnknown, message)
        }
        Controller::Present(place, saw) => {
            // It is there, and that is no promise for the next boot.
            let unknown = boot_file(&facts.next.file);
            let verdict = unknown.unwrap_or_else(|| present(facts)).saw(place.clone(), saw);
            return vec![nixos::by_configuration(facts, on_request::reported(facts, verdict))];
        }
        Controller::Absent(place, saw) => {
            let verdict = absent(facts).saw(place.clone(), saw);
            nixos::by_configuration(facts, on_request::reported(facts, verdict))
        }
    };
    let unknown = boot_file(&facts.next.file).or_else(|| staged_unknown(facts));
    std::iter::once(verdict).chain(unknown).collect()
}

/// A boot file that is not known or not readable.
fn boot_file(boot_file: &BootFile) -> Option<Finding> {
    match boot_file {
        BootFile::Undecided { place, why } => {
            let message =
                format!("it is unknown which kernel command line the next boot takes: {place}: {why}");
            let remedy = Remedy::new(if let Some(elsewhere) = elsewhere::remedy(place, why) {
                elsewhere
            } else if place.file.ends_with("config.txt") {
                format!(
                    "at the end of {}, add `[all]` and `cmdline=cmdline.txt`, so that every boot uses the same file; \
                    until then change the file by hand",
                    place.file
                )
            } else {
                format!(
                    "check {}; as long as it is unclear which file counts, change the command line by hand",
                    place.file
                )
            });
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
        BootFile::Missing | BootFile::Read(_) | BootFile::Loader(_) => None,
    }
}

fn ok(message: &str) -> Finding {
    Finding::new(Code::MemoryCgroupOk, message)
}

/// The controller is there: is it still after the next boot?
fn present(facts: &CgroupFacts) -> Finding {
    let available = || ok("the memory controller is available");
    if !knows_cgroup_enable(facts.kernel_release.as_deref()) {
        return disable_pending(facts).unwrap_or_else(|| inert_parameters(facts, available()));
    }
    if let BootFile::Loader(loader) = &facts.next.file {
        return other_loader::present(loader, facts, available);
    }
    let files = read_files(facts);
    let will_be_lost = |setting| match setting {
        MemorySetting::On(_) => false,
        MemorySetting::Off(_) => true,
        MemorySetting::Unset => needs_enable(facts),
    };
    let lacking: Vec<_> =
        files.iter().filter(|(file, _)| will_be_lost(memory_setting(lines(&file.text)[0]))).collect();
    let Some((_, staged)) = lacking.first() else {
        let forgotten = || generator::forgets(facts).filter(|_| !files.is_empty() && needs_enable(facts));
        return staged_unknown(facts).or_else(forgotten).unwrap_or_else(available);
    };
    let finding = match staged {
        Some(staged) if !staged.is_certain => {
            let message = "it is unknown whether the memory controller is available after the next boot";
            Finding::new(Code::BootFileUnreadable, message).milder(Severity::Unknown)
        }
        // The directory that is tried now, and kept if it works, has it.
        None if facts.next.staged.as_ref().is_some_and(|staged| !staged.is_certain)
            && files.len() > lacking.len() =>
        {
            let message = "it is unknown whether the memory controller is available after the next boot: the slot on trial \
                has cgroup_enable=memory, and the regular one does not";
            Finding::new(Code::BootFileUnreadable, message).milder(Severity::Unknown)
        }
        _ => lost("after the next boot"),
    };
    let finding = lacking.iter().fold(finding, |finding, (file, staged)| {
        let finding = match memory_setting(lines(&file.text)[0]) {
            MemorySetting::Off(parameter) => finding.saw(at(file, &parameter), parameter.text),
            _ if glued::hides_enable(file).is_some() => glued::seen(finding, file),
            _ => match ignored_enable(&file.text) {
                Some(parameter) => finding.saw(at(file, &parameter), ignored(&parameter)),
                None => finding.saw(Place::line(&file.path, 1), "no cgroup_enable=memory"),
            },
        };
        seen_staged(finding, *staged)
    });
    enabled(finding, lacking.into_iter().copied(), facts)
}

fn seen_staged(finding: Finding, staged: Option<&StagedFile>) -> Finding {
    match staged {
        Some(StagedFile { because: (place, saw), .. }) => finding.saw(place.clone(), saw),
        None => finding,
    }
}

/// The next boot tries a directory whose command line is not known.
fn staged_unknown(facts: &CgroupFacts) -> Option<Finding> {
    let staged = facts.next.staged.as_ref()?;
    let finding = boot_file(&staged.file)?;
    Some(seen_staged(finding, Some(staged)))
}

/// The controller is not there: why, and what brings it back?
fn absent(facts: &CgroupFacts) -> Finding {
    if knows_cgroup_enable(facts.kernel_release.as_deref()) {
        absent_where_enable_works(facts)
    } else {
        absent_where_only_disable_works(facts)
    }
}

fn absent_where_enable_works(facts: &CgroupFacts) -> Finding {
    if let BootFile::Loader(loader) = &facts.next.file {
        return other_loader::absent(loader, facts);
    }
    let files = read_files(facts);
    let lacks =
        |(file, _): &&(&TextFile, _)| !matches!(memory_setting(lines(&file.text)[0]), MemorySetting::On(_));
    let finding = match (files.iter().find(lacks), files.first()) {
        (Some((file, staged)), _) => match (memory_setting(lines(&file.text)[0]), staged) {
            (MemorySetting::Off(parameter), _) => disabled().saw(at(file, &parameter), parameter.text),
            (_, None) => missing_parameter(facts, file),
            (_, Some(staged)) => missing_in_staged(file, staged),
        },
        (None, Some((file, _))) if is_on(facts.running.as_deref()) => return inert_kernel(file),
        (None, Some((file, _))) => {
            let finding = elsewhere::doubted(reboot_needed(file), file, facts);
            let finding =
                files.iter().fold(finding, |finding, (file, _)| match memory_setting(lines(&file.text)[0]) {
                    MemorySetting::On(parameter) => finding.saw(at(file, &parameter), parameter.text),
                    _ => finding,
                });
            return seen_running(facts, glued::left(finding, file));
        }
        (None, None) => return seen_running(facts, no_boot_file(facts)),
    };
    let staged = files.iter().filter(lacks).find_map(|(_, staged)| *staged);
    enabled(seen_staged(finding, staged), files.into_iter(), facts)
}

/// The running kernel was asked for the controller, and has none.
fn inert_kernel(file: &TextFile) -> Finding {
    let finding = without_controller();
    match memory_setting(lines(&file.text)[0]) {
        MemorySetting::On(parameter) => finding.saw(at(file, &parameter), parameter.text),
        _ => finding,
    }
    .saw(Place::file(PROC_CMDLINE), "the last parameter is cgroup_enable=memory")
}

/// The slot that the next boot tries is a copy from before the parameter was added.
fn missing_in_staged(file: &TextFile, staged: &StagedFile) -> Finding {
    let next = if staged.is_certain { "the next boot tries it" } else { "the next boot may try it" };
    let message =
        format!("the memory controller is off: {} lacks cgroup_enable=memory, and {next}", file.path);
    let finding = Finding::new(Code::MemoryCgroupAbsent, message)
        .saw(Place::line(&file.path, 1), "no cgroup_enable=memory");
    glued::seen(finding, file)
}

/// No parameter on the line that counts: was it put where it does not?
fn missing_parameter(facts: &CgroupFacts, file: &TextFile) -> Finding {
    if let Some(finding) = glued::hides_enable(file) {
        return glued::seen(finding, file);
    }
    if let Some(parameter) = ignored_enable(&file.text) {
        let message = format!(
            "the memory controller is off: cgroup_enable=memory is on line {} of {}, but the firmware \
             reads only the first line",
            parameter.line, file.path
        );
        let finding = Finding::new(Code::CgroupParameterOnIgnoredLine, message);
        return finding.saw(at(file, &parameter), ignored(&parameter));
    }
    // A link to the file that counts has what that one has.
    let stub = facts.stub.as_ref().filter(|stub| stub.text != file.text);
    let in_stub = stub.and_then(|stub| {
        let parameter = (1..)
            .zip(lines(&stub.text))
            .flat_map(|(n, line)| parameters(line, n))
            .find(Parameter::enables_memory)?;
        Some((stub, parameter))
    });
    if let Some((stub, parameter)) = in_stub {
        let message = format!(
            "the memory controller is off: cgroup_enable=memory is in {}, which is not read; the firmware reads {}",
            stub.path, file.path
        );
        return Finding::new(Code::CgroupParameterInStub, message)
            .saw(at(stub, &parameter), parameter.text)
            .saw(Place::line(&file.path, 1), "no cgroup_enable=memory");
    }
    let message = format!("the memory controller is off: {} lacks cgroup_enable=memory", file.path);
    let finding = Finding::new(Code::MemoryCgroupAbsent, message)
        .saw(Place::line(&file.path, 1), "no cgroup_enable=memory");
    glued::seen(finding, file)
}

fn no_boot_file(facts: &CgroupFacts) -> Finding {
    let boot_file = &facts.next.file;
    let message = "the memory controller is off, and no readable boot file shows why";
    let finding = Finding::new(Code::MemoryCgroupAbsent, message);
    if let BootFile::Unreadable { path, .. } = boot_file {
        let explain = format!(
            "write {path} again as one line of plain text that ends with cgroup_enable=memory, then reboot"
        );
        return finding.remedy(Remedy::new(explain).command(Command::Reboot));
    }
    if let BootFile::Undecided { place, why } = boot_file {
        if let Some(elsewhere) = elsewhere::remedy(place, why) {
            return finding.remedy(Remedy::new(elsewhere));
        }
        return finding.remedy(
            Remedy::new(format!(
                "add cgroup_enable=memory to the end of the single line in each file that {} may name, then reboot",
                place.file
            ))
            .command(Command::Reboot),
        );
    }
    if let Some(remedy) = elsewhere::of_ubuntu_core(facts) {
        return finding.remedy(remedy);
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

/// Has each of these files that the next boot may take enable the controller, and the generator keep it so.
fn enabled<'a>(
    finding: Finding,
    files: impl Iterator<Item = (&'a TextFile, Option<&'a StagedFile>)>,
    facts: &CgroupFacts,
) -> Finding {
    // The generator first: what stays wrong there comes back.
    let repairs = files.filter_map(|(file, _)| repair(&file.path, &file.text, Need::Enable));
    writable(repaired_by(finding, generator::repair(facts).into_iter().chain(repairs)), facts)
}

/// A read-only mount must be remounted writable before a file on it is changed, by hand or by `repair`.
fn writable(mut finding: Finding, facts: &CgroupFacts) -> Finding {
    if let (Some(mount_point), Some(remedy)) = (&facts.read_only_at, finding.remedy.as_mut())
        && remedy.changes.iter().any(|change| change.file.starts_with(mount_point.as_str()))
    {
        remedy.explain = format!(
            "{mount_point} is mounted read-only, which the kernel does after an error of its file system (H-15): if you did it, make \
                 it writable first; then {}",
            remedy.explain
        );
        remedy.commands.insert(0, remounted(mount_point).into());
    }
    finding
}

fn ignored(parameter: &Parameter<'_>) -> String {
    format!("{} on an ignored line", parameter.text)
}

#[cfg(test)]
mod tests;

//! Which trouble a recognised line reports, and of which device or process. Lines that mean no fault of this node, such
//! as a pod that hit its own memory limit, are ignored.

use super::trouble::KernelProblem;
use crate::finding::Code;
use crate::recognise::{
    COMMAND_UNANSWERED, Disks, Slots, blocked_task, device, is_below_one_pod, is_below_pods, is_number,
    segments, whole,
};

/// A trouble and whom it befell, of a line that the recogniser takes for `code`.
pub(super) fn trouble(
    code: Code,
    text: &str,
    slots: &Slots,
    disks: &Disks,
) -> Option<(KernelProblem, String)> {
    match code {
        Code::UnderVoltage => {
            let lower = text.to_ascii_lowercase();
            let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
            let trouble = match text {
                _ if has(&["throttled", "temperature"]) => KernelProblem::Heat,
                _ if has(&["over-current"]) => KernelProblem::OverCurrent,
                _ => KernelProblem::UnderVoltage,
            };
            Some((trouble, String::new()))
        }
        Code::CardSlow => stuck(text).map(|process| (KernelProblem::Stuck, process)),
        Code::CardFailing | Code::UsbDiskFails => storage(text, slots, disks),
        _ => None,
    }
}

fn storage(text: &str, slots: &Slots, disks: &Disks) -> Option<(KernelProblem, String)> {
    if let Some(host) = text.strip_prefix("scsi host") {
        let (host, _) = host.split_once(": uas_eh_device_reset_handler start")?;
        let disk = disks.disk_of(host).map_or_else(|| format!("of SCSI host {host}"), str::to_owned);
        return is_number(host).then_some((KernelProblem::DiskReset, disk));
    }
    if text.contains("assume dead") || text.contains("HC died") {
        return Some((KernelProblem::UsbStopped, String::new()));
    }
    // The controller of an NVMe disk, which is no disk by its name.
    if let Some((disk, _)) = text.strip_prefix("nvme ").and_then(|rest| rest.split_once(": ")) {
        return Some((KernelProblem::Io, process(disk)));
    }
    // The kernel gave a disk up, and names its address only.
    if let Some((address, _)) = text.strip_prefix("sd ").and_then(|rest| rest.split_once(": Device offlined"))
    {
        let host = address.split(':').next().unwrap_or(address);
        let disk =
            disks.disk_of(host).map_or_else(|| format!("the disk at {}", process(address)), str::to_owned);
        return Some((KernelProblem::Io, disk));
    }
    // Each reset is logged once for the disk, and by a line for each request that waited.
    if text.contains("uas_eh_abort_handler") {
        return None;
    }
    // A Pi's controller of the card does not name the slot.
    let device = if text.starts_with("sdhost-bcm2835 ") { "mmc0" } else { device(text)? };
    // A slot in which the kernel found no card has none.
    if !slots.may_be_card(device) || text.contains(COMMAND_UNANSWERED) && !slots.knows_card(device) {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let (trouble, device) = if lower.contains("cqe recovery") {
        (KernelProblem::CardQueue, slots.card(device))
    } else if lower.contains("remounting filesystem read-only") {
        (KernelProblem::ReadOnly, device)
    } else if OF_A_FILE_SYSTEM.iter().any(|words| lower.contains(words)) {
        (KernelProblem::FileSystem, device)
    } else if device.starts_with("mmc") && !is_of_data(&lower) {
        (KernelProblem::CardSilent, slots.card(whole(device)))
    } else {
        (KernelProblem::Io, whole(device))
    };
    Some((trouble, device.to_owned()))
}

/// A file system that found its data wrong, now or before this start.
const OF_A_FILE_SYSTEM: &[&str] = &[
    "ext4-fs error",
    "btrfs error",
    "btrfs: error",
    "error loading journal",
    "unexpected inconsistency",
    "mounting fs with errors",
    "error count",
    ": initial error at ",
    ": last error at ",
];

/// Data that a program or the file system did not get from the disk or onto it.
fn is_of_data(lower: &str) -> bool {
    ["i/o error", "io errors", "delayed block allocation failed", "potential data loss"]
        .iter()
        .any(|words| lower.contains(words))
}

/// A file system that takes writes again.
pub(super) fn mounted(text: &str) -> Option<&str> {
    let (device, rest) = text.strip_prefix("EXT4-fs (")?.split_once("): ")?;
    let is_mount = rest.starts_with("mounted filesystem") || rest.starts_with("re-mounted");
    // Kernels before 6.4 do not say which; those after an error are no mounts.
    (is_mount && !rest.contains(" ro.") && !rest.contains(" ro ")).then_some(device)
}

/// `INFO: task jbd2/mmcblk0p2-8:85 blocked for more than 120 seconds.`
fn stuck(text: &str) -> Option<String> {
    let name = blocked_task(text)?;
    // The kernel's own workers have numbers, which change.
    let name = if name.starts_with("kworker/") { "kworker" } else { name };
    Some(process(name))
}

/// The name of a process, which it chooses itself.
fn process(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._/:+".contains(c);
    name.chars().take(16).map(|c| if is_plain(c) { c } else { '?' }).collect()
}

/// What the kernel says of a process that it ended, in two lines: which cgroup, then which process.
#[derive(Debug, Default)]
pub(super) struct OutOfMemory {
    /// The process of the first line.
    ended: Option<String>,
}

impl OutOfMemory {
    /// Whose memory ran out, once for both lines; nothing where a container hit its own limit.
    pub(super) fn read(&mut self, text: &str) -> Option<(KernelProblem, String)> {
        if text.starts_with("oom-kill:constraint=") {
            // The first of each: what comes later may be in the name of a cgroup or of a process.
            let (before, rest) = text.split_once(",task_memcg=")?;
            let (cgroup, rest) = rest.split_once(",task=")?;
            let (name, rest) = rest.rsplit_once(",pid=")?;
            self.ended = rest.split(',').next().map(str::to_owned);
            let name = process(name);
            if !text.starts_with("oom-kill:constraint=CONSTRAINT_MEMCG") {
                return Some((KernelProblem::Memory, victim(cgroup, &name)));
            }
            let (_, limit) = before.split_once(",oom_memcg=")?;
            return limited(limit).map(|whose| (KernelProblem::MemoryLimit, whose));
        }
        let (_, rest) = text.split_once("Killed process ")?;
        let (pid, rest) = rest.split_once(" (")?;
        let is_reported = self.ended.take().is_some_and(|ended| ended == pid);
        if is_reported || text.contains("Memory cgroup out of memory") {
            return None;
        }
        let name = rest.split_once(')').map_or(rest, |(name, _)| name);
        Some((KernelProblem::Memory, format!("process {}", process(name))))
    }
}

/// k3s or ours, by the unit: the first that is one, for what is below it belongs to it.
fn unit(cgroup: &str) -> Option<&str> {
    let is_known = |segment: &&str| {
        let is_ours = segment.starts_with("weaver-") && segment.len() <= 48 && is_plain(segment);
        matches!(*segment, "k3s.service" | "k3s-agent.service") || is_ours
    };
    segments(cgroup).take(2).find(is_known).map(|unit| unit.trim_end_matches(".service"))
}

fn is_plain(segment: &str) -> bool {
    segment.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'.')
}

/// Who was ended when the memory of the board ran out.
fn victim(cgroup: &str, name: &str) -> String {
    if is_below_pods(cgroup) {
        return format!("process {name} of a pod");
    }
    match unit(cgroup) {
        Some(unit) => format!("{unit} (process {name})"),
        None => format!("process {name}"),
    }
}

/// Whose limit this is, where it is a matter of the node.
fn limited(cgroup: &str) -> Option<String> {
    if is_below_pods(cgroup) {
        // What the kubelet leaves to all pods together.
        return (!is_below_one_pod(cgroup)).then(|| "the pods together".to_owned());
    }
    unit(cgroup).map(str::to_owned)
}

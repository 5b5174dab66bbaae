//! What the kernel and k3s say of the host: its controllers, its power, its card.

use super::told::{Told, after};
use crate::finding::Remedy;
use crate::power;

pub(super) fn controller(line: &str) -> Option<Told> {
    let lower = line.to_ascii_lowercase();
    let named = after(&lower, "failed to find ", &[' '])
        .or_else(|| after(&lower, "missing required cgroups: ", &['"']))?;
    Some(if named.contains("memory") {
        Told::default()
    } else {
        Told::message(format!("the kernel has no {} controller, which k3s needs", named.trim())).remedy(
            Remedy::new("look for `cgroup_disable=` on the kernel's command line, and boot a kernel that has the controller")
                .command("cat /proc/cmdline"),
        )
    })
}

pub(super) fn throttled(line: &str) -> Option<Told> {
    let flags = after(line, "throttled=0x", &[' ', '"', ','])?;
    let reported = power::reported(u32::from_str_radix(flags.trim(), 16).ok()?);
    (!reported.is_empty()).then(|| Told::message(format!("the board has reported {}", reported.join(", "))))
}

pub(super) fn device_fails(line: &str) -> Option<Told> {
    let device = after(line, "I/O error, dev ", &[',', ' '])?;
    Some(Told::message(format!("reading from or writing to {device} fails")))
}

/// Drives for discs and floppies say so of an empty one, and a loop of a file that is gone.
pub(super) fn buffer_fails(line: &str) -> Option<Told> {
    let rest = after(line, "Buffer I/O error on dev", &[','])?;
    let device = rest.strip_prefix("ice").unwrap_or(rest).trim();
    let is_else = ["sr", "fd", "loop"].iter().any(|kind| device.starts_with(kind));
    (!is_else).then(|| Told::message(format!("reading from or writing to {device} fails")))
}

/// The driver of the card says so, and others might.
pub(super) fn of_card(line: &str) -> Option<Told> {
    line.contains("mmc").then(Told::default)
}

/// A process that got no further: on a board it is the storage that it waits for.
pub(super) fn stuck(line: &str) -> Option<Told> {
    let (_, rest) = line.split_once("task ")?;
    let (name, _) = rest.split_once(" blocked for more than ")?.0.rsplit_once(':')?;
    line.contains("seconds.").then(|| {
        Told::message(format!(
            "{name} got no further for minutes, as the kernel says: most often it waits for storage"
        ))
        .remedy(
            Remedy::new(
                "look for errors of the card or the disk next to it; move other writers off the card",
            )
            .command("sudo dmesg --level err,warn"),
        )
    })
}

/// What is no disk says the same: a cgroup that cannot be made, a watch on a file that is one too many, memory that is
/// shared as files, a buffer of the kernel's.
pub(super) fn full(line: &str) -> Option<Told> {
    let lower = line.to_ascii_lowercase();
    let is_else = [
        "/sys/fs/cgroup",
        "inotify",
        "fsnotify",
        "shared memory",
        "/dev/shm",
        "shm_open",
        "/postgresql.",
        "bpf",
        "perf_event",
        "semget",
        "/dev/mqueue",
        "keyring",
        "kmsg",
    ];
    (!is_else.iter().any(|words| lower.contains(words))).then(Told::default)
}

/// A module that k3s does not start without, and not one of the many that it tries.
pub(super) fn module(line: &str) -> Option<Told> {
    let name = after(line, "FATAL: Module ", &[' ', '"'])?;
    let is_needed = [
        "br_netfilter",
        "overlay",
        "vxlan",
        "nf_conntrack",
        "ip_tables",
        "iptable_",
        "ip6table_",
        "xt_",
        "veth",
    ];
    is_needed
        .iter()
        .any(|needed| name.starts_with(needed))
        .then(|| Told::message(format!("the kernel has no module {name}, which k3s needs")))
}

/// Flannel's device.
pub(super) fn no_vxlan(line: &str) -> Option<Told> {
    let is_unsupported = ["operation not supported", "unknown device type"]
        .iter()
        .any(|words| line.to_ascii_lowercase().contains(words));
    is_unsupported.then(|| {
        Told::message(
            "the kernel cannot make a vxlan device, which pods of several nodes reach each other by",
        )
        .remedy(
            Remedy::new("Ubuntu for the Pi has the module in a package of its own")
                .command("sudo apt install linux-modules-extra-raspi"),
        )
    })
}

/// Whose memory ran out.
pub(super) fn out_of_memory(line: &str) -> Told {
    let process = after(line, "Killed process ", &[')']).and_then(|process| process.split_once('('));
    let who = process.map_or("a process", |(_, name)| name);
    if line.contains("Memory cgroup out of memory") {
        return Told::message(format!("the kernel ended {who}: its container reached its own memory limit"));
    }
    Told::message(format!("the kernel ended {who} because memory ran out"))
}

/// The number of an error that the card gave.
pub(super) fn card_error(line: &str) -> Option<Told> {
    let device = line.find("mmcblk").map(|at| &line[at..])?;
    let (device, rest) = device.split_once(": error -")?;
    let is_device = device.len() <= 9 && device.bytes().all(|c| c.is_ascii_alphanumeric());
    let number = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    (is_device && !number.is_empty())
        .then(|| Told::message(format!("the card {device} did not answer (error -{number})")))
}

/// Each Pod of a `DaemonSet` tolerates it.
pub(super) fn tainted(line: &str) -> Option<Told> {
    (line.contains("untolerated taint") || line.contains("had taint")).then(Told::default)
}

/// Much is read-only in a container, and should be.
pub(super) fn read_only(line: &str) -> Option<Told> {
    // A volume of a pod may be mounted so on purpose.
    let is_volume = line.contains("/volumes/") || line.contains("/volume-subpaths/");
    let is_ours =
        ["/var/lib/rancher/", "/var/lib/kubelet/", "/etc/rancher/"].iter().any(|place| line.contains(place));
    (is_ours && !is_volume).then(Told::default)
}

/// A kubelet that was told to run on v1 warns with the same words.
pub(super) fn cgroup_v1(line: &str) -> Option<Told> {
    line.contains("[ERROR").then(Told::default)
}

/// Shorter ones are ordinary at a first start, and no lease is lost by one.
const LEASE: f64 = 10.0;

pub(super) fn slow_database(line: &str) -> Option<Told> {
    let total = after(line, "total time: ", &[')'])?;
    // As Go writes a time: `1.677823309s`, `1m2.5s`, `812ms`.
    let (minutes, seconds) = total.split_once('m').filter(|(_, rest)| *rest != "s").unwrap_or(("0", total));
    let seconds = seconds.strip_suffix('s').and_then(|seconds| seconds.parse::<f64>().ok())?;
    let took = minutes.parse::<f64>().ok()? * 60.0 + seconds;
    (took >= LEASE).then(|| {
        Told::message(format!(
            "a statement of k3s' database took {took:.0} s; leases are lost after 10 s, and it needs writes of at most 10 ms"
        ))
    })
}

pub(super) fn evicting(line: &str) -> Option<Told> {
    line.to_ascii_lowercase().contains("attempting to reclaim").then(Told::default)
}

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

/// A cgroup that cannot be made says the same, and so does a watch on a file that is one too many.
pub(super) fn full(line: &str) -> Option<Told> {
    let is_else = ["/sys/fs/cgroup/", "inotify", "fsnotify"].iter().any(|word| line.contains(word));
    (!is_else).then(Told::default)
}

/// Each Pod of a `DaemonSet` tolerates it.
pub(super) fn tainted(line: &str) -> Option<Told> {
    (line.contains("untolerated taint") || line.contains("had taint")).then(Told::default)
}

/// Much is read-only in a container, and should be.
pub(super) fn read_only(line: &str) -> Option<Told> {
    ["/var/lib/rancher/", "/var/lib/kubelet/", "/etc/rancher/"]
        .iter()
        .any(|place| line.contains(place))
        .then(Told::default)
}

/// A kubelet that was told to run on v1 warns with the same words.
pub(super) fn cgroup_v1(line: &str) -> Option<Told> {
    line.contains("[ERROR").then(Told::default)
}

pub(super) fn slow_database(_: &str) -> Told {
    Told::message("the database of k3s is slow; it needs writes that take at most 10 ms, or leases are lost")
}

pub(super) fn evicting(line: &str) -> Option<Told> {
    line.to_ascii_lowercase().contains("attempting to reclaim").then(Told::default)
}

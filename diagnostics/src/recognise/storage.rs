//! What the kernel and k3s say of the host: its controllers, its power, its card.

use super::{Told, after};
use crate::power;

pub(super) fn controller(line: &str) -> Option<Told> {
    let lower = line.to_ascii_lowercase();
    let named = after(&lower, "failed to find ", &[' '])
        .or_else(|| after(&lower, "missing required cgroups: ", &['"']))?;
    Some(if named.contains("memory") {
        Told::default()
    } else {
        Told::message(format!("the kernel offers no {} controller, which k3s needs", named.trim()))
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

/// A cgroup that cannot be made says the same, and the disk has room.
pub(super) fn full(line: &str) -> Option<Told> {
    (!line.contains("/sys/fs/cgroup/")).then(Told::default)
}

pub(super) fn evicting(line: &str) -> Option<Told> {
    line.to_ascii_lowercase().contains("attempting to reclaim").then(Told::default)
}

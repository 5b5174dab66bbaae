//! What the kernel and k3s say of the host: its controllers, its power, its card.

use super::{Told, after};

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

/// Bits that say what happens now, and what has since the start (`vcgencmd get_throttled`).
pub(super) fn throttled(line: &str) -> Option<Told> {
    const NAMES: [(u32, &str); 4] =
        [(0, "under-voltage"), (1, "frequency capped"), (2, "throttled"), (3, "soft temperature limit")];
    let bits = after(line, "throttled=0x", &[' ', '"', ','])?;
    let bits = u32::from_str_radix(bits.trim(), 16).ok()?;
    let set = |shift: u32| -> Vec<&str> {
        NAMES.iter().filter(|(bit, _)| bits >> (bit + shift) & 1 == 1).map(|(_, name)| *name).collect()
    };
    let (now, since) = (set(0), set(16));
    match (now.is_empty(), since.is_empty()) {
        (true, true) => None,
        (false, _) => Some(Told::message(format!("the board reports now: {}", now.join(", ")))),
        (true, false) => {
            Some(Told::message(format!("the board has reported since it started: {}", since.join(", "))))
        }
    }
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

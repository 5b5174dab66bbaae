//! What earlier lines of the same log say, without which a later one cannot be judged.

use std::collections::BTreeMap;

use super::disks::{self, Disks};

/// Lines that tell something of later ones have one of these.
pub(super) fn needles() -> impl Iterator<Item = &'static str> {
    disks::NEEDLES.iter().copied().chain(["memory control group subsystem"]).chain(K3S)
}

/// What k3s says at each start: where it lacks the controller, it says that too.
const K3S: [&str; 3] = ["starting k3s v", "k3s is up and running", "to join node to cluster: k3s"];

/// What is known of a log from the lines before. A new one knows nothing.
#[derive(Debug, Default)]
pub struct Context {
    disks: Disks,
    /// How often something was said that means nothing once, by the text that tells of it.
    times: BTreeMap<&'static str, u32>,
    line: u64,
    /// The line by which the kernel turned the memory controller off, unless it turned it on again: Raspberry Pi's
    /// firmware has both on its command line.
    memory_off: Option<(u64, String)>,
    /// Whether the log is one of k3s too.
    is_of_k3s: bool,
}

impl Context {
    pub(crate) fn disks(&self) -> &Disks {
        &self.disks
    }

    /// A line has come.
    pub(super) fn next_line(&mut self) {
        self.line += 1;
        self.disks.next_line();
    }

    pub(super) fn learn(&mut self, line: &str) {
        self.disks.learn(line);
        if line.contains("cgroup: Disabling memory control group subsystem") {
            self.memory_off = Some((self.line, line.to_owned()));
        } else if line.contains("cgroup: Enabling memory control group subsystem") {
            self.memory_off = None;
        } else if !self.is_of_k3s {
            let lower = line.to_ascii_lowercase();
            self.is_of_k3s = K3S.iter().any(|words| lower.contains(words));
        }
    }

    /// What nothing came after: the number of a line, and the line.
    pub(super) fn memory_off(&self) -> Option<(u64, &str)> {
        self.memory_off.as_ref().filter(|_| !self.is_of_k3s).map(|(number, line)| (*number, line.as_str()))
    }

    /// Counts what `needle` tells of, and returns how often it was said.
    pub(super) fn count(&mut self, needle: &'static str) -> u32 {
        let times = self.times.entry(needle).or_default();
        *times = times.saturating_add(1);
        *times
    }
}

//! What earlier lines of the same log say, without which a later one cannot be judged.

use std::collections::BTreeMap;

use super::disks::{self, Disks};
use super::kill::{self, LastKill};
use super::line_time::LineTime;
use super::slots::{self, Slots};
use super::{datastore, join, kubelets, node, services};

/// How `wpa_supplicant` says that it is in a network.
const WIFI_JOINED: &str = "ctrl-event-connected";
/// How it says that it was refused, each time in two lines.
const WIFI_REFUSED: [&str; 2] = ["reason=wrong_key", "pre-shared key may be incorrect"];

/// Lines that tell something of later ones have one of these.
pub(super) fn needles() -> impl Iterator<Item = &'static str> {
    disks::NEEDLES
        .iter()
        .copied()
        .chain(["memory control group subsystem"])
        .chain(K3S)
        .chain(BOOT)
        .chain(WSL)
        .chain([
            WIFI_JOINED,
            services::COREDNS_STARTS,
            datastore::ELECTED,
            join::TUNNEL_CONNECTED,
            UNIT,
            PROCESS,
        ])
        .chain(FAILED)
        .chain(slots::NEEDLES)
        .chain(kill::NEEDLES)
}

/// What k3s says at each start: where it lacks the controller, it says that too.
const K3S: [&str; 4] =
    ["starting k3s v", "starting k3s agent v", "k3s is up and running", "to join node to cluster: k3s"];

/// How the log of another start of the machine begins: the kernel's first lines, and what journalctl puts before them.
const BOOT: [&str; 4] = ["booting linux on physical cpu", "linux version ", "-- boot ", "-- reboot --"];

/// What systemd calls k3s' units where it starts and stops them.
const UNIT: &str = "lightweight kubernetes";

/// How systemd says that one of them failed, and how systemctl shows it of its process.
const FAILED: [&str; 4] = [
    "job for k3s.service failed",
    "job for k3s-agent.service failed",
    "k3s.service: failed with result",
    "k3s-agent.service: failed with result",
];
const PROCESS: &str = "execstart=/usr/local/bin/k3s";

/// What only the kernel and the init of WSL say.
const WSL: [&str; 2] = ["misc dxg: dxgk: ", "] wsl ("];

/// How long something stays counted that means nothing once, in seconds.
pub(super) const DAY: u64 = 24 * HOUR;
pub(super) const HOUR: u64 = 3_600;

/// For how many lines, where they have no times.
const LINES: u64 = 5_000;

/// What systemd said last of k3s' unit.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum UnitPhase {
    #[default]
    Other,
    /// It has begun to stop k3s, and has not said that it is stopped.
    Stopping,
}

/// What is known of a failure of k3s' unit.
#[derive(Debug, Default)]
enum UnitFailure {
    #[default]
    Unseen,
    /// The number of the line that tells of it, and the line: none says why.
    Unexplained(u64, String),
    Explained,
}

/// How often a message occurred, and where and when last.
#[derive(Debug, Default)]
struct Occurrences {
    count: u32,
    line: u64,
    at: Option<LineTime>,
}

/// What is known of a log from the lines before. A new one knows nothing.
#[derive(Debug, Default)]
pub struct LogContext {
    disks: Disks,
    slots: Slots,
    last_kill: LastKill,
    /// How often a message occurred that means nothing once, by its text.
    times: BTreeMap<&'static str, Occurrences>,
    line: u64,
    /// Microseconds, where the caller knows them.
    now: u64,
    /// The line by which the kernel turned the memory controller off, unless it turned it on again: Raspberry Pi's
    /// firmware has both on its command line.
    memory_off: Option<(u64, String)>,
    /// Whether the log is one of k3s too.
    is_of_k3s: bool,
    is_of_wsl: bool,
    has_joined_wifi: bool,
    unit: UnitPhase,
    failure: UnitFailure,
}

impl LogContext {
    pub(crate) fn disks(&self) -> &Disks {
        &self.disks
    }

    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    pub(super) fn last_kill(&self) -> &LastKill {
        &self.last_kill
    }

    pub(super) fn is_of_wsl(&self) -> bool {
        self.is_of_wsl
    }

    pub(super) fn has_joined_wifi(&self) -> bool {
        self.has_joined_wifi
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.unit == UnitPhase::Stopping
    }

    /// A line has come.
    pub(super) fn next_line(&mut self) {
        self.line += 1;
        self.disks.next_line();
    }

    /// The time of the next line, in microseconds.
    pub(crate) fn at(&mut self, now: u64) {
        self.now = now;
    }

    pub(super) fn learn(&mut self, line: &str) {
        if is_boot(line) {
            // Messages of an earlier start say nothing about this one.
            let is_of_wsl = line.contains("-microsoft-standard-WSL");
            *self = Self { line: self.line, now: self.now, is_of_wsl, ..Self::default() };
            return;
        }
        self.disks.learn(line);
        self.slots.learn(line);
        self.last_kill.learn(self.line, line);
        if line.contains("Starting k3s ") {
            // While it stopped, containerd was gone before the kubelet.
            self.times.remove(node::RUNTIME);
            self.times.remove(datastore::ELECTS);
            self.times.retain(|needle, _| !kubelets::REFUSED.contains(needle));
        }
        let lower = line.to_ascii_lowercase();
        if lower.contains(UNIT) {
            self.unit = if lower.contains("stopping ") { UnitPhase::Stopping } else { UnitPhase::default() };
        }
        if matches!(self.failure, UnitFailure::Unseen) && is_failure(&lower) && !self.is_stopping() {
            self.failure = UnitFailure::Unexplained(self.line, line.to_owned());
        } else if matches!(self.failure, UnitFailure::Unexplained(..)) && has_started(&lower) {
            self.failure = UnitFailure::Unseen;
        }
        if lower.contains(services::COREDNS_STARTS) {
            self.times.remove(services::COREDNS_LISTS);
            self.times.remove(services::COREDNS_WATCHES);
        }
        if lower.contains(datastore::ELECTED) {
            self.times.remove(datastore::ELECTS);
        }
        if lower.contains(join::TUNNEL_CONNECTED) {
            // A server that was starting is there again.
            self.times.retain(|needle, _| {
                !join::TUNNEL_REFUSED.contains(needle) && !kubelets::REFUSED.contains(needle)
            });
        }
        if lower.contains(WIFI_JOINED) {
            self.has_joined_wifi = true;
            self.times.retain(|needle, _| !WIFI_REFUSED.contains(needle));
        }
        self.is_of_wsl = self.is_of_wsl || WSL.iter().any(|words| lower.contains(words));
        if line.contains("cgroup: Disabling memory control group subsystem") {
            self.memory_off = Some((self.line, line.to_owned()));
        } else if line.contains("cgroup: Enabling memory control group subsystem") {
            self.memory_off = None;
        } else if !self.is_of_k3s {
            self.is_of_k3s = K3S.iter().any(|words| lower.contains(words));
        }
    }

    /// What nothing came after: the number of a line, and the line.
    pub(super) fn memory_off(&self) -> Option<(u64, &str)> {
        self.memory_off.as_ref().filter(|_| !self.is_of_k3s).map(|(number, line)| (*number, line.as_str()))
    }

    /// The line by which systemd says that k3s failed, where no other line says why.
    pub(super) fn unexplained_failure(&self) -> Option<(u64, &str)> {
        match &self.failure {
            UnitFailure::Unexplained(number, line) => Some((*number, line.as_str())),
            UnitFailure::Unseen | UnitFailure::Explained => None,
        }
    }

    /// A line has said what is wrong.
    pub(super) fn explain(&mut self) {
        self.failure = UnitFailure::Explained;
    }

    /// Counts an occurrence of `needle`, in this line, and returns how many there were that came no more than `apart`
    /// seconds after each other.
    pub(super) fn count(&mut self, needle: &'static str, line: &str, apart: u64) -> u32 {
        let given = (self.now > 0).then_some(LineTime::Given(self.now / 1_000_000));
        let at = given.or_else(|| LineTime::of(line));
        let last = self.times.entry(needle).or_default();
        let passed = at.zip(last.at).and_then(|(now, before)| now.since(before));
        let is_another_story = passed.map_or(self.line - last.line > LINES, |seconds| seconds > apart);
        let before = if is_another_story { 0 } else { last.count };
        *last = Occurrences { count: before.saturating_add(1), line: self.line, at };
        last.count
    }
}

fn is_failure(lower: &str) -> bool {
    FAILED.iter().any(|words| lower.contains(words))
        || lower.contains("failed to start ") && lower.contains(UNIT)
        || lower.contains(PROCESS) && lower.contains("(code=exited, status=1/")
}

fn has_started(lower: &str) -> bool {
    let is_started = lower.starts_with("started ") || lower.contains("]: started ");
    lower.contains("k3s is up and running") || is_started && lower.contains(UNIT)
}

/// Of the kernel's log or of the journal: `/proc/version` begins like it, and is no start.
fn is_boot(line: &str) -> bool {
    let body = disks::body(line);
    body.len() < line.len()
        && ["Booting Linux on physical CPU", "Linux version "].iter().any(|first| body.starts_with(first))
        || line.starts_with("-- Boot ")
        || line.starts_with("-- Reboot --")
}

//! The board: has it the memory that k3s needs, and is its clock set? Its power is judged in [`power`](crate::power).

use std::time::Duration;

use crate::finding::{Code, Finding, Place, Remedy, Severity};

/// The kernel's account of the memory.
pub const MEMINFO: &str = "/proc/meminfo";

/// The memory that the kernel has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoardMemory {
    /// Bytes.
    pub total: u64,
}

/// Bytes. A board sold with 1 GB shows 930 MB and more, one with 512 MB about 450.
const LEAST_MEMORY: u64 = 900_000_000;

impl BoardMemory {
    /// A failure where it is too little for k3s to start.
    pub fn judge(self) -> Option<Finding> {
        let Self { total } = self;
        (total < LEAST_MEMORY).then(|| {
            let message = format!(
                "this board has {} MB of memory, k3s with its containers needs {} MB",
                total / 1_000_000,
                LEAST_MEMORY / 1_000_000
            );
            // The first line of all.
            Finding::new(Code::MemoryTooSmall, message)
                .saw(Place::line(MEMINFO, 1), format!("MemTotal: {} kB", total / 1024))
                .remedy(Remedy::new(
                    "use a board with 1 GB or more (Pi 3B, 3B+, 4, 400, CM4); `gpu_mem` and `total_mem` in \
                    /boot/firmware/config.txt reduce the memory that Linux can use",
                ))
        })
    }
}

/// What the clock says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clock {
    /// Seconds since 1970.
    pub second: i64,
    /// The same as a date.
    pub date: String,
}

/// Seconds since 1970 at 1980-01-01T00:00:00Z: before it k3s exits ("server time isn't set properly").
const CLOCK_FLOOR: i64 = 315_532_800;

impl Clock {
    /// A failure where k3s ends itself with such a clock.
    pub fn judge(&self) -> Option<Finding> {
        (self.second < CLOCK_FLOOR).then(|| {
            // The time is no part of the message: each second would be news, and news are written to the card.
            let message = "the clock is set to a date before 1980, and k3s exits";
            Finding::new(Code::ClockBeforeFloor, message).saw(Place::file("clock"), &self.date).remedy(
                Remedy::new(
                    "connect the network, so that a time server sets the clock (k3s then starts by itself), or set it by hand:",
                )
                .command("sudo date -s '2026-01-31 12:00:00'"),
            )
        })
    }
}

/// What systemd-timesyncd leaves once it has set the clock.
pub const CLOCK_MARK: &str = "/run/systemd/timesync/synchronized";

/// Whether a time server has set the clock, and how a wait for one ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockSync {
    Set,
    /// It is not set; there was no wait.
    NotSet,
    /// There was no default route for so long: there is no use in waiting.
    NoRoute(Duration),
    /// No server answered within this time.
    NoAnswer(Duration),
}

impl ClockSync {
    /// Unknown where it is not set: the clock may be right, and nothing stops for it.
    pub fn judge(self) -> Option<Finding> {
        let (why, remedy) = match self {
            Self::Set => return None,
            Self::NotSet => {
                (String::new(), "connect the network, or find the reason with `timedatectl timesync-status`")
            }
            Self::NoRoute(patience) => (
                format!(
                    ": there was no default route for {} s, so k3s did not wait for a time server",
                    patience.as_secs()
                ),
                "connect the network; check the cable or the Wi-Fi settings",
            ),
            Self::NoAnswer(limit) => (
                format!(": no time server answered within {} s", limit.as_secs()),
                "find the reason with `timedatectl timesync-status`; some networks allow only their own \
                 time servers: name them under [time] in weaver.toml",
            ),
        };
        let message = format!("the clock is not synchronised{why}");
        Some(
            Finding::new(Code::ClockNotSynchronised, message)
                // The clock may be right all the same.
                .milder(Severity::Unknown)
                .saw(Place::file(CLOCK_MARK), "it is not there")
                .remedy(Remedy::new(remedy)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_not_set_is_unknown() {
        let second = Duration::from_secs(1);
        for (sync, want) in [
            (ClockSync::Set, None),
            (ClockSync::NotSet, Some("not synchronised")),
            (ClockSync::NoRoute(second), Some("no default route for 1 s")),
            (ClockSync::NoAnswer(second), Some("no time server answered within 1 s")),
        ] {
            let found = sync.judge();
            assert_eq!(found.is_some(), want.is_some(), "{sync:?}");
            let (Some(found), Some(want)) = (found, want) else { continue };
            assert!(found.message.contains(want), "{found:?}");
            assert_eq!(found.severity(), Severity::Unknown, "it never blocks");
        }
    }

    #[test]
    fn a_board_with_too_little_memory_is_reported() {
        for (kib, is_bad) in [(440_844, true), (878_906, true), (878_907, false), (926_000, false), (0, true)]
        {
            assert_eq!(BoardMemory { total: kib * 1024 }.judge().is_some(), is_bad, "{kib}");
        }
        assert_eq!(BoardMemory { total: u64::MAX }.judge(), None);
        let finding = BoardMemory { total: 440_844 * 1024 }.judge().unwrap();
        assert!(finding.message.contains("451 MB") && finding.message.contains("900 MB"), "{finding:?}");
        assert_eq!(finding.evidence[0].to_string(), "/proc/meminfo:1: MemTotal: 440844 kB");
    }

    #[test]
    fn a_clock_that_cannot_be_right_is_reported() {
        let judged = |second, date: &str| Clock { second, date: date.into() }.judge();
        for (second, is_bad) in
            [(0, true), (CLOCK_FLOOR - 1, true), (CLOCK_FLOOR, false), (1_800_000_000, false), (-1, true)]
        {
            let finding = judged(second, "");
            assert_eq!(finding.is_some(), is_bad, "{second}");
            assert!(finding.is_none_or(|f| f.severity() == Severity::Fail && f.remedy.is_some()));
        }
        let (one, other) =
            (judged(0, "1970-01-01T00:00:00Z").unwrap(), judged(1, "1970-01-01T00:00:01Z").unwrap());
        assert_eq!(one.message, other.message, "a second later it is the same");
        assert_eq!(other.evidence[0].saw, "1970-01-01T00:00:01Z");
    }
}

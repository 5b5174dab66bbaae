//! What a board must have for k3s to start at all: memory, and a clock that was
//! set. Readers and verdicts; what cannot be read is not judged.

use jiff::Timestamp;
use weaver_diagnostics::finding::{Code, Finding, Place, Remedy};

use crate::host_root::HostRoot;

const MEMINFO: &str = "/proc/meminfo";
/// Bytes. A board sold with 1 GB shows 930 MB and more, one with 512 MB about 450.
const LEAST_MEMORY: u64 = 900_000_000;
/// Seconds since 1970 at 1980-01-01T00:00:00Z: before it k3s ends itself
/// ("server time isn't set properly").
const CLOCK_FLOOR: i64 = 315_532_800;

/// What is known to be bad; nothing where all is well or nothing can be read.
#[must_use]
pub fn findings(root: &HostRoot, now: Timestamp) -> Vec<Finding> {
    let meminfo = root.read_if_possible(MEMINFO);
    let memory = meminfo.and_then(|file| memory(&file.text));
    memory.into_iter().chain(clock(now)).collect()
}

fn memory(meminfo: &str) -> Option<Finding> {
    let (line, text) = (1..).zip(meminfo.lines()).find(|(_, line)| line.starts_with("MemTotal:"))?;
    let kibibytes: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    let bytes = kibibytes.checked_mul(1024)?;
    (bytes < LEAST_MEMORY).then(|| {
        let message = format!(
            "this board has {} MB of memory, k3s with its containers needs {} MB",
            bytes / 1_000_000,
            LEAST_MEMORY / 1_000_000
        );
        Finding::new(Code::MemoryTooSmall, message).saw(Place::line(MEMINFO, line), text.trim()).remedy(
            Remedy::new(
                "use a board with 1 GB or more (Pi 3B, 3B+, 4, 400, CM4); a large gpu_mem or total_mem in \
                 /boot/firmware/config.txt takes memory away",
            ),
        )
    })
}

fn clock(now: Timestamp) -> Option<Finding> {
    (now.as_second() < CLOCK_FLOOR).then(|| {
        let time = Timestamp::from_second(now.as_second()).unwrap_or(now);
        // The time is no part of the message: each second would be news, and news are written to the card.
        let message = "the clock says a time before 1980: k3s ends itself with such a clock";
        let finding = Finding::new(Code::ClockBeforeFloor, message);
        finding.saw(Place::file("clock"), time.to_string()).remedy(
            Remedy::new(
                "connect the network so that the time servers set the clock (k3s is then started by itself), \
                 or set it by hand to the date of today:",
            )
            .command("sudo date -s '2026-01-31 12:00:00'"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weaver_diagnostics::finding::Severity;

    #[test]
    fn memory_table() {
        for (meminfo, bad) in [
            ("MemTotal:         440844 kB\nMemFree: 1 kB\n", true),
            ("MemTotal:         878906 kB\n", true),
            ("MemTotal:         878907 kB\n", false),
            ("MemTotal:         926000 kB\n", false),
            ("MemFree: 1 kB\n", false),
            ("MemTotal: much\n", false),
            ("MemTotal:\n", false),
            ("MemTotal: 99999999999999999999 kB\n", false),
            ("MemTotal: 18446744073709551615 kB\n", false),
            ("", false),
        ] {
            assert_eq!(memory(meminfo).is_some(), bad, "{meminfo}");
        }
        let finding = memory("X: 1\nMemTotal: 440844 kB\n").unwrap();
        assert!(finding.message.contains("451 MB") && finding.message.contains("900 MB"), "{finding:?}");
        assert_eq!(finding.evidence[0].to_string(), "/proc/meminfo:2: MemTotal: 440844 kB");
    }

    #[test]
    fn clock_table() {
        for (second, bad) in
            [(0, true), (CLOCK_FLOOR - 1, true), (CLOCK_FLOOR, false), (1_800_000_000, false), (-1, true)]
        {
            let finding = clock(Timestamp::from_second(second).unwrap());
            assert_eq!(finding.is_some(), bad, "{second}");
            assert!(finding.is_none_or(|f| f.severity() == Severity::Fail && f.remedy.is_some()));
        }
        let at = |second| clock(Timestamp::from_second(second).unwrap()).unwrap();
        assert_eq!(at(0).message, at(1).message, "a second later it is the same");
        assert_eq!(at(1).evidence[0].saw, "1970-01-01T00:00:01Z");
    }
}

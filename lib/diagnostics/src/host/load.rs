//! How busy the node is, and with what: this distinguishes a slow API server from a broken one.
//!
//! Measured by the kernel's pressure stall information; where it has none, as Raspberry Pi OS boots it, by
//! load, waiting for the disk and free memory. Being busy is no fault by itself, so it is only reported next to
//! an answer that was late.

use std::time::Duration;

use crate::finding::{Code, Finding, Place, Severity};

/// Where the kernel reports the pressure, a file for each resource.
pub const PRESSURE: &str = "/proc/pressure";
/// Load, and times of the processors.
pub const LOADAVG: &str = "/proc/loadavg";
pub const STAT: &str = "/proc/stat";

/// How long silence alone is taken for slowness, from the first request without an answer.
pub const PATIENCE: Duration = Duration::from_mins(5);
/// The same on a node that is overloaded: long enough for the images of a first start, and no fault hides forever
/// behind the load that it makes.
pub const BUSY_PATIENCE: Duration = Duration::from_mins(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    Processor,
    Memory,
    Disk,
}

impl Resource {
    const fn word(self) -> &'static str {
        match self {
            Self::Processor => "processor",
            Self::Memory => "memory",
            Self::Disk => "disk",
        }
    }
}

/// The percentage of the last minute in which some task waited for the resource.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pressure {
    pub processor: f32,
    pub memory: f32,
    pub disk: f32,
}

/// How busy the node is; `None` for what could not be read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostLoad {
    pub pressure: Option<Pressure>,
    /// Load of the last minute.
    pub load: Option<f32>,
    pub processors: Option<u16>,
    /// The percentage of one processor's time, within the last second, in which there was nothing else to do than to
    /// wait for a disk.
    pub disk_wait: Option<f32>,
    /// The percentage of the memory that programs can still get.
    pub memory_available: Option<f32>,
}

/// In percent of the last minute. A node at rest has less than 10 of each; k3s' first start, with its images,
/// had 80 and more of the processor, or 60 of the card.
const PROCESSOR: f32 = 70.0;
const DISK: f32 = 50.0;
/// Each program that waits for memory waits for the card.
const MEMORY: f32 = 10.0;
/// Without pressure: tasks that run or wait, by processor.
const LOAD: f32 = 2.0;
const DISK_WAIT: f32 = 50.0;
const MEMORY_AVAILABLE: f32 = 5.0;

impl HostLoad {
    /// What is scarce; `None` where nothing was measured.
    pub fn scarce(&self) -> Option<Vec<Resource>> {
        let limits = if let Some(Pressure { processor, memory, disk }) = self.pressure {
            [
                (Resource::Processor, Some(processor >= PROCESSOR)),
                (Resource::Memory, Some(memory >= MEMORY)),
                (Resource::Disk, Some(disk >= DISK)),
            ]
        } else {
            let waits = self.disk_wait.map(|wait| wait >= DISK_WAIT);
            // Who waits for a disk is counted into the load.
            let load = self.load.zip(self.processors);
            let runs = load.map(|(load, count)| load >= LOAD * f32::from(count) && waits != Some(true));
            [
                (Resource::Processor, runs),
                (Resource::Memory, self.memory_available.map(|part| part < MEMORY_AVAILABLE)),
                (Resource::Disk, waits),
            ]
        };
        let known = limits.iter().any(|(_, is_scarce)| is_scarce.is_some());
        let scarce = limits.into_iter().filter(|(_, is_scarce)| *is_scarce == Some(true));
        known.then(|| scarce.map(|(resource, _)| resource).collect())
    }

    /// Whether something is scarce.
    pub fn is_busy(&self) -> bool {
        self.scarce().is_some_and(|scarce| !scarce.is_empty())
    }

    /// Whether a silence that has lasted so long is taken for slowness, and not for a fault.
    pub fn excuses(&self, silent_for: Duration) -> bool {
        silent_for < if self.is_busy() { BUSY_PATIENCE } else { PATIENCE }
    }

    /// A warning where it is overloaded; unknown where that cannot be measured. To be asked where an answer was late.
    pub fn judge(&self) -> Option<Finding> {
        let finding = match self.scarce() {
            Some(scarce) if scarce.is_empty() && self.pressure.is_some() => return None,
            Some(scarce) if !scarce.is_empty() => {
                let by: Vec<_> = scarce.into_iter().map(Resource::word).collect();
                Finding::new(Code::NodeOverloaded, format!("this node is overloaded: {}", by.join(", ")))
            }
            // Load and waiting are of this moment, and may have missed it.
            _ => Finding::new(
                Code::NodeOverloaded,
                "cannot tell whether this node is overloaded: the kernel does not measure pressure (psi=1)",
            )
            .milder(Severity::Unknown),
        };
        Some(
            self.seen().into_iter().fold(finding, |finding, (file, saw)| finding.saw(Place::file(file), saw)),
        )
    }

    fn seen(&self) -> Vec<(&'static str, String)> {
        let pressure = match self.pressure {
            Some(Pressure { processor, memory, disk }) => format!(
                "in the last minute tasks waited {processor:.0} % of the time for the processor, {memory:.0} % for \
                 memory, {disk:.0} % for the disk"
            ),
            None => "not measured: the kernel was booted without psi=1".to_owned(),
        };
        let load = self.load.zip(self.processors);
        let load = load.map(|(load, count)| (LOADAVG, format!("load {load:.1} on {count} processors")));
        let wait = self
            .disk_wait
            .map(|wait| (STAT, format!("processors waited for a disk {wait:.0} % of the time")));
        let memory = self.memory_available.map(|part| ("/proc/meminfo", format!("{part:.0} % available")));
        let without = self.pressure.is_none();
        let fallback = wait.into_iter().chain(memory).filter(|_| without);
        [(PRESSURE, pressure)].into_iter().chain(load).chain(fallback).collect()
    }
}

/// That the API server at `endpoint` is late: `what` was asked, and how long it took or was waited for.
pub fn slow(endpoint: &str, what: &str, took: &str) -> Finding {
    // The time is no part of the message: each would be news.
    Finding::new(Code::ApiServerSlow, format!("the API server at {endpoint} answers slowly"))
        .saw(Place::file(what), took)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pressed(processor: f32, memory: f32, disk: f32) -> HostLoad {
        HostLoad { pressure: Some(Pressure { processor, memory, disk }), ..HostLoad::default() }
    }

    fn loaded(load: f32, disk_wait: Option<f32>, memory_available: f32) -> HostLoad {
        HostLoad {
            load: Some(load),
            processors: Some(4),
            disk_wait,
            memory_available: Some(memory_available),
            ..HostLoad::default()
        }
    }

    #[test]
    fn what_is_scarce() {
        for (load, want) in [
            (pressed(0.0, 0.0, 0.0), Some("")),
            (pressed(69.9, 9.9, 49.9), Some("")),
            (pressed(70.0, 0.0, 0.0), Some("processor")),
            (pressed(99.0, 30.0, 80.0), Some("processor, memory, disk")),
            (pressed(10.0, 0.0, 60.0), Some("disk")),
            // Pressure counts, whatever the load.
            (HostLoad { load: Some(90.0), processors: Some(4), ..pressed(0.0, 0.0, 0.0) }, Some("")),
            (loaded(1.0, Some(3.0), 60.0), Some("")),
            (loaded(8.0, Some(3.0), 60.0), Some("processor")),
            (loaded(8.0, None, 60.0), Some("processor")),
            (loaded(8.0, Some(80.0), 60.0), Some("disk")),
            (loaded(1.0, Some(80.0), 3.0), Some("memory, disk")),
            (HostLoad::default(), None),
            // One number alone says nothing.
            (HostLoad { load: Some(9.0), ..HostLoad::default() }, None),
        ] {
            let scarce = load.scarce();
            let text =
                scarce.map(|scarce| scarce.into_iter().map(Resource::word).collect::<Vec<_>>().join(", "));
            assert_eq!(text.as_deref(), want, "{load:?}");
        }
    }

    #[test]
    fn overloaded_is_a_warning_and_what_is_not_measured_is_unknown() {
        for (load, want) in [
            (pressed(0.0, 0.0, 0.0), None),
            (pressed(93.0, 0.0, 0.0), Some((Severity::Warn, "overloaded: processor"))),
            (loaded(1.0, Some(0.0), 60.0), Some((Severity::Unknown, "cannot tell"))),
            (loaded(9.0, Some(0.0), 60.0), Some((Severity::Warn, "overloaded: processor"))),
            (HostLoad::default(), Some((Severity::Unknown, "cannot tell"))),
        ] {
            let found = load.judge();
            let seen = found.as_ref().map(|found| (found.severity(), found.message.as_str()));
            assert_eq!(seen.map(|seen| seen.0), want.map(|want| want.0), "{load:?}");
            assert!(seen.zip(want).is_none_or(|(seen, want)| seen.1.contains(want.1)), "{seen:?}");
        }
        let saw = |load: &HostLoad| -> Vec<String> {
            load.judge().unwrap().evidence.iter().map(ToString::to_string).collect()
        };
        assert_eq!(
            saw(&pressed(93.4, 0.0, 12.0)),
            [
                "/proc/pressure: in the last minute tasks waited 93 % of the time for the processor, 0 % for memory, 12 % for the disk"
            ]
        );
        assert_eq!(
            saw(&loaded(9.25, Some(80.0), 60.0)),
            [
                "/proc/pressure: not measured: the kernel was booted without psi=1",
                "/proc/loadavg: load 9.2 on 4 processors",
                "/proc/stat: processors waited for a disk 80 % of the time",
                "/proc/meminfo: 60 % available"
            ]
        );
        assert_eq!(
            pressed(93.0, 0.0, 0.0).judge().unwrap().message,
            pressed(99.0, 0.0, 0.0).judge().unwrap().message,
            "a figure that moves is no news"
        );
    }

    #[test]
    fn a_silence_is_excused_for_a_while_and_longer_by_load() {
        let (idle, busy) = (pressed(0.0, 0.0, 0.0), pressed(99.0, 0.0, 0.0));
        for (load, minutes, want) in [
            (&idle, 0, true),
            (&idle, 4, true),
            (&idle, 5, false),
            (&busy, 5, true),
            (&busy, 29, true),
            (&busy, 30, false),
            (&HostLoad::default(), 5, false),
        ] {
            assert_eq!(load.excuses(Duration::from_mins(minutes)), want, "{load:?} {minutes}");
        }
    }

    proptest! {
        #[test]
        fn no_number_makes_it_panic(a: f32, b: f32, c: f32, processors: u16) {
            let _ = pressed(a, b, c).judge();
            let _ = HostLoad { processors: Some(processors), ..loaded(a, Some(b), c) }.judge();
        }
    }
}

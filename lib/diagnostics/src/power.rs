//! Does the board get the power it needs, and can it be cooled enough?
//!
//! The firmware knows, and only some kernels have a reader: where there is none the answer is that it is not known.

use crate::finding::{Code, Finding, Place, Remedy, Severity};

/// What the firmware's flags mean: the lower half now, the upper since the start (`vcgencmd get_throttled`).
const FLAGS: [(u32, &str); 4] = [
    (0, "under-voltage"),
    (1, "a capped frequency"),
    (2, "throttling"),
    (3, "the soft limit of its temperature"),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Power {
    Flags(Place, u32),
    /// Whether the voltage is too low just now.
    Alarm(Place, bool),
    /// A Raspberry Pi whose kernel has no reader, as Debian's.
    NoReader,
}

/// What these flags report, each once.
pub fn reported(flags: u32) -> Vec<&'static str> {
    let is_set = |bit: u32| (flags | flags >> 16) >> bit & 1 == 1;
    FLAGS.iter().filter(|(bit, _)| is_set(*bit)).map(|(_, name)| *name).collect()
}

/// The verdict; nothing where all is well. Fluctuating states are no part of the message: each change would be a new
/// report.
pub fn finding(power: &Power) -> Option<Finding> {
    let (place, saw, what) = match power {
        Power::Flags(place, flags) => (place, format!("{flags:#x}"), reported(*flags)),
        Power::Alarm(place, alarm) => (place, "1".to_owned(), if *alarm { vec![FLAGS[0].1] } else { vec![] }),
        Power::NoReader => {
            let message =
                "this kernel does not report the board's power: whether it is sufficient is unknown";
            // Nothing is known of it.
            return Some(Finding::new(Code::UnderVoltage, message).milder(Severity::Unknown));
        }
    };
    let message = format!("the board has reported {} since it started", what.join(", "));
    (!what.is_empty()).then(|| {
        Finding::new(Code::UnderVoltage, message).saw(place.clone(), saw).remedy(Remedy::new(
            "use the official power supply and a short cable, and cool the board; writes at low voltage can corrupt the card",
        ))
    })
}

/// Where the firmware of a Pi begins to slow the processor down: thousandths of a degree Celsius.
const HOT: i64 = 80_000;

/// A warning at or above that; the temperature itself is evidence only, since each change would be news.
pub fn heat(place: Place, millidegrees: i64) -> Option<Finding> {
    (millidegrees >= HOT).then(|| {
        let message = "the processor is at 80 °C or hotter, and the firmware slows it down";
        Finding::new(Code::UnderVoltage, message)
            .saw(place, format!("{} °C", millidegrees / 1000))
            .remedy(Remedy::new("cool the board: a heat sink, a fan, a case with holes"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_from_80_degrees_on() {
        let hot = |temperature| heat(Place::file("/t"), temperature);
        assert_eq!(hot(79_999), None);
        assert_eq!(hot(-20_000), None);
        assert_eq!(hot(80_000).unwrap().message, hot(84_200).unwrap().message, "a degree more is no news");
        assert_eq!(hot(84_200).unwrap().evidence[0].saw, "84 °C");
    }

    #[test]
    fn flags_of_the_firmware_become_findings() {
        let place = || Place::file("/sys/x");
        for (power, severity, words) in [
            (Power::Flags(place(), 0), None, ""),
            (
                Power::Flags(place(), 0x5_0005),
                Some(Severity::Warn),
                "reported under-voltage, throttling since",
            ),
            (
                Power::Flags(place(), 0x5_0000),
                Some(Severity::Warn),
                "reported under-voltage, throttling since",
            ),
            (Power::Flags(place(), 0x8), Some(Severity::Warn), "soft limit of its temperature"),
            (Power::Flags(place(), 0xfff0_fff0), None, ""),
            (Power::Alarm(place(), true), Some(Severity::Warn), "reported under-voltage since"),
            (Power::Alarm(place(), false), None, ""),
            (Power::NoReader, Some(Severity::Unknown), "does not report"),
        ] {
            let found = finding(&power);
            assert_eq!(found.as_ref().map(Finding::severity), severity, "{power:?}");
            assert!(found.is_none_or(|found| found.message.contains(words)), "{power:?}");
        }
    }
}

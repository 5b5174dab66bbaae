//! Rounds measurements, so that a report is written when something has changed and not each time. Pure.
//!
//! Guarantee: a value that stays within a quarter of its step is news once at most, wherever in the step it is.

use jiff::Timestamp;
use weaver_api::v1beta1::{NodeDisk, NodeMemory, NodeSystem};

/// Percent of one processor.
const LOAD_STEP: i64 = 50;
const TEMPERATURE_STEP: i64 = 5;
/// The number of steps in which the memory and a disk are shown.
const MEMORY_STEPS: i64 = 16;
const DISK_STEPS: i64 = 20;
/// Seconds by which a boot time may differ: the kernel counts it back from the clock, which is set and moves.
const SAME_BOOT: i64 = 90;
const MINUTE: i64 = 60;

/// The next values of a report that has shown `shown` so far; the same where nothing is news.
pub fn rounded(shown: Option<&NodeSystem>, measured: &NodeSystem) -> NodeSystem {
    let none = NodeSystem::default();
    let shown = shown.unwrap_or(&none);
    let step = |shown: Option<i64>, value: Option<i64>, step| value.map(|value| near(shown, value, step));
    NodeSystem {
        boot_time: boot_time(shown.boot_time.as_deref(), measured.boot_time.as_deref()),
        memory: measured.memory.as_ref().map(|memory| rounded_memory(shown.memory.as_ref(), memory)),
        load_percent: step(shown.load_percent, measured.load_percent, LOAD_STEP),
        temperature_celsius: step(shown.temperature_celsius, measured.temperature_celsius, TEMPERATURE_STEP),
        disks: measured
            .disks
            .iter()
            .map(|disk| rounded_disk(shown.disks.iter().find(|shown| shown.path == disk.path), disk))
            .collect(),
    }
}

fn rounded_memory(shown: Option<&NodeMemory>, measured: &NodeMemory) -> NodeMemory {
    let total_mib = size(shown.map(|shown| shown.total_mib), measured.total_mib);
    let step = total_mib / MEMORY_STEPS;
    let available = shown.map(|shown| shown.available_mib);
    NodeMemory { total_mib, available_mib: near(available, measured.available_mib, step) }
}

fn rounded_disk(shown: Option<&NodeDisk>, measured: &NodeDisk) -> NodeDisk {
    let size_mib = size(shown.map(|shown| shown.size_mib), measured.size_mib);
    let free = shown.map(|shown| shown.free_mib);
    let free_mib = near(free, measured.free_mib, size_mib / DISK_STEPS);
    NodeDisk { path: measured.path.clone(), size_mib, free_mib }
}

/// The multiple of `step` that is shown, as long as the value is within three quarters of a step; else the nearest one.
fn near(shown: Option<i64>, value: i64, step: i64) -> i64 {
    let step = step.max(1);
    let is_near = |shown: &i64| {
        let distance = u128::from(value.abs_diff(*shown));
        shown.rem_euclid(step) == 0 && distance * 4 <= u128::from(step.unsigned_abs()) * 3
    };
    let nearest = || value.saturating_add(step / 2).div_euclid(step).saturating_mul(step);
    shown.filter(is_near).unwrap_or_else(nearest)
}

/// A size as it is, which hardly changes; some file systems count what is in use into it.
fn size(shown: Option<i64>, value: i64) -> i64 {
    let is_near = |shown: &i64| u128::from(value.abs_diff(*shown)) * 20 <= u128::from(value.unsigned_abs());
    shown.filter(is_near).unwrap_or(value)
}

fn boot_time(shown: Option<&str>, measured: Option<&str>) -> Option<String> {
    let second = |text: &str| text.parse::<Timestamp>().ok().map(Timestamp::as_second);
    let measured = second(measured?)?;
    if let Some(shown) = shown
        && second(shown).is_some_and(|second| second.abs_diff(measured) <= SAME_BOOT.unsigned_abs())
    {
        return Some(shown.to_owned());
    }
    Timestamp::from_second(near(None, measured, MINUTE)).ok().map(|minute| minute.to_string())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn machine() -> NodeSystem {
        NodeSystem {
            boot_time: Some("2026-11-25T14:00:31Z".into()),
            memory: Some(NodeMemory { total_mib: 1848, available_mib: 1203 }),
            load_percent: Some(37),
            temperature_celsius: Some(52),
            disks: vec![NodeDisk { path: "/".into(), size_mib: 29_000, free_mib: 17_111 }],
        }
    }

    #[test]
    fn a_first_report_and_what_is_news_after_it() {
        let shown = rounded(None, &machine());
        let want = NodeSystem {
            boot_time: Some("2026-11-25T14:01:00Z".into()),
            memory: Some(NodeMemory { total_mib: 1848, available_mib: 1150 }),
            load_percent: Some(50),
            temperature_celsius: Some(50),
            disks: vec![NodeDisk { path: "/".into(), size_mib: 29_000, free_mib: 17_400 }],
        };
        assert_eq!(shown, want);
        let disk = |path: &str, free_mib| vec![NodeDisk { path: path.into(), size_mib: 29_000, free_mib }];
        for (what, measured, is_news) in [
            ("the same", machine(), false),
            ("a second", NodeSystem { boot_time: Some("2026-11-25T14:00:32Z".into()), ..machine() }, false),
            ("a reboot", NodeSystem { boot_time: Some("2026-11-25T14:03:00Z".into()), ..machine() }, true),
            ("no boot time", NodeSystem { boot_time: None, ..machine() }, true),
            ("a degree", NodeSystem { temperature_celsius: Some(53), ..machine() }, false),
            ("heat", NodeSystem { temperature_celsius: Some(54), ..machine() }, true),
            ("a load", NodeSystem { load_percent: Some(87), ..machine() }, false),
            ("a high load", NodeSystem { load_percent: Some(88), ..machine() }, true),
            ("a file", NodeSystem { disks: disk("/", 16_400), ..machine() }, false),
            ("many files", NodeSystem { disks: disk("/", 16_300), ..machine() }, true),
            ("another disk", NodeSystem { disks: disk("/data", 17_111), ..machine() }, true),
        ] {
            assert_eq!(rounded(Some(&shown), &measured) != shown, is_news, "{what}");
        }
    }

    #[test]
    fn what_another_program_has_written_is_put_right() {
        let odd = NodeSystem { boot_time: Some("yesterday".into()), load_percent: Some(51), ..machine() };
        assert_eq!(rounded(Some(&odd), &machine()).boot_time.as_deref(), Some("2026-11-25T14:01:00Z"));
        assert_eq!(rounded(Some(&odd), &machine()).load_percent, Some(50));
    }

    proptest! {
        #[test]
        fn what_moves_a_little_is_news_once_at_most(
            before: Option<i64>,
            center in -1_000_000_000_i64..1_000_000_000,
            step in 1_i64..100_000,
            moves in prop::collection::vec(0.0_f64..=1.0, 1..20),
        ) {
            let mut shown = Some(near(before, center, step));
            let mut news = 0;
            for part in moves {
                #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
                let value = center + (part * (step / 4) as f64) as i64;
                let next = Some(near(shown, value, step));
                news += usize::from(next != shown);
                shown = next;
            }
            prop_assert!(news <= 1);
        }

        #[test]
        fn what_is_shown_is_near_what_was_measured(shown: Option<i64>, value in -1_i64 << 40..1 << 40, step in 1_i64..1 << 20) {
            let rounded = near(shown, value, step);
            prop_assert_eq!(rounded % step, 0);
            prop_assert!(rounded.abs_diff(value) * 4 <= step.unsigned_abs() * 3);
        }

        #[test]
        fn no_value_is_too_large(shown: Option<i64>, value: i64, step: i64) {
            let _ = near(shown, value, step);
            let _ = size(shown, value);
        }

        #[test]
        fn a_measurement_is_no_news_twice(values: [i64; 6], before: [i64; 6]) {
            let of = |[total_mib, available_mib, load, temperature, size_mib, free_mib]: [i64; 6]| NodeSystem {
                boot_time: None,
                memory: Some(NodeMemory { total_mib, available_mib }),
                load_percent: Some(load),
                temperature_celsius: Some(temperature),
                disks: vec![NodeDisk { path: "/".into(), size_mib, free_mib }],
            };
            let once = rounded(Some(&of(before)), &of(values));
            prop_assert_eq!(rounded(Some(&once), &of(values)), once);
        }
    }
}

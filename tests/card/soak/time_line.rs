//! When each unit of a boot began to start and was ready, from the output of `systemctl show` for all of them.

use std::collections::BTreeMap;

use super::bars::Bar;

/// The request for each unit, as a `systemctl show` command: empty lines separate the units. Without `--all`, a oneshot
/// that is done is left out.
pub const ASK: &str = "systemctl show --all --no-pager \
    -p Id,InactiveExitTimestampMonotonic,ActiveEnterTimestampMonotonic,InactiveEnterTimestampMonotonic \
    '*.service' '*.mount'";

/// From its begin until it was ready or, being a oneshot, done, in microseconds since the kernel started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitStart {
    pub unit: String,
    pub span: (u64, u64),
}

/// The starts in the output of [`ASK`]; a unit that was not started has none.
pub fn starts(reported: &str) -> Vec<UnitStart> {
    reported.split("\n\n").filter_map(start).collect()
}

fn start(reported: &str) -> Option<UnitStart> {
    let fields: BTreeMap<&str, &str> =
        reported.lines().filter_map(|line| line.trim().split_once('=')).collect();
    let at = |key: &str| fields.get(format!("{key}TimestampMonotonic").as_str())?.parse::<u64>().ok();
    let begun = at("InactiveExit").filter(|at| *at > 0)?;
    // A oneshot that does not remain is never active, or for no time. What was before the last start does not count.
    let ends = [at("ActiveEnter"), at("InactiveEnter")].into_iter().flatten();
    let done = ends.filter(|end| *end >= begun).min()?;
    Some(UnitStart { unit: (*fields.get("Id")?).to_owned(), span: (begun, done) })
}

/// A bar for the time before the first unit, for each unit of ours, for `until`, and for the others that took at
/// least a hundredth of the time until that one was ready; in the order in which they began, in seconds.
pub fn bars(starts: &[UnitStart], until: &str) -> Vec<Bar> {
    let Some(end) = starts.iter().find(|start| start.unit == until).map(|start| start.span.1) else {
        return Vec::new();
    };
    let is_ours = |unit: &str| unit.starts_with("weaver-");
    let counts = |start: &&UnitStart| {
        let (begun, done) = start.span;
        is_ours(&start.unit) || start.unit == until || (begun < end && (done - begun) * 100 >= end)
    };
    let mut shown: Vec<&UnitStart> = starts.iter().filter(counts).collect();
    shown.sort_by_key(|start| start.span);
    let first = starts.iter().map(|start| start.span.0).min().unwrap_or(0);
    let before = ("kernel and initramfs", (0, first), false);
    let units = shown.into_iter().map(|start| {
        let name = start.unit.trim_end_matches(".service");
        (name, start.span, is_ours(name))
    });
    [before].into_iter().chain(units).map(|(name, span, ours)| bar(name, span, ours)).collect()
}

fn bar(name: &str, (begun, done): (u64, u64), ours: bool) -> Bar {
    let seconds = |micros: u64| f64::from(u32::try_from(micros / 1000).unwrap_or(u32::MAX)) / 1000.0;
    let (begun, done) = (seconds(begun), seconds(done));
    Bar { name: name.to_owned(), span: (begun, done), label: format!("{:.1} s", done - begun), ours }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(id: &str, exit: u64, active: u64, inactive: u64) -> String {
        format!(
            "Id={id}\nInactiveExitTimestampMonotonic={exit}\nActiveEnterTimestampMonotonic={active}\n\
             InactiveEnterTimestampMonotonic={inactive}\n"
        )
    }

    fn boot() -> Vec<UnitStart> {
        let units = [
            reported("k3s.service", 40_000_000, 100_000_000, 0),
            reported("weaver-preflight.service", 39_000_000, 0, 39_500_000),
            reported("dull.service", 12_000_000, 12_100_000, 0),
            reported("slow.mount", 10_000_000, 11_000_000, 0),
            reported("never.service", 0, 0, 0),
            reported("restarted.service", 50_000_000, 52_000_000, 49_000_000),
            reported("later.service", 101_000_000, 109_000_000, 0),
            reported("starting.service", 60_000_000, 0, 0),
        ];
        starts(&units.join("\n"))
    }

    #[test]
    fn a_start_ends_where_the_unit_is_ready_or_done() {
        let spans: BTreeMap<_, _> = boot().into_iter().map(|start| (start.unit, start.span)).collect();
        assert_eq!(spans["k3s.service"], (40_000_000, 100_000_000));
        assert_eq!(spans["weaver-preflight.service"], (39_000_000, 39_500_000));
        assert_eq!(spans["restarted.service"], (50_000_000, 52_000_000));
        assert!(!spans.contains_key("never.service") && !spans.contains_key("starting.service"));
    }

    #[test]
    fn a_boot_shows_ours_and_what_takes_long() {
        let bars = bars(&boot(), "k3s.service");
        let seen: Vec<_> = bars.iter().map(|bar| (bar.name.as_str(), bar.label.as_str(), bar.ours)).collect();
        let expected = [
            ("kernel and initramfs", "10.0 s", false),
            ("slow.mount", "1.0 s", false),
            ("weaver-preflight", "0.5 s", true),
            ("k3s", "60.0 s", false),
            ("restarted", "2.0 s", false),
        ];
        assert_eq!(seen, expected);
        assert!(super::bars(&boot(), "gone.service").is_empty());
    }
}

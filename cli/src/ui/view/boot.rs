//! The boot of a node as a time line: when it started, its steps, what changed since then, and its Events. From its
//! NodeReport and the Events about it.

use jiff::Timestamp;

use super::event::EventView;
use super::health::ConditionView;
use super::node::NodeView;

/// Moments that are listed.
const SHOWN: usize = 100;
/// The start of the machine is reported to the minute: what happened in it belongs to this boot.
const MINUTE: i64 = 60;

/// Something that happened, so many seconds after the start.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Moment {
    pub at: Timestamp,
    /// Not less than 0.
    pub after: u64,
    pub how: Level,
    pub what: String,
    pub message: String,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Level {
    Fine,
    Warning,
    Bad,
}

#[derive(Debug, Eq, PartialEq)]
pub struct Boot {
    pub started: Timestamp,
    /// In order; the first are kept, which are those of the boot itself.
    pub moments: Vec<Moment>,
    pub left_off: usize,
    /// Conditions that have been as they are since before it started.
    pub unchanged: Vec<ConditionView>,
    /// Was the clock of these times synchronised?
    pub has_clock: bool,
}

/// `None` where the report does not say when the node started.
pub fn boot(node: &NodeView, events: &[EventView]) -> Option<Boot> {
    let started = node.booted?;
    let is_since = |at: Timestamp| at.as_second() >= started.as_second() - MINUTE;
    let (changed, unchanged): (Vec<_>, Vec<_>) =
        node.conditions.iter().cloned().partition(|condition| is_since(condition.since));
    let has_clock = node.conditions.iter().any(|one| one.kind == "ClockSynchronised" && one.status == "True");
    let after = |at: Timestamp| (at.as_second() - started.as_second()).max(0).unsigned_abs();
    let conditions = changed.into_iter().map(|one| Moment {
        at: one.since,
        after: after(one.since),
        how: match one.status.as_str() {
            "True" => Level::Fine,
            "False" => Level::Bad,
            _ => Level::Warning,
        },
        what: format!("{} is {} ({})", one.kind, one.status, one.reason),
        message: one.message,
    });
    let steps = node.steps.iter().filter_map(|(what, after)| {
        let at = Timestamp::from_second(started.as_second().checked_add_unsigned(*after)?).ok()?;
        Some(Moment { at, after: *after, how: Level::Fine, what: what.clone(), message: String::new() })
    });
    let events = events.iter().filter_map(|event| {
        let at = event.at.filter(|at| is_since(*at))?;
        Some(Moment {
            at,
            after: after(at),
            how: if event.is_warning { Level::Warning } else { Level::Fine },
            what: event.reason.clone(),
            message: event.message.clone(),
        })
    });
    let mut moments: Vec<Moment> = steps.chain(conditions).chain(events).collect();
    moments.sort_by_key(|moment| moment.at);
    let left_off = moments.len().saturating_sub(SHOWN);
    moments.truncate(SHOWN);
    Some(Boot { started, moments, left_off, unchanged, has_clock })
}

impl Boot {
    /// Where a moment is between the start and the last one, in thousandths: the more seconds, the closer together.
    pub fn position(&self, after: u64) -> u32 {
        let scaled = |seconds: u64| f64::from(u32::try_from(seconds).unwrap_or(u32::MAX)).ln_1p();
        let last = self.moments.last().map_or(0, |moment| moment.after);
        if last == 0 {
            return 0;
        }
        let share = (scaled(after) / scaled(last)).clamp(0.0, 1.0);
        (0..=1_000).rev().find(|part| f64::from(*part) <= share * 1_000.0 + 1e-6).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::node::tests::node;
    use super::*;

    fn condition(kind: &str, status: &str, since: &str) -> Value {
        json!({"type": kind, "status": status, "reason": "R", "message": "m", "lastTransitionTime": since})
    }

    fn event(at: Option<&str>, reason: &str, is_warning: bool) -> EventView {
        let at = at.map(|at| at.parse().unwrap());
        EventView { at, is_warning, reason: reason.into(), message: "m".into(), count: 1 }
    }

    fn some() -> NodeView {
        node(&json!({
            "system": {"bootTime": "2026-01-01T01:00:00Z"},
            "conditions": [
                condition("ClockSynchronised", "True", "2026-01-01T01:00:40Z"),
                condition("ServingNamesCovered", "False", "2026-01-01T01:02:00Z"),
                condition("StorageHealthy", "True", "2025-12-01T00:00:00Z"),
                condition("PowerHealthy", "Unknown", "2026-01-01T00:59:30Z"),
            ],
        }))
    }

    #[test]
    fn moments_since_the_start_are_in_order_and_older_ones_stand_apart() {
        let events = [
            event(Some("2026-01-01T01:01:00Z"), "Starting", false),
            event(Some("2026-01-01T00:30:00Z"), "OfTheBootBefore", false),
            event(Some("2026-01-01T02:00:00Z"), "Late", true),
            event(None, "Never", false),
        ];
        let boot = boot(&some(), &events).unwrap();
        let moments: Vec<_> =
            boot.moments.iter().map(|one| (one.after, one.what.as_str(), one.how)).collect();
        assert_eq!(
            moments,
            [
                (0, "PowerHealthy is Unknown (R)", Level::Warning),
                (40, "ClockSynchronised is True (R)", Level::Fine),
                (60, "Starting", Level::Fine),
                (120, "ServingNamesCovered is False (R)", Level::Bad),
                (3_600, "Late", Level::Warning),
            ]
        );
        let unchanged: Vec<&str> = boot.unchanged.iter().map(|one| one.kind.as_str()).collect();
        assert_eq!((unchanged, boot.has_clock, boot.left_off), (vec!["StorageHealthy"], true, 0));
        let at: Vec<u32> = boot.moments.iter().map(|one| boot.position(one.after)).collect();
        assert!(at.is_sorted() && at.first() == Some(&0) && at.last() == Some(&1_000), "{at:?}");
    }

    #[test]
    fn the_steps_before_k3s_runs_stand_where_they_were() {
        let steps =
            [("HostChecked", 21), ("K3sReady", 105), ("Later", 110), ("Never", -1), ("Odd", i64::MAX)];
        let steps = steps.map(|(step, seconds)| json!({"step": step, "seconds": seconds}));
        let node = node(&json!({"system": {"bootTime": "2026-01-01T01:00:00Z"}, "boot": steps}));
        let boot = boot(&node, &[event(Some("2026-01-01T01:00:50Z"), "Starting", false)]).unwrap();
        let moments: Vec<_> = boot.moments.iter().map(|one| (one.after, one.what.as_str())).collect();
        assert_eq!(
            moments,
            [
                (21, "The host was checked, and k3s allowed to start"),
                (50, "Starting"),
                (105, "k3s was ready"),
                (110, "Later")
            ]
        );
    }

    #[test]
    fn without_a_start_there_is_no_boot_and_of_very_many_moments_the_first_are_kept() {
        assert_eq!(boot(&node(&Value::Null), &[]), None);
        let bare = node(&json!({"system": {"bootTime": "2026-01-01T01:00:00Z"}}));
        let none = boot(&bare, &[]).unwrap();
        assert!(none.moments.is_empty() && !none.has_clock && none.position(5) == 0);
        let many: Vec<EventView> =
            (0..SHOWN + 7).map(|_| event(Some("2026-01-01T01:00:00Z"), "Again", false)).collect();
        let many = boot(&bare, &many).unwrap();
        assert_eq!((many.moments.len(), many.left_off, many.position(0)), (SHOWN, 7, 0));
    }
}

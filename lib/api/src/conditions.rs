//! Conditions of our kinds: their names, and how a new verdict is folded into the old list.
//!
//! All types are present from the first reconciliation, always in one order; `lastTransitionTime` moves only when the
//! status of a condition does. The fold is pure, so an unchanged world gives an unchanged list and no write.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize as _, Deserializer};
use serde_json::Value;

/// Everything that was asked for is done.
pub const READY: &str = "Ready";
/// The source exists and could be read.
pub const SOURCE_FOUND: &str = "SourceFound";
/// The account exists, may be used, and holds every right that was needed.
pub const AUTHORIZED: &str = "Authorized";
/// Every target that exists holds an equal copy.
pub const TARGETS_SYNCED: &str = "TargetsSynced";
/// At least one target, or the Secret, is taken by an object that is not ours.
pub const CONFLICTED: &str = "Conflicted";
/// Nothing is written, because the spec or someone says so.
pub const PAUSED: &str = "Paused";
/// What was written at an older version of the API says all that is needed now.
pub const MIGRATED: &str = "Migrated";

/// The targets are being written, and that takes long. Of a rollout that is stuck it says nothing: `Ready` does.
pub const PROGRESSING: &str = "Progressing";

/// Types of a `ConfigMapSync`'s conditions, in the order in which they are shown.
pub const ORDER: [&str; 8] =
    [READY, SOURCE_FOUND, AUTHORIZED, TARGETS_SYNCED, CONFLICTED, PAUSED, MIGRATED, PROGRESSING];

/// Every token that is asked for is in the Secret and is valid.
pub const TOKENS_FRESH: &str = "TokensFresh";

/// Types of a `ServiceToken`'s conditions, in the order in which they are shown.
pub const TOKEN_ORDER: [&str; 6] = [READY, AUTHORIZED, TOKENS_FRESH, CONFLICTED, PAUSED, MIGRATED];

/// The memory cgroup controller is there.
pub const MEMORY_CGROUP_ENABLED: &str = "MemoryCgroupEnabled";
/// Every configured name was proven.
pub const SERVING_NAMES_COVERED: &str = "ServingNamesCovered";
/// Someone vouches for the clock.
pub const CLOCK_SYNCHRONISED: &str = "ClockSynchronised";
/// The storage under k3s can be written and has space.
pub const STORAGE_HEALTHY: &str = "StorageHealthy";
/// The board gets the power that it needs.
pub const POWER_HEALTHY: &str = "PowerHealthy";

/// Types of a `NodeReport`'s conditions, in the order in which they are shown.
pub const NODE_ORDER: [&str; 5] =
    [MEMORY_CGROUP_ENABLED, SERVING_NAMES_COVERED, CLOCK_SYNCHRONISED, STORAGE_HEALTHY, POWER_HEALTHY];

/// Longest message that is written; the API's own limit is 32,768.
const MAX_MESSAGE: usize = 16_384;

/// What is known of one condition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Truth {
    /// The condition holds: its `status` is `True`.
    True,
    /// The condition does not hold.
    False,
    /// It could not be judged.
    Unknown,
}

impl Truth {
    /// `True`, `False` or `Unknown`, as `status.conditions[].status` has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Truth::True => "True",
            Truth::False => "False",
            Truth::Unknown => "Unknown",
        }
    }
}

/// A verdict on one condition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Verdict {
    /// One of [`ORDER`], [`TOKEN_ORDER`] or [`NODE_ORDER`].
    pub kind: &'static str,
    /// Whether the condition holds.
    pub truth: Truth,
    /// One stable word for programs.
    pub reason: &'static str,
    /// A sentence for people. No secret, no resourceVersion, no time.
    pub message: String,
}

impl Verdict {
    /// A verdict with its message.
    pub fn new(kind: &'static str, truth: Truth, reason: &'static str, message: impl Into<String>) -> Self {
        Self { kind, truth, reason, message: message.into() }
    }
}

/// The list to write: `verdicts` in this order, each with the transition time it had if its status is the same.
/// A type without a verdict keeps what it was, or is `Unknown`.
pub fn fold(
    order: &[&'static str],
    existing: &[Condition],
    verdicts: &[Verdict],
    generation: Option<i64>,
    now: &Time,
) -> Vec<Condition> {
    order
        .iter()
        .map(|&kind| {
            let before = existing.iter().find(|condition| condition.type_ == kind);
            let Some(verdict) = verdicts.iter().find(|verdict| verdict.kind == kind) else {
                return before.cloned().unwrap_or_else(|| Condition {
                    type_: kind.into(),
                    status: Truth::Unknown.as_str().into(),
                    reason: "NotYetJudged".into(),
                    message: String::new(),
                    observed_generation: generation,
                    last_transition_time: now.clone(),
                });
            };
            let status = verdict.truth.as_str();
            let since = before.filter(|condition| condition.status == status);
            Condition {
                type_: kind.into(),
                status: status.into(),
                reason: verdict.reason.into(),
                message: bounded(&verdict.message, MAX_MESSAGE),
                observed_generation: generation,
                last_transition_time: since.map_or_else(|| now.clone(), |c| c.last_transition_time.clone()),
            }
        })
        .collect()
}

/// The conditions that can be read. The API server's idea of a `date-time` is wider than ours, and anyone who may
/// write a status must not be able to make the whole object unreadable by it.
pub(crate) fn readable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Condition>, D::Error> {
    let conditions = Vec::<Value>::deserialize(deserializer)?;
    Ok(conditions.into_iter().filter_map(|condition| serde_json::from_value(condition).ok()).collect())
}

/// `message`, or its beginning of at most `most` bytes and a word that the rest is cut; without control characters
/// but line breaks. Other people's words are in messages, and messages are printed to terminals.
pub fn bounded(message: &str, most: usize) -> String {
    let end = message.floor_char_boundary(most);
    let plain = |char: char| if char.is_control() && char != '\n' { ' ' } else { char };
    let mut text: String = message[..end].chars().map(plain).collect();
    if end < message.len() {
        text.push_str("\n… (cut)");
    }
    text
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).unwrap())
    }

    fn ready(truth: Truth, message: &str) -> Vec<Verdict> {
        vec![Verdict::new(READY, truth, "Because", message)]
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let first = fold(&ORDER, &[], &ready(Truth::False, "one"), Some(1), &at(1));
        let reworded = fold(&ORDER, &first, &ready(Truth::False, "two"), Some(2), &at(2));
        assert_eq!(reworded[0].last_transition_time, at(1));
        assert_eq!((reworded[0].message.as_str(), reworded[0].observed_generation), ("two", Some(2)));
        let turned = fold(&ORDER, &reworded, &ready(Truth::True, "two"), Some(2), &at(3));
        assert_eq!(turned[0].last_transition_time, at(3));
    }

    #[test]
    fn an_unchanged_world_gives_an_unchanged_list() {
        let first = fold(&ORDER, &[], &ready(Truth::True, "all"), Some(1), &at(1));
        assert_eq!(fold(&ORDER, &first, &ready(Truth::True, "all"), Some(1), &at(99)), first);
    }

    #[test]
    fn every_type_is_present_from_the_first_reconcile_and_in_order() {
        let list = fold(&ORDER, &[], &[], None, &at(1));
        assert_eq!(list.iter().map(|c| c.type_.as_str()).collect::<Vec<_>>(), ORDER);
        assert!(list.iter().all(|c| c.status == "Unknown" && !c.reason.is_empty()));
    }

    #[test]
    fn a_message_holds_no_control_characters_but_line_breaks() {
        let list = fold(&ORDER, &[], &ready(Truth::False, "one\n\u{1b}[31mtwo\t\u{9b}\0ä"), None, &at(1));
        assert_eq!(list[0].message, "one\n [31mtwo   ä");
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let list = fold(&ORDER, &[], &ready(Truth::False, &"ä".repeat(20_000)), None, &at(1));
        assert!(list[0].message.len() < 32_768 && list[0].message.ends_with("(cut)"));
    }
}

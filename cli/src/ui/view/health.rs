//! The health of a resource, by its conditions.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use weaver_api::conditions::{PAUSED, READY};
use weaver_diagnostics::finding_text::{clean, clean_lines, cut};

/// Characters of a reason, and of the first line of a message: anyone who may write a status controls its content.
const REASON: usize = 128;
const MESSAGE: usize = 512;

/// Declared worst first: the derived order puts what needs attention at the top.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum ResourceHealth {
    Bad,
    /// Its latest change was not reconciled yet.
    Pending,
    Deleting,
    Paused,
    Ready,
}

impl ResourceHealth {
    pub fn label(self) -> &'static str {
        match self {
            Self::Bad => "Not ready",
            Self::Pending => "Not reconciled yet",
            Self::Deleting => "Being deleted",
            Self::Paused => "Paused",
            Self::Ready => "Ready",
        }
    }
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConditionView {
    pub kind: String,
    pub status: String,
    pub reason: String,
    pub message: String,
    pub since: Timestamp,
}

/// What every page shows of a resource.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ResourceSummary {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Changes with each change of the object.
    pub version: String,
    pub health: ResourceHealth,
    pub reason: String,
    /// The first line of its message.
    pub message: String,
    /// Since when it is so.
    pub since: Option<Timestamp>,
    pub conditions: Vec<ConditionView>,
}

impl ResourceSummary {
    /// The summary of an object with this status.
    pub fn of(metadata: &ObjectMeta, observed: Option<i64>, conditions: &[Condition]) -> Self {
        let find = |kind: &str| conditions.iter().find(|condition| condition.type_ == kind);
        let (ready, is_paused) = (find(READY), find(PAUSED).is_some_and(|paused| paused.status == "True"));
        let health = if metadata.deletion_timestamp.is_some() {
            ResourceHealth::Deleting
        } else if ready.is_none() || observed < metadata.generation {
            ResourceHealth::Pending
        } else if is_paused {
            ResourceHealth::Paused
        } else if ready.is_some_and(|ready| ready.status == "True") {
            ResourceHealth::Ready
        } else {
            ResourceHealth::Bad
        };
        let message = ready.map(|ready| ready.message.lines().next().unwrap_or_default());
        Self {
            health,
            reason: ready.map(|ready| cut(&ready.reason, REASON)).unwrap_or_default(),
            message: message.map(|message| cut(message, MESSAGE)).unwrap_or_default(),
            since: ready.map(|ready| ready.last_transition_time.0),
            conditions: conditions.iter().map(view).collect(),
            ..Self::named(metadata)
        }
    }

    /// The summary of an object that this version cannot read, and why.
    pub fn unreadable(metadata: &ObjectMeta, why: &str) -> Self {
        Self {
            reason: "ParseFailed".into(),
            message: cut(&format!("this version of weaver cannot read it: {why}"), MESSAGE),
            ..Self::named(metadata)
        }
    }

    fn named(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            version: metadata.resource_version.clone().unwrap_or_default(),
            health: ResourceHealth::Bad,
            reason: String::new(),
            message: String::new(),
            since: None,
            conditions: Vec::new(),
        }
    }
}

pub fn view(condition: &Condition) -> ConditionView {
    ConditionView {
        kind: clean(&condition.type_),
        status: clean(&condition.status),
        reason: clean(&condition.reason),
        message: clean_lines(condition.message.trim_end()),
        since: condition.last_transition_time.0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn summary(metadata: Value, observed: Option<i64>, conditions: Value) -> ResourceSummary {
        let metadata: ObjectMeta = serde_json::from_value(metadata).unwrap();
        let conditions: Vec<Condition> = serde_json::from_value(conditions).unwrap();
        ResourceSummary::of(&metadata, observed, &conditions)
    }

    fn condition(kind: &str, status: &str) -> Value {
        json!({"type": kind, "status": status, "reason": "Why", "message": "a\u{202e}\nb",
               "lastTransitionTime": "2026-01-01T00:00:00Z"})
    }

    #[test]
    fn health_is_that_of_the_latest_change() {
        let going = json!({"generation": 2, "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let there = json!({"generation": 2});
        for (metadata, observed, ready, paused, expected) in [
            (&there, Some(2), Some("True"), "False", ResourceHealth::Ready),
            (&there, Some(2), Some("False"), "False", ResourceHealth::Bad),
            (&there, Some(2), Some("Unknown"), "False", ResourceHealth::Bad),
            (&there, Some(2), Some("False"), "True", ResourceHealth::Paused),
            (&there, Some(1), Some("True"), "False", ResourceHealth::Pending),
            (&there, None, Some("True"), "False", ResourceHealth::Pending),
            (&there, Some(2), None, "False", ResourceHealth::Pending),
            (&going, Some(2), Some("True"), "False", ResourceHealth::Deleting),
        ] {
            let ready = ready.map(|status| condition("Ready", status));
            let conditions: Vec<Value> = ready.into_iter().chain([condition("Paused", paused)]).collect();
            let found = summary(metadata.clone(), observed, json!(conditions));
            assert_eq!(found.health, expected, "{metadata} {observed:?} {conditions:?}");
        }
    }

    #[test]
    fn what_others_write_is_shown_clean_and_on_its_own_lines() {
        let found = summary(json!({"name": "a"}), None, json!([condition("Ready", "False")]));
        assert_eq!((found.reason.as_str(), found.message.as_str()), ("Why", "a\\u{202e}"));
        assert_eq!(found.conditions[0].message, "a\\u{202e}\nb");
        assert!(found.since.is_some());
        let unread = ResourceSummary::unreadable(&ObjectMeta::default(), "missing\nfield");
        assert_eq!(unread.health, ResourceHealth::Bad);
        assert_eq!(unread.message, "this version of weaver cannot read it: missing\\nfield");
    }
}

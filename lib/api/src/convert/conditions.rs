//! Conditions that v1alpha1 shows and v1beta1 does not store: those that clients of the upstream operator wait for.
//!
//! Each is derived from a condition of v1beta1, and is dropped when it comes back unchanged. A stored condition of such
//! a name, as the upstream operator writes it, is shown as it is; only one that equals the derived condition is not
//! stored.

use serde_json::Value;

/// A condition that is made from another.
pub(super) struct Derived {
    kind: &'static str,
    from: &'static str,
    /// Its reasons where it is `True` and where it is `False`; else those of the other.
    reasons: Option<[&'static str; 2]>,
}

/// The type that `kubectl wait` is given most, which upstream's types promise and its code never set.
pub(super) const AVAILABLE: Derived =
    Derived { kind: "Available", from: crate::conditions::READY, reasons: None };

/// Of a `ConfigMapSync`, with upstream's reasons.
pub(super) const OF_SYNC: &[Derived] = &[
    AVAILABLE,
    Derived {
        kind: "SourceConfigMapFound",
        from: crate::conditions::SOURCE_FOUND,
        reasons: Some(["ConfigMapFound", "ConfigMapMissing"]),
    },
    Derived {
        kind: "AllTargetsSynced",
        from: crate::conditions::TARGETS_SYNCED,
        reasons: Some(["AllConfigMapsSynced", "SyncsFailed"]),
    },
];

impl Derived {
    fn of(&self, conditions: &[Value]) -> Option<Value> {
        let mut made = conditions.iter().find(|condition| condition["type"] == self.from)?.clone();
        let reason = match (made["status"].as_str(), self.reasons) {
            (Some("True"), Some([found, _])) => Some(found),
            (Some("False"), Some([_, missing])) => Some(missing),
            _ => None,
        };
        made["type"] = Value::from(self.kind);
        if let Some(reason) = reason {
            made["reason"] = Value::from(reason);
        }
        Some(made)
    }
}

/// Adds those that are not there.
pub(super) fn add(conditions: &mut Vec<Value>, all: &[Derived]) {
    for derived in all {
        if conditions.iter().all(|condition| condition["type"] != derived.kind) {
            conditions.extend(derived.of(conditions));
        }
    }
}

/// Removes those that [`add`] would make.
pub(super) fn remove(conditions: &mut Vec<Value>, all: &[Derived]) {
    for derived in all {
        if let Some(made) = derived.of(conditions) {
            conditions.retain(|condition| *condition != made);
        }
    }
}

//! Conditions in the status of any object, and whether one is true for the object's current generation. Pure.

use std::fmt;

use kube::Resource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wait::WaitProgress;

/// Most characters of a message that are shown.
const LONGEST: usize = 2_000;

/// A condition, as Kubernetes' own and custom kinds have it in `status.conditions`. What it lacks is empty.
///
/// Shown as `Ready=False (MissingRights) the first line of its message`. Others wrote it: clean it for a terminal.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition, such as `Ready`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, in one word.
    pub reason: String,
    /// Why, in sentences for people; may have several lines.
    pub message: String,
    /// The `metadata.generation` that was judged.
    pub observed_generation: Option<i64>,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, status, reason, message, .. } = self;
        let first: String = message.lines().next().unwrap_or_default().chars().take(LONGEST).collect();
        f.write_str(format!("{kind}={status} ({reason}) {first}").trim_end())
    }
}

/// The conditions of an object; one that is not of the usual form is left out.
#[must_use]
pub fn conditions(object: &impl Serialize) -> Vec<Condition> {
    let object = serde_json::to_value(object).unwrap_or_default();
    let found = object["status"]["conditions"].as_array().into_iter().flatten();
    found.filter_map(|condition| Condition::deserialize(condition).ok()).collect()
}

/// The condition of this name, if the object has it.
#[must_use]
pub fn condition(object: &impl Serialize, kind: &str) -> Option<Condition> {
    conditions(object).into_iter().find(|condition| condition.kind == kind)
}

/// Is the condition `kind` `True` for the object as it is now? For [`crate::Objects::wait`]; `None` is an
/// object that does not exist.
///
/// A condition counts if it was judged at the object's `metadata.generation`: by its own `observedGeneration`
/// and that of the status, where they are there. Otherwise the controller has not looked at the last change yet.
#[must_use]
pub fn is_true<K: Resource + Serialize>(object: Option<&K>, kind: &str) -> WaitProgress {
    let Some(object) = object else { return WaitProgress::NotYet("it does not exist".into()) };
    let generation = object.meta().generation.unwrap_or_default();
    let is_old = |observed: Option<i64>| observed.is_some_and(|observed| observed < generation);
    let value = serde_json::to_value(object).unwrap_or_default();
    match condition(&value, kind) {
        None => WaitProgress::NotYet(format!("it has no condition {kind} yet")),
        Some(found)
            if is_old(found.observed_generation)
                || is_old(value["status"].get("observedGeneration").and_then(Value::as_i64)) =>
        {
            WaitProgress::NotYet(format!(
                "its controller has not reconciled the latest change yet; before: {found}"
            ))
        }
        Some(found) if found.status == "True" => WaitProgress::Reached,
        Some(found) => WaitProgress::NotYet(found.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::DynamicObject;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_holds_only_for_the_object_as_it_is_now() {
        let object = |status: &str, of_status: Value, of_condition: Value| -> DynamicObject {
            serde_json::from_value(json!({
                "metadata": {"generation": 2},
                "status": {"observedGeneration": of_status, "conditions": [
                    {"type": "Ready", "status": status, "reason": "R", "message": "one\ntwo",
                     "observedGeneration": of_condition},
                ]},
            }))
            .unwrap()
        };
        let not_yet = |object: Option<&DynamicObject>| match is_true(object, "Ready") {
            WaitProgress::NotYet(why) => why,
            other => panic!("{other:?}"),
        };
        for (of_status, of_condition) in
            [(json!(2), json!(2)), (Value::Null, json!(2)), (json!(2), Value::Null)]
        {
            assert_eq!(
                is_true(Some(&object("True", of_status, of_condition)), "Ready"),
                WaitProgress::Reached
            );
        }
        assert_eq!(not_yet(Some(&object("False", json!(2), json!(2)))), "Ready=False (R) one");
        for (of_status, of_condition) in [(json!(1), json!(2)), (json!(2), json!(1))] {
            let why = not_yet(Some(&object("True", of_status, of_condition)));
            assert!(why.contains("has not reconciled the latest change"), "{why}");
        }
        assert_eq!(not_yet(None), "it does not exist");
        let new: DynamicObject = serde_json::from_value(json!({"metadata": {}})).unwrap();
        assert_eq!(not_yet(Some(&new)), "it has no condition Ready yet");
    }

    #[test]
    fn conditions_of_another_form_are_left_out() {
        let object = json!({"status": {"conditions": [{"type": 7}, {"type": "Ready"}, "no"]}});
        let found = conditions(&object);
        assert_eq!(found, [Condition { kind: "Ready".into(), ..Condition::default() }]);
        assert!(conditions(&json!({"status": 1})).is_empty());
    }
}

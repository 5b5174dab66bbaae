//! A stored object that cannot be read as what it is.
//!
//! An older or a newer definition may have let something pass that our types do not know: a list that is a word,
//! a policy that there is not yet. Such an object breaks no watch, since the watches accept it as it is; and its owner
//! gets the field and the parser's message, which has no secret because our kinds have none. Nothing is ever done on
//! what could be guessed from it.

use std::fmt::Write as _;

use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::DeserializeGuard;
use kube::core::object::HasStatus;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use weaver_api::conditions::bounded;
use weaver_client::call::{CallError, lookup};

use crate::watch::ResourceRef;

/// Most bytes of what is said about one field: the parser may repeat its value.
const MAX_FAULT: usize = 300;

/// An object that cannot be understood, as far as it can.
#[derive(Debug, PartialEq)]
pub struct ParseFailed<S> {
    /// What is wrong: the path of each field and what the parser says about it.
    pub faults: Vec<String>,
    /// Its status. Of one that cannot be read, only the conditions: it differs from any that would be written.
    pub status: S,
}

/// A kind of ours.
pub trait ObjectWithStatus:
    Resource<DynamicType = ()> + DeserializeOwned + HasStatus<Status: Default + DeserializeOwned>
{
}

impl<K> ObjectWithStatus for K where
    K: Resource<DynamicType = ()> + DeserializeOwned + HasStatus<Status: Default + DeserializeOwned>
{
}

/// Looks at the object again, without a type; `None` if it is gone, or can be understood by now.
///
/// # Errors
/// If the API server cannot be asked.
pub async fn look<K: ObjectWithStatus>(
    client: &Client,
    resource: &ResourceRef,
) -> Result<Option<ParseFailed<K::Status>>, CallError> {
    let kind = ApiResource::erase::<K>(&());
    let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), &resource.namespace, &kind);
    Ok(lookup(objects.get(&resource.name)).await?.and_then(|object| judge::<K>(&object.data)))
}

fn judge<K: ObjectWithStatus>(object: &Value) -> Option<ParseFailed<K::Status>> {
    let faults = faults::<K>(object);
    if faults.is_empty() {
        return None;
    }
    let stored = object.get("status").cloned().unwrap_or_else(|| Value::Object(Map::new()));
    let conditions = stored.get("conditions").cloned();
    let status = serde_json::from_value(stored).unwrap_or_else(|_| {
        let part = conditions.map(|list| ("conditions".to_owned(), list));
        serde_json::from_value(Value::Object(part.into_iter().collect())).unwrap_or_default()
    });
    Some(ParseFailed { faults, status })
}

/// A step on the way to a value.
#[derive(Clone, Copy)]
enum PathPart<'a> {
    Field(&'a str),
    Item(usize),
}

/// Every field that cannot be read, with what the parser says. No field is required by the types, so each can be
/// tried alone.
fn faults<K: ObjectWithStatus>(object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for (part, value) in object.as_object().into_iter().flatten() {
        narrow::<K>(&mut vec![PathPart::Field(part)], value, &mut found);
    }
    found
}

/// The parser's error for an object with nothing but `value`, at its path; read as the watch reads it.
fn refusal<K: ObjectWithStatus>(path: &[PathPart<'_>], value: &Value) -> Option<String> {
    let mut object = path.iter().rev().fold(value.clone(), |inner, step| match step {
        PathPart::Field(name) => Value::Object(Map::from_iter([((*name).to_owned(), inner)])),
        PathPart::Item(_) => Value::Array(vec![inner]),
    });
    object["metadata"] = Value::Object(Map::new());
    match serde_json::from_value::<DeserializeGuard<K>>(object) {
        Ok(guarded) => guarded.0.err().map(|odd| odd.error),
        Err(error) => Some(error.to_string()),
    }
}

/// Adds what cannot be read of `value`, as far inside as it is known.
fn narrow<'a, K: ObjectWithStatus>(path: &mut Vec<PathPart<'a>>, value: &'a Value, found: &mut Vec<String>) {
    let Some(fault) = refusal::<K>(path, value) else { return };
    let before = found.len();
    let mut inside = |step: PathPart<'a>, value: &'a Value| {
        path.push(step);
        narrow::<K>(path, value, found);
        path.pop();
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| inside(PathPart::Field(name), value)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| inside(PathPart::Item(index), value));
        }
        _ => {}
    }
    if found.len() == before {
        found.push(bounded(&format!("{}: {fault}", shown(path)), MAX_FAULT));
    }
}

fn shown(path: &[PathPart<'_>]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            PathPart::Field(name) if text.is_empty() => text.push_str(name),
            PathPart::Field(name) => text.extend([".", name]),
            PathPart::Item(index) => {
                let _ = write!(text, "[{index}]");
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weaver_api::v1beta1::{ConfigMapSync, ConfigMapSyncStatus, ServiceToken};

    use super::*;

    fn faults_of(object: &Value) -> Vec<String> {
        judge::<ConfigMapSync>(object).map(|odd| odd.faults).unwrap_or_default()
    }

    #[test]
    fn each_field_that_cannot_be_read_is_named_with_the_parsers_words() {
        for (spec, expected) in [
            (
                json!({"targets": {"namespaces": "foo"}}),
                vec![r#"spec.targets.namespaces: Invalid type string "foo". Expected a sequence"#],
            ),
            (
                json!({"conflictPolicy": "Merge", "targets": {"namespaces": ["foo", 7]}}),
                vec![
                    "spec.conflictPolicy: Unknown variant Merge. Expected one of Refuse, Adopt",
                    "spec.targets.namespaces[1]: Invalid type integer `7`. Expected a string",
                ],
            ),
            (
                json!({"targets": {"selector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}}),
                vec![
                    "spec.targets.selector.matchExpressions[0].operator: Unknown variant Gt. \
                     Expected one of In, NotIn, Exists, DoesNotExist",
                ],
            ),
        ] {
            assert_eq!(faults_of(&json!({"spec": spec})), expected, "{spec}");
        }
    }

    #[test]
    fn a_service_token_is_judged_as_what_it_is() {
        let odd = judge::<ServiceToken>(&json!({"spec": {"tokens": [{"key": 7}]}})).unwrap();
        assert_eq!(odd.faults, ["spec.tokens[0].key: Invalid type integer `7`. Expected a string"]);
    }

    #[test]
    fn a_spec_that_is_no_object_is_named() {
        let found = faults_of(&json!({"spec": "foo"}));
        assert!(found.len() == 1 && found[0].starts_with("spec: "), "{found:?}");
    }

    #[test]
    fn a_long_value_is_not_repeated_whole() {
        let found = faults_of(&json!({"spec": {"targets": {"namespaces": "x".repeat(100_000)}}}));
        assert!(found[0].len() < 400, "{}", found[0].len());
    }

    #[test]
    fn what_can_be_understood_is_nothing_of_this() {
        for object in [
            json!({}),
            json!({"spec": null}),
            json!({"spec": {"unknown": 1, "targets": {"namespaces": ["Not A Name"]}}}),
            json!({"status": {"conditions": [{"type": 1}], "test": "kept"}}),
        ] {
            assert_eq!(judge::<ConfigMapSync>(&object), None, "{object}");
        }
    }

    #[test]
    fn a_status_is_read_and_of_a_broken_one_the_conditions() {
        let condition = json!({"type": "Ready", "status": "False", "reason": "ParseFailed", "message": "m",
                               "lastTransitionTime": "2020-01-01T00:00:00Z"});
        let status = |stored: Value| {
            judge::<ConfigMapSync>(&json!({"spec": {"suspend": "yes"}, "status": stored})).unwrap().status
        };
        let whole = status(json!({"observedGeneration": 1, "conditions": [condition]}));
        assert_eq!((whole.observed_generation, whole.conditions.len()), (Some(1), 1));
        let broken = json!({"observedGeneration": 1, "conditions": [condition], "counts": "many"});
        let broken = judge::<ConfigMapSync>(&json!({"status": broken})).unwrap();
        assert!(broken.faults[0].starts_with("status.counts: "), "{:?}", broken.faults);
        assert_eq!(broken.status.conditions, whole.conditions);
        assert_eq!(broken.status.observed_generation, None, "so it is written again");
        assert_eq!(status(json!({"conditions": "none"})), ConfigMapSyncStatus::default());
        assert_eq!(status(json!({})), ConfigMapSyncStatus::default());
    }
}

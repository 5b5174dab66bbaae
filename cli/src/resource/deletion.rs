//! How an object is deleted, and what blocks one that is being deleted. Pure.

use kube::ResourceExt as _;
use kube::core::DynamicObject;
use serde_json::{Value, json};
use weaver_api::conditions::{AUTHORIZED, READY};
use weaver_api::ownership::{FINALIZER, PAUSED_ANNOTATION};
use weaver_client::conditions::condition;

use super::kind::Kind;
use crate::connection;

/// The change before the deletion that keeps what the object made; `None` if none is needed.
pub fn before_orphaning(kind: Kind, object: &DynamicObject) -> Option<Value> {
    // The deletion's propagation policy keeps the Secret of a ServiceToken; an object that never had our finalizer has
    // no copies.
    let is_held = object.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
    let keeps = kind == Kind::ServiceToken || !is_held || object.data["spec"]["deletionPolicy"] == "Orphan";
    (!keeps).then(|| json!({"spec": {"deletionPolicy": "Orphan"}}))
}

/// Namespaces of copies that are named.
const NAMED: usize = 10;

/// Where copies stay that no ConfigMapSync owns any more, and how to find them.
pub fn copies_that_stay(object: &DynamicObject) -> String {
    let status = &object.data["status"];
    let targets = status["targets"].as_array().into_iter().flatten();
    let synced = targets
        .filter(|target| target["state"] == "Synced")
        .filter_map(|target| target["namespace"].as_str());
    let named: Vec<&str> = synced.take(NAMED).collect();
    let count = status["counts"]["synced"].as_u64().and_then(|count| usize::try_from(count).ok());
    let count = count.unwrap_or_default().max(named.len());
    let flags = connection::flags();
    let find = format!("`weaver orphans list{flags}` shows them, `adopt` or `delete` decides on each");
    match count - named.len() {
        _ if count == 0 => format!("its status names no copy; if there are any, {find}"),
        0 => format!("copies stay in {}: {find}", named.join(", ")),
        more => format!("copies stay in {} and {more} more namespaces: {find}", named.join(", ")),
    }
}

/// Annotations with the same effect where the API server accepts no change of the spec, because it is incomplete: a
/// pause also keeps the copies.
pub fn otherwise() -> Value {
    json!({PAUSED_ANNOTATION: "it is deleted, and its copies stay"})
}

/// Why an object that is being deleted is still there.
pub fn held_by(object: &DynamicObject) -> String {
    let complaints = [READY, AUTHORIZED].into_iter().filter_map(|kind| condition(object, kind));
    let complaints = complaints.filter(|found| found.status != "True").map(|found| format!("; {found}"));
    std::iter::once(weaver_client::held_by(object)).chain(complaints).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(object: Value) -> DynamicObject {
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn only_a_sync_that_would_take_its_copies_along_is_changed_first() {
        let of = |finalizers: Value, spec: Value| {
            object(json!({"metadata": {"finalizers": finalizers}, "spec": spec}))
        };
        let held = |spec| of(json!(["example.com/theirs", FINALIZER]), spec);
        assert!(before_orphaning(Kind::ConfigMapSync, &held(json!({"deletionPolicy": "Delete"}))).is_some());
        assert!(before_orphaning(Kind::ConfigMapSync, &held(json!({}))).is_some());
        assert_eq!(before_orphaning(Kind::ConfigMapSync, &held(json!({"deletionPolicy": "Orphan"}))), None);
        assert_eq!(before_orphaning(Kind::ServiceToken, &held(json!({}))), None);
        // Our finalizer is set before the first copy.
        assert_eq!(
            before_orphaning(Kind::ConfigMapSync, &of(json!(["example.com/theirs"]), json!({}))),
            None
        );
        assert_eq!(before_orphaning(Kind::ConfigMapSync, &of(Value::Null, json!({}))), None);
    }

    #[test]
    fn copies_that_stay_are_named_with_what_finds_them() {
        let of = |namespaces: &[&str], synced: u64| {
            let targets: Vec<Value> =
                namespaces.iter().map(|name| json!({"namespace": name, "state": "Synced"})).collect();
            copies_that_stay(&object(json!({"status": {"targets": targets, "counts": {"synced": synced}}})))
        };
        assert!(of(&["bar", "foo"], 2).starts_with("copies stay in bar, foo: `weaver orphans list`"));
        assert!(of(&["bar"], 200).starts_with("copies stay in bar and 199 more namespaces: "));
        assert!(copies_that_stay(&object(json!({}))).contains("names no copy"));
        let failed = object(json!({"status": {"targets": [{"namespace": "a", "state": "Failed"}]}}));
        assert!(copies_that_stay(&failed).contains("names no copy"));
    }

    #[test]
    fn what_holds_an_object_is_its_finalizers_and_what_its_conditions_complain_of() {
        let held = object(json!({
            "metadata": {"finalizers": ["weaver.example.com/cleanup"]},
            "status": {"conditions": [
                {"type": "Ready", "status": "False", "reason": "MissingRights", "message": "may not delete\nRole: …"},
                {"type": "Authorized", "status": "True", "reason": "Allowed", "message": ""},
            ]},
        }));
        assert_eq!(
            held_by(&held),
            "finalizer weaver.example.com/cleanup holds it; Ready=False (MissingRights) may not delete"
        );
        assert_eq!(held_by(&object(json!({}))), "no finalizer holds it");
    }
}

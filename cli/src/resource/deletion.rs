//! How an object is deleted, and what still holds one that is going. Pure.

use serde_json::{Value, json};

use super::kind::{Kind, condition};
use weaver_api::conditions::{AUTHORIZED, READY};
use weaver_api::marks::{FINALIZER, PAUSED_ANNOTATION};

/// What has to be changed before the object is deleted, so that what it made stays; `None` if nothing has to be.
pub fn before_orphaning(kind: Kind, object: &Value) -> Option<Value> {
    // The Secret of a ServiceToken is kept by the way in which it is deleted; what our finalizer never held has no copies.
    let finalizers = object["metadata"]["finalizers"].as_array();
    let is_held = finalizers.into_iter().flatten().any(|finalizer| finalizer == FINALIZER);
    let keeps = kind == Kind::Token || !is_held || object["spec"]["deletionPolicy"] == "Orphan";
    (!keeps).then(|| json!({"spec": {"deletionPolicy": "Orphan"}}))
}

/// Namespaces of copies that are named.
const NAMED: usize = 10;

/// Where copies stay that no ConfigMapSync owns any more, and how to find them.
pub fn copies_that_stay(object: &Value) -> String {
    let targets = object["status"]["targets"].as_array().into_iter().flatten();
    let synced = targets
        .filter(|target| target["state"] == "Synced")
        .filter_map(|target| target["namespace"].as_str());
    let named: Vec<&str> = synced.take(NAMED).collect();
    let count = object["status"]["counts"]["synced"].as_u64().and_then(|count| usize::try_from(count).ok());
    let count = count.unwrap_or_default().max(named.len());
    let find = "`weaver orphans list` shows them, `adopt` or `delete` decides on each";
    match count - named.len() {
        _ if count == 0 => format!("its status names no copy; if there are any, {find}"),
        0 => format!("copies stay in {}: {find}", named.join(", ")),
        more => format!("copies stay in {} and {more} more namespaces: {find}", named.join(", ")),
    }
}

/// Annotations that do the same where the API server takes no change of the spec, because of what it lacks: a pause also
/// has the copies stay.
pub fn otherwise() -> Value {
    json!({PAUSED_ANNOTATION: "it is deleted, and its copies stay"})
}

/// Why an object that is being deleted is still there.
pub fn held_by(object: &Value) -> String {
    let finalizers: Vec<&str> =
        object["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut said = match finalizers.as_slice() {
        [] => "no finalizer holds it".to_owned(),
        [one] => format!("finalizer {one} holds it"),
        several => format!("finalizers {} hold it", several.join(", ")),
    };
    for kind in [READY, AUTHORIZED] {
        let Some(condition) = condition(object, kind).filter(|found| found["status"] != "True") else {
            continue;
        };
        said.extend(["; ", &sentence(condition)]);
    }
    said
}

/// A condition in one line: `Ready=False (MissingRights) the first line of its message`.
pub fn sentence(condition: &Value) -> String {
    let text = |field: &str| condition[field].as_str().unwrap_or_default();
    let message = weaver_api::conditions::bounded(text("message"), 2_000);
    let first = message.lines().next().unwrap_or_default();
    format!("{}={} ({}) {first}", text("type"), text("status"), text("reason")).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sync_that_would_take_its_copies_along_is_changed_first() {
        let object =
            |finalizers: Value, spec: Value| json!({"metadata": {"finalizers": finalizers}, "spec": spec});
        let held = |spec| object(json!(["example.com/theirs", FINALIZER]), spec);
        assert!(before_orphaning(Kind::Sync, &held(json!({"deletionPolicy": "Delete"}))).is_some());
        assert!(before_orphaning(Kind::Sync, &held(json!({}))).is_some());
        assert_eq!(before_orphaning(Kind::Sync, &held(json!({"deletionPolicy": "Orphan"}))), None);
        assert_eq!(before_orphaning(Kind::Token, &held(json!({}))), None);
        // Our finalizer is set before the first copy.
        assert_eq!(before_orphaning(Kind::Sync, &object(json!(["example.com/theirs"]), json!({}))), None);
        assert_eq!(before_orphaning(Kind::Sync, &object(Value::Null, json!({}))), None);
    }

    #[test]
    fn copies_that_stay_are_named_with_what_finds_them() {
        let of = |namespaces: &[&str], synced: u64| {
            let targets: Vec<Value> =
                namespaces.iter().map(|name| json!({"namespace": name, "state": "Synced"})).collect();
            copies_that_stay(&json!({"status": {"targets": targets, "counts": {"synced": synced}}}))
        };
        assert!(of(&["bar", "foo"], 2).starts_with("copies stay in bar, foo: `weaver orphans list`"));
        assert!(of(&["bar"], 200).starts_with("copies stay in bar and 199 more namespaces: "));
        assert!(copies_that_stay(&json!({})).contains("names no copy"));
        let failed = json!({"status": {"targets": [{"namespace": "a", "state": "Failed"}]}});
        assert!(copies_that_stay(&failed).contains("names no copy"));
    }

    #[test]
    fn what_holds_an_object_is_its_finalizers_and_what_its_conditions_complain_of() {
        let object = json!({
            "metadata": {"finalizers": ["weaver.example.com/cleanup"]},
            "status": {"conditions": [
                {"type": "Ready", "status": "False", "reason": "MissingRights", "message": "may not delete\nRole: …"},
                {"type": "Authorized", "status": "True", "reason": "Allowed", "message": ""},
            ]},
        });
        assert_eq!(
            held_by(&object),
            "finalizer weaver.example.com/cleanup holds it; Ready=False (MissingRights) may not delete"
        );
        assert_eq!(held_by(&json!({"metadata": {}})), "no finalizer holds it");
    }
}

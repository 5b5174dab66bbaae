//! What undoing one write takes, judged from the object before it, right after it, and now. Pure.
//!
//! Only what the write changed is undone, and only while it is as it was written: what others have changed since stays.

use kube::core::{DynamicObject, ObjectMeta};
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Map, Value, json};

use crate::merge_patch::{content, difference, merged, overtaken};
use crate::wait::held_by;

/// A write to undo.
#[derive(Clone, Debug)]
pub(super) struct UndoEntry {
    /// `None` if there was no object.
    pub before: Option<DynamicObject>,
    pub after: After,
    /// The field manager of the write.
    pub manager: String,
}

/// The object right after the write.
#[derive(Clone, Debug)]
pub(super) enum After {
    /// The API server did not say whether the write was done.
    Unknown,
    Is(Box<DynamicObject>),
    Deleted,
}

/// How to undo a write.
#[derive(Debug, PartialEq)]
pub(super) enum UndoPlan {
    /// Nothing; the text is a reason for people.
    Nothing(String),
    /// The object did not exist before.
    Delete,
    /// The content that it shall have again, as far as the write changed it.
    Restore(Value),
    /// The object that was deleted, as it can be created again.
    Create(Value),
}

fn nothing(why: &str) -> UndoPlan {
    UndoPlan::Nothing(why.to_owned())
}

pub(super) fn plan(written: &UndoEntry, now: Option<&DynamicObject>) -> UndoPlan {
    match (&written.after, &written.before) {
        (After::Unknown, before) => after_silence(before.as_ref(), now),
        (After::Deleted, Some(before)) => after_deletion(before, now),
        (After::Deleted, None) => nothing("there was nothing to delete"),
        (After::Is(after), before) => after_write(written, before.as_ref(), after, now),
    }
}

/// Where the write may or may not have been done, only an object that is as before shows that it was not.
fn after_silence(before: Option<&DynamicObject>, now: Option<&DynamicObject>) -> UndoPlan {
    let version =
        |object: Option<&DynamicObject>| object.map(|object| (object.uid(), object.resource_version()));
    if version(before) == version(now) {
        nothing("it is as it was before")
    } else {
        nothing("it is unknown whether the write was applied, and the object differs from before: check it")
    }
}

fn after_deletion(before: &DynamicObject, now: Option<&DynamicObject>) -> UndoPlan {
    match now {
        None => UndoPlan::Create(created_again(before)),
        Some(now) if now.uid() != before.uid() => nothing("another object of its name was created"),
        Some(now) if now.meta().deletion_timestamp.is_some() => {
            UndoPlan::Nothing(format!("a deletion cannot be undone, and {}", held_by(now)))
        }
        Some(_) => nothing("it was not deleted"),
    }
}

fn after_write(
    written: &UndoEntry,
    before: Option<&DynamicObject>,
    after: &DynamicObject,
    now: Option<&DynamicObject>,
) -> UndoPlan {
    let Some(now) = now.filter(|now| now.uid() == after.uid()) else {
        return nothing("it was deleted meanwhile");
    };
    if now.meta().deletion_timestamp.is_some() {
        return nothing("it is being deleted");
    }
    let [after_content, now_content] = [after, now].map(|object| content(&value(object)));
    // Kinds without a generation have no other trace of a change than the content itself.
    let is_other = match (after.meta().generation, now.meta().generation) {
        (Some(after), Some(now)) => after != now,
        _ => without_metadata(&after_content) != without_metadata(&now_content),
    };
    let Some(before) = before else {
        return match after.meta().generation {
            _ if is_other => nothing("its spec was changed since"),
            Some(1) => UndoPlan::Delete,
            Some(_) => nothing("another client created it meanwhile"),
            None if is_shared(after, &written.manager) => nothing("another client created it meanwhile"),
            None => UndoPlan::Delete,
        };
    };
    let [was, is] = [before, after].map(|object| object.meta().generation.unwrap_or_default());
    if is_other && after.meta().generation.is_some() {
        return nothing("its spec was changed since");
    }
    if before.uid() != after.uid() || is > was + 1 {
        return nothing("another client changed it meanwhile");
    }
    let reverse = difference(&after_content, &content(&value(before)));
    if reverse.as_object().is_none_or(Map::is_empty) {
        return nothing("it was the same before");
    }
    match overtaken(&after_content, &now_content, &reverse) {
        Some(field) => UndoPlan::Nothing(format!("another client has changed {field} since")),
        None => UndoPlan::Restore(merged(now_content, &reverse)),
    }
}

/// Has another field manager written it as well?
fn is_shared(object: &DynamicObject, manager: &str) -> bool {
    let fields = object.managed_fields().iter();
    fields.filter(|entry| entry.subresource.is_none()).any(|entry| entry.manager.as_deref() != Some(manager))
}

/// The object as a new one: without what the API server and controllers add.
fn created_again(before: &DynamicObject) -> Value {
    let meta = before.meta();
    let metadata = ObjectMeta {
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        labels: meta.labels.clone(),
        annotations: meta.annotations.clone(),
        owner_references: meta.owner_references.clone(),
        ..ObjectMeta::default()
    };
    let mut object = value(before);
    object["metadata"] = json!(metadata);
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    object
}

fn without_metadata(content: &Value) -> Value {
    let mut content = content.clone();
    if let Some(fields) = content.as_object_mut() {
        fields.remove("metadata");
    }
    content
}

/// An object as JSON. Its keys are text and its numbers finite, so this does not fail.
pub(super) fn value(object: &DynamicObject) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(generation: Option<i64>, spec: i64, label: &str) -> DynamicObject {
        serde_json::from_value(json!({
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "generation": generation,
                         "labels": {"a": label}},
            "spec": {"x": spec, "y": 0}, "status": {"z": spec},
        }))
        .unwrap()
    }

    fn plan_of(
        before: Option<&DynamicObject>,
        after: &DynamicObject,
        now: Option<&DynamicObject>,
    ) -> UndoPlan {
        let after = After::Is(Box::new(after.clone()));
        plan(&UndoEntry { before: before.cloned(), after, manager: "me".into() }, now)
    }

    fn nothing(plan: UndoPlan) -> String {
        let UndoPlan::Nothing(why) = plan else { panic!("{plan:?}") };
        why
    }

    #[test]
    fn what_the_write_changed_is_restored_and_what_it_made_deleted() {
        for [first, second] in [[Some(1), Some(2)], [None, None]] {
            let (before, after) = (object(first, 1, "one"), object(second, 2, "two"));
            let restored = content(&value(&before));
            assert_eq!(plan_of(Some(&before), &after, Some(&after)), UndoPlan::Restore(restored.clone()));
            assert_eq!(plan_of(None, &before, Some(&before)), UndoPlan::Delete);
            // A label that someone has set since stays.
            let mut now = after.clone();
            now.labels_mut().insert("theirs".into(), "yes".into());
            let mut expected = restored;
            expected["metadata"]["labels"]["theirs"] = json!("yes");
            assert_eq!(plan_of(Some(&before), &after, Some(&now)), UndoPlan::Restore(expected));
        }
    }

    #[test]
    fn what_someone_else_did_is_never_undone() {
        let (before, after) = (object(Some(1), 1, "one"), object(Some(2), 2, "two"));
        let mut again = after.clone();
        again.meta_mut().uid = Some("other".into());
        let going = |object: &DynamicObject| -> DynamicObject {
            let mut going = value(object);
            going["metadata"]["deletionTimestamp"] = json!("2026-11-22T12:00:00Z");
            going["metadata"]["finalizers"] = json!(["example.com/theirs"]);
            serde_json::from_value(going).unwrap()
        };
        for (now, words) in [
            (None, "it was deleted meanwhile"),
            (Some(again.clone()), "it was deleted meanwhile"),
            (Some(going(&after)), "is being deleted"),
            (Some(object(Some(3), 3, "two")), "its spec was changed since"),
            (Some(object(Some(2), 2, "theirs")), "changed metadata.labels.a since"),
        ] {
            let why = nothing(plan_of(Some(&before), &after, now.as_ref()));
            assert!(why.contains(words), "{why}");
        }
        let new = object(Some(1), 1, "one");
        assert!(
            nothing(plan_of(None, &new, Some(&object(Some(2), 2, "one"))))
                .contains("its spec was changed since")
        );
        assert!(nothing(plan_of(None, &after, Some(&after))).contains("another client created it meanwhile"));
        let late = object(Some(3), 2, "two");
        assert!(
            nothing(plan_of(Some(&before), &late, Some(&late)))
                .contains("another client changed it meanwhile")
        );
        assert!(nothing(plan_of(Some(&before), &before, Some(&before))).contains("the same before"));
    }

    #[test]
    fn kinds_without_a_generation_are_judged_by_their_content_and_who_wrote_it() {
        let (before, after) = (object(None, 1, "one"), object(None, 2, "two"));
        let why = nothing(plan_of(Some(&before), &after, Some(&object(None, 3, "two"))));
        assert!(why.contains("changed spec.x since"), "{why}");
        assert!(
            nothing(plan_of(None, &after, Some(&object(None, 3, "two"))))
                .contains("its spec was changed since")
        );
        let written_by = |managers: &[(&str, Option<&str>)]| -> DynamicObject {
            let mut object = value(&after);
            let entry =
                |(manager, part): &(&str, Option<&str>)| json!({"manager": manager, "subresource": part});
            object["metadata"]["managedFields"] = managers.iter().map(entry).collect();
            serde_json::from_value(object).unwrap()
        };
        let ours = written_by(&[("me", None), ("controller", Some("status"))]);
        assert_eq!(plan_of(None, &ours, Some(&ours)), UndoPlan::Delete);
        let shared = written_by(&[("me", None), ("someone", None)]);
        assert!(
            nothing(plan_of(None, &shared, Some(&shared))).contains("another client created it meanwhile")
        );
    }

    #[test]
    fn what_was_deleted_is_made_again_only_where_its_name_is_free() {
        let before = object(Some(4), 1, "one");
        let deleted = UndoEntry { before: Some(before.clone()), after: After::Deleted, manager: "me".into() };
        let UndoPlan::Create(again) = plan(&deleted, None) else { panic!() };
        assert_eq!(again["metadata"], json!({"name": "a", "labels": {"a": "one"}}));
        assert!(again["spec"] == json!({"x": 1, "y": 0}) && again.get("status").is_none());
        let mut other = before.clone();
        other.meta_mut().uid = Some("other".into());
        assert!(nothing(plan(&deleted, Some(&other))).contains("another object of its name was created"));
        let mut going = value(&before);
        going["metadata"]["deletionTimestamp"] = json!("2026-11-22T12:00:00Z");
        going["metadata"]["finalizers"] = json!(["example.com/theirs"]);
        let going = serde_json::from_value(going).unwrap();
        assert!(nothing(plan(&deleted, Some(&going))).contains("finalizer example.com/theirs holds it"));
    }

    #[test]
    fn without_an_answer_nothing_is_undone() {
        let before = object(Some(1), 1, "one");
        let unknown = UndoEntry { before: Some(before.clone()), after: After::Unknown, manager: "me".into() };
        assert!(nothing(plan(&unknown, Some(&before))).contains("as it was before"));
        let mut now = before;
        now.meta_mut().resource_version = Some("8".into());
        assert!(nothing(plan(&unknown, Some(&now))).contains("check it"));
        assert!(nothing(plan(&unknown, None)).contains("check it"));
    }
}

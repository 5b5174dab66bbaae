//! Undoing an apply after which an object did not become Ready.
//!
//! Only what that apply changed is undone, and only while it stands as it was applied: what somebody else has changed
//! since stays, and that is said. The write carries the resourceVersion that was looked at.

use kube::api::{DeleteParams, Preconditions};
use serde_json::Value;

use super::kind::{generation, name, resource_version, uid};
use super::merge::{changeable, difference, merged, overtaken};
use super::store::{Store, is_conflict, is_gone};

/// Attempts where others write at the same time.
const ATTEMPTS: usize = 6;

/// What is to be done.
#[derive(Debug, PartialEq)]
enum Undo {
    /// Nothing, and why.
    Nothing(String),
    /// The object did not exist before.
    Delete,
    /// What it shall be again: spec, labels and annotations.
    Restore(Value),
}

/// Judges from the object before the apply, right after it, and now.
fn undo(before: Option<&Value>, applied: &Value, now: Option<&Value>) -> Undo {
    let nothing = |why: &str| Undo::Nothing(why.to_owned());
    let Some(now) = now.filter(|now| uid(now) == uid(applied)) else {
        return nothing("somebody else deleted it");
    };
    if !now["metadata"]["deletionTimestamp"].is_null() {
        return nothing("it is being deleted");
    }
    if generation(now) != generation(applied) {
        return nothing("somebody else has changed its spec since");
    }
    let Some(before) = before else {
        return if generation(applied) == 1 {
            Undo::Delete
        } else {
            nothing("somebody else made it while it was applied")
        };
    };
    if uid(before) != uid(applied) || generation(applied) > generation(before) + 1 {
        return nothing("somebody else changed it while it was applied");
    }
    let [before, applied, now] = [before, applied, now].map(changeable);
    let reverse = difference(&applied, &before);
    if reverse.as_object().is_none_or(serde_json::Map::is_empty) {
        return nothing("it was the same before");
    }
    match overtaken(&applied, &now, &reverse) {
        Some(field) => Undo::Nothing(format!("somebody else has changed {field} since")),
        None => Undo::Restore(merged(now, &reverse)),
    }
}

/// Undoes an apply; says in a sentence what was done.
pub async fn roll_back(store: &Store, before: Option<&Value>, applied: &Value) -> anyhow::Result<String> {
    for _ in 0..ATTEMPTS {
        let now = store.get(name(applied)).await?;
        let done = match (undo(before, applied, now.as_ref()), now) {
            (Undo::Nothing(why), _) => return Ok(format!("nothing was undone: {why}")),
            (_, None) => continue,
            (Undo::Delete, Some(now)) => {
                let only = Preconditions {
                    uid: Some(uid(&now).to_owned()),
                    resource_version: Some(resource_version(&now).to_owned()),
                };
                let params = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
                store
                    .delete(name(&now), &params)
                    .await
                    .map(|()| "it did not exist before and was deleted again".into())
            }
            (Undo::Restore(wanted), Some(now)) => restore(store, &now, &wanted).await,
        };
        match done {
            Ok(said) => return Ok(said),
            Err(error) if is_conflict(&error) || is_gone(&error) => {}
            Err(error) => return Err(store.said(error).context("what it was before could not be restored")),
        }
    }
    Ok(format!("nothing was undone: somebody else changed it each of {ATTEMPTS} times"))
}

/// By an apply, as it was changed by one: what the failed apply added goes, since nobody else owns it, and the next apply
/// meets no field of another owner.
async fn restore(store: &Store, now: &Value, wanted: &Value) -> Result<String, kube::Error> {
    let mut object = wanted.clone();
    for field in ["apiVersion", "kind"] {
        object[field] = now[field].clone();
    }
    for field in ["name", "namespace", "uid", "resourceVersion"] {
        object["metadata"][field] = now["metadata"][field].clone();
    }
    let restored = store.apply(&object, false, true).await?;
    let restored = changeable(&restored);
    Ok(match overtaken(&restored, wanted, &difference(&restored, wanted)) {
        None => "what it was before is restored".into(),
        Some(field) => {
            format!("what it was before is restored but for {field}, which somebody else has set, too")
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(generation: i64, spec: i64, label: &str) -> Value {
        json!({
            "metadata": {"uid": "u", "generation": generation, "labels": {"a": label}},
            "spec": {"x": spec, "y": 0},
        })
    }

    fn nothing(undo: Undo) -> String {
        let Undo::Nothing(why) = undo else { panic!("{undo:?}") };
        why
    }

    #[test]
    fn what_the_apply_changed_is_restored_and_what_it_made_deleted() {
        let (before, applied) = (object(1, 1, "one"), object(2, 2, "two"));
        assert_eq!(undo(Some(&before), &applied, Some(&applied)), Undo::Restore(changeable(&before)));
        let made = object(1, 1, "one");
        assert_eq!(undo(None, &made, Some(&made)), Undo::Delete);
        assert!(nothing(undo(None, &applied, Some(&applied))).contains("made it while it was applied"));
        // A label that somebody has set since stays.
        let mut now = applied.clone();
        now["metadata"]["labels"]["theirs"] = json!("yes");
        let mut expected = changeable(&before);
        expected["metadata"]["labels"]["theirs"] = json!("yes");
        assert_eq!(undo(Some(&before), &applied, Some(&now)), Undo::Restore(expected));
    }

    #[test]
    fn what_somebody_else_did_is_never_undone() {
        let (before, applied) = (object(1, 1, "one"), object(2, 2, "two"));
        let mut anew = applied.clone();
        anew["metadata"]["uid"] = json!("other");
        let mut going = applied.clone();
        going["metadata"]["deletionTimestamp"] = json!("2026-11-22T12:00:00Z");
        for (now, words) in [
            (None, "deleted it"),
            (Some(anew), "deleted it"),
            (Some(going), "is being deleted"),
            (Some(object(3, 3, "two")), "changed its spec since"),
            (Some(object(2, 2, "theirs")), "changed metadata.labels.a since"),
        ] {
            let why = nothing(undo(Some(&before), &applied, now.as_ref()));
            assert!(why.contains(words), "{why}");
        }
        assert!(nothing(undo(None, &applied, Some(&object(3, 3, "two")))).contains("changed its spec since"));
        let why = nothing(undo(Some(&before), &object(3, 2, "two"), Some(&object(3, 2, "two"))));
        assert!(why.contains("while it was applied"), "{why}");
        assert!(nothing(undo(Some(&before), &before, Some(&before))).contains("the same before"));
    }
}

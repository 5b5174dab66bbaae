//! Whole reconciliations: what the policies of a spec make of copies and of other people's objects.

use std::time::Duration;

use serde_json::{Value, json};
use weaver_api::ownership::{ADOPTED_ANNOTATION, FINALIZER, SYNC_ANNOTATION, SYNC_UID_LABEL};

use super::outcome::tests::spec;
use super::world::{SYNC, SyncWorld};

fn spec_with(field: &str, value: &str) -> Value {
    let mut spec = spec(&["foo"]);
    spec[field] = value.into();
    spec
}

/// A `settings` of someone else's in foo.
fn put_theirs(world: &SyncWorld, more: &Value) -> Value {
    let mut metadata = json!({"labels": {"theirs": "x"}, "annotations": {"their/note": "y"}});
    metadata.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    world.put("foo", "settings", "theirs", &metadata);
    world.object("foo", "settings").unwrap()
}

#[tokio::test]
async fn an_adopted_object_becomes_a_copy_and_goes_back_to_whose_it_was() {
    for end in ["deleted", "dropped"] {
        let world = SyncWorld::new(Duration::ZERO).await;
        let theirs = put_theirs(&world, &json!({}));
        world.create(&spec_with("conflictPolicy", "Adopt"), &[]);
        world.settle().await;
        assert_eq!(world.condition("Ready")["status"], "True");
        let copy = world.object("foo", "settings").unwrap();
        assert_eq!(copy["data"], json!({"a": "settings"}));
        assert_eq!(copy["metadata"]["uid"], theirs["metadata"]["uid"]);
        assert_eq!(copy["metadata"]["annotations"][ADOPTED_ANNOTATION], "true");
        // It follows the source like any other copy.
        world.put("team-a", "settings", "new", &json!({}));
        world.settle().await;
        assert_eq!(world.object("foo", "settings").unwrap()["data"], json!({"a": "new"}));

        match end {
            "deleted" => world.delete(),
            _ => world.change(|sync| sync["spec"]["targets"]["namespaces"] = json!(["bar"])),
        }
        world.settle().await;
        let left = world.object("foo", "settings").unwrap();
        assert_eq!(left["metadata"]["labels"], theirs["metadata"]["labels"], "{end}");
        assert_eq!(left["metadata"]["annotations"], theirs["metadata"]["annotations"], "{end}");
        assert_eq!(left["data"], json!({"a": "new"}), "{end}");
    }
}

#[tokio::test]
async fn what_happens_is_reported_once_also_to_those_who_keep_a_copy() {
    let world = SyncWorld::new(Duration::ZERO).await;
    put_theirs(&world, &json!({}));
    world.create(&spec_with("conflictPolicy", "Adopt"), &[]);
    world.settle().await;
    assert_eq!(world.events(), ["Synced ConfigMapSync sync", "Adopted ConfigMapSync sync"]);
    world.put("team-a", "settings", "new", &json!({}));
    world.settle().await;
    assert_eq!(world.events(), Vec::<String>::new(), "it is what copies are for");
    world.server.forbid("foo", true);
    world.delete();
    world.settle().await;
    assert!(world.is_deleted());
    assert_eq!(world.events(), ["CopyOrphaned ConfigMap settings"]);
}

#[tokio::test]
async fn an_object_of_someone_else_is_untouched_unless_the_spec_adopts_it_and_it_can_be() {
    for (policy, immutable, reason) in [("Refuse", false, "NotOurs"), ("Adopt", true, "NotAdoptable")] {
        let world = SyncWorld::new(Duration::ZERO).await;
        put_theirs(&world, &json!({}));
        world.edit("foo", "settings", |object| object["immutable"] = immutable.into());
        let theirs = world.object("foo", "settings");
        world.create(&spec_with("conflictPolicy", policy), &[FINALIZER]);
        world.settle().await;
        assert_eq!(world.sync()["status"]["targets"][0]["reason"], reason);
        world.delete();
        world.settle().await;
        assert!(world.is_deleted());
        assert_eq!(world.object("foo", "settings"), theirs, "{policy}");
    }
}

#[tokio::test]
async fn copies_of_a_deleted_source_stay_or_go_as_the_spec_says() {
    for (policy, stays) in [("Retain", true), ("Delete", false)] {
        let world = SyncWorld::new(Duration::ZERO).await;
        world.create(&spec_with("sourceDeletionPolicy", policy), &[]);
        world.settle().await;
        world.remove("team-a", "settings");
        let mut expected = vec![format!("PATCH {SYNC}/status")];
        if !stays {
            expected.insert(0, "DELETE /api/v1/namespaces/foo/configmaps/settings".into());
        }
        assert_eq!(world.settle().await, expected);
        assert_eq!(world.object("foo", "settings").is_some(), stays);
        assert_eq!(world.condition("Ready")["reason"], "SourceMissing");
        world.put("team-a", "settings", "again", &json!({}));
        world.settle().await;
        assert_eq!(world.object("foo", "settings").unwrap()["data"], json!({"a": "again"}));
        assert_eq!(world.condition("Ready")["status"], "True");
    }
}

#[tokio::test]
async fn a_source_that_may_not_be_read_any_more_is_not_taken_for_a_deleted_one() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.create(&spec_with("sourceDeletionPolicy", "Delete"), &[]);
    world.settle().await;
    world.remove("team-a", "settings");
    world.server.forbid("team-a", true);
    world.settle().await;
    assert!(world.object("foo", "settings").is_some());
}

#[tokio::test]
async fn labels_and_annotations_follow_the_source_and_the_spec() {
    let world = SyncWorld::new(Duration::ZERO).await;
    let mut spec = spec(&["foo"]);
    spec["targets"]["labels"] = json!({"tier": "copy"});
    spec["targets"]["annotations"] = json!({"note": "1"});
    world.put(
        "team-a",
        "settings",
        "v",
        &json!({"labels": {"app": "x", "argocd.argoproj.io/instance": "y"}}),
    );
    world.create(&spec, &[]);
    world.settle().await;
    let labels = |world: &SyncWorld| {
        let mut labels = world.object("foo", "settings").unwrap()["metadata"]["labels"].clone();
        labels.as_object_mut().unwrap().retain(|key, _| key != SYNC_UID_LABEL);
        labels
    };
    let manager = "app.kubernetes.io/managed-by";
    assert_eq!(labels(&world), json!({"app": "x", "tier": "copy", manager: "config-weaver"}));
    // Someone adds one of their own; then source and spec change.
    world.edit("foo", "settings", |copy| copy["metadata"]["labels"]["theirs"] = "z".into());
    world.put("team-a", "settings", "v", &json!({}));
    world.change(|sync| sync["spec"]["targets"] = json!({"namespaces": ["foo"]}));
    world.settle().await;
    assert_eq!(labels(&world), json!({"theirs": "z", manager: "config-weaver"}));
    let annotations = world.object("foo", "settings").unwrap()["metadata"]["annotations"].clone();
    assert!(annotations["note"].is_null() && !annotations[SYNC_ANNOTATION].is_null(), "{annotations}");
}

#[tokio::test]
async fn what_could_not_be_seen_when_it_was_searched_for_goes_with_the_resource() {
    let world = SyncWorld::new(Duration::ZERO).await;
    // Something is in the way, so the resource does not vouch for anything.
    put_theirs(&world, &json!({}));
    world.create(&spec(&["foo", "bar"]), &[]);
    world.settle().await;
    assert_eq!(world.condition("Ready")["status"], "False");
    // A copy of an earlier life, which the account may see only now.
    let metadata = world.object("bar", "settings").unwrap()["metadata"].clone();
    let metadata_of_copy = json!({"labels": metadata["labels"], "annotations": metadata["annotations"]});
    world.put("baz", "settings", "settings", &metadata_of_copy);
    world.delete();
    world.settle().await;
    assert!(world.is_deleted());
    assert_eq!([world.object("bar", "settings"), world.object("baz", "settings")], [None, None]);
    assert_eq!(world.object("foo", "settings").unwrap()["data"], json!({"a": "theirs"}));
}

//! Upgrades from the upstream operator, as whole reconciliations against an API server in memory.

use std::time::Duration;

use serde_json::{Value, json};
use weaver_api::ownership::{
    FINALIZER, SYNC_ANNOTATION, SYNC_UID_LABEL, UPSTREAM_FINALIZER, UPSTREAM_NAME_ANNOTATION,
    UPSTREAM_NAME_LABEL, UPSTREAM_NAMESPACE_ANNOTATION, UPSTREAM_NAMESPACE_LABEL,
};

use super::outcome::tests::spec;
use super::world::{SYNC, SyncWorld};

/// Ownership labels and annotations as the upstream operator writes them, on copies and sources
/// alike.
fn upstreams() -> Value {
    json!({
        "annotations": {UPSTREAM_NAME_ANNOTATION: "sync", UPSTREAM_NAMESPACE_ANNOTATION: "team-a"},
        "labels": {UPSTREAM_NAME_LABEL: "sync", UPSTREAM_NAMESPACE_LABEL: "team-a"},
    })
}

#[tokio::test]
async fn an_upgrade_from_upstream_takes_its_copies_over_and_nothing_else() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.put("team-a", "settings", "new", &upstreams());
    world.put("foo", "settings", "old", &upstreams());
    world.put("bar", "settings", "theirs", &json!({}));
    // Dropped from the list under upstream, which left it behind.
    world.put("baz", "settings", "stale", &upstreams());
    world.server.lacks("later");
    world.create(&spec(&["foo", "bar", "later", "team-a"]), &[UPSTREAM_FINALIZER]);
    let untouched = || ["team-a", "bar", "baz"].map(|namespace| world.object(namespace, "settings"));
    let before = untouched();
    world.settle().await;

    let copy = world.object("foo", "settings").unwrap();
    assert_eq!(copy["data"], json!({"a": "new"}));
    assert_eq!(copy["metadata"]["labels"][SYNC_UID_LABEL], world.sync()["metadata"]["uid"]);
    assert!(copy["metadata"]["annotations"][SYNC_ANNOTATION].is_string());
    assert_eq!(copy["metadata"]["annotations"][UPSTREAM_NAME_ANNOTATION], "sync", "others' metadata stays");
    assert_eq!(untouched(), before);
    assert_eq!(world.finalizers(), json!([FINALIZER]), "upstream's is gone");
    assert_eq!(world.counts(), json!({"desired": 3, "synced": 1, "failed": 0, "conflicts": 1}));
}

#[tokio::test]
async fn an_upgrade_continues_while_one_target_cannot_be_written() {
    let world = SyncWorld::new(Duration::ZERO).await;
    for namespace in ["foo", "bar"] {
        world.put(namespace, "settings", "old", &upstreams());
    }
    world.server.forbid("bar", true);
    world.create(&spec(&["foo", "bar"]), &[UPSTREAM_FINALIZER]);
    world.settle().await;
    assert_eq!(world.finalizers(), json!([UPSTREAM_FINALIZER, FINALIZER]));
    assert_eq!(world.object("foo", "settings").unwrap()["data"], json!({"a": "settings"}));
    world.server.forbid("bar", false);
    world.settle().await;
    assert_eq!(world.object("bar", "settings").unwrap()["data"], json!({"a": "settings"}));
    assert_eq!(world.finalizers(), json!([FINALIZER]));
}

#[tokio::test]
async fn upstreams_ownership_labels_count_no_more_once_the_upgrade_is_over() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.create(&spec(&["foo"]), &[UPSTREAM_FINALIZER]);
    world.settle().await;
    world.put("bar", "settings", "old", &upstreams());
    let before = world.object("bar", "settings");
    world.change(|sync| sync["spec"]["targets"]["namespaces"] = json!(["foo", "bar"]));
    world.settle().await;
    assert_eq!(world.object("bar", "settings"), before);
    assert_eq!(world.condition("Ready")["reason"], "Conflict");
}

#[tokio::test]
async fn an_upgrade_and_another_source_and_a_deletion_leave_both_sources_as_they_were() {
    let world = SyncWorld::new(Duration::ZERO).await;
    for name in ["settings", "other"] {
        world.put("team-a", name, name, &upstreams());
    }
    world.put("foo", "settings", "old", &upstreams());
    let sources = || ["settings", "other"].map(|name| world.object("team-a", name));
    let before = sources();
    world.create(&spec(&["foo"]), &[UPSTREAM_FINALIZER]);
    world.settle().await;
    world.change(|sync| sync["spec"]["source"]["name"] = "other".into());
    world.settle().await;
    assert_eq!(world.object("foo", "settings"), None);
    assert_eq!(world.object("foo", "other").unwrap()["data"], json!({"a": "other"}));
    world.delete();
    world.settle().await;
    assert!(world.is_deleted());
    assert_eq!(world.object("foo", "other"), None);
    assert_eq!(sources(), before);
}

#[tokio::test]
async fn a_resource_deleted_right_after_the_upgrade_is_released_and_upstreams_copies_stay() {
    let mut no_account = spec(&["foo"]);
    no_account["serviceAccount"] = json!({});
    let mut unsupported = spec(&["foo"]);
    unsupported["source"]["kind"] = "Secret".into();
    for spec in [spec(&["foo"]), no_account, unsupported, Value::Null, json!({"suspend": "yes"})] {
        // No one has to be patient: there was never a copy of ours.
        let world = SyncWorld::new(Duration::from_hours(1)).await;
        world.put("foo", "settings", "old", &upstreams());
        let before = world.object("foo", "settings");
        world.create(&spec, &[UPSTREAM_FINALIZER]);
        world.delete();
        let writes = world.settle().await;
        assert_eq!(writes, [format!("PATCH {SYNC}")], "{spec}");
        assert!(world.is_deleted(), "{spec}");
        assert_eq!(world.object("foo", "settings"), before, "{spec}");
    }
}

#[tokio::test]
async fn a_cache_that_lags_behind_changes_no_finalizer_twice() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.create(&spec(&["foo"]), &[UPSTREAM_FINALIZER, FINALIZER]);
    world.reconcile().await.unwrap();
    let stale = world.sync();
    world.reconcile().await.unwrap();
    assert_eq!(world.finalizers(), json!([FINALIZER]));
    world.server.writes();
    world.reconcile_as(stale).await.unwrap();
    assert_eq!(world.server.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn a_finalizer_of_upstream_that_comes_back_is_not_removed_in_a_circle() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.create(&spec(&["foo"]), &[UPSTREAM_FINALIZER]);
    world.settle().await;
    assert_eq!(world.finalizers(), json!([FINALIZER]));
    world.change(|sync| sync["metadata"]["finalizers"] = json!([FINALIZER, UPSTREAM_FINALIZER]));
    assert_eq!(world.settle().await, Vec::<String>::new());
    assert_eq!(world.finalizers(), json!([FINALIZER, UPSTREAM_FINALIZER]));
    world.delete();
    world.settle().await;
    assert!(world.is_deleted(), "and it does not hold a deletion");
}

#[tokio::test]
async fn a_former_source_among_the_targets_is_not_taken_for_a_copy_of_upstream() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.put("team-a", "settings", "precious", &upstreams());
    world.put("foo", "settings", "precious", &upstreams());
    world.put("baz", "settings", "base", &json!({}));
    // So the upgrade does not end.
    world.server.forbid("foo", true);
    world.create(&spec(&["foo"]), &[UPSTREAM_FINALIZER]);
    world.settle().await;
    let before = world.object("team-a", "settings");
    world.change(|sync| {
        sync["spec"]["source"]["namespace"] = "baz".into();
        sync["spec"]["targets"]["namespaces"] = json!(["foo", "team-a"]);
    });
    world.settle().await;
    world.delete();
    let _ = world.reconcile().await;
    assert_eq!(world.object("team-a", "settings"), before);
}

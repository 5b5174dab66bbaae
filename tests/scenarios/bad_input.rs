//! What cannot be acted upon gets its message, and nothing is lost.

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use serde_json::json;
use weaver_api::v1beta1::ConfigMapSync;
use weaver_tests::world::World;

#[tokio::test]
async fn a_spec_that_misses_something_is_refused_naming_what() {
    let world = World::new("bad-spec").await;
    let team = world.namespace("team").await;
    let long = "x".repeat(300);
    for (name, spec, words) in [
        ("empty", json!({}), vec!["spec.source.name is missing", "spec.source.namespace is missing"]),
        ("no-account", json!({"serviceAccount": {}}), vec!["spec.serviceAccount.name is missing"]),
        ("no-targets", world.old_spec(&team, &[]), vec!["spec.targets is missing"]),
        (
            "long-target",
            world.old_spec(&team, &["foo", &long]),
            vec!["spec.targets.namespaces[1]", "300 characters"],
        ),
        (
            "bad-target",
            world.old_spec(&team, &["Foo"]),
            vec!["spec.targets.namespaces[0]", "not a valid name"],
        ),
    ] {
        world.old_sync(&team, name, spec).await;
        let ready = world.condition(&team, name, "Ready", "False", "InvalidSpec").await;
        for word in words {
            assert!(ready.message.contains(word), "{name}: {}", ready.message);
        }
        assert!(ready.message.ends_with("no object was changed"), "{}", ready.message);
        // It can be deleted at once: no account is needed where nothing was ever done.
        world.delete_sync(&team, name).await;
    }
    world.config_map(&team, "touched", &[]).await;
    world.finish().await;
}

#[tokio::test]
async fn a_resource_without_spec_does_not_blind_the_operator() {
    let world = World::new("no-spec").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    let bare = json!({"apiVersion": "weaver.example.com/v1alpha1", "kind": "ConfigMapSync",
                      "metadata": {"name": "bare", "namespace": &team}});
    let person = PatchParams::apply("a-person");
    world.old_syncs(&team).patch("bare", &person, &Patch::Apply(&bare)).await.unwrap();
    world.condition(&team, "bare", "Ready", "False", "InvalidSpec").await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.finish().await;
}

#[tokio::test]
async fn a_spec_that_becomes_invalid_keeps_its_copies() {
    let world = World::new("turns-bad").await;
    let (team, foo) = world.synced().await;
    let copy = world.holds(&foo, "settings", &[("a", "1")]).await;
    world.old_sync(&team, "sync", world.old_spec(&team, &[])).await;
    world.condition(&team, "sync", "Ready", "False", "InvalidSpec").await;
    assert_eq!(world.config_maps(&foo).get("settings").await.unwrap(), copy);
    world.delete_sync(&team, "sync").await;
    world.lacks(&foo, "settings").await;
    world.finish().await;
}

#[tokio::test]
async fn duplicate_targets_are_one() {
    let world = World::new("duplicates").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.old_sync(&team, "sync", world.old_spec(&team, &[&foo, &foo])).await;
    let ready = world.condition(&team, "sync", "Ready", "True", "Synced").await;
    assert_eq!(ready.message, "1 of 1 targets hold the copy");
    world.finish().await;
}

#[tokio::test]
async fn a_source_of_one_mebibyte_is_copied_whole() {
    let world = World::new("big-source").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    // The API server's limit is on the sum of keys and values.
    let value = "x".repeat(1024 * 1024 - 1);
    world.config_map(&team, "settings", &[("k", &value)]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.holds(&foo, "settings", &[("k", &value)]).await;
    world.finish().await;
}

#[tokio::test]
async fn a_condition_that_cannot_be_read_blinds_no_one() {
    let world = World::new("odd-object").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    world.sync(&team, "odd", world.spec(&team, &[&foo])).await;
    world.condition(&team, "odd", "SourceFound", "False", "SourceMissing").await;
    // The API server's own check of `date-time` lets this pass; a strict parser does not.
    let conditions = json!([{"type": "Ready", "status": "True", "reason": "Odd", "message": "",
                             "lastTransitionTime": "2020-01-01T00:00:00x5Z"}]);
    let odd = json!({"status": {"conditions": conditions}});
    let raw: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), &team, &ApiResource::erase::<ConfigMapSync>(&()));
    raw.patch_status("odd", &PatchParams::default(), &Patch::Merge(&odd)).await.unwrap();

    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    raw.delete("odd", &DeleteParams::default()).await.unwrap();
    world.finish().await;
}

#[tokio::test]
async fn a_copy_that_would_be_too_large_is_reported_and_the_one_before_stays() {
    let world = World::new("too-large").await;
    let (team, foo) = world.synced().await;
    // As much as a ConfigMap may have,
    let large = "x".repeat(1_000_000);
    world.config_map(&team, "settings", &[("a", &large)]).await;
    world.holds(&foo, "settings", &[("a", &large)]).await;
    // and nearly as much as annotations may have.
    let note = json!({"metadata": {"annotations": {"example.com/large": "y".repeat(200_000)}}});
    world.config_maps(&team).patch("settings", &PatchParams::default(), &Patch::Merge(&note)).await.unwrap();
    let mut spec = world.spec(&team, &[&foo]);
    let more: serde_json::Map<String, serde_json::Value> =
        (0..20).map(|number| (format!("example.com/{number}"), json!("z".repeat(4_096)))).collect();
    spec["targets"]["annotations"] = more.into();
    world.sync(&team, "sync", spec).await;
    let failed = world.condition(&team, "sync", "TargetsSynced", "False", "TargetsFailed").await;
    assert!(failed.message.contains("Too long"), "{}", failed.message);
    world.holds(&foo, "settings", &[("a", &large)]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.finish().await;
}

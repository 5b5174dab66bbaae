//! A resource that is to be left alone for a while.

use kube::api::DeleteParams;
use serde_json::json;
use weaver_tests::tenant::ACCOUNT;
use weaver_tests::world::{World, eventually};

#[tokio::test]
async fn while_suspended_nothing_is_copied_and_afterwards_all_of_it() {
    let world = World::new("suspended").await;
    let (team, foo) = world.synced().await;
    let bar = world.target(&team, "bar").await;
    let mut spec = world.spec(&team, &[&foo]);
    spec["suspend"] = json!(true);
    world.sync(&team, "sync", spec.clone()).await;
    world.condition(&team, "sync", "Paused", "True", "Suspended").await;
    world.condition(&team, "sync", "Ready", "False", "Suspended").await;
    let before = world.config_maps(&foo).get("settings").await.unwrap();
    world.config_map(&team, "settings", &[("a", "2")]).await;
    // Another one of the same tenant and source goes on; what it has copied, the first could have.
    world.sync(&team, "awake", world.spec(&team, &[&bar])).await;
    world.holds(&bar, "settings", &[("a", "2")]).await;
    assert_eq!(world.config_maps(&foo).get("settings").await.unwrap(), before);
    spec["suspend"] = json!(false);
    world.sync(&team, "sync", spec).await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.condition(&team, "sync", "Paused", "False", "NotPaused").await;
    world.finish().await;
}

#[tokio::test]
async fn deleted_while_suspended_it_leaves_its_copies_and_goes_at_once() {
    let world = World::new("suspended-deleted").await;
    let (team, foo) = world.synced().await;
    let mut spec = world.spec(&team, &[&foo]);
    spec["suspend"] = json!(true);
    world.sync(&team, "sync", spec).await;
    world.condition(&team, "sync", "Paused", "True", "Suspended").await;
    let before = world.config_maps(&foo).get("settings").await.unwrap();
    world.delete_sync(&team, "sync").await;
    assert_eq!(world.config_maps(&foo).get("settings").await.unwrap(), before);
    world.finish().await;
}

#[tokio::test]
async fn a_dry_run_says_what_would_be_done_and_writes_nothing() {
    let world = World::new("dry-run").await;
    let (team, foo) = world.synced().await;
    let (bar, baz) = (world.target(&team, "bar").await, world.target(&team, "baz").await);
    let foreign = world.config_map(&baz, "settings", &[("theirs", "1")]).await;
    let before = world.config_maps(&foo).get("settings").await.unwrap();
    // One to be created, one where something else stands, and no more the first.
    let mut spec = world.spec(&team, &[&bar, &baz]);
    spec["dryRun"] = json!(true);
    world.sync(&team, "sync", spec.clone()).await;
    world.condition(&team, "sync", "Paused", "True", "DryRun").await;
    let plan = [
        format!("{bar}: would be created"),
        format!("{baz}: conflict"),
        format!("{foo}/settings: would be removed"),
    ];
    eventually("the whole plan is told", || async {
        // A server that is busy may be asked a second time before it is.
        let told = world.condition(&team, "sync", "TargetsSynced", "False", "TargetsFailed").await.message;
        if plan.iter().all(|words| told.contains(words)) { Ok(()) } else { Err(told) }
    })
    .await;
    assert_eq!(world.config_maps(&foo).get("settings").await.unwrap(), before);
    assert_eq!(world.config_maps(&baz).get("settings").await.unwrap(), foreign);
    assert!(world.config_maps(&bar).get_opt("settings").await.unwrap().is_none());

    world.config_maps(&baz).delete("settings", &DeleteParams::default()).await.unwrap();
    spec["dryRun"] = json!(false);
    world.sync(&team, "sync", spec).await;
    world.holds(&bar, "settings", &[("a", "1")]).await;
    world.holds(&baz, "settings", &[("a", "1")]).await;
    world.lacks(&foo, "settings").await;
    world.finish().await;
}

/// Rights, quota and policy are those of a real write: the API server judges each.
#[tokio::test]
async fn a_dry_run_names_the_right_that_is_missing() {
    let world = World::new("dry-run-rights").await;
    let (team, foo) = world.synced().await;
    let mut spec = world.spec(&team, &[&foo]);
    spec["dryRun"] = json!(true);
    world.sync(&team, "sync", spec).await;
    world.condition(&team, "sync", "Paused", "True", "DryRun").await;
    world.grant(&team, &foo, &["get", "list", "watch", "create"]).await;
    let update = json!({"namespace": foo, "verb": "update", "resource": "configmaps"});
    eventually("the right is gone", || async {
        if world.may(&team, ACCOUNT, &update).await { Err("it is there") } else { Ok(()) }
    })
    .await;
    world.config_map(&team, "settings", &[("a", "2")]).await;
    let missing = world.condition(&team, "sync", "Authorized", "False", "MissingRights").await;
    assert!(missing.message.contains("may not delete, update ConfigMaps"), "{}", missing.message);
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.finish().await;
}

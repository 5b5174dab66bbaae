//! A resource that is paused for a while.

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use weaver_api::ownership::PAUSED_ANNOTATION;
use weaver_tests::tenant::ACCOUNT;
use weaver_tests::tokens;
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
    // Another one of the same tenant and source continues; what it has copied, the first could have.
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
async fn one_that_someone_paused_says_why_and_continues_where_it_was() {
    let world = World::new("paused-one").await;
    let (team, foo) = world.synced().await;
    let pause = |reason: Value| json!({"metadata": {"annotations": {PAUSED_ANNOTATION: reason}}});
    let params = PatchParams::default();
    let patch = Patch::Merge(pause(json!("moving the database")));
    world.syncs(&team).patch("sync", &params, &patch).await.unwrap();
    let paused = world.condition(&team, "sync", "Paused", "True", "PauseRequested").await;
    let words = format!("moving the database; to continue: weaver resume sync/sync -n {team}");
    assert!(paused.message.contains(&words), "{}", paused.message);
    world.condition(&team, "sync", "Ready", "False", "Paused").await;
    let before = world.config_maps(&foo).get("settings").await.unwrap();
    world.config_map(&team, "settings", &[("a", "2")]).await;
    // Another one of the same tenant and source continues; what it has copied, the first could have.
    let bar = world.target(&team, "bar").await;
    world.sync(&team, "awake", world.spec(&team, &[&bar])).await;
    world.holds(&bar, "settings", &[("a", "2")]).await;
    assert_eq!(world.config_maps(&foo).get("settings").await.unwrap(), before);
    world.syncs(&team).patch("sync", &params, &Patch::Merge(pause(Value::Null))).await.unwrap();
    world.holds(&foo, "settings", &[("a", "2")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    // Deleted while it is paused it is released at once, and leaves its copies.
    world.syncs(&team).patch("sync", &params, &patch).await.unwrap();
    world.condition(&team, "sync", "Paused", "True", "PauseRequested").await;
    world.delete_sync(&team, "sync").await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    world.finish().await;
}

#[tokio::test]
async fn a_service_token_that_someone_paused_is_not_minted_for() {
    let world = World::new("paused-token").await;
    let team = world.writer("team", "tokens").await;
    world.robot(&team, "robot").await;
    world.service_token(&team, "tokens", &[("a", "robot")]).await;
    let before = world.fresh(&team, "tokens").await;
    let params = PatchParams::default();
    let patch = json!({"metadata": {"annotations": {PAUSED_ANNOTATION: "an audit"}}});
    world.service_tokens(&team).patch("tokens", &params, &Patch::Merge(patch)).await.unwrap();
    let paused = world.token_condition(&team, "tokens", "Paused", "True", "PauseRequested").await;
    assert!(
        paused.message.contains("an audit; to continue: weaver resume token/tokens"),
        "{}",
        paused.message
    );
    world.apply_service_token(&team, "tokens", tokens::spec(&[("a", "robot"), ("b", "robot")])).await;
    world.token_condition(&team, "tokens", "Paused", "True", "PauseRequested").await;
    assert_eq!(world.tokens(&team, "tokens").await, before);
    let patch = json!({"metadata": {"annotations": {PAUSED_ANNOTATION: null}}});
    world.service_tokens(&team).patch("tokens", &params, &Patch::Merge(patch)).await.unwrap();
    let after = world.tokens_that(&team, "tokens", "are two", |tokens| tokens.len() == 2).await;
    assert_eq!(after["a"], before["a"]);
    world.finish().await;
}

#[tokio::test]
async fn a_dry_run_says_what_would_be_done_and_writes_nothing() {
    let world = World::new("dry-run").await;
    let (team, foo) = world.synced().await;
    let (bar, baz) = (world.target(&team, "bar").await, world.target(&team, "baz").await);
    let foreign = world.config_map(&baz, "settings", &[("theirs", "1")]).await;
    let before = world.config_maps(&foo).get("settings").await.unwrap();
    // One to be created, one where another object exists, and the first no longer.
    let mut spec = world.spec(&team, &[&bar, &baz]);
    spec["dryRun"] = json!(true);
    world.sync(&team, "sync", spec.clone()).await;
    world.condition(&team, "sync", "Paused", "True", "DryRun").await;
    let plan = [
        format!("{bar}: would be created"),
        format!("{baz}: conflict"),
        format!("{foo}/settings: would be removed"),
    ];
    eventually("the whole plan is in the message", || async {
        // A server that is busy may be asked a second time before it is.
        let reported =
            world.condition(&team, "sync", "TargetsSynced", "False", "TargetsFailed").await.message;
        if plan.iter().all(|words| reported.contains(words)) { Ok(()) } else { Err(reported) }
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

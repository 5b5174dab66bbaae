//! Namespaces that are selected by patterns of their names.

use kube::api::{Patch, PatchParams};
use serde_json::json;
use weaver_api::v1beta1::ConfigMapSyncStatus;
use weaver_tests::tenant::TARGET;
use weaver_tests::world::{World, eventually};

async fn status(world: &World, team: &str) -> ConfigMapSyncStatus {
    world.syncs(team).get("sync").await.unwrap().status.unwrap_or_default()
}

/// Waits until so many targets are wanted, and have the copy.
async fn synced(world: &World, team: &str, targets: i32) {
    eventually(&format!("{targets} targets are synced"), || async {
        let counts = status(world, team).await.counts.unwrap_or_default();
        if (counts.desired, counts.synced) == (targets, targets) { Ok(()) } else { Err(counts) }
    })
    .await;
    world.condition(team, "sync", "Ready", "True", "Synced").await;
}

#[tokio::test]
async fn namespaces_get_a_copy_while_a_pattern_matches_their_name() {
    let world = World::new("patterns").await;
    let team = world.tenant().await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    let (app, web) = (world.target(&team, "app-1").await, world.target(&team, "web").await);
    let mut spec = world.spec(&team, &[&app]);
    // Named, and matched twice, it gets one copy.
    spec["targets"]["patterns"] = json!([world.name("app-*"), world.name("app-?")]);
    world.sync(&team, "sync", spec.clone()).await;
    world.holds(&app, "settings", &[("a", "1")]).await;
    synced(&world, &team, 1).await;

    // One that appears gets its copy, whatever its labels are; and not another one.
    let later = world.target(&team, "app-2").await;
    world.holds(&later, "settings", &[("a", "1")]).await;
    synced(&world, &team, 2).await;
    assert!(world.config_maps(&web).get_opt("settings").await.unwrap().is_none());

    // Another pattern: what is not matched any more loses its copy, and what is named keeps it.
    spec["targets"]["patterns"] = json!([world.name("w?b")]);
    world.sync(&team, "sync", spec.clone()).await;
    world.holds(&web, "settings", &[("a", "1")]).await;
    world.lacks(&later, "settings").await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.holds(&app, "settings", &[("a", "1")]).await;

    // `*` is every namespace in which the account has a right, but for the excluded ones and the source's.
    spec["targets"] = json!({"patterns": ["*"], "exclude": [app]});
    spec["dryRun"] = json!(true);
    world.sync(&team, "sync", spec.clone()).await;
    let planned = world.condition(&team, "sync", "Ready", "False", "DryRun").await;
    assert!(planned.message.contains(&format!("{later}: would be created")), "{}", planned.message);
    spec["dryRun"] = json!(false);
    world.sync(&team, "sync", spec).await;
    world.holds(&later, "settings", &[("a", "1")]).await;
    world.lacks(&app, "settings").await;
    synced(&world, &team, 2).await;

    // A write at the deprecated version, which does not show patterns, does not lose them.
    let change = Patch::Merge(json!({"spec": {"testNum": 1}}));
    world.old_syncs(&team).patch("sync", &PatchParams::default(), &change).await.unwrap();
    let targets = world.syncs(&team).get("sync").await.unwrap().spec.spec.unwrap().targets.unwrap();
    assert_eq!(targets.patterns, ["*"]);
    world.delete_sync(&team, "sync").await;
    for namespace in [&app, &later, &web] {
        world.lacks(namespace, "settings").await;
    }
    world.finish().await;
}

#[tokio::test]
async fn a_pattern_reaches_no_further_than_the_accounts_rights_and_what_namespaces_accept() {
    let world = World::new("patterns-rights").await;
    let team = world.tenant().await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    let foo = world.target(&team, "foo").await;
    let hidden = world.namespace("hidden").await;
    let mut spec = world.spec(&team, &[]);
    spec["targets"] = json!({"patterns": [world.name("fo?"), world.name("*")]});
    world.sync(&team, "sync", spec).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    let reported = status(&world, &team).await;
    assert_eq!(reported.counts.unwrap().desired, 1);
    assert!(!serde_json::to_string(&reported).unwrap().contains(&hidden), "{reported:?}");
    // With one right the status says what else is missing.
    world.grant(&team, &hidden, &["get"]).await;
    let authorized = world.condition(&team, "sync", "Authorized", "False", "MissingRights").await;
    assert!(authorized.message.contains(&hidden), "{}", authorized.message);
    // With all rights, the namespace still decides.
    let accept = "weaver.example.com/accept-from";
    world.mark_namespace(&hidden, json!({"annotations": {accept: "another"}})).await;
    world.grant(&team, &hidden, &TARGET).await;
    let failed = world.condition(&team, "sync", "Ready", "False", "TargetsFailed").await;
    assert!(failed.message.contains(accept), "{}", failed.message);
    assert!(world.config_maps(&hidden).get_opt("settings").await.unwrap().is_none());
    world.mark_namespace(&hidden, json!({"annotations": {accept: team}})).await;
    world.holds(&hidden, "settings", &[("a", "1")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.finish().await;
}

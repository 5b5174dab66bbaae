//! Many targets: one tenant's failures do not delay another, and what is outdated is not written to the end.

use serde_json::json;
use weaver_tests::tenant::TARGET;
use weaver_tests::world::{World, eventually};

#[tokio::test]
#[ignore = "takes minutes: make test-long"]
async fn ten_resources_with_a_thousand_failing_targets_each_do_not_hold_up_another_tenant() {
    let world = World::new("crowd").await;
    let (healthy, foo) = world.synced().await;
    let failing = world.tenant_called("failing").await;
    world.config_map(&failing, "settings", &[("a", "1")]).await;
    // None is there, and nothing is granted in any.
    let targets: Vec<String> = (0..1_000).map(|number| world.name(&format!("no-{number}"))).collect();
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    for number in 0..10 {
        world.sync(&failing, &format!("sync-{number}"), world.spec(&failing, &targets)).await;
    }
    // Each edit arrives, however many there are before it.
    for value in 0..30 {
        let value = value.to_string();
        world.config_map(&healthy, "settings", &[("a", &value)]).await;
        world.holds(&foo, "settings", &[("a", &value)]).await;
        // The crowd is given something to do as well.
        world.config_map(&failing, "settings", &[("a", &value)]).await;
    }
    for number in 0..10 {
        let name = format!("sync-{number}");
        world.condition(&failing, &name, "Ready", "False", "MissingRights").await;
        let status = world.syncs(&failing).get(&name).await.unwrap().status.unwrap();
        assert_eq!(status.counts.unwrap().failed, 1_000);
        assert!(status.truncated && status.targets.len() == 128);
    }
    for number in 0..10 {
        world.delete_sync(&failing, &format!("sync-{number}")).await;
    }
    world.finish().await;
}

#[tokio::test]
#[ignore = "takes minutes: make test-long"]
async fn a_source_that_changes_during_a_fan_out_ends_it_and_the_last_state_is_everywhere() {
    const TARGETS: usize = 300;
    let world = World::new("outdated").await;
    let team = world.tenant().await;
    world.grant_everywhere(&team, &TARGET).await;
    let targets = world.namespaces("to", TARGETS).await;
    world.config_map(&team, "settings", &[("a", "first")]).await;
    let names: Vec<&str> = targets.iter().map(String::as_str).collect();
    world.sync(&team, "sync", world.spec(&team, &names)).await;
    let all_synced = async || {
        eventually("every target is synced", || async {
            let counts = world.syncs(&team).get("sync").await.unwrap().status.unwrap_or_default().counts;
            let synced = counts.unwrap_or_default().synced;
            if usize::try_from(synced) == Ok(TARGETS) { Ok(()) } else { Err(synced) }
        })
        .await;
    };
    all_synced().await;
    for value in 0..10 {
        world.config_map(&team, "settings", &[("a", &value.to_string())]).await;
    }
    world.config_map(&team, "settings", &[("a", "last")]).await;
    for target in &targets {
        world.holds(target, "settings", &[("a", "last")]).await;
    }
    all_synced().await;
    let is_update = |event: &serde_json::Value| {
        event["verb"] == "update"
            && event["objectRef"]["resource"] == "configmaps"
            && event["user"]["username"] == json!(format!("system:serviceaccount:{team}:sync"))
    };
    let updates = world.audit.events().iter().filter(|event| is_update(event)).count();
    // Eleven edits; written to the end, each, they would be 3,300.
    assert!((TARGETS..TARGETS * 5).contains(&updates), "{updates} updates");
    world.finish().await;
}

//! Two resources that want one target: it is decided, not fought over.

use serde_json::json;
use weaver_tests::tenant::TARGET;
use weaver_tests::world::{World, eventually};

/// A tenant of its own next to the first, with a `settings` of its own (`b: 2`).
async fn rival(world: &World, foo: &str) -> String {
    let rival = world.tenant_called("rival").await;
    world.config_map(&rival, "settings", &[("b", "2")]).await;
    world.grant_as(&rival, foo, "rival", &TARGET).await;
    rival
}

#[tokio::test]
async fn the_first_keeps_its_copy_and_the_other_takes_over_when_it_goes() {
    let world = World::new("contention").await;
    let (team, foo) = world.synced().await;
    let rival = rival(&world, &foo).await;
    world.sync(&rival, "sync", world.spec(&rival, &[&foo])).await;
    let conflict = world.condition(&rival, "sync", "Ready", "False", "Conflict").await;
    assert!(
        conflict.message.contains(&format!("it is a copy of ConfigMapSync {team}/sync")),
        "{}",
        conflict.message
    );
    let writes = || ["create", "update", "delete"].map(|verb| world.audit.requests(&foo, verb));
    world.config_map(&rival, "settings", &[("b", "3")]).await;
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    assert_eq!(writes()[2], 0, "no one deletes");

    world.delete_sync(&team, "sync").await;
    world.holds(&foo, "settings", &[("b", "3")]).await;
    world.condition(&rival, "sync", "Ready", "True", "Synced").await;
    assert_eq!(writes()[2], 1, "the first has removed its copy");
    world.finish().await;
}

#[tokio::test]
async fn a_copy_that_was_to_stay_stays_and_who_waits_for_its_place_sees_what_helps() {
    let world = World::new("left-behind").await;
    let (team, foo) = world.synced().await;
    let rival = rival(&world, &foo).await;
    world.sync(&rival, "sync", world.spec(&rival, &[&foo])).await;
    world.condition(&rival, "sync", "Ready", "False", "Conflict").await;
    let mut spec = world.spec(&team, &[&foo]);
    spec["deletionPolicy"] = json!("Orphan");
    world.sync(&team, "sync", spec).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    let copy = world.config_maps(&foo).get("settings").await.unwrap();
    world.delete_sync(&team, "sync").await;
    world.config_map(&rival, "settings", &[("b", "3")]).await;
    eventually("the way out is named", || async {
        let conflict = world.condition(&rival, "sync", "Ready", "False", "Conflict").await;
        if conflict.message.contains("weaver orphans adopt") { Ok(()) } else { Err(conflict) }
    })
    .await;
    assert_eq!(world.config_maps(&foo).get("settings").await.unwrap(), copy);
    world.finish().await;
}

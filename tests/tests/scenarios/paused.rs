//! A resource that is to be left alone for a while.

use serde_json::json;
use weaver_tests::world::World;

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

//! What is not ours stays as it is, to the byte. Races are in `own_server`.

use kube::api::DeleteParams;
use weaver_tests::world::World;

#[tokio::test]
async fn a_foreign_object_of_the_same_name_stays_byte_identical() {
    let world = World::new("foreign").await;
    let team = world.tenant().await;
    let (foo, bar) = (world.target(&team, "foo").await, world.target(&team, "bar").await);
    let theirs = world.config_map(&foo, "settings", &[("theirs", "x")]).await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo, &bar])).await;

    let conflicted = world.condition(&team, "sync", "Conflicted", "True", "Conflict").await;
    assert!(conflicted.message.contains(&format!("ConfigMap {foo}/settings was left untouched")));
    world.condition(&team, "sync", "Ready", "False", "Conflict").await;
    world.holds(&bar, "settings", &[("a", "1")]).await;
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.holds(&bar, "settings", &[("a", "2")]).await;
    world.delete_sync(&team, "sync").await;
    world.lacks(&bar, "settings").await;
    assert_eq!(world.config_maps(&foo).get("settings").await.unwrap(), theirs);
    world.finish().await;
}

#[tokio::test]
async fn a_conflict_ends_when_the_foreign_object_goes() {
    let world = World::new("foreign-goes").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    world.config_map(&foo, "settings", &[("theirs", "x")]).await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.condition(&team, "sync", "Ready", "False", "Conflict").await;
    world.config_maps(&foo).delete("settings", &DeleteParams::default()).await.unwrap();
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.finish().await;
}

#[tokio::test]
async fn the_copy_of_another_resource_is_left_to_it() {
    let world = World::new("two-syncs").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "first", world.spec(&team, &[&foo])).await;
    let copy = world.holds(&foo, "settings", &[("a", "1")]).await;
    world.sync(&team, "second", world.spec(&team, &[&foo])).await;
    let conflict = world.condition(&team, "second", "Conflicted", "True", "Conflict").await;
    assert!(
        conflict.message.contains(&format!("it is a copy of ConfigMapSync {team}/first")),
        "{}",
        conflict.message
    );
    world.delete_sync(&team, "second").await;
    assert_eq!(world.config_maps(&foo).get("settings").await.unwrap(), copy);
    world.finish().await;
}

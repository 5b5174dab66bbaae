//! What a copy is called, and which keys it has.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use weaver_tests::world::World;

#[tokio::test]
async fn a_renamed_copy_takes_the_place_of_the_one_before() {
    let world = World::new("renamed-copy").await;
    let (team, foo) = world.synced().await;
    let mut spec = world.spec(&team, &[&foo]);
    for name in ["other", "third"] {
        spec["targets"]["name"] = json!(name);
        world.sync(&team, "sync", spec.clone()).await;
        world.holds(&foo, name, &[("a", "1")]).await;
    }
    world.lacks(&foo, "settings").await;
    world.lacks(&foo, "other").await;
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.holds(&foo, "third", &[("a", "2")]).await;
    world.delete_sync(&team, "sync").await;
    world.lacks(&foo, "third").await;
    world.finish().await;
}

#[tokio::test]
async fn under_another_name_a_copy_may_stand_next_to_its_source() {
    let world = World::new("next-to-source").await;
    let team = world.tenant().await;
    world.grant(&team, &team, &weaver_tests::tenant::TARGET).await;
    let source = world.config_map(&team, "settings", &[("a", "1")]).await;
    let mut spec = world.spec(&team, &[&team]);
    spec["targets"]["name"] = json!("copy");
    world.sync(&team, "sync", spec.clone()).await;
    world.holds(&team, "copy", &[("a", "1")]).await;
    // Under its own name the copy would be the source: there is no target any more, and the source stays.
    spec["targets"]["name"] = json!("settings");
    world.sync(&team, "sync", spec).await;
    world.lacks(&team, "copy").await;
    assert_eq!(world.config_maps(&team).get("settings").await.unwrap(), source);
    world.delete_sync(&team, "sync").await;
    assert_eq!(world.config_maps(&team).get("settings").await.unwrap(), source);
    world.finish().await;
}

#[tokio::test]
async fn a_foreign_object_under_the_new_name_stays_and_the_old_copy_goes() {
    let world = World::new("renamed-onto").await;
    let (team, foo) = world.synced().await;
    let foreign = world.config_map(&foo, "theirs", &[("b", "2")]).await;
    let mut spec = world.spec(&team, &[&foo]);
    spec["targets"]["name"] = json!("theirs");
    world.sync(&team, "sync", spec).await;
    world.condition(&team, "sync", "Ready", "False", "Conflict").await;
    world.lacks(&foo, "settings").await;
    assert_eq!(world.config_maps(&foo).get("theirs").await.unwrap(), foreign);
    world.finish().await;
}

#[tokio::test]
async fn keys_are_chosen_and_renamed() {
    let world = World::new("keys").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    let every_byte = ByteString((0..=255).collect());
    let source = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"},
        "data": {"a": "1", "b": "2", "c": "3"}, "binaryData": {"blob": &every_byte, "more": &every_byte},
    });
    let person = PatchParams::apply("a-person").force();
    world.config_maps(&team).patch("settings", &person, &Patch::Apply(source)).await.unwrap();
    let mut spec = world.spec(&team, &[&foo]);
    spec["keys"] =
        json!({"include": ["a", "b", "blob", "gone"], "exclude": ["b"], "rename": {"blob": "bytes"}});
    world.sync(&team, "sync", spec.clone()).await;
    let copy = world.holds(&foo, "settings", &[("a", "1")]).await;
    assert_eq!(copy.binary_data, Some(BTreeMap::from([("bytes".to_owned(), every_byte)])));
    let found = world.condition(&team, "sync", "SourceFound", "True", "Found").await;
    assert!(found.message.ends_with("it has no key gone"), "{}", found.message);
    // What is copied no more leaves the copy too.
    spec["keys"] = json!({"include": ["c"], "rename": {"c": "d"}});
    world.sync(&team, "sync", spec).await;
    let copy = world.holds(&foo, "settings", &[("d", "3")]).await;
    assert_eq!(copy.binary_data, None);
    world.finish().await;
}

#[tokio::test]
async fn keys_that_clash_leave_the_copy_as_it_is_until_the_source_is_mended() {
    let world = World::new("keys-clash").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    let mut spec = world.spec(&team, &[&foo]);
    spec["keys"] = json!({"rename": {"a": "z"}});
    world.sync(&team, "sync", spec).await;
    world.holds(&foo, "settings", &[("z", "1")]).await;
    world.config_map(&team, "settings", &[("a", "2"), ("z", "theirs")]).await;
    let ready = world.condition(&team, "sync", "Ready", "False", "KeyConflict").await;
    assert!(ready.message.contains("gives key a the name z"), "{}", ready.message);
    world.holds(&foo, "settings", &[("z", "1")]).await;
    world.config_map(&team, "settings", &[("a", "3")]).await;
    world.holds(&foo, "settings", &[("z", "3")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.finish().await;
}

//! Everything may appear and go in any order.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use weaver_api::ownership::FINALIZER;
use weaver_tests::world::{World, eventually};

#[tokio::test]
async fn a_namespace_created_later_gets_its_copy() {
    let world = World::new("late-namespace").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    let later = world.name("later");
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&later, &foo])).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.target(&team, "later").await;
    world.holds(&later, "settings", &[("a", "1")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.finish().await;
}

#[tokio::test]
async fn a_namespace_dropped_from_the_list_loses_its_copy() {
    let world = World::new("dropped-namespace").await;
    let team = world.tenant().await;
    let (foo, bar) = (world.target(&team, "foo").await, world.target(&team, "bar").await);
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo, &bar])).await;
    world.holds(&bar, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.lacks(&bar, "settings").await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.finish().await;
}

#[tokio::test]
async fn another_source_leaves_no_copies_of_the_first_behind() {
    let world = World::new("changed-source").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    world.grant_source(&team, &team, "other").await;
    let first = world.config_map(&team, "settings", &[("a", "1")]).await;
    world.config_map(&team, "other", &[("b", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    let mut spec = world.spec(&team, &[&foo]);
    spec["source"]["name"] = json!("other");
    world.sync(&team, "sync", spec).await;
    world.holds(&foo, "other", &[("b", "1")]).await;
    world.lacks(&foo, "settings").await;
    assert_eq!(world.config_maps(&team).get("settings").await.unwrap(), first);
    world.finish().await;
}

#[tokio::test]
async fn a_deleted_resource_takes_its_copies_with_it_and_nothing_else() {
    let world = World::new("deleted-sync").await;
    let team = world.tenant().await;
    let (foo, bar) = (world.target(&team, "foo").await, world.target(&team, "bar").await);
    let source = world.config_map(&team, "settings", &[("a", "1")]).await;
    let neighbour = world.config_map(&foo, "neighbour", &[("n", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo, &bar])).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    let sync = world.syncs(&team).get("sync").await.unwrap();
    assert_eq!(sync.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));

    world.delete_sync(&team, "sync").await;
    world.lacks(&foo, "settings").await;
    world.lacks(&bar, "settings").await;
    assert_eq!(world.config_maps(&team).get("settings").await.unwrap(), source);
    assert_eq!(world.config_maps(&foo).get("neighbour").await.unwrap(), neighbour);
    world.finish().await;
}

#[tokio::test]
async fn an_account_that_is_deleted_and_made_again_works_again() {
    let world = World::new("recreated-account").await;
    let (team, foo) = world.synced().await;
    world.delete_account(&team).await;
    // The API server remembers a token for some seconds; an edit makes the operator use it.
    let mut edit = 0;
    let syncs = world.syncs(&team);
    eventually("the missing account is reported", || {
        edit += 1;
        let value = edit.to_string();
        let world = &world;
        let (team, syncs) = (&team, &syncs);
        async move {
            world.config_map(team, "settings", &[("a", &value)]).await;
            let conditions = syncs.get("sync").await.unwrap().status.unwrap_or_default().conditions;
            let gone = conditions.iter().any(|c| c.type_ == "Authorized" && c.reason == "AccountMissing");
            if gone { Ok(()) } else { Err(conditions) }
        }
    })
    .await;
    world.account(&team).await;
    world.config_map(&team, "settings", &[("a", "after")]).await;
    world.holds(&foo, "settings", &[("a", "after")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    // The watches are the new account's: a copy edited now is repaired.
    let tamper = json!({"data": {"a": "tampered"}});
    world.config_maps(&foo).patch("settings", &PatchParams::default(), &Patch::Merge(&tamper)).await.unwrap();
    world.holds(&foo, "settings", &[("a", "after")]).await;
    world.finish().await;
}

#[tokio::test]
async fn a_source_restored_from_its_copy_is_not_mistaken_for_one() {
    let world = World::new("restored-source").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    world.grant(&team, &team, &weaver_tests::tenant::TARGET).await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    let mut copy = world.holds(&foo, "settings", &[("a", "1")]).await;
    let sources = world.config_maps(&team);
    sources.delete("settings", &DeleteParams::default()).await.unwrap();
    copy.metadata = ObjectMeta {
        name: copy.metadata.name,
        labels: copy.metadata.labels,
        annotations: copy.metadata.annotations,
        ..ObjectMeta::default()
    };
    let restored = sources.create(&PostParams::default(), &copy).await.unwrap();
    world.condition(&team, "sync", "Ready", "True", "Synced").await;

    // The spec names no source any more, and the account could remove the object.
    world.old_sync(&team, "sync", json!({"serviceAccount": {"name": "sync"}})).await;
    world.condition(&team, "sync", "Ready", "False", "InvalidSpec").await;
    world.delete_sync(&team, "sync").await;
    world.lacks(&foo, "settings").await;
    assert_eq!(sources.get("settings").await.unwrap(), restored);
    world.finish().await;
}

#[tokio::test]
async fn a_resource_that_never_had_a_copy_is_deleted_at_once() {
    let world = World::new("never-copied").await;
    let team = world.tenant().await;
    let foo = world.namespace("foo").await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.condition(&team, "sync", "Authorized", "False", "MissingRights").await;
    assert_eq!(world.syncs(&team).get("sync").await.unwrap().metadata.finalizers, None);
    world.delete_sync(&team, "sync").await;
    world.finish().await;
}

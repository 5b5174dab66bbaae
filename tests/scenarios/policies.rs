//! What the policies of a spec make of copies and of other people's objects.

use k8s_openapi::api::events::v1::Event;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::json;
use weaver_api::ownership::SYNC_UID_LABEL;
use weaver_tests::world::{World, eventually};

#[tokio::test]
async fn adopt_takes_over_what_carries_no_mark_and_gives_it_back() {
    let world = World::new("adopt").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    let theirs = world.config_map(&foo, "settings", &[("b", "2")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    let refused = world.condition(&team, "sync", "Ready", "False", "Conflict").await;
    assert!(refused.message.contains("conflictPolicy: Adopt"), "{}", refused.message);
    assert_eq!(world.config_maps(&foo).get("settings").await.unwrap(), theirs);

    let mut spec = world.spec(&team, &[&foo]);
    spec["conflictPolicy"] = json!("Adopt");
    world.sync(&team, "sync", spec).await;
    let copy = world.holds(&foo, "settings", &[("a", "1")]).await;
    assert_eq!(copy.metadata.uid, theirs.metadata.uid);
    world.condition(&team, "sync", "Ready", "True", "Synced").await;

    world.delete_sync(&team, "sync").await;
    let left = world.config_maps(&foo).get("settings").await.unwrap();
    assert_eq!(left.metadata.uid, theirs.metadata.uid);
    assert!(!left.metadata.labels.unwrap_or_default().contains_key(SYNC_UID_LABEL));
    assert_eq!(left.data, copy.data, "the content stays as it was synced last");
    world.finish().await;
}

#[tokio::test]
async fn copies_of_a_deleted_source_stay_or_go_as_the_spec_says() {
    let world = World::new("source-deletion").await;
    let (team, foo) = world.synced().await;
    let bar = world.target(&team, "bar").await;
    let mut spec = world.spec(&team, &[&bar]);
    spec["sourceDeletionPolicy"] = json!("Delete");
    world.sync(&team, "takes-along", spec).await;
    world.holds(&bar, "settings", &[("a", "1")]).await;
    world.config_maps(&team).delete("settings", &DeleteParams::default()).await.unwrap();
    world.lacks(&bar, "settings").await;
    world.condition(&team, "sync", "Ready", "False", "SourceMissing").await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    world.holds(&bar, "settings", &[("a", "2")]).await;
    world.finish().await;
}

#[tokio::test]
async fn labels_and_annotations_come_from_the_source_and_the_spec() {
    let world = World::new("labels").await;
    let (team, foo) = world.synced().await;
    let mut spec = world.spec(&team, &[&foo]);
    spec["targets"]["labels"] = json!({"grafana_dashboard": "1"});
    spec["targets"]["annotations"] = json!({"example.com/note": "from the spec"});
    world.sync(&team, "sync", spec).await;
    let maps = world.config_maps(&foo);
    let carries = async |what: &str, label: bool, note: bool| {
        eventually(what, || async {
            let meta = maps.get("settings").await.unwrap().metadata;
            let labels = meta.labels.clone().unwrap_or_default();
            let annotations = meta.annotations.clone().unwrap_or_default();
            let has =
                (labels.contains_key("grafana_dashboard"), annotations.contains_key("example.com/note"));
            if has == (label, note) { Ok(()) } else { Err(meta) }
        })
        .await;
    };
    carries("the copy has what the spec adds", true, true).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    carries("the copy has lost it again", false, false).await;
    let label = json!({"metadata": {"labels": {"grafana_dashboard": "1"}}});
    let params = kube::api::PatchParams::default();
    world.config_maps(&team).patch("settings", &params, &kube::api::Patch::Merge(label)).await.unwrap();
    carries("the copy has the source's label", true, false).await;
    world.finish().await;
}

#[tokio::test]
async fn what_happens_to_a_resource_is_reported_as_events_of_it() {
    let world = World::new("events").await;
    let (team, foo) = world.synced().await;
    world.revoke(&foo).await;
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.condition(&team, "sync", "Ready", "False", "MissingRights").await;
    let events: Api<Event> = Api::namespaced(world.client.clone(), &team);
    eventually("both turns have an event, and each once", || async {
        let found = events.list(&ListParams::default()).await.unwrap().items;
        let reported: Vec<_> = found
            .iter()
            .filter(|event| {
                event.regarding.as_ref().is_some_and(|about| about.name.as_deref() == Some("sync"))
            })
            .map(|event| (event.type_.clone().unwrap_or_default(), event.reason.clone().unwrap_or_default()))
            .collect();
        let count = |kind: &str, reason: &str| {
            reported.iter().filter(|(reported, why)| reported == kind && why == reason).count()
        };
        if (count("Normal", "Synced"), count("Warning", "MissingRights")) == (1, 1) {
            Ok(())
        } else {
            Err(reported)
        }
    })
    .await;
    world.finish().await;
}

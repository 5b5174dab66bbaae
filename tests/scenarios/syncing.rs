//! What changes is copied, by events.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use weaver_api::ownership::{
    MANAGED_BY, MANAGED_BY_LABEL, SOURCE_ANNOTATION, SYNC_ANNOTATION, SYNC_UID_LABEL,
};
use weaver_tests::world::{World, eventually};

/// Upstream's own shape: its field names, its RBAC on the targets and what the source needs; `testNum` too.
#[tokio::test]
async fn upstreams_sample_shape_syncs_and_the_copies_have_the_ownership_labels() {
    let world = World::new("upstream-sample").await;
    let team = world.tenant().await;
    let (foo, bar) = (world.target(&team, "foo").await, world.target(&team, "bar").await);
    world.config_map(&team, "settings", &[("greeting", "hello")]).await;
    let mut spec = world.old_spec(&team, &[&foo, &bar]);
    spec["testNum"] = json!(3);
    let sync = world.old_sync(&team, "sample", spec).await;

    world.condition(&team, "sample", "Ready", "True", "Synced").await;
    let uid = sync.metadata.uid.unwrap();
    for namespace in [&foo, &bar] {
        let copy = world.holds(namespace, "settings", &[("greeting", "hello")]).await;
        let (labels, annotations) = (copy.metadata.labels.unwrap(), copy.metadata.annotations.unwrap());
        assert_eq!(labels[SYNC_UID_LABEL], uid);
        assert_eq!(labels[MANAGED_BY_LABEL], MANAGED_BY);
        assert_eq!(annotations[SYNC_ANNOTATION], format!("{team}/sample/{uid}"));
        assert_eq!(annotations[SOURCE_ANNOTATION], format!("ConfigMap/{team}/settings"));
        assert_eq!(
            copy.metadata.owner_references, None,
            "an owner of another namespace would have the copy collected"
        );
    }
    world.finish().await;
}

#[tokio::test]
async fn the_source_is_never_written() {
    let world = World::new("source-untouched").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    // The account may even write here; it must not.
    world.grant(&team, &team, &weaver_tests::tenant::TARGET).await;
    let before = world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "own", world.spec(&team, &[&foo, &team])).await;

    let ready = world.condition(&team, "own", "Ready", "True", "Synced").await;
    assert!(ready.message.contains("the source's own namespace and is skipped"), "{}", ready.message);
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.delete_sync(&team, "own").await;
    world.lacks(&foo, "settings").await;
    assert_eq!(world.config_maps(&team).get("settings").await.unwrap(), before);
    world.finish().await;
}

#[tokio::test]
async fn an_edited_source_is_copied() {
    let world = World::new("edited-source").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    world.config_map(&team, "settings", &[("a", "1"), ("b", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.holds(&foo, "settings", &[("a", "1"), ("b", "1")]).await;
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    world.finish().await;
}

#[tokio::test]
async fn a_source_that_appears_later_is_copied_and_one_that_goes_leaves_its_copies() {
    let world = World::new("late-source").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.condition(&team, "sync", "SourceFound", "False", "SourceMissing").await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.config_maps(&team).delete("settings", &DeleteParams::default()).await.unwrap();
    world.condition(&team, "sync", "Ready", "False", "SourceMissing").await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.finish().await;
}

#[tokio::test]
async fn an_edited_copy_is_repaired() {
    let world = World::new("edited-copy").await;
    let (_, foo) = world.synced().await;
    let copy = world.holds(&foo, "settings", &[("a", "1")]).await;

    for change in [
        json!({"data": {"a": "tampered"}}),
        json!({"binaryData": {"extra": "AAEC"}}),
        json!({"metadata": {"annotations": {SYNC_ANNOTATION: null}}}),
        json!({"metadata": {"labels": {SYNC_UID_LABEL: null}}}),
    ] {
        let maps = world.config_maps(&foo);
        maps.patch("settings", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
        eventually(&format!("{change} is undone"), || async {
            let now = maps.get("settings").await.unwrap();
            let same = now.data == copy.data
                && now.binary_data == copy.binary_data
                && now.metadata.labels == copy.metadata.labels
                && now.metadata.annotations == copy.metadata.annotations;
            if same { Ok(()) } else { Err(now) }
        })
        .await;
    }
    world.finish().await;
}

#[tokio::test]
async fn other_peoples_labels_annotations_and_finalizers_on_a_copy_stay() {
    let world = World::new("others-metadata").await;
    let (team, foo) = world.synced().await;
    let theirs = json!({"metadata": {"labels": {"theirs": "x"}, "annotations": {"theirs/note": "y"},
                                     "finalizers": ["theirs/keep"]}});
    let maps = world.config_maps(&foo);
    maps.patch("settings", &PatchParams::default(), &Patch::Merge(&theirs)).await.unwrap();
    world.config_map(&team, "settings", &[("a", "2")]).await;
    let copy = world.holds(&foo, "settings", &[("a", "2")]).await;
    assert_eq!(copy.metadata.labels.unwrap()["theirs"], "x");
    assert_eq!(copy.metadata.annotations.unwrap()["theirs/note"], "y");
    assert_eq!(copy.metadata.finalizers, Some(vec!["theirs/keep".to_owned()]));
    let release = json!({"metadata": {"finalizers": null}});
    maps.patch("settings", &PatchParams::default(), &Patch::Merge(&release)).await.unwrap();
    world.finish().await;
}

#[tokio::test]
async fn a_deleted_copy_comes_back() {
    let world = World::new("deleted-copy").await;
    let (_, foo) = world.synced().await;
    let first = world.holds(&foo, "settings", &[("a", "1")]).await;
    let maps = world.config_maps(&foo);
    maps.delete("settings", &DeleteParams::default()).await.unwrap();
    eventually("a new copy", || async {
        match maps.get_opt("settings").await.unwrap() {
            Some(copy) if copy.metadata.uid != first.metadata.uid => Ok(()),
            other => Err(other),
        }
    })
    .await;
    world.finish().await;
}

#[tokio::test]
async fn binary_data_and_immutable_are_copied_and_an_immutable_copy_is_replaced() {
    let world = World::new("binary-immutable").await;
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    let every_byte = BTreeMap::from([("blob".to_owned(), ByteString((0..=255).collect()))]);
    let immutable = |data: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"},
            "data": {"a": data}, "binaryData": &every_byte, "immutable": true,
        })
    };
    let source = world.config_maps(&team);
    let person = PatchParams::apply("a-person").force();
    source.patch("settings", &person, &Patch::Apply(immutable("1"))).await.unwrap();
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    let copy = world.holds(&foo, "settings", &[("a", "1")]).await;
    assert_eq!((copy.binary_data.as_ref(), copy.immutable), (Some(&every_byte), Some(true)));

    source.delete("settings", &DeleteParams::default()).await.unwrap();
    source.patch("settings", &person, &Patch::Apply(immutable("2"))).await.unwrap();
    let copy = world.holds(&foo, "settings", &[("a", "2")]).await;
    assert_eq!(copy.immutable, Some(true));
    world.finish().await;
}

#[tokio::test]
async fn nothing_is_written_while_nothing_changes() {
    let world = World::new("no-op").await;
    let (team, foo) = world.synced().await;
    let version = async || world.syncs(&team).get("sync").await.unwrap().metadata.resource_version;
    let before = version().await;
    // Each of these wakes the resource, as `kubectl apply` does; what is copied stays the same.
    for round in 0..5 {
        let key = "kubectl.kubernetes.io/last-applied-configuration";
        let note = json!({"metadata": {"annotations": {key: round.to_string()}}});
        world
            .config_maps(&team)
            .patch("settings", &PatchParams::default(), &Patch::Merge(&note))
            .await
            .unwrap();
    }
    // Reconciliations of one resource follow each other: once this is copied, those above are over.
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    assert_eq!(version().await, before, "the status was written");
    let writes = |verb| world.audit.requests(&foo, verb);
    eventually("the audit log has the two writes", || async {
        if writes("update") > 0 { Ok(()) } else { Err(writes("create")) }
    })
    .await;
    assert_eq!((writes("create"), writes("update"), writes("patch"), writes("delete")), (1, 1, 0, 0));
    world.finish().await;
}

//! Sources that are selected by their labels.

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use weaver_api::v1beta1::ConfigMapSyncStatus;
use weaver_tests::cli::done;
use weaver_tests::world::{World, eventually};

/// What selected sources need.
const SOURCES: [&str; 3] = ["get", "list", "watch"];

/// A ConfigMap `a: 1` with the label `share=true`.
async fn shared(world: &World, namespace: &str, name: &str) {
    let map: ConfigMap = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"share": "true"}}, "data": {"a": "1"},
    }))
    .unwrap();
    let params = PatchParams::apply("a-person").force();
    world.config_maps(namespace).patch(name, &params, &Patch::Apply(&map)).await.unwrap();
}

/// Sets or takes away that label.
async fn share(world: &World, namespace: &str, name: &str, value: Value) {
    let label = json!({"metadata": {"labels": {"share": value}}});
    let maps = world.config_maps(namespace);
    maps.patch(name, &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
}

/// All that is shared in `src`, to these targets.
fn spec(src: &str, targets: &[&str]) -> Value {
    json!({
        "serviceAccount": {"name": "sync"},
        "source": {"namespace": src, "selector": {"matchLabels": {"share": "true"}}},
        "targets": {"namespaces": targets, "namePrefix": "shared-"},
    })
}

async fn status(world: &World, team: &str) -> ConfigMapSyncStatus {
    world.syncs(team).get("sync").await.unwrap().status.unwrap_or_default()
}

/// Waits until so many sources are synced in so many targets.
async fn synced(world: &World, team: &str, sources: i32, targets: i32) {
    eventually(&format!("{sources} sources are in {targets} targets"), || async {
        let counts = status(world, team).await.counts.unwrap_or_default();
        let found = (counts.sources, counts.desired, counts.synced);
        if found == (Some(sources), targets, targets) { Ok(()) } else { Err(counts) }
    })
    .await;
    world.condition(team, "sync", "Ready", "True", "Synced").await;
}

async fn names(world: &World, namespace: &str) -> Vec<String> {
    let found = world.config_maps(namespace).list(&kube::api::ListParams::default()).await.unwrap();
    found
        .items
        .into_iter()
        .filter_map(|map| map.metadata.name)
        .filter(|name| name != "kube-root-ca.crt")
        .collect()
}

#[tokio::test]
async fn each_source_with_the_labels_is_copied_for_as_long_as_it_has_them() {
    let world = World::new("sources").await;
    let team = world.tenant().await;
    let src = world.target(&team, "src").await;
    let (foo, bar) = (world.target(&team, "foo").await, world.target(&team, "bar").await);
    for name in ["a", "b", "c"] {
        shared(&world, &src, name).await;
    }
    share(&world, &src, "c", Value::Null).await;
    // A copy in the sources' namespace has the label of its source.
    shared(&world, &team, "settings").await;
    world.sync(&team, "other", world.spec(&team, &[&src])).await;
    world.holds(&src, "settings", &[("a", "1")]).await;

    // Nothing is copied in the sources' own namespace, or copies could be copied again and again.
    let mut spec = spec(&src, &[&foo, &bar, &src]);
    world.sync(&team, "sync", spec.clone()).await;
    synced(&world, &team, 2, 2).await;
    for namespace in [&foo, &bar] {
        assert_eq!(names(&world, namespace).await, ["shared-a", "shared-b"]);
    }
    assert_eq!(names(&world, &src).await, ["a", "b", "c", "settings"]);
    let reported = status(&world, &team).await;
    let sources: Vec<_> = reported.sources.iter().map(|one| (one.name.as_str(), one.synced)).collect();
    assert_eq!(sources, [("a", 2), ("b", 2)]);
    let found = world.condition(&team, "sync", "SourceFound", "True", "Found").await;
    assert!(found.message.starts_with(&format!("2 ConfigMaps in {src} that")), "{}", found.message);
    let said = done(&["sync", "explain", "sync", "-n", &team]).await;
    assert!(said.contains(&format!("ConfigMap {foo}/shared-b: holds the copy")), "{said}");
    assert!(said.contains("holds every right that is needed"), "{said}");

    // An edit, a new source, and one that gets the label.
    world.config_map(&src, "a", &[("a", "2")]).await;
    share(&world, &src, "a", json!("true")).await;
    world.holds(&bar, "shared-a", &[("a", "2")]).await;
    shared(&world, &src, "d").await;
    share(&world, &src, "c", json!("true")).await;
    world.holds(&foo, "shared-d", &[("a", "1")]).await;
    world.holds(&foo, "shared-c", &[("a", "1")]).await;
    synced(&world, &team, 4, 2).await;

    // One that loses the label is gone like one that is deleted: its copies stay, or not.
    share(&world, &src, "b", Value::Null).await;
    synced(&world, &team, 3, 2).await;
    world.holds(&foo, "shared-b", &[("a", "1")]).await;
    spec["sourceDeletionPolicy"] = json!("Delete");
    world.sync(&team, "sync", spec.clone()).await;
    world.lacks(&foo, "shared-b").await;
    world.config_maps(&src).delete("d", &DeleteParams::default()).await.unwrap();
    world.lacks(&bar, "shared-d").await;
    synced(&world, &team, 2, 2).await;

    // Under other names the former copies go, whatever is retained.
    spec["sourceDeletionPolicy"] = json!("Retain");
    spec["targets"] = json!({"namespaces": [foo, bar], "nameSuffix": ".shared"});
    world.sync(&team, "sync", spec.clone()).await;
    world.holds(&foo, "a.shared", &[("a", "2")]).await;
    world.lacks(&foo, "shared-a").await;
    synced(&world, &team, 2, 2).await;

    // A write at the deprecated version, which shows no selector, does not lose it.
    let change = Patch::Merge(json!({"spec": {"testNum": 1}}));
    world.old_syncs(&team).patch("sync", &PatchParams::default(), &change).await.unwrap();
    let stored = world.syncs(&team).get("sync").await.unwrap().spec.spec.unwrap();
    assert!(stored.source.unwrap().selector.is_some());
    assert_eq!(stored.targets.unwrap().name_suffix.as_deref(), Some(".shared"));
    // A name next to it is refused, and the copies stay.
    let change = Patch::Merge(json!({"spec": {"source": {"name": "a"}}}));
    world.old_syncs(&team).patch("sync", &PatchParams::default(), &change).await.unwrap();
    let invalid = world.condition(&team, "sync", "Ready", "False", "InvalidSpec").await;
    assert!(
        invalid.message.contains("spec.source.name and spec.source.selector exclude"),
        "{}",
        invalid.message
    );
    let change = Patch::Merge(json!({"spec": {"source": {"name": null}}}));
    world.old_syncs(&team).patch("sync", &PatchParams::default(), &change).await.unwrap();
    synced(&world, &team, 2, 2).await;

    world.delete_sync(&team, "sync").await;
    for namespace in [&foo, &bar] {
        assert_eq!(names(&world, namespace).await, Vec::<String>::new());
    }
    assert_eq!(names(&world, &src).await, ["a", "b", "c", "settings"]);
    world.finish().await;
}

#[tokio::test]
async fn sources_are_seen_with_the_accounts_right_to_list_them_and_no_other() {
    let world = World::new("sources-rights").await;
    let team = world.tenant().await;
    let (src, foo) = (world.namespace("src").await, world.target(&team, "foo").await);
    shared(&world, &src, "a").await;
    world.grant(&team, &src, &["get"]).await;
    world.sync(&team, "sync", spec(&src, &[&foo])).await;
    let missing = world.condition(&team, "sync", "Ready", "False", "MissingRights").await;
    let words = format!("may not list, watch ConfigMaps in namespace {src}");
    assert!(missing.message.contains(&words), "{}", missing.message);
    assert!(missing.message.contains("source:configmaps"), "{}", missing.message);
    world.condition(&team, "sync", "SourceFound", "Unknown", "SourceForbidden").await;
    assert!(names(&world, &foo).await.is_empty());

    // Which may be listed and not read, or not watched, is said too.
    world.grant(&team, &src, &["list"]).await;
    eventually("the right to get is missing", || async {
        let conditions = status(&world, &team).await.conditions;
        let says = |condition: &Condition| {
            condition.type_ == "Authorized" && condition.message.contains("may not get, watch ConfigMaps")
        };
        if conditions.iter().any(says) { Ok(()) } else { Err(conditions) }
    })
    .await;
    world.grant(&team, &src, &["get", "list"]).await;
    world.holds(&foo, "shared-a", &[("a", "1")]).await;
    world.condition(&team, "sync", "Authorized", "True", "Polled").await;
    world.grant(&team, &src, &SOURCES).await;
    world.condition(&team, "sync", "Authorized", "True", "Allowed").await;

    // Taken away again, the copies stay.
    world.grant(&team, &src, &["get"]).await;
    let later = json!({"metadata": {"annotations": {"weaver.example.com/sync-now": "1"}}});
    world.syncs(&team).patch("sync", &PatchParams::default(), &Patch::Merge(later)).await.unwrap();
    world.condition(&team, "sync", "Ready", "False", "MissingRights").await;
    assert_eq!(names(&world, &foo).await, ["shared-a"]);
    world.finish().await;
}

#[tokio::test]
async fn too_many_sources_are_refused_and_what_cannot_be_copied_stops_no_other() {
    let world = World::new("sources-many").await;
    let team = world.tenant().await;
    let (src, foo) = (world.namespace("src").await, world.target(&team, "foo").await);
    world.grant(&team, &src, &SOURCES).await;
    let long = "x".repeat(250);
    for name in ["a", "b", &long] {
        shared(&world, &src, name).await;
    }
    // Something else has the name of a copy.
    world.config_map(&foo, "shared-b", &[("theirs", "1")]).await;
    let mut dry = spec(&src, &[&foo]);
    dry["dryRun"] = json!(true);
    world.sync(&team, "sync", dry).await;
    let planned = world.condition(&team, "sync", "TargetsSynced", "False", "TargetsFailed").await;
    assert!(planned.message.contains(&format!("{foo}/shared-a: would be created")), "{}", planned.message);
    assert_eq!(names(&world, &foo).await, ["shared-b"]);

    world.sync(&team, "sync", spec(&src, &[&foo])).await;
    world.holds(&foo, "shared-a", &[("a", "1")]).await;
    let failed = world.condition(&team, "sync", "TargetsSynced", "False", "TargetsFailed").await;
    let [conflict, too_long] = [format!("{foo}/shared-b: conflict"), "257 characters".to_owned()];
    assert!(failed.message.contains(&conflict) && failed.message.contains(&too_long), "{}", failed.message);
    world.holds(&foo, "shared-b", &[("theirs", "1")]).await;
    let reported = status(&world, &team).await;
    let of = |name: &str| reported.sources.iter().find(|one| one.name == name).unwrap();
    assert_eq!((of("a").synced, of("b").conflicts, of(&long).reason.as_str()), (1, 1, "CopyNameTooLong"));
    assert_eq!((reported.counts.unwrap().conflicts, reported.counts.unwrap().synced), (1, 0));

    // A second resource that selects the same finds the first one's copies.
    world.sync(&team, "second", spec(&src, &[&foo])).await;
    let conflict = world.condition(&team, "second", "Conflicted", "True", "Conflict").await;
    assert!(conflict.message.contains("it is a copy of ConfigMapSync"), "{}", conflict.message);
    world.delete_sync(&team, "second").await;
    world.holds(&foo, "shared-a", &[("a", "1")]).await;

    let more: Vec<String> = (0..254).map(|number| format!("more-{number:03}")).collect();
    stream::iter(&more).for_each_concurrent(16, |name| shared(&world, &src, name)).await;
    let refused = world.condition(&team, "sync", "Ready", "False", "TooManySources").await;
    assert!(refused.message.starts_with("more than 256 ConfigMaps"), "{}", refused.message);
    world.holds(&foo, "shared-a", &[("a", "1")]).await;
    let said = done(&["sync", "explain", "sync", "-n", &team]).await;
    assert!(said.contains("257 ConfigMaps") && said.contains("at most 256"), "{said}");
    world.config_maps(&src).delete(&more[0], &DeleteParams::default()).await.unwrap();
    world.holds(&foo, "shared-more-253", &[("a", "1")]).await;
    let found = world.condition(&team, "sync", "SourceFound", "True", "Found").await;
    assert!(found.message.starts_with("256 "), "{}", found.message);
    world.finish().await;
}

#[tokio::test]
async fn one_command_grants_what_selected_sources_need() {
    let world = World::new("sources-grant").await;
    let (team, foo) = (world.namespace("team").await, world.namespace("foo").await);
    world.is_tenant(&team);
    shared(&world, &team, "a").await;
    let source = ["--source", "*", "--source-selector", "share=true", "--name-suffix", ".copy"];
    let create = ["sync", "create", "sync", "-n", &team, "--to", &foo, "--grant"];
    done(&[&create[..], &source].concat()).await;
    world.holds(&foo, "a.copy", &[("a", "1")]).await;
    world.condition(&team, "sync", "Authorized", "True", "Allowed").await;
    world.finish().await;
}

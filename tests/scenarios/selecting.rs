//! Namespaces that are selected by their labels, that are created and deleted, and that accept no copies.

use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use weaver_api::v1beta1::ConfigMapSyncStatus;
use weaver_tests::tenant::TARGET;
use weaver_tests::world::{World, eventually};

/// Copies `settings` to every namespace that is labelled for this world.
fn selecting(world: &World, team: &str) -> Value {
    let mut spec = world.spec(team, &[]);
    spec["targets"] = json!({"selector": {"matchLabels": {"world": world.name("selected")}}});
    spec
}

async fn select(world: &World, namespace: &str) {
    world.mark_namespace(namespace, json!({"labels": {"world": world.name("selected")}})).await;
}

async fn status(world: &World, team: &str) -> ConfigMapSyncStatus {
    world.syncs(team).get("sync").await.unwrap().status.unwrap_or_default()
}

#[tokio::test]
async fn selected_namespaces_get_a_copy_and_lose_it_with_their_label() {
    let world = World::new("selected").await;
    let team = world.tenant().await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    let [foo, bar, baz] = [
        world.target(&team, "foo").await,
        world.target(&team, "bar").await,
        world.target(&team, "baz").await,
    ];
    select(&world, &foo).await;
    select(&world, &baz).await;
    let mut spec = selecting(&world, &team);
    spec["targets"]["exclude"] = json!([baz]);
    world.sync(&team, "sync", spec.clone()).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    assert_eq!(status(&world, &team).await.counts.unwrap().desired, 1);

    select(&world, &bar).await;
    world.holds(&bar, "settings", &[("a", "1")]).await;
    assert!(world.config_maps(&baz).get_opt("settings").await.unwrap().is_none(), "it is excluded");
    world.mark_namespace(&foo, json!({"labels": {"world": null}})).await;
    world.lacks(&foo, "settings").await;
    // Named and selected is no more than one copy; and no longer excluded is selected.
    spec["targets"]["namespaces"] = json!([bar]);
    spec["targets"]["exclude"] = json!([]);
    world.sync(&team, "sync", spec).await;
    world.holds(&baz, "settings", &[("a", "1")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    assert_eq!(status(&world, &team).await.counts.unwrap().desired, 2);
    world.delete_sync(&team, "sync").await;
    for namespace in [&bar, &baz] {
        world.lacks(namespace, "settings").await;
    }
    world.finish().await;
}

#[tokio::test]
async fn a_tenant_learns_nothing_of_a_selected_namespace_in_which_it_has_no_right() {
    let world = World::new("hidden").await;
    let team = world.tenant().await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    let foo = world.target(&team, "foo").await;
    let hidden = world.namespace("hidden").await;
    select(&world, &foo).await;
    select(&world, &hidden).await;
    world.sync(&team, "sync", selecting(&world, &team)).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    let reported = status(&world, &team).await;
    assert_eq!(reported.counts.unwrap().desired, 1);
    assert!(!serde_json::to_string(&reported).unwrap().contains(&hidden), "{reported:?}");
    // With one right the status says what else is missing.
    world.grant(&team, &hidden, &["get"]).await;
    let authorized = world.condition(&team, "sync", "Authorized", "False", "MissingRights").await;
    assert!(authorized.message.contains(&hidden), "{}", authorized.message);
    world.grant(&team, &hidden, &TARGET).await;
    world.holds(&hidden, "settings", &[("a", "1")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.finish().await;
}

#[tokio::test]
async fn of_a_named_namespace_the_api_server_says_the_same_whether_it_is_there_or_not() {
    let world = World::new("no-oracle").await;
    let team = world.tenant().await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    let there = world.namespace("there").await;
    world.mark_namespace(&there, json!({"annotations": {"weaver.example.com/accept-from": "none"}})).await;
    let nowhere = world.name("nowhere");
    world.sync(&team, "sync", world.spec(&team, &[&there, &nowhere])).await;
    world.condition(&team, "sync", "Ready", "False", "MissingRights").await;
    let targets = status(&world, &team).await.targets;
    let said = |namespace: &str| {
        let target = targets.iter().find(|target| target.namespace == namespace).unwrap();
        (target.state.clone(), target.reason.clone(), target.message.replace(namespace, "X"))
    };
    assert_eq!(said(&there), said(&nowhere));
    world.finish().await;
}

#[tokio::test]
async fn a_namespace_says_from_whom_it_accepts_copies() {
    let world = World::new("consent").await;
    let team = world.tenant().await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    let foo = world.target(&team, "foo").await;
    let accept = async |names: Value| {
        world.mark_namespace(&foo, json!({"annotations": {"weaver.example.com/accept-from": names}})).await;
    };
    accept(json!("none")).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    let failed = world.condition(&team, "sync", "Ready", "False", "TargetsFailed").await;
    assert!(failed.message.contains("weaver.example.com/accept-from"), "{}", failed.message);
    assert_eq!(status(&world, &team).await.targets[0].reason, "NotAccepted");
    assert!(world.config_maps(&foo).get_opt("settings").await.unwrap().is_none());

    accept(json!(format!("another, {team}"))).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    // What is there stays, and nothing new comes in.
    accept(json!("another")).await;
    world.condition(&team, "sync", "Ready", "False", "TargetsFailed").await;
    world.config_map(&team, "settings", &[("a", "2")]).await;
    accept(json!(null)).await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    world.finish().await;
}

#[tokio::test]
async fn a_namespace_says_to_whom_it_offers_copies_of_its_objects() {
    let world = World::new("offer").await;
    let team = world.tenant().await;
    let common = world.namespace("common").await;
    world.grant(&team, &common, &["get", "list", "watch"]).await;
    world.config_map(&common, "settings", &[("a", "1")]).await;
    let (foo, bar) = (world.target(&team, "foo").await, world.target(&team, "bar").await);
    let offer = async |names: Value| {
        world.mark_namespace(&common, json!({"annotations": {"weaver.example.com/offer-to": names}})).await;
    };
    offer(json!("none")).await;
    // Named in no annotation, and without a right there: that must look the same as one that is named.
    let hidden = world.namespace("hidden").await;
    let mut spec = world.spec(&team, &[&foo, &bar, &hidden]);
    spec["source"]["namespace"] = common.clone().into();
    world.sync(&team, "sync", spec).await;
    let are = async |expected: [(&str, &str); 3]| {
        eventually(&format!("the targets are {expected:?}"), || async {
            let targets = status(&world, &team).await.targets;
            let of =
                |name: &str| targets.iter().find(|one| one.namespace == name).map(|one| one.reason.as_str());
            if expected.iter().all(|(name, reason)| of(name) == Some(*reason)) {
                Ok(())
            } else {
                Err(targets)
            }
        })
        .await;
    };
    let absent = async |target: &str| world.config_maps(target).get_opt("settings").await.unwrap().is_none();
    are([(&foo, "NotOffered"), (&bar, "NotOffered"), (&hidden, "Forbidden")]).await;
    let failed = world.condition(&team, "sync", "TargetsSynced", "False", "TargetsFailed").await;
    let said =
        format!("namespace {common} offers no copies to it: its annotation weaver.example.com/offer-to");
    assert!(failed.message.contains(&said), "{}", failed.message);
    assert!(absent(&foo).await && absent(&bar).await);

    offer(json!(format!("another, {foo}"))).await;
    are([(&foo, "Synced"), (&bar, "NotOffered"), (&hidden, "Forbidden")]).await;
    assert!(absent(&bar).await);
    // Existing copies stay, and no new one is written.
    offer(json!(format!("{bar},{hidden}"))).await;
    are([(&foo, "NotOffered"), (&bar, "Synced"), (&hidden, "Forbidden")]).await;
    // When the second edit is at bar, the pass with the first has ended.
    for edit in ["2", "3"] {
        world.config_map(&common, "settings", &[("a", edit)]).await;
        world.holds(&bar, "settings", &[("a", edit)]).await;
    }
    world.holds(&foo, "settings", &[("a", "1")]).await;
    offer(json!(null)).await;
    world.holds(&foo, "settings", &[("a", "3")]).await;
    world.finish().await;
}

#[tokio::test]
async fn a_namespace_that_is_going_is_skipped_without_a_failure() {
    let world = World::new("going").await;
    let team = world.tenant().await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    let foo = world.target(&team, "foo").await;
    let going = world.target(&team, "going").await;
    let held = world.config_map(&going, "held", &[]).await;
    let maps = world.config_maps(&going);
    let finalizers = |list: Value| Patch::Merge(json!({"metadata": {"finalizers": list}}));
    let params = PatchParams::default();
    maps.patch("held", &params, &finalizers(json!(["example.com/held"]))).await.unwrap();
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(world.client.clone());
    namespaces.delete(&going, &DeleteParams::default()).await.unwrap();
    select(&world, &foo).await;
    select(&world, &going).await;
    world.sync(&team, "sync", selecting(&world, &team)).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    // Named, it is reported as what it is.
    world.sync(&team, "sync", world.spec(&team, &[&foo, &going])).await;
    eventually("the target says what is the matter", || async {
        let targets = status(&world, &team).await.targets;
        let reason =
            targets.iter().find(|target| target.namespace == going).map(|target| target.reason.clone());
        // Its Roles go first or last: the API server says the one or the other.
        let fine = matches!(reason.as_deref(), Some("NamespaceTerminating" | "Forbidden"));
        if fine { Ok(()) } else { Err(targets) }
    })
    .await;
    maps.patch(held.metadata.name.as_deref().unwrap(), &params, &finalizers(json!(null))).await.unwrap();
    world.finish().await;
}

#[tokio::test]
async fn one_watch_does_for_all_namespaces_where_the_account_may() {
    let world = World::new("one-watch").await;
    let team = world.tenant().await;
    world.grant_everywhere(&team, &TARGET).await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    let targets = [world.namespace("foo").await, world.namespace("bar").await, world.namespace("baz").await];
    let names: Vec<&str> = targets.iter().map(String::as_str).collect();
    world.sync(&team, "sync", world.spec(&team, &names)).await;
    for target in &targets {
        world.holds(target, "settings", &[("a", "1")]).await;
    }
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    for target in &targets {
        assert_eq!(world.audit.requests(target, "watch"), 0, "{target}");
    }
    // It sees what happens there,
    world.config_maps(&targets[1]).delete("settings", &DeleteParams::default()).await.unwrap();
    world.holds(&targets[1], "settings", &[("a", "1")]).await;
    // and where it is refused, one per namespace replaces it.
    for target in &targets {
        world.grant(&team, target, &TARGET).await;
    }
    world.revoke_everywhere().await;
    eventually("each target is watched", || async {
        let counts: Vec<usize> = targets.iter().map(|target| world.audit.requests(target, "watch")).collect();
        if counts.iter().all(|count| *count > 0) { Ok(()) } else { Err(counts) }
    })
    .await;
    world.config_map(&team, "settings", &[("a", "2")]).await;
    for target in &targets {
        world.holds(target, "settings", &[("a", "2")]).await;
    }
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.finish().await;
}

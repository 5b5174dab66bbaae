//! A cluster in which the upstream operator has worked becomes ours, and nothing is lost.

use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use weaver_api::ownership::{FINALIZER, SYNC_UID_LABEL};
use weaver_api::{v1alpha1, v1beta1};
use weaver_tests::alone::OwnOperator;
use weaver_tests::own::OwnServer;
use weaver_tests::world::{World, eventually};

const UPSTREAM: &str = "configmapsync.io/finalizer";

/// What upstream has left: its definition, a resource with its finalizer, and its ownership labels on source and
/// copies.
struct Upstream {
    alone: OwnOperator,
    world: World,
    team: String,
    foo: String,
    bar: String,
}

impl Upstream {
    async fn start(name: &str) -> Self {
        let own = OwnServer::start().await;
        own.apply("tests/fixtures/upstream-crd.yaml").await;
        // The world is made before ours is installed, so that everything is stored as upstream stored it.
        let world = World::on(own.client.clone(), name, own.logs());
        let team = world.tenant().await;
        world.grant_source(&team, &team, "other").await;
        let (foo, bar) = (world.target(&team, "foo").await, world.target(&team, "bar").await);
        for source in ["settings", "other"] {
            world.config_map(&team, source, &[("of", source)]).await;
        }
        let marked = [(&team, "settings"), (&foo, "settings"), (&bar, "settings")];
        for (namespace, name) in marked {
            if *namespace != team {
                world.config_map(namespace, name, &[("of", "settings")]).await;
            }
            mark(&world, namespace, name, &team).await;
        }
        let sync = json!({
            "apiVersion": "weaver.example.com/v1alpha1", "kind": "ConfigMapSync",
            "metadata": {"name": "sync", "namespace": &team, "finalizers": [UPSTREAM]},
            "spec": {"serviceAccount": {"name": "sync"}, "source": {"name": "settings", "namespace": &team},
                     "syncToNamespaces": [&foo, &bar], "testNum": 5},
        });
        let old: Api<DynamicObject> = old(&own, &team);
        eventually("upstream's kind is served", || async {
            old.create(&PostParams::default(), &serde_json::from_value(sync.clone()).unwrap()).await
        })
        .await;
        let status = json!({"status": {"test": "kept"}});
        old.patch_status("sync", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
        own.install().await.unwrap();
        let alone = OwnOperator::direct_on(own, &[]).await;
        Self { alone, world, team, foo, bar }
    }
}

fn old(own: &OwnServer, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(own.client.clone(), namespace, &ApiResource::erase::<v1alpha1::ConfigMapSync>(&()))
}

/// As upstream labels: targets and the source.
async fn mark(world: &World, namespace: &str, name: &str, owner: &str) {
    let ownership = json!({"metadata": {
        "annotations": {"configmapsync.io/owner-name": "sync", "configmapsync.io/owner-namespace": owner},
        "labels": {"cmsOwnerName": "sync", "cmsOwnerNamespace": owner},
    }});
    world
        .config_maps(namespace)
        .patch(name, &PatchParams::default(), &Patch::Merge(&ownership))
        .await
        .unwrap();
}

#[tokio::test]
async fn upstreams_copies_become_ours_and_both_sources_stay_to_the_byte() {
    let Upstream { alone, world, team, foo, bar } = Upstream::start("from-upstream").await;
    let sources = world.config_maps(&team);
    let before = [sources.get("settings").await.unwrap(), sources.get("other").await.unwrap()];
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    for namespace in [&foo, &bar] {
        let copy = world.holds(namespace, "settings", &[("of", "settings")]).await;
        assert!(copy.metadata.labels.unwrap().contains_key(SYNC_UID_LABEL), "taken over");
    }
    eventually("upstream's finalizer has given way to ours", || async {
        let finalizers = world.syncs(&team).get("sync").await.unwrap().metadata.finalizers;
        if finalizers == Some(vec![FINALIZER.to_owned()]) { Ok(()) } else { Err(finalizers) }
    })
    .await;
    let shown = old(&alone.own, &team).get("sync").await.unwrap();
    assert_eq!((&shown.data["spec"]["testNum"], &shown.data["status"]["test"]), (&json!(5), &json!("kept")));

    let edit = json!({"spec": {"source": {"name": "other"}}});
    world.syncs(&team).patch("sync", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    world.holds(&foo, "other", &[("of", "other")]).await;
    world.lacks(&foo, "settings").await;
    world.delete_sync(&team, "sync").await;
    for namespace in [&foo, &bar] {
        world.lacks(namespace, "other").await;
        world.lacks(namespace, "settings").await;
    }
    assert_eq!([sources.get("settings").await.unwrap(), sources.get("other").await.unwrap()], before);
    world.finish().await;
}

#[tokio::test]
async fn upstreams_ownership_labels_count_only_where_its_resource_points() {
    let Upstream { alone, world, team, foo, .. } = Upstream::start("stray-labels").await;
    // Marked for this very resource, in a namespace that it does not name.
    let stray = world.namespace("stray").await;
    world.grant(&team, &stray, &weaver_tests::tenant::TARGET).await;
    world.config_map(&stray, "settings", &[("of", "someone")]).await;
    mark(&world, &stray, "settings", &team).await;
    let before = world.config_maps(&stray).get("settings").await.unwrap();
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    // Named later, when upstream's finalizer is gone: now the ownership labels prove nothing any more.
    eventually("the take-over is done", || async {
        let finalizers = world.syncs(&team).get("sync").await.unwrap().metadata.finalizers;
        if finalizers.iter().flatten().any(|name| name == UPSTREAM) { Err(finalizers) } else { Ok(()) }
    })
    .await;
    let edit = json!({"spec": {"targets": {"namespaces": [&foo, &stray]}}});
    world.syncs(&team).patch("sync", &PatchParams::default(), &Patch::Merge(&edit)).await.unwrap();
    world.condition(&team, "sync", "Conflicted", "True", "Conflict").await;
    world.delete_sync(&team, "sync").await;
    assert_eq!(world.config_maps(&stray).get("settings").await.unwrap(), before);
    assert!(!alone.operator.log().contains("panicked"));
    world.finish().await;
}

#[tokio::test]
async fn a_resource_deleted_right_after_the_upgrade_is_not_stuck_and_upstreams_labels_alone_start_nothing() {
    let Upstream { alone, world, team, foo, bar } = Upstream::start("deleted-at-once").await;
    // Without its account nothing can be taken over.
    world.delete_account(&team).await;
    world.delete_sync(&team, "sync").await;
    for namespace in [&foo, &bar, &team] {
        world.holds(namespace, "settings", &[("of", "settings")]).await;
    }
    assert!(
        alone.operator.log().contains("removed the finalizer of a deleted ConfigMapSync"),
        "{}",
        alone.operator.log()
    );
    world.finish().await;
}

/// Changes the schema of v1beta1 below `spec` as another release would have it.
fn other_release(own: &OwnServer, patch: &Value) {
    let patch = patch.to_string();
    own.kubectl(&["patch", "crd", "configmapsyncs.weaver.example.com", "--type=json", "-p", &patch]);
}

async fn create_when_accepted(own: &OwnServer, namespace: &str, name: &str, spec: Value) {
    let api: Api<DynamicObject> = Api::namespaced_with(
        own.client.clone(),
        namespace,
        &ApiResource::erase::<v1beta1::ConfigMapSync>(&()),
    );
    let object = json!({"apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync",
                        "metadata": {"name": name}, "spec": spec});
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    eventually("the other release's schema accepts it", || async {
        api.create(&PostParams::default(), &object).await
    })
    .await;
}

const SPEC: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";

#[tokio::test]
async fn an_object_of_a_newer_release_is_reported_and_blinds_no_one() {
    let own = OwnServer::start().await;
    own.install().await.unwrap();
    let world = World::on(own.client.clone(), "newer-release", own.logs());
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    let more = json!([{"op": "add", "path": format!("{SPEC}/conflictPolicy/enum/-"), "value": "Later"}]);
    other_release(&own, &more);
    let mut spec = world.spec(&team, &[&foo]);
    spec["conflictPolicy"] = json!("Later");
    create_when_accepted(&own, &team, "odd", spec).await;
    // Ours again: what is stored stays.
    let report = own.install().await.unwrap();
    assert!(
        report
            .definitions
            .iter()
            .any(|one| one.warnings.iter().any(|words| words.contains("conflictPolicy")))
    );
    let _alone = OwnOperator::direct_on(own, &[]).await;

    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    let raw: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), &team, &ApiResource::erase::<v1beta1::ConfigMapSync>(&()));
    let message = eventually("the status says that it is not understood", || async {
        let odd = raw.get("odd").await.unwrap();
        let ready = odd.data["status"]["conditions"]
            .as_array()
            .and_then(|all| all.iter().find(|c| c["type"] == "Ready").cloned());
        match ready.filter(|ready| ready["reason"] == "ParseFailed" && ready["status"] == "False") {
            Some(ready) => Ok(ready["message"].as_str().unwrap_or_default().to_owned()),
            None => Err(odd.data),
        }
    })
    .await;
    assert!(message.contains("Later"), "{message}");
    raw.delete("odd", &kube::api::DeleteParams::default()).await.unwrap();
    eventually("it can be deleted", || async { raw.get_opt("odd").await.unwrap().map_or(Ok(()), Err) }).await;
    world.finish().await;
}

#[tokio::test]
async fn an_object_that_an_older_release_accepted_is_reported_and_can_still_be_written_to() {
    let own = OwnServer::start().await;
    own.install().await.unwrap();
    let world = World::on(own.client.clone(), "older-release", own.logs());
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    let fewer = json!([
        {"op": "remove", "path": format!("{SPEC}/targets/properties/namespaces/maxItems")},
        {"op": "remove", "path": format!("{SPEC}/resyncSeconds/minimum")},
    ]);
    other_release(&own, &fewer);
    let many: Vec<String> = (0..1_001).map(|number| format!("ns-{number}")).collect();
    let mut spec = world.spec(&team, &[]);
    spec["targets"] = json!({"namespaces": many});
    spec["resyncSeconds"] = json!(10);
    create_when_accepted(&own, &team, "large", spec).await;
    own.install().await.unwrap();
    let _alone = OwnOperator::direct_on(own, &[]).await;
    let ready = world.condition(&team, "large", "Ready", "False", "InvalidSpec").await;
    for words in ["spec.targets.namespaces", "1001", "spec.resyncSeconds"] {
        assert!(ready.message.contains(words), "{words:?} is not in: {}", ready.message);
    }
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    world.syncs(&team).patch("large", &PatchParams::default(), &Patch::Merge(&label)).await.unwrap();
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.delete_sync(&team, "large").await;
    world.finish().await;
}

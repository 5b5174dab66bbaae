//! What needs a server and an operator of its own: races, in which a proxy acts exactly between a look and a
//! write, and restarts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use http::Method;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use weaver_api::ownership::SYNC_UID_LABEL;
use weaver_tests::alone::OwnOperator;
use weaver_tests::proxy::Hook;
use weaver_tests::world::{World, eventually};

/// Once, before the first request of `method` on `…/namespaces/<target>/configmaps…`, replaces whatever is there by
/// someone's own object.
fn intruder(client: Client, method: Method, target: Arc<OnceLock<String>>, done: Arc<AtomicBool>) -> Hook {
    Arc::new(move |seen, path| {
        let (client, target, done) = (client.clone(), target.clone(), done.clone());
        let is_it = seen == method
            && target.get().is_some_and(|target| path.contains(&format!("/namespaces/{target}/configmaps")));
        async move {
            if !is_it || done.swap(true, Ordering::SeqCst) {
                return;
            }
            let maps: Api<ConfigMap> = Api::namespaced(client, target.get().unwrap());
            maps.delete("settings", &DeleteParams::default()).await.map(drop).unwrap_or_default();
            let mut theirs = ConfigMap::default();
            theirs.metadata.name = Some("settings".into());
            theirs.data = Some([("theirs".to_owned(), "x".to_owned())].into());
            maps.create(&PostParams::default(), &theirs).await.unwrap();
        }
        .boxed()
    })
}

struct Scene {
    alone: OwnOperator,
    world: World,
    team: String,
    foo: String,
    intruded: Arc<AtomicBool>,
    target: Arc<OnceLock<String>>,
}

async fn scene(name: &str, method: Method) -> Scene {
    let (target, intruded) = (Arc::new(OnceLock::new()), Arc::new(AtomicBool::new(false)));
    let alone = OwnOperator::start(|client| intruder(client, method, target.clone(), intruded.clone())).await;
    let world = alone.world(name);
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    Scene { alone, world, team, foo, intruded, target }
}

impl Scene {
    fn arm(&self) {
        self.target.set(self.foo.clone()).unwrap();
    }

    async fn theirs_stands(self) {
        let found = self.world.config_maps(&self.foo).get("settings").await.unwrap();
        assert_eq!(
            found.data,
            Some([("theirs".to_owned(), "x".to_owned())].into()),
            "{}",
            self.alone.operator.log()
        );
        assert_eq!((found.metadata.labels, found.metadata.annotations), (None, None));
        assert!(self.intruded.load(Ordering::SeqCst), "the race was never run");
        self.world.finish().await;
    }
}

#[tokio::test]
async fn own_server_an_object_that_appears_before_the_create_stays() {
    let scene = scene("race-create", Method::POST).await;
    scene.arm();
    scene.world.sync(&scene.team, "sync", scene.world.spec(&scene.team, &[&scene.foo])).await;
    scene.world.condition(&scene.team, "sync", "Conflicted", "True", "Conflict").await;
    scene.theirs_stands().await;
}

#[tokio::test]
async fn own_server_an_object_that_appears_before_the_update_stays() {
    let scene = scene("race-update", Method::PUT).await;
    scene.world.sync(&scene.team, "sync", scene.world.spec(&scene.team, &[&scene.foo])).await;
    scene.world.holds(&scene.foo, "settings", &[("a", "1")]).await;
    scene.arm();
    scene.world.config_map(&scene.team, "settings", &[("a", "2")]).await;
    scene.world.condition(&scene.team, "sync", "Conflicted", "True", "Conflict").await;
    scene.theirs_stands().await;
}

#[tokio::test]
async fn own_server_an_object_that_appears_before_the_delete_stays() {
    let scene = scene("race-delete", Method::DELETE).await;
    scene.world.sync(&scene.team, "sync", scene.world.spec(&scene.team, &[&scene.foo])).await;
    scene.world.holds(&scene.foo, "settings", &[("a", "1")]).await;
    scene.arm();
    scene.world.delete_sync(&scene.team, "sync").await;
    scene.theirs_stands().await;
}

#[tokio::test]
async fn own_server_a_namespace_dropped_while_the_operator_was_down_loses_its_copy() {
    let mut alone = OwnOperator::direct(&[]).await;
    let world = alone.world("down");
    let team = world.tenant().await;
    let (foo, bar) = (world.target(&team, "foo").await, world.target(&team, "bar").await);
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo, &bar])).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.holds(&bar, "settings", &[("a", "1")]).await;
    alone.operator.kill();
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.config_map(&team, "settings", &[("a", "2")]).await;
    alone.restart_operator();
    world.holds(&foo, "settings", &[("a", "2")]).await;
    world.lacks(&bar, "settings").await;
    world.finish().await;
}

#[tokio::test]
async fn own_server_the_watches_outlive_a_restart_of_the_api_server() {
    let mut alone = OwnOperator::direct(&[]).await;
    let world = alone.world("restart");
    let (team, foo) = world.synced().await;
    alone.own.server.restart().unwrap();
    let tampered = json!({"data": {"a": "tampered"}});
    let maps = world.config_maps(&foo);
    maps.patch("settings", &PatchParams::default(), &Patch::Merge(&tampered)).await.unwrap();
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    world.finish().await;
}

#[tokio::test]
async fn own_server_a_resource_in_a_namespace_that_goes_is_not_held_up_by_patience() {
    let alone = OwnOperator::direct(&["--cleanup-patience", "3600"]).await;
    let world = alone.world("going");
    let (team, foo) = world.synced().await;
    world.revoke(&foo).await;
    let namespaces: Api<Namespace> = Api::all(alone.own.client.clone());
    namespaces.delete(&team, &DeleteParams::default()).await.unwrap();
    // What Kubernetes' controller does in a namespace that is being deleted, in an order it may choose, without the
    // wait.
    world.delete_account(&team).await;
    world.delete_sync(&team, "sync").await;
    assert!(alone.operator.log().contains(
        "removed the finalizer of a deleted ConfigMapSync; copies may be left: `weaver orphans list`"
    ));
    world.finish().await;
}

#[tokio::test]
async fn own_server_a_deleted_resource_without_rights_waits_for_its_patience_and_is_then_released() {
    let alone = OwnOperator::direct(&[]).await;
    let world = alone.world("patience");
    let team = world.tenant().await;
    let (foo, bar) = (world.target(&team, "foo").await, world.target(&team, "bar").await);
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo, &bar])).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.holds(&bar, "settings", &[("a", "1")]).await;
    // Dropped from the list without a right to remove its copy: that one is wanted gone and is still there.
    world.revoke(&bar).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.condition(&team, "sync", "Authorized", "False", "MissingRights").await;
    let deleted = Instant::now();
    world.delete_sync(&team, "sync").await;
    // The patience of operators in tests is 5 s, counted from when it sees the deletion.
    assert!(deleted.elapsed() > Duration::from_secs(4), "{}", alone.operator.log());
    world.lacks(&foo, "settings").await;
    // It keeps its ownership labels, by which it is found later.
    let left = world.config_maps(&bar).get("settings").await.unwrap();
    assert!(left.metadata.labels.unwrap().contains_key(SYNC_UID_LABEL));
    let log = alone.operator.log();
    assert!(log.contains("removed the finalizer of a deleted ConfigMapSync"), "{log}");
    world.finish().await;
}

/// Each deletion of a ConfigMap in this namespace hangs, from when it is known.
fn hanging_at(namespace: Arc<OnceLock<String>>) -> Hook {
    Arc::new(move |method, path| {
        let is_there = |name: &String| path.contains(&format!("/namespaces/{name}/configmaps/"));
        let hangs = method == Method::DELETE && namespace.get().is_some_and(is_there);
        async move {
            if hangs {
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    })
}

/// A webhook that is asked about each deletion of a ConfigMap in this namespace, and is not there.
async fn gone_at(client: &Client, namespace: &str) {
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let webhook = serde_json::from_value(json!({
        "metadata": {"name": "gone.example.com"},
        "webhooks": [{
            "name": "gone.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/gone"},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"],
                       "resources": ["configmaps"]}],
            "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
        }],
    }))
    .unwrap();
    webhooks.create(&PostParams::default(), &webhook).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let dry_run = DeleteParams { dry_run: true, ..DeleteParams::default() };
    eventually("the webhook is asked", || async {
        match maps.delete("settings", &dry_run).await {
            Err(kube::Error::Api(status)) if status.message.contains("failed calling webhook") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test]
async fn own_server_a_webhook_that_hangs_or_is_gone_holds_no_other_copy_and_no_deletion_for_long() {
    let hangs = Arc::new(OnceLock::new());
    let alone = OwnOperator::start(|_| hanging_at(hangs.clone())).await;
    let world = alone.world("hanging-webhook");
    let team = world.tenant().await;
    let (foo, bar) = (world.target(&team, "foo").await, world.target(&team, "bar").await);
    let baz = world.target(&team, "baz").await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo, &bar, &baz])).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    hangs.set(foo.clone()).unwrap();
    gone_at(&alone.own.client, &baz).await;
    let syncs = world.syncs(&team);
    syncs.delete("sync", &DeleteParams::default()).await.unwrap();
    world.lacks(&bar, "settings").await;
    // The API server answers, and the patience of operators in tests is 5 s.
    eventually("the resource is gone", || async {
        syncs.get_opt("sync").await.unwrap().map_or(Ok(()), |_| Err(alone.operator.log()))
    })
    .await;
    for target in [&foo, &baz] {
        let left = world.config_maps(target).get("settings").await.unwrap();
        assert!(left.metadata.labels.unwrap().contains_key(SYNC_UID_LABEL), "{target}");
    }
    let log = alone.operator.log();
    let released = log.lines().find(|line| line.contains("copies may be left")).unwrap_or(&log);
    for part in [
        format!("ConfigMap {foo}/settings: no answer to a write within 5s"),
        format!("ConfigMap {baz}/settings: Internal error occurred: failed calling webhook"),
    ] {
        assert!(released.contains(&part), "{part}: {log}");
    }
    world.finish().await;
}

//! Each alert fires on its fault, and none before it: what operators tell is scraped, and `promtool` evaluates
//! the alert on it. How long a fault has to last (`for`) is simulated there, not waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use http::{Method, Response};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, Patch, PatchParams};
use kube::client::Body;
use serde_json::json;
use weaver_api::OPERATOR_NAMESPACE;
use weaver_api::ownership::PAUSED_ANNOTATION;
use weaver_tests::alone::{OperatorProcess, OwnOperator};
use weaver_tests::observer::{API_SERVER, AlertObserver, LEADING, TENANTS, reported};
use weaver_tests::proxy::{Hook, Hooks};
use weaver_tests::world::eventually;

async fn leads(operator: &OperatorProcess) {
    eventually("it leads", || async {
        let metrics = operator.metrics().await;
        if metrics.value("weaver_leading") == 1 { Ok(()) } else { Err(metrics.0) }
    })
    .await;
}

#[tokio::test]
async fn no_one_leads_two_lead_everything_is_paused() {
    let mut alone = OwnOperator::direct(&["--lease", "12"]).await;
    let mut observer = AlertObserver::new(&LEADING);
    let world = alone.world("alerts-leading");
    world.synced().await;
    let second = alone.another_operator("second", &["--lease", "12"]).await;
    observer.is_quiet(async || reported(&[&alone.operator, &second]).await).await;
    alone.operator.kill();
    observer.comes("WeaverNoLeader", async || reported(&[&second]).await).await;
    leads(&second).await;
    observer.is_quiet(async || reported(&[&second]).await).await;
    observer.comes("WeaverNoLeader", async || reported(&[]).await).await;

    let third = alone.another_operator("third", &["--standalone"]).await;
    observer.comes("WeaverTwoLeaders", async || reported(&[&second, &third]).await).await;
    let namespaces: Api<Namespace> = Api::all(alone.own.client.clone());
    let pause = Patch::Merge(json!({"metadata": {"annotations": {PAUSED_ANNOTATION: "a backup"}}}));
    namespaces.patch(OPERATOR_NAMESPACE, &PatchParams::default(), &pause).await.unwrap();
    observer.comes("WeaverPaused", async || reported(&[&second]).await).await;
    let resume = Patch::Merge(json!({"metadata": {"annotations": {PAUSED_ANNOTATION: null}}}));
    namespaces.patch(OPERATOR_NAMESPACE, &PatchParams::default(), &resume).await.unwrap();
    world.finish().await;
}

#[tokio::test]
async fn what_tenants_lack_or_fight_over() {
    let alone = OwnOperator::direct(&[]).await;
    let mut observer = AlertObserver::new(&TENANTS);
    let world = alone.world("alerts-tenants");
    let (team, foo) = world.synced().await;
    let reported = async || reported(&[&alone.operator]).await;
    // Not Ready, as its owner wants it.
    let mut suspended = world.spec(&team, &[&foo]);
    suspended["suspend"] = json!(true);
    world.sync(&team, "suspended", suspended).await;
    world.condition(&team, "suspended", "Ready", "False", "Suspended").await;
    observer.is_quiet(reported).await;

    // Several copies of a source that never rests, since each ConfigMapSync has a rate limit of its own.
    for copy in ["b", "c", "d", "e"] {
        let mut spec = world.spec(&team, &[&foo]);
        spec["targets"]["name"] = json!(copy);
        world.sync(&team, copy, spec).await;
        world.condition(&team, copy, "Ready", "True", "Synced").await;
    }
    let restless = async {
        for value in 0.. {
            world.config_map(&team, "settings", &[("a", &value.to_string())]).await;
        }
    };
    tokio::select! {
        () = observer.comes("WeaverWriteStorm", reported) => {}
        () = restless => {}
    }

    let bar = world.target(&team, "bar").await;
    world.config_map(&bar, "settings", &[("theirs", "1")]).await;
    world.sync(&team, "taken", world.spec(&team, &[&bar])).await;
    observer.comes("WeaverConflicts", reported).await;
    observer.comes("WeaverSyncsNotReady", reported).await;

    let poor = world.namespace("poor").await;
    world.account(&poor).await;
    world.sync(&poor, "sync", world.spec(&poor, &[&foo])).await;
    observer.comes("WeaverMintingRefused", reported).await;

    let writer = world.writer("writer", "tokens").await;
    world.service_token(&writer, "tokens", &[("a", "ghost")]).await;
    observer.comes("WeaverTokensMissing", reported).await;
    observer.comes("WeaverServiceTokensNotReady", reported).await;
    world.finish().await;
}

/// What the proxy does.
mod mode {
    pub const NOTHING: u8 = 0;
    pub const ALL_UNAVAILABLE: u8 = 1;
    pub const CONFIG_MAPS_UNAVAILABLE: u8 = 2;
    pub const OPERATOR_REFUSED: u8 = 3;
    pub const SLOW: u8 = 4;
}

#[tokio::test]
async fn the_api_server_refuses_fails_and_takes_its_time() {
    let mode = Arc::new(AtomicU8::new(mode::NOTHING));
    let (answers, slows) = (mode.clone(), mode.clone());
    let slow: Hook = Arc::new(move |method: Method, path: String| {
        let slows = slows.clone();
        async move {
            while slows.load(Ordering::SeqCst) == mode::SLOW
                && method == Method::GET
                && path.contains("/configmaps")
            {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        .boxed()
    });
    let hooks = Hooks {
        instead: Arc::new(move |request| {
            let path = request.uri.path();
            let code = match answers.load(Ordering::SeqCst) {
                mode::ALL_UNAVAILABLE => 503,
                mode::CONFIG_MAPS_UNAVAILABLE if path.ends_with("/configmaps") => 503,
                mode::OPERATOR_REFUSED if path.ends_with("/status") => 403,
                _ => return None,
            };
            Some(Response::builder().status(code).body(Body::empty()).unwrap())
        }),
        before: slow,
        ..Hooks::none()
    };
    let alone = OwnOperator::start(|_| hooks).await;
    let mut observer = AlertObserver::new(&API_SERVER);
    let world = alone.world("alerts-server");
    let (team, _) = world.synced().await;
    let reported = async || reported(&[&alone.operator]).await;
    observer.is_quiet(reported).await;

    mode.store(mode::SLOW, Ordering::SeqCst);
    let bar = world.target(&team, "bar").await;
    // More than one tenant may have reconciled at once.
    let names: Vec<String> = (0..10).map(|number| format!("slow-{number}")).collect();
    for name in &names {
        let mut spec = world.spec(&team, &[&bar]);
        spec["targets"]["name"] = json!(name);
        world.sync(&team, name, spec).await;
    }
    observer.comes("WeaverReconciliationsWait", reported).await;
    mode.store(mode::NOTHING, Ordering::SeqCst);
    world.condition(&team, &names[9], "Ready", "True", "Synced").await;

    mode.store(mode::CONFIG_MAPS_UNAVAILABLE, Ordering::SeqCst);
    let other = world.tenant_called("other").await;
    let baz = world.target(&other, "baz").await;
    world.config_map(&other, "settings", &[("a", "1")]).await;
    world.sync(&other, "sync", world.spec(&other, &[&baz])).await;
    observer.comes("WeaverWatchesFail", reported).await;

    mode.store(mode::OPERATOR_REFUSED, Ordering::SeqCst);
    observer.comes("WeaverOperatorRefused", reported).await;

    mode.store(mode::ALL_UNAVAILABLE, Ordering::SeqCst);
    observer.comes("WeaverApiServerSilent", reported).await;
    mode.store(mode::NOTHING, Ordering::SeqCst);
    world.condition(&other, "sync", "Ready", "True", "Synced").await;
    world.finish().await;
}

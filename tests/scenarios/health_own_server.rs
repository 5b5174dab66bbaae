//! Is it alive, is it ready: as a probe asks, of leaders and candidates.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use http::{Method, Response};
use kube::client::Body;
use serde_json::Value;
use tokio::time::{Instant, sleep};
use weaver_tests::alone::{OperatorProcess, OwnOperator};
use weaver_tests::proxy::{Hook, Hooks};
use weaver_tests::world::eventually;

async fn becomes(operator: &OperatorProcess, ready: bool, words: &str) -> Value {
    eventually(&format!("ready: {ready}, {words}"), || async {
        let (is_ready, report) = operator.health("/readyz").await;
        let reported = report.to_string().contains(words);
        if is_ready == ready && reported { Ok(report) } else { Err(report) }
    })
    .await
}

#[tokio::test]
async fn a_candidate_is_well_and_a_leader_says_what_it_does() {
    let alone = OwnOperator::direct(&["--lease", "12"]).await;
    let world = alone.world("health");
    world.synced().await;
    let report = becomes(&alone.operator, true, "leading").await;
    assert_eq!(report["alive"], true);
    assert_eq!(report["watches"][0], serde_json::json!({"kind": "configmapsyncs", "synced": true}));
    assert_eq!(report["accounts"], 1, "{report}");
    assert!(
        report["oldestTokenSeconds"].is_u64() && report["reconciliations"]["endedSecondsAgo"].is_u64(),
        "{report}"
    );
    let loops: Vec<&str> =
        report["loops"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    let watches = ["configmapsyncs", "resourcesyncs", "servicetokens", "namespaces"]
        .map(|kind| format!("watching {kind}"));
    assert_eq!(loops[0], "keeping the lease");
    assert_eq!(loops[1..5], watches);
    assert_eq!(loops[5..], ["housekeeping"]);
    // The report names no tenant.
    let names = report.to_string();
    assert!(!names.contains(&world.name("team")) && !names.contains("settings"), "{names}");

    let second = alone.another_operator("second", &["--lease", "12"]).await;
    let waiting = becomes(&second, true, "waiting").await;
    assert!(waiting["lease"]["holder"].as_str().is_some_and(|holder| holder.contains('_')), "{waiting}");
    assert!(second.health("/livez").await.0);
    let leading = async |operator: &OperatorProcess| operator.metrics().await.value("weaver_leading");
    assert_eq!((leading(&alone.operator).await, leading(&second).await), (1, 0));
    world.finish().await;
}

#[tokio::test]
async fn it_is_ready_when_each_watch_has_a_verdict_and_a_tenant_without_rights_holds_up_nothing() {
    let held = Arc::new(AtomicBool::new(true));
    let holds = held.clone();
    let hook: Hook = Arc::new(move |method: Method, path: String| {
        let holds = holds.clone();
        let is_list = method == Method::GET && path.ends_with("/configmaps") && path.contains("slow");
        async move {
            while is_list && holds.load(Ordering::SeqCst) {
                sleep(Duration::from_millis(50)).await;
            }
        }
        .boxed()
    });
    let alone = OwnOperator::start(|_| hook).await;
    let world = alone.world("health-ready");
    // No right at all next to that of being acted as: its watches are refused, which is a verdict.
    let poor = world.namespace("poor").await;
    world.account(&poor).await;
    world.allow_minting(&poor).await;
    let foo = world.namespace("foo").await;
    world.sync(&poor, "sync", world.spec(&poor, &[&foo])).await;
    world.condition(&poor, "sync", "Ready", "False", "MissingRights").await;
    let report = becomes(&alone.operator, true, "leading").await;
    assert!(report["tenantWatches"]["refused"].as_u64().is_some_and(|count| count > 0), "{report}");

    let slow = world.tenant_called("slow").await;
    world.config_map(&slow, "settings", &[("a", "1")]).await;
    let bar = world.target(&slow, "bar").await;
    world.sync(&slow, "sync", world.spec(&slow, &[&bar])).await;
    let waiting = becomes(&alone.operator, false, "tenant watches have had no answer yet").await;
    assert_eq!(waiting["alive"], true);
    held.store(false, Ordering::SeqCst);
    becomes(&alone.operator, true, "leading").await;
    world.finish().await;
}

#[tokio::test]
async fn an_api_server_that_answers_nothing_but_errors_is_no_reason_to_be_restarted() {
    let away = Arc::new(AtomicBool::new(false));
    let gone = away.clone();
    let hooks = Hooks {
        instead: Arc::new(move |_| {
            let answer = || Response::builder().status(503).body(Body::empty()).unwrap();
            gone.load(Ordering::SeqCst).then(answer)
        }),
        ..Hooks::none()
    };
    // The loop that keeps the lease is late after 12 s.
    let alone = OwnOperator::start_with(|_| hooks, &["--lease", "12"]).await;
    let world = alone.world("health-away");
    let (team, foo) = world.synced().await;
    away.store(true, Ordering::SeqCst);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        let (alive, report) = alone.operator.health("/livez").await;
        assert!(alive, "{report}");
        sleep(Duration::from_secs(1)).await;
    }
    away.store(false, Ordering::SeqCst);
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    world.finish().await;
}

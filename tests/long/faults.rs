//! What happens between the operator and the API server: connections that are slow, freeze or end, watches that have
//! expired, a server that asks for patience, refuses tokens, or is killed in the middle of the work. Whatever
//! it is, the operator lives on, every edit arrives, and no copy is deleted on the way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::Response;
use http::request::Parts;
use kube::client::Body;
use serde_json::json;
use tokio::sync::watch;
use weaver_tests::alone::OwnOperator;
use weaver_tests::audit;
use weaver_tests::proxy::Hooks;
use weaver_tests::tenant::TARGET;
use weaver_tests::world::{eventually, eventually_within};

use super::copies::Copies;

#[tokio::test]
#[ignore = "takes minutes: make test-long"]
async fn own_server_over_slow_cut_and_frozen_connections_every_edit_arrives() {
    let (mut alone, wire) = OwnOperator::behind_wire(&["--watch", "5"]).await;
    let world = alone.world("wire");
    let copies = Copies::in_granted(&world, 20).await;

    wire.slow_down(Duration::from_millis(100));
    copies.edit_arrives("slow").await;
    wire.slow_down(Duration::from_millis(20));
    for round in 0..20 {
        // In the middle of what the edit causes.
        copies.edit(&format!("cut {round}")).await;
        tokio::time::sleep(Duration::from_millis(30 + 7 * round)).await;
        wire.cut();
    }
    copies.edit_arrives("cut").await;
    wire.slow_down(Duration::ZERO);
    // The connections stall without an error.
    wire.freeze();
    copies.edit_arrives("frozen").await;
    copies.survive(&mut alone).await;
    // It does not answer cuts with a storm of connections.
    assert!(wire.connections() < 300, "{} connections", wire.connections());
    world.finish().await;
}

/// What the API server answers instead of what it would.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ServerFault {
    None,
    /// To each watch: that its beginning is not known any more.
    Expired,
    TooManyRequests,
    Unavailable,
    /// To every request with a tenant's token.
    Unauthorized,
}

/// The fault of the moment, and how many requests have met it.
struct ServerFaults {
    now: watch::Sender<ServerFault>,
    met: Arc<AtomicUsize>,
}

impl ServerFaults {
    fn hooks(&self) -> Hooks {
        let (now, met) = (self.now.subscribe(), self.met.clone());
        let instead = move |request: &Parts| {
            let answer = answer(*now.borrow(), request)?;
            met.fetch_add(1, Ordering::SeqCst);
            Some(answer)
        };
        Hooks { instead: Arc::new(instead), ..Hooks::none() }
    }

    /// Makes all requests meet `fault` from now on; how many met the last one.
    fn turn(&self, fault: ServerFault) -> usize {
        self.now.send_replace(fault);
        self.met.swap(0, Ordering::SeqCst)
    }
}

fn answer(fault: ServerFault, request: &Parts) -> Option<Response<Body>> {
    let is_watch = request.uri.query().is_some_and(|query| query.contains("watch=true"));
    let is_content = request.uri.path().split('/').any(|part| part == "configmaps");
    let (code, reason) = match fault {
        ServerFault::Expired if is_watch => (410, "Expired"),
        ServerFault::TooManyRequests => (429, "TooManyRequests"),
        ServerFault::Unavailable => (503, "ServiceUnavailable"),
        ServerFault::Unauthorized if is_content => (401, "Unauthorized"),
        _ => return None,
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason,
        "message": format!("the test says {reason}"),
    });
    // A watch that has begun already gets it as an event.
    let (code, body) = match fault {
        ServerFault::Expired => (200, json!({"type": "ERROR", "object": status})),
        _ => (code, status),
    };
    let builder = Response::builder().status(code).header("content-type", "application/json");
    Some(builder.header("retry-after", "1").body(Body::from(body.to_string().into_bytes())).unwrap())
}

#[tokio::test]
#[ignore = "takes minutes: make test-long"]
async fn own_server_expired_watches_a_minute_of_429_and_refused_tokens_pass() {
    let faults = ServerFaults { now: watch::Sender::new(ServerFault::None), met: Arc::default() };
    // As long as a user has it, but for the pause between two tries.
    let mut alone = OwnOperator::start_with(|_| faults.hooks(), &["--watch", "5", "--retry", "15"]).await;
    let world = alone.world("faults");
    let copies = Copies::in_granted(&world, 5).await;
    for (fault, seconds, most) in [
        (ServerFault::Expired, 8, 200),
        (ServerFault::TooManyRequests, 60, 900),
        (ServerFault::Unavailable, 8, 200),
        (ServerFault::Unauthorized, 8, 200),
    ] {
        faults.turn(fault);
        let ends = Instant::now() + Duration::from_secs(seconds);
        copies.edit(&format!("during {fault:?}")).await;
        if fault == ServerFault::Unauthorized {
            copies.ready("False", "SourceUnknown").await;
        }
        tokio::time::sleep(ends.saturating_duration_since(Instant::now())).await;
        let met = faults.turn(ServerFault::None);
        println!("{met} requests in {seconds} s met {fault:?}");
        assert!((1..most).contains(&met), "{met} requests in {seconds} s met {fault:?}");
        copies.have(&format!("during {fault:?}")).await;
        copies.edit_arrives(&format!("after {fault:?}")).await;
        copies.ready("True", "Synced").await;
    }
    copies.survive(&mut alone).await;
    world.finish().await;
}

#[tokio::test]
#[ignore = "takes minutes: make test-long"]
async fn own_server_an_api_server_that_is_killed_in_mid_fan_out_gets_the_rest_when_it_is_back() {
    const TARGETS: usize = 200;
    let (mut alone, _wire) = OwnOperator::behind_wire(&[]).await;
    let world = alone.world("killed");
    let team = world.tenant().await;
    world.grant_everywhere(&team, &TARGET).await;
    let targets = world.namespaces("to", TARGETS).await;
    let copies = Copies::first(&world, team, targets).await;
    let writes = async || alone.operator.metrics().await.sum("weaver_writes_total");
    let (mut round, mut hits) = (0, 0);
    while hits < 3 {
        round += 1;
        assert!(round <= 12, "of {round} fan-outs all but {hits} were over before the kill");
        let value = format!("round {round}");
        let written = writes().await;
        copies.edit(&value).await;
        // Counted when a fan-out ends; so the last target shows that it has begun.
        let last = world.config_maps(&copies.targets[TARGETS / 4]);
        eventually("the fan-out has begun", || async {
            let now = last.get("settings").await.unwrap().data.unwrap_or_default();
            if now["a"] == value { Ok(()) } else { Err(now) }
        })
        .await;
        alone.own.server.kill().unwrap();
        // A quick machine may have been done before the kill.
        hits += u32::from(writes().await < written + TARGETS as u64);
        alone.own.server.restart().unwrap();
        copies.have(&value).await;
        copies.ready("True", "Synced").await;
    }
    copies.survive(&mut alone).await;
    world.finish().await;
}

#[tokio::test]
#[ignore = "takes minutes: make test-long"]
async fn own_server_an_api_server_that_is_away_for_three_minutes_finds_everything_going_on() {
    const AWAY: Duration = Duration::from_mins(3);
    let (mut alone, _wire) = OwnOperator::behind_wire(&[]).await;
    let world = alone.world("away");
    let copies = Copies::in_granted(&world, 5).await;
    let mut second = alone.another_operator("second", &[]).await;
    eventually("the second waits", || async {
        let log = second.log();
        if log.contains("another operator is the leader") { Ok(()) } else { Err(log) }
    })
    .await;
    copies.edit("the last before").await;
    alone.own.server.kill().unwrap();
    let back = Instant::now() + AWAY;
    while Instant::now() < back {
        // Alive, and not called ready while its lease has run out.
        let (alive, health) = alone.operator.health("/livez").await;
        assert!(alive, "{health:#}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let leads = alone.operator.metrics().await.value("weaver_leading");
    assert_eq!(leads, 0, "three times the length of its lease have passed");
    let lines = alone.operator.log().lines().count() + second.log().lines().count();
    assert!(lines < 400, "{lines} lines are logged");
    alone.own.server.restart().unwrap();
    copies.have("the last before").await;
    copies.edit_arrives("the first after").await;
    copies.ready("True", "Synced").await;
    assert!(!second.has_ended(), "{}", second.log());
    let turns = audit::writers_in_turn(&alone.own.audit());
    println!("{} wrote", turns.len());
    world.finish().await;
}

#[tokio::test]
#[ignore = "takes minutes: make test-long"]
async fn own_server_a_selector_may_match_five_thousand_namespaces() {
    const SELECTED: usize = 5_000;
    let (mut alone, _wire) = OwnOperator::behind_wire(&[]).await;
    let world = alone.world("many");
    let team = world.tenant().await;
    world.grant_everywhere(&team, &TARGET).await;
    let targets = world.namespaces("to", SELECTED).await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    let mut spec = world.spec(&team, &[]);
    // The tenant's own too, where the source is and is not copied onto itself.
    spec["targets"] = json!({"selector": world.selector()});
    world.sync(&team, "sync", spec).await;
    let begun = Instant::now();
    eventually_within(Duration::from_mins(3), "each has its copy", || async {
        let status = world.syncs(&team).get("sync").await.unwrap().status.unwrap_or_default();
        let seen = (status.counts.unwrap_or_default().synced, status.truncated, status.targets.len());
        if seen == (5_000, true, 128) { Ok(()) } else { Err(seen) }
    })
    .await;
    println!("{SELECTED} copies were made in {:?}", begun.elapsed());
    world.holds(&targets[SELECTED - 1], "settings", &[("a", "1")]).await;
    assert!(!alone.operator.has_ended(), "{}", alone.operator.log());
}

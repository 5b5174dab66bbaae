//! Objects that are not copied cost the operator nothing, many sources of a tenant one watch, and at a start what is in
//! sync one read, or many copies one list.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use weaver_tests::alone::OwnOperator;
use weaver_tests::memory::ProcessMemory;
use weaver_tests::tenant::TARGET;
use weaver_tests::world::{World, eventually};

/// Fluctuation of the memory of a working operator, MiB.
const SLACK: f64 = 8.0;

/// Upstream keeps each `ConfigMap` of the cluster in memory, under a limit of 128 MiB that kills it when there are too
/// many.
#[tokio::test]
async fn own_server_configmaps_that_no_one_copies_cost_no_memory() {
    const OTHERS: usize = 125;
    let (mut alone, _wire) = OwnOperator::behind_wire(&[]).await;
    let world = alone.world("footprint");
    let team = world.tenant().await;
    // So it watches all namespaces, those with much in them too.
    world.grant_everywhere(&team, &TARGET).await;
    let foo = world.namespace("foo").await;
    world.config_map(&team, "settings", &[("a", "before")]).await;
    world.sync(&team, "sync", world.spec(&team, &[&foo])).await;
    world.holds(&foo, "settings", &[("a", "before")]).await;
    let before = ProcessMemory::of(alone.operator.pid()).now;

    // 32 MiB in all.
    let large = "x".repeat(256 * 1_024);
    for number in 0..OTHERS {
        world.config_map(&foo, &format!("other-{number}"), &[("a", &large)]).await;
    }
    world.config_map(&team, "settings", &[("a", "after")]).await;
    world.holds(&foo, "settings", &[("a", "after")]).await;
    let after = ProcessMemory::of(alone.operator.pid()).peak;
    assert!(after < before + SLACK, "{before} MiB before, {after} after");

    alone.operator.kill();
    alone.restart_operator();
    world.config_map(&team, "settings", &[("a", "again")]).await;
    world.holds(&foo, "settings", &[("a", "again")]).await;
    let again = ProcessMemory::of(alone.operator.pid()).peak;
    assert!(again < before + SLACK, "{before} MiB before, {again} after a start");
    world.finish().await;
}

async fn watches(alone: &OwnOperator, wanted: fn(u64) -> bool) {
    eventually("the number of watches", || async {
        let all = alone.operator.metrics().await.sum("weaver_watches");
        if wanted(all) { Ok(()) } else { Err(all) }
    })
    .await;
}

/// Without the right to see all of its namespace, the tenant has a watch on each source again.
#[tokio::test]
async fn own_server_the_sources_of_a_tenant_with_many_syncs_are_watched_as_one_while_it_may_see_them_all() {
    const SYNCS: usize = 30;
    let (mut alone, _wire) = OwnOperator::behind_wire(&["--watch", "5"]).await;
    let world = alone.world("many");
    let team = world.tenant().await;
    world.grant(&team, &team, &["get", "list", "watch"]).await;
    let foo = world.target(&team, "foo").await;
    let names: Vec<String> = (0..SYNCS).map(|number| format!("source-{number}")).collect();
    for name in &names {
        world.config_map(&team, name, &[("a", "1")]).await;
        let mut spec = world.spec(&team, &[&foo]);
        spec["source"]["name"] = json!(name);
        world.sync(&team, name, spec).await;
    }
    for name in &names {
        world.holds(&foo, name, &[("a", "1")]).await;
    }
    watches(&alone, |all| all <= 20).await;
    alone.operator.kill();
    alone.restart_operator();
    // When the first of them begins, the others wait: none has a watch of its own before there are many.
    eventually("each is reconciled, with one watch on the sources and one on the copies", || async {
        let metrics = alone.operator.metrics().await;
        let settled = metrics.value(r#"weaver_reconciliations_total{result="settled"}"#);
        let all = metrics.sum("weaver_watches");
        if settled >= SYNCS as u64 && all == 2 { Ok(()) } else { Err((settled, all)) }
    })
    .await;
    for name in [&names[0], &names[SYNCS - 1]] {
        world.config_map(&team, name, &[("a", "2")]).await;
        world.holds(&foo, name, &[("a", "2")]).await;
    }

    let one_by_one = json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": names,
                        "verbs": ["get", "list", "watch"]}]);
    world.grant_rules(&team, &team, "target", one_by_one).await;
    // Another is on the copies.
    watches(&alone, |all| all > SYNCS as u64).await;
    for name in [&names[0], &names[SYNCS - 1]] {
        world.condition(&team, name, "Authorized", "True", "Allowed").await;
        world.config_map(&team, name, &[("a", "3")]).await;
        world.holds(&foo, name, &[("a", "3")]).await;
    }
    world.finish().await;
}

fn program(event: &Value) -> String {
    event["userAgent"].as_str().unwrap_or_default().to_owned()
}

/// All that have asked the API server for anything.
fn programs(world: &World) -> BTreeSet<String> {
    world.audit.events().iter().map(program).collect()
}

/// What an operator that is none of those `before` has asked of `ConfigMap`s by this `verb`.
fn asked(world: &World, before: &BTreeSet<String>, verb: &str) -> Vec<String> {
    let is_asked = |event: &&Value| {
        event["verb"] == verb
            && event["objectRef"]["resource"] == "configmaps"
            && program(event).starts_with("weaver-operator/")
            && !before.contains(&program(event))
    };
    let events = world.audit.events();
    events.iter().filter(is_asked).map(|event| event["requestURI"].to_string()).collect()
}

/// From the API server's memory: a watch has shown them before.
#[tokio::test]
async fn own_server_a_start_reads_a_source_and_a_copy_that_are_in_sync_and_not_from_the_database() {
    let (mut alone, _wire) = OwnOperator::behind_wire(&[]).await;
    let world = alone.world("start");
    let (_, foo) = world.synced().await;
    alone.operator.kill();
    let before = programs(&world);
    alone.restart_operator();
    let reads = || asked(&world, &before, "get");
    eventually("the resource was reconciled", || async {
        let metrics = alone.operator.metrics().await;
        let settled = metrics.value(r#"weaver_reconciliations_total{result="settled"}"#);
        if settled > 0 && reads().len() > 1 { Ok(()) } else { Err((settled, reads())) }
    })
    .await;
    let reads = reads();
    // A watch that comes up late causes another look at the source.
    let of_copies = reads.iter().filter(|uri| uri.contains(&format!("/{foo}/"))).count();
    assert!(of_copies == 1 && reads[..2].iter().all(|uri| uri.contains("resourceVersion=")), "{reads:?}");
    world.finish().await;
}

/// What someone has changed while no operator ran is read, and made good.
#[tokio::test]
async fn own_server_a_start_reads_many_copies_that_are_in_sync_by_one_list() {
    const TARGETS: usize = 12;
    let (mut alone, _wire) = OwnOperator::behind_wire(&[]).await;
    let world = alone.world("listed");
    let team = world.tenant().await;
    world.grant_everywhere(&team, &TARGET).await;
    let targets = world.namespaces("many", TARGETS).await;
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    world.config_map(&team, "settings", &[("a", "1")]).await;
    world.sync(&team, "sync", world.spec(&team, &targets)).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    alone.operator.kill();
    let before = programs(&world);
    world.config_map(targets[0], "settings", &[("a", "theirs")]).await;
    alone.restart_operator();
    world.holds(targets[0], "settings", &[("a", "1")]).await;
    eventually("the copies were listed and the resource reconciled", || async {
        let metrics = alone.operator.metrics().await;
        let settled = metrics.value(r#"weaver_reconciliations_total{result="settled"}"#);
        let lists = asked(&world, &before, "list");
        let of_one = lists.iter().filter(|uri| uri.contains("sync-uid%3D")).count();
        if settled > 0 && of_one == 1 { Ok(()) } else { Err((settled, lists)) }
    })
    .await;
    let reads = asked(&world, &before, "get");
    let is_expected =
        |uri: &String| [team.as_str(), targets[0]].iter().any(|at| uri.contains(&format!("/{at}/")));
    assert!(reads.iter().all(is_expected), "{reads:?}");
    world.finish().await;
}

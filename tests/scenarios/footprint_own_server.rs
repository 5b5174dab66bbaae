//! Objects that are not copied cost the operator nothing.

use weaver_tests::alone::OwnOperator;
use weaver_tests::memory::ProcessMemory;
use weaver_tests::tenant::TARGET;

/// Fluctuation of the memory of a working operator, MiB.
const SLACK: f64 = 8.0;

/// Upstream keeps each `ConfigMap` of the cluster in memory, under a limit of 128 MiB that kills it when there are too
/// many.
#[tokio::test]
async fn own_server_configmaps_that_no_one_copies_cost_no_memory() {
    const OTHERS: usize = 500;
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
    let large = "x".repeat(64 * 1_024);
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

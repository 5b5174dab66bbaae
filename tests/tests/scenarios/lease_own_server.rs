//! Two operators on one cluster: one acts. It dies, it ends, it is stopped and wakes; never do both write.

use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams};
use weaver_tests::alone::{Alone, Operator};
use weaver_tests::proxy::{Hook, Hooks};
use weaver_tests::world::{World, eventually, eventually_within};

/// The shortest lease: renewed each 8 s, no write after 11 s, others after 12 s.
const SHORT: [&str; 2] = ["--lease", "12"];

fn signal(operator: &Operator, name: &str) {
    let done = Command::new("kill").args([name, &operator.pid().to_string()]).status().unwrap();
    assert!(done.success());
}

fn leases(world: &World) -> Api<Lease> {
    Api::namespaced(world.client.clone(), weaver_api::OPERATOR_NAMESPACE)
}

/// The pid in the name of the lease's holder, once it is this one's.
async fn leads(world: &World, operator: &Operator, within: Duration) {
    let pid = operator.pid().to_string();
    eventually_within(within, "it leads", || async {
        let lease = leases(world).get_opt("weaver-operator").await.unwrap();
        let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
        if holder.split('_').nth(4) == Some(pid.as_str()) { Ok(()) } else { Err(holder) }
    })
    .await;
}

async fn says(operator: &Operator, words: &str) {
    eventually(words, || async { if operator.log().contains(words) { Ok(()) } else { Err(operator.log()) } })
        .await;
}

/// A tenant whose `settings` are copied to `foo`; each edit is copied by who leads.
async fn copied(world: &World) -> (String, String) {
    let (team, foo) = world.synced().await;
    (team, foo)
}

async fn edit(world: &World, (team, foo): &(String, String), value: &str) {
    world.config_map(team, "settings", &[("a", value)]).await;
    world.holds(foo, "settings", &[("a", value)]).await;
}

#[tokio::test]
async fn the_second_waits_and_takes_over_from_one_that_was_killed_or_has_ended() {
    let mut alone = Alone::start_with(|_| Hooks::none(), &SHORT).await;
    let world = alone.world("lease");
    let place = copied(&world).await;
    leads(&world, &alone.operator, Duration::from_secs(40)).await;
    let mut second = alone.another_operator("second", &SHORT).await;
    says(&second, "another operator leads; waiting for its lease").await;
    edit(&world, &place, "2").await;
    // Killed: the other one is of the same machine, and sees that it is gone.
    alone.operator.kill();
    leads(&world, &second, Duration::from_secs(10)).await;
    says(&second, "the process that held it is gone").await;
    edit(&world, &place, "3").await;
    // Ended: it gives the lease back.
    alone.restart_operator();
    says(&alone.operator, "another operator leads; waiting for its lease").await;
    signal(&second, "-TERM");
    leads(&world, &alone.operator, Duration::from_secs(20)).await;
    eventually("the second has ended", || {
        std::future::ready(if second.has_ended() { Ok(()) } else { Err(()) })
    })
    .await;
    assert!(second.log().contains("given back"), "{}", second.log());
    edit(&world, &place, "4").await;
    // Who has seen the lease does not take one that was deleted before its holder has made it anew.
    let third = alone.another_operator("third", &SHORT).await;
    says(&third, "another operator leads; waiting for its lease").await;
    leases(&world).delete("weaver-operator", &DeleteParams::default()).await.unwrap();
    leads(&world, &alone.operator, Duration::from_secs(40)).await;
    edit(&world, &place, "5").await;
    assert!(!third.log().contains("leading"), "{}", third.log());
    world.finish().await;
}

#[tokio::test]
async fn one_that_was_stopped_and_wakes_writes_nothing() {
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let writes = log.clone();
    let hook: Hook = Arc::new(move |method, path| {
        if ![Method::GET, Method::HEAD].contains(&method) {
            writes.lock().unwrap().push(format!("{method} {path}"));
        }
        std::future::ready(()).boxed()
    });
    let mut alone = Alone::start_with(|_| hook, &SHORT).await;
    let world = alone.world("lease-stopped");
    let place = copied(&world).await;
    let second = alone.another_operator("second", &SHORT).await;
    says(&second, "another operator leads; waiting for its lease").await;
    signal(&alone.operator, "-STOP");
    // It is there still, so its whole time is waited for.
    leads(&world, &second, Duration::from_secs(40)).await;
    says(&second, "nobody renewed it in time").await;
    edit(&world, &place, "2").await;
    // There is work for it, which it knows of as soon as it wakes.
    world.config_map(&place.0, "settings", &[("a", "3")]).await;
    let before = log.lock().unwrap().len();
    signal(&alone.operator, "-CONT");
    eventually("the first has ended", || {
        std::future::ready(if alone.operator.has_ended() { Ok(()) } else { Err(()) })
    })
    .await;
    let tried: Vec<_> = log.lock().unwrap()[before..].to_vec();
    assert!(tried.iter().all(|write| write.contains("/leases/")), "{tried:#?}");
    assert!(alone.operator.log().contains("has taken over the lease"), "{}", alone.operator.log());
    world.holds(&place.1, "settings", &[("a", "3")]).await;
    world.finish().await;
}

#[tokio::test]
async fn standalone_takes_no_lease_and_says_so() {
    let alone = Alone::start_with(|_| Hooks::none(), &["--standalone"]).await;
    let world = alone.world("lease-standalone");
    copied(&world).await;
    assert!(alone.operator.log().contains("no lease is taken"), "{}", alone.operator.log());
    assert!(leases(&world).get_opt("weaver-operator").await.unwrap().is_none());
    world.finish().await;
}

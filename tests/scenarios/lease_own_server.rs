//! Two operators on one cluster: one acts. It dies, it ends, it is stopped and wakes; never do both write.

use std::process::Command;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, DeleteParams};
use weaver_api::lease::{CANDIDATES_ANNOTATION, PRIORITY_ANNOTATION};
use weaver_tests::alone::{OperatorProcess, OwnOperator};
use weaver_tests::audit;
use weaver_tests::proxy::Hook;
use weaver_tests::tenant::TARGET;
use weaver_tests::world::{World, eventually, eventually_within};

/// The shortest lease: renewed each 8 s, no write after 11 s, others after 12 s.
const SHORT: [&str; 2] = ["--lease", "12"];

fn signal(operator: &OperatorProcess, name: &str) {
    let done = Command::new("kill").args([name, &operator.pid().to_string()]).status().unwrap();
    assert!(done.success());
}

/// Writes down each write that passes.
fn recorded(log: &Arc<Mutex<Vec<String>>>) -> Hook {
    let writes = log.clone();
    Arc::new(move |method, path| {
        if ![Method::GET, Method::HEAD].contains(&method) {
            writes.lock().unwrap().push(format!("{method} {path}"));
        }
        std::future::ready(()).boxed()
    })
}

fn leases(world: &World) -> Api<Lease> {
    Api::namespaced(world.client.clone(), weaver_api::OPERATOR_NAMESPACE)
}

/// The pid in the name of the lease's holder, once it is this one's.
async fn leads(world: &World, operator: &OperatorProcess, within: Duration) {
    let pid = operator.pid().to_string();
    eventually_within(within, "it leads", || async {
        let lease = leases(world).get_opt("weaver-operator").await.unwrap();
        let holder = lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default();
        if holder.split('_').nth(4) == Some(pid.as_str()) { Ok(()) } else { Err(holder) }
    })
    .await;
}

async fn says(operator: &OperatorProcess, words: &str) {
    eventually(words, || async { if operator.log().contains(words) { Ok(()) } else { Err(operator.log()) } })
        .await;
}

/// A tenant whose `settings` are copied to `foo`; each edit is copied by the leader.
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
    let mut alone = OwnOperator::direct(&SHORT).await;
    let world = alone.world("lease");
    let namespaces = copied(&world).await;
    leads(&world, &alone.operator, Duration::from_secs(40)).await;
    let mut second = alone.another_operator("second", &SHORT).await;
    says(&second, "another operator is the leader; waiting for the lease").await;
    edit(&world, &namespaces, "2").await;
    // Killed: the other one is of the same machine, and sees that it is gone.
    alone.operator.kill();
    leads(&world, &second, Duration::from_secs(10)).await;
    says(&second, "the process that held it is gone").await;
    edit(&world, &namespaces, "3").await;
    // Ended: it gives the lease back.
    alone.restart_operator();
    says(&alone.operator, "another operator is the leader; waiting for the lease").await;
    signal(&second, "-TERM");
    leads(&world, &alone.operator, Duration::from_secs(20)).await;
    second.ends().await;
    assert!(second.log().contains("released the lease"), "{}", second.log());
    edit(&world, &namespaces, "4").await;
    // Who has seen the lease does not take one that was deleted before its holder has made it again.
    let third = alone.another_operator("third", &SHORT).await;
    says(&third, "another operator is the leader; waiting for the lease").await;
    leases(&world).delete("weaver-operator", &DeleteParams::default()).await.unwrap();
    leads(&world, &alone.operator, Duration::from_secs(40)).await;
    edit(&world, &namespaces, "5").await;
    assert!(!third.log().contains("became the leader"), "{}", third.log());
    assert_eq!(audit::writers_in_turn(&alone.own.audit()).len(), 3);
    world.finish().await;
}

#[tokio::test]
async fn two_that_are_started_at_once_do_not_both_write() {
    let mut alone = OwnOperator::direct(&SHORT).await;
    alone.operator.kill();
    let world = alone.world("lease-at-once");
    alone.restart_operator();
    let second = alone.another_operator("second", &SHORT).await;
    let namespaces = copied(&world).await;
    edit(&world, &namespaces, "2").await;
    eventually("one of them waits for the other", || async {
        let logs = [alone.operator.log(), second.log()];
        let waiting =
            logs.iter().filter(|log| log.contains("another operator is the leader; waiting for the lease"));
        if waiting.count() == 1 { Ok(()) } else { Err(logs) }
    })
    .await;
    assert_eq!(audit::writers_in_turn(&alone.own.audit()).len(), 1);
    world.finish().await;
}

/// Stops the process with this id, if it is not 0, at the twentieth write of a ConfigMap.
fn stopper(pid: &Arc<AtomicU32>) -> Hook {
    let (pid, writes) = (pid.clone(), AtomicUsize::new(0));
    Arc::new(move |method, path| {
        if method != Method::GET
            && path.contains("/configmaps")
            && writes.fetch_add(1, Ordering::SeqCst) == 20
        {
            let pid = pid.load(Ordering::SeqCst).to_string();
            assert!(Command::new("kill").args(["-STOP", &pid]).status().unwrap().success());
        }
        std::future::ready(()).boxed()
    })
}

#[tokio::test]
async fn one_that_was_stopped_in_mid_fan_out_leaves_the_rest_to_the_other_for_good() {
    const TARGETS: usize = 60;
    // Writes of one resource at once.
    const UNDER_WAY: usize = 16;
    let pid = Arc::<AtomicU32>::default();
    let hook = stopper(&pid);
    let mut alone = OwnOperator::start_with(|_| hook, &SHORT).await;
    pid.store(alone.operator.pid(), Ordering::SeqCst);
    let world = alone.world("lease-fan-out");
    let team = world.tenant().await;
    world.grant_everywhere(&team, &TARGET).await;
    let targets = world.namespaces("to", TARGETS).await;
    world.config_map(&team, "settings", &[("a", "1")]).await;
    leads(&world, &alone.operator, Duration::from_secs(40)).await;
    let second = alone.another_operator("second", &SHORT).await;
    says(&second, "another operator is the leader; waiting for the lease").await;
    let names: Vec<&str> = targets.iter().map(String::as_str).collect();
    world.sync(&team, "sync", world.spec(&team, &names)).await;
    leads(&world, &second, Duration::from_mins(1)).await;
    for target in &targets {
        world.holds(target, "settings", &[("a", "1")]).await;
    }
    signal(&alone.operator, "-CONT");
    alone.operator.ends().await;
    assert!(alone.operator.log().contains("has taken over the lease"), "{}", alone.operator.log());
    let audit = alone.own.audit();
    let made = targets.iter().map(|target| audit.requests(target, "create")).sum::<usize>();
    // What was under way when it was stopped may have been done without its answer being read, and be tried by the
    // other.
    assert!((TARGETS..=TARGETS + UNDER_WAY).contains(&made), "{made} creates for {TARGETS} copies");
    let writers = audit::writers_with_late(&audit, UNDER_WAY);
    assert_eq!(writers.len(), 2, "{writers:#?}");
    world.finish().await;
}

#[tokio::test]
async fn one_that_was_stopped_and_wakes_writes_nothing() {
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let hook = recorded(&log);
    let mut alone = OwnOperator::start_with(|_| hook, &SHORT).await;
    let world = alone.world("lease-stopped");
    let namespaces = copied(&world).await;
    let second = alone.another_operator("second", &SHORT).await;
    says(&second, "another operator is the leader; waiting for the lease").await;
    signal(&alone.operator, "-STOP");
    // It is there still, so its whole time is waited for.
    leads(&world, &second, Duration::from_secs(40)).await;
    says(&second, "it was not renewed in time").await;
    edit(&world, &namespaces, "2").await;
    // There is work for it, which it knows of as soon as it wakes.
    world.config_map(&namespaces.0, "settings", &[("a", "3")]).await;
    let before = log.lock().unwrap().len();
    signal(&alone.operator, "-CONT");
    alone.operator.ends().await;
    let tried: Vec<_> = log.lock().unwrap()[before..].to_vec();
    assert!(tried.iter().all(|write| write.contains("/leases/")), "{tried:#?}");
    assert!(alone.operator.log().contains("has taken over the lease"), "{}", alone.operator.log());
    world.holds(&namespaces.1, "settings", &[("a", "3")]).await;
    world.finish().await;
}

#[tokio::test]
async fn a_higher_priority_takes_over_when_the_leader_renews_and_gives_back() {
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let hook = recorded(&log);
    let mut alone = OwnOperator::start_with(|_| hook, &SHORT).await;
    let world = alone.world("lease-priority");
    let namespaces = copied(&world).await;
    let developer = alone.another_operator("developer", &["--lease", "12", "--priority", "10"]).await;
    says(&developer, "which it gives up at its next renewal").await;
    leads(&world, &developer, Duration::from_secs(40)).await;
    let before = log.lock().unwrap().len();
    edit(&world, &namespaces, "2").await;
    assert_eq!(log.lock().unwrap().len(), before, "the first writes nothing any more");
    alone.operator.ends().await;
    says(&alone.operator, "has a higher priority and takes over the lease").await;
    says(&alone.operator, "released the lease").await;
    // Started again, as systemd would: it waits, and everybody can see it.
    alone.restart_operator();
    says(&alone.operator, "since its priority is higher").await;
    eventually("it is on the list", || async {
        let lease = leases(&world).get("weaver-operator").await.unwrap();
        let annotations = lease.metadata.annotations.unwrap_or_default();
        let listed = annotations.get(CANDIDATES_ANNOTATION).cloned().unwrap_or_default();
        let pid = format!("_{}_", alone.operator.pid());
        if listed.contains(&pid) && annotations[PRIORITY_ANNOTATION] == "10" {
            Ok(())
        } else {
            Err(annotations)
        }
    })
    .await;
    signal(&developer, "-TERM");
    leads(&world, &alone.operator, Duration::from_secs(20)).await;
    edit(&world, &namespaces, "3").await;
    // One that ends while it waits takes itself off the list.
    let third = alone.another_operator("third", &SHORT).await;
    says(&third, "since both have the same priority").await;
    signal(&third, "-TERM");
    eventually("no one waits", || async {
        let annotations = leases(&world).get("weaver-operator").await.unwrap().metadata.annotations;
        let listed = annotations.and_then(|all| all.get(CANDIDATES_ANNOTATION).cloned());
        listed.map_or(Ok(()), Err)
    })
    .await;
    world.finish().await;
}

#[tokio::test]
async fn it_is_renewed_after_two_thirds_of_its_time_and_by_one_write_each() {
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let writes = log.clone();
    let hook: Hook = Arc::new(move |method, path| {
        if method == Method::PUT && path.contains("/leases/") {
            writes.lock().unwrap().push(path);
        }
        std::future::ready(()).boxed()
    });
    let alone = OwnOperator::start_with(|_| hook, &SHORT).await;
    let world = alone.world("lease-writes");
    copied(&world).await;
    leads(&world, &alone.operator, Duration::from_secs(40)).await;
    let renewed =
        async || leases(&world).get("weaver-operator").await.unwrap().spec.unwrap().renew_time.unwrap().0;
    let mut times = vec![renewed().await];
    log.lock().unwrap().clear();
    while times.len() < 4 {
        let before = *times.last().unwrap();
        times.push(
            eventually("it is renewed", async || {
                Some(renewed().await).filter(|time| *time > before).ok_or(())
            })
            .await,
        );
    }
    for pair in times.windows(2) {
        let apart = pair[1].duration_since(pair[0]).as_secs();
        assert!(apart >= 7, "{apart} s apart, where the lease lasts 12 s: more than two writes in its time");
    }
    assert_eq!(log.lock().unwrap().len(), times.len() - 1);
    world.finish().await;
}

#[tokio::test]
async fn standalone_takes_no_lease_and_says_so() {
    let alone = OwnOperator::direct(&["--standalone"]).await;
    let world = alone.world("lease-standalone");
    copied(&world).await;
    assert!(alone.operator.log().contains("running without leader election"), "{}", alone.operator.log());
    assert!(leases(&world).get_opt("weaver-operator").await.unwrap().is_none());
    world.finish().await;
}

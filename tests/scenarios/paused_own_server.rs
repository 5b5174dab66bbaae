//! Everything is paused, by an annotation on the operator's own namespace.

use std::sync::{Arc, Mutex};

use futures::FutureExt as _;
use http::Method;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use weaver_api::OPERATOR_NAMESPACE;
use weaver_api::ownership::PAUSED_ANNOTATION;
use weaver_tests::alone::OwnOperator;
use weaver_tests::cli::{Said, ended, weaver_on};
use weaver_tests::proxy::Hook;
use weaver_tests::world::{World, eventually};

/// Writes that the proxy saw, except the operator's own: its lease, tokens of accounts, questions about rights, events
/// and statuses.
type Writes = Arc<Mutex<Vec<String>>>;

fn recorded(writes: &Writes) -> Hook {
    let writes = writes.clone();
    Arc::new(move |method, path| {
        let lives = ["/leases/", "/token", "reviews", "/events", "/status"];
        let is_one = ![Method::GET, Method::HEAD].contains(&method);
        if is_one && !lives.iter().any(|part| path.contains(part)) {
            writes.lock().unwrap().push(format!("{method} {path}"));
        }
        std::future::ready(()).boxed()
    })
}

async fn pause(client: &kube::Client, reason: Value) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let patch = Patch::Merge(json!({"metadata": {"annotations": {PAUSED_ANNOTATION: reason}}}));
    namespaces.patch(OPERATOR_NAMESPACE, &PatchParams::default(), &patch).await.unwrap();
}

/// Runs `weaver` as the administrator of that server.
async fn weaver(alone: &OwnOperator, arguments: &[&str]) -> Said {
    ended(weaver_on(&alone.own, arguments)).await
}

async fn is_paused(world: &World, team: &str, name: &str) {
    let paused = world.condition(team, name, "Paused", "True", "PauseRequested").await;
    let words = "all resources are paused: a backup; to continue: weaver resume";
    assert!(paused.message.contains(words), "{}", paused.message);
}

#[tokio::test]
async fn while_everything_is_paused_nothing_is_written_nor_lost() {
    let writes = Writes::default();
    let hook = recorded(&writes);
    let mut alone = OwnOperator::start(|_| hook).await;
    let world = alone.world("paused-all");
    let (team, foo) = world.synced().await;
    let (bar, baz) = (world.target(&team, "bar").await, world.target(&team, "baz").await);
    world.sync(&team, "goes", world.spec(&team, &[&baz])).await;
    world.holds(&baz, "settings", &[("a", "1")]).await;
    world.condition(&team, "goes", "Ready", "True", "Synced").await;
    weaver(&alone, &["pause", "--reason", " "]).await.refused("give a reason");
    weaver(&alone, &["pause", "--reason", "x", "settings"])
        .await
        .refused("write sync/NAME, resource/NAME or token/NAME");
    let said = weaver(&alone, &["pause", "--reason", "a backup"]).await;
    assert!(said.done && said.out.contains("to continue: `weaver resume`"), "{said:?}");
    is_paused(&world, &team, "sync").await;
    is_paused(&world, &team, "goes").await;
    let status = weaver(&alone, &["status"]).await.out;
    let pid = format!("process {}, priority 0, renewed", alone.operator.pid());
    for words in [&pid, "paused     all resources: a backup", "syncs      0 of 2 ready, 2 paused"] {
        assert!(status.contains(words), "{status}");
    }
    writes.lock().unwrap().clear();

    // A source changes, a resource is new, one is deleted: all of it waits, also where another process takes over.
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.sync(&team, "new", world.spec(&team, &[&bar])).await;
    is_paused(&world, &team, "new").await;
    world.syncs(&team).delete("goes", &DeleteParams::default()).await.unwrap();
    alone.operator.kill();
    alone.restart_operator();
    eventually("the pause is seen, and is no trouble", || async {
        let (ready, report) = alone.operator.health("/readyz").await;
        if ready && report["paused"] == "a backup" { Ok(()) } else { Err(report) }
    })
    .await;
    assert_eq!(alone.operator.metrics().await.value("weaver_paused"), 1);
    world.sync(&team, "newest", world.spec(&team, &[&bar])).await;
    is_paused(&world, &team, "newest").await;
    assert!(world.syncs(&team).get_opt("goes").await.unwrap().is_some(), "it waits");
    assert!(writes.lock().unwrap().is_empty(), "{:#?}", writes.lock().unwrap());
    world.holds(&foo, "settings", &[("a", "1")]).await;

    let one = ["sync/sync", "-n", &team];
    let said = weaver(&alone, &[&["resume"][..], &one].concat()).await;
    assert!(said.done && said.out.contains("all resources are paused too (a backup)"), "{said:?}");
    assert!(weaver(&alone, &["resume"]).await.done);
    world.holds(&foo, "settings", &[("a", "2")]).await;
    world.holds(&bar, "settings", &[("a", "2")]).await;
    world.lacks(&baz, "settings").await;
    world.condition(&team, "sync", "Paused", "False", "NotPaused").await;
    let said = weaver(&alone, &[&["pause", "--reason", "just this"][..], &one].concat()).await;
    assert!(said.done && said.out.contains("is paused: just this"), "{said:?}");
    world.condition(&team, "sync", "Paused", "True", "PauseRequested").await;
    let status = weaver(&alone, &["status", "-o", "json"]).await.json();
    assert_eq!((&status["paused"], &status["syncs"]["paused"]), (&Value::Null, &json!(1)), "{status}");
    let said = weaver(&alone, &[&["resume"][..], &one].concat()).await;
    assert!(said.done && !said.out.contains("everything"), "{said:?}");
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    weaver(&alone, &["resume", "sync/none", "-n", &team]).await.refused("there is no ConfigMapSync");
    for name in ["newest", "new"] {
        world.delete_sync(&team, name).await;
    }
    world.finish().await;
}

#[tokio::test]
async fn a_pause_in_the_middle_of_a_fan_out_ends_it_there() {
    const TARGETS: usize = 80;
    let writes = Writes::default();
    let count = writes.clone();
    let mut alone = OwnOperator::start(|client| {
        let record = recorded(&count);
        let hook: Hook = Arc::new(move |method, path| {
            let (recorded, client) = (record(method.clone(), path.clone()), client.clone());
            let is_copy = method == Method::POST && path.ends_with("/configmaps");
            let tenth = is_copy && copies(&count) == 10;
            async move {
                recorded.await;
                if tenth {
                    pause(&client, json!("a backup")).await;
                }
                if is_copy {
                    // As slow as a card, so that the operator sees the pause before it has sent them all.
                    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
                }
            }
            .boxed()
        });
        hook
    })
    .await;
    let world = alone.world("paused-middle");
    let team = world.tenant().await;
    let targets = world.namespaces("target", TARGETS).await;
    for target in &targets {
        world.grant(&team, target, &weaver_tests::tenant::TARGET).await;
    }
    world.config_map(&team, "settings", &[("a", "1")]).await;
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    world.sync(&team, "sync", world.spec(&team, &targets)).await;
    is_paused(&world, &team, "sync").await;
    let sent = copies(&writes);
    assert!(sent < TARGETS, "{sent} of {TARGETS} were sent");
    alone.operator.kill();
    alone.restart_operator();
    eventually("the new one sees the pause", || async {
        let (ready, report) = alone.operator.health("/readyz").await;
        if ready && report["paused"] == "a backup" { Ok(()) } else { Err(report) }
    })
    .await;
    assert_eq!(copies(&writes), sent, "nothing was sent while it was paused");
    pause(&alone.own.client, Value::Null).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    assert_eq!(copies(&writes), TARGETS, "each was made once");
    world.finish().await;
}

fn copies(writes: &Writes) -> usize {
    writes.lock().unwrap().iter().filter(|write| write.ends_with("/configmaps")).count()
}

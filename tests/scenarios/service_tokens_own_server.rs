//! Tokens over the operator's own troubles: it is killed between minting and writing, it starts again, it
//! renews for hours, it hears late of a deletion.

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use http::Method;
use http::request::Parts;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy};
use serde_json::json;
use weaver_tenant::claims::Claims;
use weaver_tests::alone::OwnOperator;
use weaver_tests::proxy::{Hook, Hooks, Instead};
use weaver_tests::tokens::user;
use weaver_tests::world::{World, eventually, eventually_within};

/// Kills the process with this id, if it is not 0, at the first write of tokens, and forgets it.
fn killer(pid: &Arc<AtomicU32>) -> Hook {
    let pid = pid.clone();
    Arc::new(move |method, path| {
        let pid = pid.clone();
        async move {
            if method != Method::PUT || !path.contains("/secrets/") {
                return;
            }
            let victim = pid.swap(0, Ordering::SeqCst);
            if victim != 0 {
                let killed = Command::new("kill").args(["-KILL", &victim.to_string()]).status().unwrap();
                assert!(killed.success());
                // No one is there any more to hear of it.
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    })
}

fn issued_at(token: &str) -> Timestamp {
    Claims::read(token).unwrap().issued_at
}

async fn team_with_robot(world: &World) -> String {
    let team = world.writer("team", "tokens").await;
    world.robot(&team, "robot").await;
    team
}

#[tokio::test]
async fn killed_between_minting_and_writing_the_next_one_finishes() {
    let [before, after] = [Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0))];
    let hooks = Hooks { before: killer(&before), after: killer(&after), ..Hooks::none() };
    let mut alone = OwnOperator::start(|_| hooks).await;
    let world = alone.world("token-killed");
    let team = team_with_robot(&world).await;
    // The first tokens are minted and never written.
    before.store(alone.operator.pid(), Ordering::SeqCst);
    world.service_token(&team, "tokens", &[("a", "robot"), ("b", "robot")]).await;
    alone.operator.ends().await;
    let empty = world.secrets(&team).get("tokens").await.unwrap();
    assert!(empty.data.is_none() && empty.metadata.owner_references.is_some());
    alone.restart_operator();
    let first = world.fresh(&team, "tokens").await;
    assert_eq!(world.user_of(&first["a"]).await, Some(user(&team, "robot")));
    let made = world.secrets(&team).get("tokens").await.unwrap();
    assert_eq!(made.metadata.uid, empty.metadata.uid, "it knew its Secret again");
    // Another is written, and the operator never learns that it was.
    after.store(alone.operator.pid(), Ordering::SeqCst);
    world.service_token(&team, "tokens", &[("a", "robot"), ("b", "robot"), ("c", "robot")]).await;
    alone.operator.ends().await;
    let written = world.tokens(&team, "tokens").await;
    assert_eq!((written.len(), &written["a"]), (3, &first["a"]));
    let version = world.secrets(&team).get("tokens").await.unwrap().metadata.resource_version;
    alone.restart_operator();
    world.fresh(&team, "tokens").await;
    let now = world.secrets(&team).get("tokens").await.unwrap().metadata.resource_version;
    assert_eq!(now, version, "what is right is not written again");
    world.finish().await;
}

#[tokio::test]
async fn renewals_leave_no_gap_and_make_no_storm() {
    // Eight of them are more than an hour of the shortest tokens has.
    const RENEWALS: u64 = 8;
    let alone = OwnOperator::direct(&["--service-token-age", "6"]).await;
    let world = alone.world("token-renewal");
    let team = team_with_robot(&world).await;
    world.service_token(&team, "tokens", &[("a", "robot"), ("b", "robot")]).await;
    let mut held = world.fresh(&team, "tokens").await;
    let mut renewals = 0;
    let begun = tokio::time::Instant::now();
    while renewals < RENEWALS {
        assert!(begun.elapsed() < Duration::from_secs(150), "only {renewals} renewals");
        let now = world.tokens(&team, "tokens").await;
        assert_eq!(now.len(), 2, "a key was missing");
        if now != held {
            renewals += u64::from(now["a"] != held["a"]);
            for key in ["a", "b"] {
                let age = issued_at(&now[key]).duration_since(issued_at(&held[key])).as_secs();
                assert!(now[key] == held[key] || (5..60).contains(&age), "renewed after {age} s");
            }
            // Who has read it just before can use it on.
            for token in [&held["a"], &held["b"], &now["a"], &now["b"]] {
                assert_eq!(world.user_of(token).await, Some(user(&team, "robot")));
            }
            held = now;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    eventually("the status tells of the last one, or a later one", || async {
        let reported = world.service_tokens(&team).get("tokens").await.unwrap().status.unwrap().tokens;
        let issued = issued_at(&held["a"]).to_string();
        if reported[0].issued_at.as_ref().is_some_and(|reported| *reported >= issued) {
            Ok(())
        } else {
            Err(reported)
        }
    })
    .await;
    let metrics = alone.operator.metrics().await;
    let due = metrics.value(r#"weaver_service_tokens_issued_total{reason="due"}"#);
    assert!(due >= 2 * RENEWALS - 1, "{due}");
    assert_eq!(metrics.value(r#"weaver_service_tokens{state="fresh"}"#), 2);
    assert_eq!(metrics.value(r#"weaver_service_token_resources{ready="true"}"#), 1);
    world.finish().await;
}

/// Does this once, at the first request of this method on the Secret of that name or, where it is made, on its kind.
fn once<F>(method: &Method, act: impl Fn() -> F + Send + Sync + 'static) -> (Arc<AtomicBool>, Hook)
where
    F: Future<Output = ()> + Send + 'static,
{
    let armed = Arc::new(AtomicBool::new(false));
    let (method, is_armed, act) = (method.clone(), armed.clone(), Arc::new(act));
    let hook: Hook = Arc::new(move |found, path| {
        let (is_armed, act) = (is_armed.clone(), act.clone());
        let is_it = found == method && path.contains("/secrets");
        async move {
            if is_it && is_armed.swap(false, Ordering::SeqCst) {
                act().await;
            }
        }
        .boxed()
    });
    (armed, hook)
}

#[tokio::test]
async fn what_is_put_there_between_the_look_and_the_write_stays() {
    let namespace = Arc::new(OnceLock::<String>::new());
    let put = namespace.clone();
    let mut armed = None;
    let alone = OwnOperator::start(|client| {
        let (is_armed, hook) = once(&Method::POST, move || {
            let (client, namespace) = (client.clone(), put.get().cloned().unwrap_or_default());
            async move {
                let secrets: Api<Secret> = Api::namespaced(client, &namespace);
                let theirs = json!({"metadata": {"name": "tokens"}, "data": {"a": "AA=="}});
                let theirs = serde_json::from_value(theirs).unwrap();
                secrets.create(&PostParams::default(), &theirs).await.unwrap();
            }
        });
        armed = Some(is_armed);
        hook
    })
    .await;
    let world = alone.world("token-between");
    let team = team_with_robot(&world).await;
    namespace.set(team.clone()).unwrap();
    armed.unwrap().store(true, Ordering::SeqCst);
    world.service_token(&team, "tokens", &[("a", "robot")]).await;
    world.token_condition(&team, "tokens", "Ready", "False", "SecretNotOurs").await;
    let found = world.secrets(&team).get("tokens").await.unwrap();
    assert_eq!(found.data.unwrap()["a"].0, [0], "it is theirs, to the byte");
    assert!(found.metadata.owner_references.is_none());
    world.finish().await;
}

#[tokio::test]
async fn someone_else_who_writes_the_secret_loses_nothing_and_one_failure_hides_no_token() {
    let namespace = Arc::new(OnceLock::<String>::new());
    let (put, failing) = (namespace.clone(), Arc::new(AtomicBool::new(false)));
    let (fails, mut armed) = (failing.clone(), None);
    let alone = OwnOperator::start(|client| {
        let (is_armed, before) = once(&Method::PUT, move || {
            let (client, namespace) = (client.clone(), put.get().cloned().unwrap_or_default());
            async move {
                let secrets: Api<Secret> = Api::namespaced(client, &namespace);
                let label = Patch::Merge(json!({"metadata": {"labels": {"theirs": "1"}}}));
                secrets.patch("tokens", &PatchParams::default(), &label).await.unwrap();
            }
        });
        armed = Some(is_armed);
        let instead: Instead = Arc::new(move |request| {
            let is_it = request.method == Method::PUT && request.uri.path().contains("/secrets/");
            (is_it && fails.load(Ordering::SeqCst)).then(|| {
                let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500,
                    "message": "etcdserver: request timed out"});
                http::Response::builder()
                    .status(500)
                    .header("content-type", "application/json")
                    .body(body.to_string().into_bytes().into())
                    .unwrap()
            })
        });
        Hooks { instead, before, ..Hooks::none() }
    })
    .await;
    let world = alone.world("token-next-to");
    let team = team_with_robot(&world).await;
    namespace.set(team.clone()).unwrap();
    world.service_token(&team, "tokens", &[("a", "robot")]).await;
    let first = world.fresh(&team, "tokens").await;
    // A write of ours meets one of theirs.
    armed.unwrap().store(true, Ordering::SeqCst);
    world.service_token(&team, "tokens", &[("a", "robot"), ("b", "robot")]).await;
    let second = world.fresh(&team, "tokens").await;
    assert_eq!((second.len(), &second["a"]), (2, &first["a"]));
    let labels = world.secrets(&team).get("tokens").await.unwrap().metadata.labels.unwrap();
    assert_eq!(labels["theirs"], "1");
    // The API server cannot write for a while.
    failing.store(true, Ordering::SeqCst);
    world.service_token(&team, "tokens", &[("a", "robot"), ("b", "robot"), ("c", "robot")]).await;
    let failed = world.token_condition(&team, "tokens", "Ready", "False", "NotWritten").await;
    assert!(failed.message.contains("etcdserver: request timed out"), "{}", failed.message);
    let status = world.service_tokens(&team).get("tokens").await.unwrap().status.unwrap();
    assert_eq!((status.counts.unwrap().desired, status.counts.unwrap().fresh), (3, 2));
    failing.store(false, Ordering::SeqCst);
    assert_eq!(world.fresh(&team, "tokens").await["a"], first["a"]);
    world.finish().await;
}

/// Nothing comes by the watches on `ServiceTokens` any more once the first is true; each look at one of them is
/// counted.
fn late_news() -> (Arc<AtomicBool>, Arc<AtomicU32>, Hooks) {
    let (is_late, looks) = (Arc::<AtomicBool>::default(), Arc::<AtomicU32>::default());
    let late = is_late.clone();
    let frozen = move |request: &Parts| {
        let is_watch = request.uri.query().is_some_and(|query| query.contains("watch=true"));
        let is_it = is_watch && request.uri.path().ends_with("/servicetokens");
        if is_it { late.clone() } else { Arc::default() }
    };
    let count = looks.clone();
    let before: Hook = Arc::new(move |method, path| {
        if method == Method::GET && path.ends_with("/servicetokens/tokens") {
            count.fetch_add(1, Ordering::SeqCst);
        }
        std::future::ready(()).boxed()
    });
    (is_late, looks, Hooks { before, frozen: Arc::new(frozen), ..Hooks::none() })
}

/// Waits until the garbage collector has seen all Secrets that there are. It takes our owner reference from those
/// that it knows of, and one that it does not know yet it deletes with its owner.
async fn is_collected(world: &World, team: &str) {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"});
    let probe = json!({"metadata": {"name": "probe", "ownerReferences": [owner]}});
    let probe = serde_json::from_value(probe).unwrap();
    world.secrets(team).create(&PostParams::default(), &probe).await.unwrap();
    eventually("the garbage collector deletes what has no owner", || async {
        let left = world.secrets(team).get_opt("probe").await.unwrap();
        if left.is_none() { Ok(()) } else { Err("it is there") }
    })
    .await;
}

#[tokio::test]
async fn a_secret_that_is_to_stay_stays_where_the_operator_hears_late_of_the_deletion() {
    let (is_late, looks, hooks) = late_news();
    let alone = OwnOperator::start(|_| hooks).await;
    let world = alone.world("token-late");
    let team = team_with_robot(&world).await;
    world.service_token(&team, "tokens", &[("a", "robot")]).await;
    let held = world.fresh(&team, "tokens").await;
    is_collected(&world, &team).await;
    is_late.store(true, Ordering::SeqCst);
    let orphan =
        DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
    world.service_tokens(&team).delete("tokens", &orphan).await.unwrap();
    // The Secret's own watch says that it is not owned any more. Of a kind that was just made the garbage collector
    // learns each half minute.
    eventually_within(
        Duration::from_mins(3),
        "the operator has asked whether the resource is there",
        || async { if looks.load(Ordering::SeqCst) > 0 { Ok(()) } else { Err(()) } },
    )
    .await;
    eventually("the resource is gone", || async {
        world
            .service_tokens(&team)
            .get_opt("tokens")
            .await
            .unwrap()
            .map_or(Ok(()), |left| Err(left.metadata.finalizers))
    })
    .await;
    // A change of the Secret's own is the next occasion to put the owner back.
    let (looked, label) = (looks.load(Ordering::SeqCst), json!({"metadata": {"labels": {"theirs": "1"}}}));
    world.secrets(&team).patch("tokens", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    eventually("the operator has asked again", || async {
        if looks.load(Ordering::SeqCst) > looked { Ok(()) } else { Err(()) }
    })
    .await;
    let kept = world.secrets(&team).get("tokens").await.unwrap().metadata;
    assert!(kept.deletion_timestamp.is_none() && kept.owner_references.is_none(), "{kept:?}");
    assert_eq!(world.tokens(&team, "tokens").await, held, "to the byte");
    world.finish().await;
}

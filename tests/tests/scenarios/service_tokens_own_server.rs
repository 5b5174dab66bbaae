//! Tokens over the operator's own troubles: it is killed between minting and writing, it starts again, it renews for hours.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use http::Method;
use k8s_openapi::jiff::Timestamp;
use weaver_operator::tenant::claims::Claims;
use weaver_tests::alone::Alone;
use weaver_tests::proxy::{Hook, Hooks};
use weaver_tests::tokens::user;
use weaver_tests::world::{World, eventually};

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
                // Nobody is there any more to hear of it.
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
    let mut alone = Alone::start(|_| hooks).await;
    let world = alone.world("token-killed");
    let team = team_with_robot(&world).await;
    // The first tokens are minted and never written.
    before.store(alone.operator.pid(), Ordering::SeqCst);
    world.service_token(&team, "tokens", &[("a", "robot"), ("b", "robot")]).await;
    eventually("the operator is dead", || {
        std::future::ready(if alone.operator.has_ended() { Ok(()) } else { Err(()) })
    })
    .await;
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
    eventually("the operator is dead again", || {
        std::future::ready(if alone.operator.has_ended() { Ok(()) } else { Err(()) })
    })
    .await;
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
    let alone = Alone::start_with(|_| Hooks::none(), &["--service-token-age", "6"]).await;
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
            renewals += 1;
            assert!(now["a"] != held["a"] && now["b"] != held["b"], "what is due together is one write");
            let age = issued_at(&now["a"]).duration_since(issued_at(&held["a"])).as_secs();
            assert!((5..60).contains(&age), "renewed after {age} s");
            // Who has read it just before can use it on.
            for token in [&held["a"], &held["b"], &now["a"], &now["b"]] {
                assert_eq!(world.user_of(token).await, Some(user(&team, "robot")));
            }
            held = now;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    eventually("the status tells of the last one, or a later one", || async {
        let told = world.service_tokens(&team).get("tokens").await.unwrap().status.unwrap().tokens;
        let issued = issued_at(&held["a"]).to_string();
        if told[0].issued_at.as_ref().is_some_and(|told| *told >= issued) { Ok(()) } else { Err(told) }
    })
    .await;
    let metrics = alone.operator.metrics().await;
    let due = metrics.value(r#"weaver_service_tokens_issued_total{why="due"}"#);
    assert!(due >= 2 * RENEWALS, "{due}");
    assert_eq!(metrics.value(r#"weaver_service_tokens{state="fresh"}"#), 2);
    assert_eq!(metrics.value(r#"weaver_service_token_resources{ready="true"}"#), 1);
    world.finish().await;
}

//! Reconciliations that follow a failed write, or one that was ended because it took too long.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, advance};
use weaver_api::ownership::FINALIZER;

use super::outcome::tests::spec;
use super::world::SyncWorld;

#[tokio::test]
async fn words_of_someone_else_that_change_each_time_do_not_end_the_back_off() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.server.breaks("foo");
    world.create(&spec(&["foo"]), &[]);
    world.settle().await;
    assert_eq!(world.condition("TargetsSynced")["reason"], "TargetsFailed");
    world.reconcile().await.unwrap();
    assert_eq!(world.server.writes(), Vec::<String>::new());
}

/// Someone who changes one copy again and again causes reconciliations that skip the target which failed.
#[tokio::test(start_paused = true)]
async fn a_reconciliation_that_skips_a_target_does_not_put_it_off() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.server.breaks("foo");
    world.create(&spec(&["foo", "bar"]), &[FINALIZER]);
    world.settle().await;
    let tried = || {
        let attempts = world.server.attempts();
        attempts.iter().filter(|attempt| attempt.starts_with("POST") && attempt.contains("/foo/")).count()
    };
    tried();
    for _ in 0..30 {
        advance(Duration::from_secs(20)).await;
        world.reconcile_again().await.unwrap();
    }
    let often = tried();
    // Each pause ends after at most a minute, and the next of these reconciliations tries.
    assert!((7..=15).contains(&often), "{often} times in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn the_resource_is_reconciled_again_when_the_first_target_is_due() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.server.breaks("foo");
    world.create(&spec(&["foo", "bar"]), &[FINALIZER]);
    world.settle().await;
    for _ in 0..10 {
        // The resource has failed so often that its own pause is a minute.
        world.reconcile().await.unwrap();
    }
    advance(Duration::from_millis(300)).await;
    let again = world.reconcile_again().await.unwrap();
    let again = format!("{again:?}");
    assert!(again.contains("ms)"), "{again}");
}

/// Two requests of nine seconds for each copy.
#[tokio::test(start_paused = true)]
async fn a_pass_over_slow_targets_ends_in_time_and_the_next_one_continues() {
    const COPIES: usize = 30;
    let world = SyncWorld::new(Duration::ZERO).await;
    let name = |number: usize| format!("source-{number}");
    for number in 0..COPIES {
        world.put("team-a", &name(number), "x", &json!({"labels": {"share": "true"}}));
    }
    world.server.answers_late("bar", Duration::from_secs(9));
    let mut spec = spec(&["bar"]);
    spec["source"] = json!({"namespace": "team-a", "selector": {"matchLabels": {"share": "true"}}});
    world.create(&spec, &[FINALIZER]);
    let made = || (0..COPIES).filter(|number| world.object("bar", &name(*number)).is_some()).count();
    for is_last in [false, true] {
        let begun = Instant::now();
        world.reconcile().await.unwrap();
        assert!(begun.elapsed() < Duration::from_mins(10), "{:?}", begun.elapsed());
        assert_eq!(made() == COPIES, is_last, "{}", made());
    }
    assert_eq!(world.condition("Ready")["status"], "True");
}

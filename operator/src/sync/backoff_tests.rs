//! Reconciliations that follow a failed write, or one that was ended because it took too long.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMetaExt as _;
use kube::runtime::watcher::Event;
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
    world.server.answers_late("/namespaces/bar/", Duration::from_secs(9));
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

/// The rights in two thousand namespaces are reviewed, and then again for the search for stale copies.
#[tokio::test(start_paused = true)]
async fn slow_reviews_of_rights_end_in_time_and_stop_no_copy_to_a_namespace_that_is_named() {
    let world = SyncWorld::new(Duration::ZERO).await;
    for number in 0..2_000 {
        let meta = ObjectMeta { name: Some(format!("guess-{number}")), ..ObjectMeta::default() };
        world.hears(Event::Apply(meta.into_response_partial())).await;
    }
    world.server.answers_late("/selfsubjectrulesreviews", Duration::from_secs(9));
    let mut spec = spec(&["foo"]);
    spec["targets"]["patterns"] = json!(["guess-*"]);
    world.create(&spec, &[FINALIZER]);
    let begun = Instant::now();
    world.reconcile().await.unwrap();
    assert!(begun.elapsed() < Duration::from_mins(10), "{:?}", begun.elapsed());
    assert!(world.object("foo", "settings").is_some());
    let status = world.sync()["status"].to_string();
    assert!(status.contains("the review of the account's rights took more than 4 min"), "{status}");
}

/// All are read before anything is copied.
#[tokio::test(start_paused = true)]
async fn a_merge_of_slow_sources_ends_in_time_and_makes_no_copy_of_a_part_of_them() {
    let world = SyncWorld::new(Duration::ZERO).await;
    for number in 0..200 {
        world.put("team-a", &format!("source-{number}"), "x", &json!({"labels": {"share": "true"}}));
    }
    world.server.answers_late("/configmaps/source-", Duration::from_secs(9));
    let mut spec = spec(&["foo"]);
    spec["source"] = json!({"namespace": "team-a", "selector": {"matchLabels": {"share": "true"}}});
    (spec["merge"], spec["targets"]["name"]) = (json!({}), json!("all"));
    world.create(&spec, &[FINALIZER]);
    let begun = Instant::now();
    world.reconcile().await.unwrap();
    assert!(begun.elapsed() < Duration::from_mins(10), "{:?}", begun.elapsed());
    assert_eq!(world.object("foo", "all"), None);
    let found = world.condition("SourceFound");
    assert_eq!(
        (&found["status"], found["message"].as_str().unwrap().starts_with("not read")),
        (&json!("Unknown"), true)
    );
}

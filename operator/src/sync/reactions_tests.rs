//! What a change of a namespace causes, against an API server in memory.

use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::core::{PartialObjectMeta, PartialObjectMetaExt as _};
use kube::runtime::watcher::Event;
use serde_json::{Value, json};
use tokio::time::advance;
use weaver_api::ownership::{ACCEPT_FROM_ANNOTATION, FINALIZER};

use super::super::outcome::tests::spec;
use super::super::world::SyncWorld;
use super::*;

/// A namespace that did not exist at first.
const GUESS: &str = "guess";

type Change = fn(&mut ObjectMeta);

fn namespace(changes: &[Change]) -> PartialObjectMeta<Namespace> {
    let mut meta = ObjectMeta {
        name: Some(GUESS.into()),
        labels: Some([("tier".to_owned(), "dev".to_owned())].into()),
        ..ObjectMeta::default()
    };
    for change in changes {
        change(&mut meta);
    }
    meta.into_response_partial()
}

fn going(meta: &mut ObjectMeta) {
    meta.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
}

fn closed(meta: &mut ObjectMeta) {
    meta.annotations = Some([(ACCEPT_FROM_ANNOTATION.to_owned(), "none".to_owned())].into());
}

fn unlabelled(meta: &mut ObjectMeta) {
    meta.labels = None;
}

/// All that may happen to it in its life.
fn life() -> Vec<Event<PartialObjectMeta<Namespace>>> {
    let stages: [&[Change]; 5] = [&[], &[closed], &[unlabelled], &[], &[going]];
    let applied = stages.map(|changes| Event::Apply(namespace(changes)));
    applied.into_iter().chain([Event::Delete(namespace(&[going]))]).collect()
}

/// How a resource asks for the namespace.
fn by_name() -> Value {
    json!({"namespaces": [GUESS]})
}

fn by_pattern() -> Value {
    json!({"patterns": ["gu*"]})
}

fn by_label() -> Value {
    json!({"selector": {"matchLabels": {"tier": "dev"}}})
}

async fn world(targets: &Value) -> SyncWorld {
    world_where_rights_last(targets, Duration::ZERO).await
}

async fn world_where_rights_last(targets: &Value, rights_last: Duration) -> SyncWorld {
    let world = SyncWorld::remembering(Duration::ZERO, rights_last).await;
    let mut spec = spec(&[]);
    spec["targets"] = targets.clone();
    world.create(&spec, &[FINALIZER]);
    world.server.forbid(GUESS, true);
    world.reconcile().await.unwrap();
    world
}

#[tokio::test(start_paused = true)]
async fn nothing_in_the_life_of_a_namespace_causes_anything_for_an_account_without_a_right_there() {
    for targets in [by_name(), by_pattern(), by_label()] {
        let world = world(&targets).await;
        let forgiven = world.forgiven();
        for (number, event) in life().into_iter().enumerate() {
            assert!(!world.reacts_to(vec![event]).await, "{targets}, change {number}");
        }
        assert_eq!(world.forgiven(), forgiven, "{targets}");
        // Its own namespace is its own.
        let own = ObjectMeta { name: Some("team-a".into()), ..ObjectMeta::default() };
        assert!(world.reacts_to(vec![Event::Delete(own.into_response_partial())]).await);
    }
}

#[tokio::test(start_paused = true)]
async fn every_change_that_concerns_an_account_with_a_right_there_is_reacted_to_and_failures_are_forgiven() {
    let but_labels = [true, true, true, false, true, true];
    for (targets, expected) in [(by_name(), but_labels), (by_pattern(), but_labels), (by_label(), [true; 6])]
    {
        let world = world(&targets).await;
        world.server.forbid(GUESS, false);
        let forgiven = world.forgiven();
        for (number, (event, expected)) in life().into_iter().zip(expected).enumerate() {
            assert_eq!(world.reacts_to(vec![event]).await, expected, "{targets}, change {number}");
        }
        assert_eq!(
            world.forgiven(),
            forgiven + u32::try_from(expected.iter().filter(|reacts| **reacts).count()).unwrap(),
            "{targets}"
        );
    }
}

/// What is gone has no Roles any more: what was known while it went counts. It does not for the next one of that name.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_namespace_is_reacted_to_where_the_account_had_a_right_and_its_successor_is_another() {
    let world = world_where_rights_last(&by_name(), Duration::from_mins(5)).await;
    world.hears(Event::Apply(namespace(&[]))).await;
    world.server.forbid(GUESS, false);
    assert!(world.reacts_to(vec![Event::Apply(namespace(&[going]))]).await);
    world.server.forbid(GUESS, true);
    let gone = || Event::Delete(namespace(&[going]));
    assert!(world.reacts_to(vec![gone()]).await);
    assert!(!world.reacts_to(vec![Event::Apply(namespace(&[])), gone()]).await);
}

/// The lease is renewed in the same task.
#[tokio::test]
async fn a_change_that_concerns_many_resources_takes_no_look_at_all_of_them_for_each() {
    let took = SyncWorld::new(Duration::ZERO).await.takes_for(15_000);
    assert!(took < Duration::from_secs(4), "{took:?}");
}

/// A tenant can make its own requests fail: a failure must tell nothing, and what cannot be asked is asked again.
#[tokio::test(start_paused = true)]
async fn a_question_that_fails_causes_nothing_and_is_asked_again() {
    for (failures, expected) in [(TRIES - 1, true), (TRIES, false)] {
        let world = world(&by_label()).await;
        world.server.forbid(GUESS, false);
        world.server.fails_reviews(failures);
        assert_eq!(world.reacts_to(vec![Event::Apply(namespace(&[]))]).await, expected, "{failures}");
    }
}

/// It answers before it has read all Roles.
#[tokio::test(start_paused = true)]
async fn a_selected_namespace_that_a_starting_server_denies_keeps_its_copy_and_is_hidden_for_half_a_minute() {
    let world = SyncWorld::remembering(Duration::ZERO, Duration::from_mins(5)).await;
    world.hears(Event::Apply(namespace(&[]))).await;
    let mut spec = spec(&[]);
    spec["targets"] = by_label();
    world.create(&spec, &[]);
    world.settle().await;
    let copy = world.object(GUESS, "settings");
    assert!(copy.is_some());
    // By then the grant is not used any more.
    advance(Duration::from_mins(5)).await;
    world.server.forbid(GUESS, true);
    world.put("team-a", "settings", "new", &json!({}));
    world.settle().await;
    assert_ne!(world.counts()["desired"], 1);
    assert_eq!(world.object(GUESS, "settings"), copy, "nothing follows for the copy");
    world.server.forbid(GUESS, false);
    advance(Duration::from_secs(30)).await;
    world.settle().await;
    let (now, before) = (world.object(GUESS, "settings").unwrap(), copy.unwrap());
    assert_eq!((&now["data"]["a"], &now["metadata"]["uid"]), (&json!("new"), &before["metadata"]["uid"]));
}

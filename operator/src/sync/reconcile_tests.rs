//! Whole reconciliations against an API server in memory.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMetaExt as _;
use kube::runtime::watcher::Event;
use serde_json::{Value, json};
use tokio::time::advance;
use weaver_api::ownership::{FINALIZER, SYNC_NOW_ANNOTATION, UPSTREAM_FINALIZER};
use weaver_tenant::watch::WatchLimits;

use super::outcome::tests::spec;
use super::world::{SYNC, SyncWorld};
use crate::controller::kind::Failure;
use crate::watch::LIMITS;

#[tokio::test]
async fn a_resource_gets_a_finalizer_and_is_synced_and_reported() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.create(&spec(&["foo", "bar"]), &[]);
    world.settle().await;
    assert_eq!(world.finalizers(), json!([FINALIZER]));
    assert_eq!(world.object("foo", "settings").unwrap()["data"], json!({"a": "settings"}));
    assert_eq!(world.counts(), json!({"desired": 2, "synced": 2, "failed": 0, "conflicts": 0}));
    let kinds: Vec<Value> = world.sync()["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|condition| json!([condition["type"], condition["status"]]))
        .collect();
    assert_eq!(
        Value::from(kinds),
        json!([
            ["Ready", "True"],
            ["SourceFound", "True"],
            ["Authorized", "True"],
            ["TargetsSynced", "True"],
            ["Conflicted", "False"],
            ["Paused", "False"],
            ["Migrated", "True"],
            ["Progressing", "False"]
        ])
    );
}

#[tokio::test(start_paused = true)]
async fn a_fan_out_that_takes_long_shows_how_far_it_is() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.create(&spec(&["foo", "bar"]), &[FINALIZER]);
    world.server.answers_late("/namespaces/bar/", Duration::from_secs(7));
    let meanwhile = async {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let status = world.sync()["status"].clone();
            if status["conditions"].is_array() {
                return status;
            }
        }
    };
    let (ended, meanwhile) = tokio::join!(world.reconcile(), meanwhile);
    ended.unwrap();
    let conditions = meanwhile["conditions"].as_array().unwrap();
    let said = |kind: &str| conditions.iter().find(|condition| condition["type"] == kind).unwrap();
    assert_eq!(said("Progressing")["message"], "1 of 2 targets are done, 1 of them hold the copy");
    assert_eq!(said("Progressing")["status"], "True");
    assert_eq!(said("Ready")["status"], "Unknown", "the first fan-out has not ended");
    assert_eq!(world.condition("Progressing")["status"], "False");
    assert_eq!(world.condition("Ready")["status"], "True");
}

#[tokio::test(start_paused = true)]
async fn copies_of_all_namespaces_that_are_too_many_for_one_watch_are_listed_a_few_times_a_day() {
    const FIVE_MINUTES: Duration = Duration::from_mins(5);
    let world = SyncWorld::remembering(Duration::ZERO, FIVE_MINUTES).await;
    world.server.grants_everywhere(true);
    world.create(&spec(&["foo", "bar"]), &[]);
    world.settle().await;
    let five_minutes = async || {
        advance(FIVE_MINUTES).await;
        world.reconcile().await.unwrap();
    };
    for _ in 0..12 * 24 {
        five_minutes().await;
    }
    // Each try asks for all at once, then for the first page.
    let listed = world.server.lists_of_all();
    assert!((12..=22).contains(&listed), "{listed} lists of 9 MiB in a day");
    assert_eq!(world.condition("Authorized")["status"], "True");
    // Another right may show other objects.
    for granted in [false, true] {
        world.server.grants_everywhere(granted);
        five_minutes().await;
    }
    assert_eq!(world.server.lists_of_all(), listed + 2);
}

#[tokio::test]
async fn a_resource_with_more_targets_than_there_may_be_watches_is_reported_once() {
    let limits = WatchLimits { watches: 20, ..LIMITS };
    let world = SyncWorld::limited(Duration::ZERO, Duration::from_mins(5), limits).await;
    for number in 0..limits.watches + 10 {
        let meta = ObjectMeta {
            name: Some(format!("many-{number}")),
            labels: Some([("tier".to_owned(), "dev".to_owned())].into()),
            ..ObjectMeta::default()
        };
        world.hears(Event::Apply(meta.into_response_partial())).await;
    }
    let mut selecting = spec(&[]);
    selecting["targets"]["selector"] = json!({"matchLabels": {"tier": "dev"}});
    world.create(&selecting, &[]);
    world.settle().await;
    let authorized = world.condition("Authorized");
    assert_eq!(authorized["reason"], "Polled");
    // One is on the source.
    assert!(authorized["message"].as_str().unwrap().contains("11 namespaces are polled"), "{authorized}");
    world.events();
    for _ in 0..3 {
        world.reconcile().await.unwrap();
        assert_eq!((world.server.writes(), world.events()), (Vec::<String>::new(), Vec::<String>::new()));
    }
}

#[tokio::test]
async fn a_resource_of_which_only_the_name_is_kept_is_reconciled_and_deleted_as_any_other() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.create(&spec(&["foo"]), &[]);
    assert_eq!(world.readiness_by_name(), "unknown");
    for _ in 0..4 {
        world.reconcile_by_name().await.unwrap();
    }
    assert_eq!(world.readiness_by_name(), "true");
    assert_eq!(world.object("foo", "settings").unwrap()["data"], json!({"a": "settings"}));
    assert_eq!(world.condition("Ready")["status"], "True");
    world.server.writes();
    world.reconcile_by_name().await.unwrap();
    assert_eq!(world.server.writes(), Vec::<String>::new());
    world.delete();
    world.reconcile_by_name().await.unwrap();
    assert!(world.is_deleted() && world.object("foo", "settings").is_none());
}

/// Else it would be read again and again for as long as its watch fails.
#[tokio::test]
async fn a_resource_that_is_read_by_its_name_is_reconciled_before_the_watch_shows_what_was_read() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.create(&spec(&["foo"]), &[]);
    world.settle().await;
    let before = world.sync();
    world.change(|sync| sync["spec"]["targets"]["namespaces"] = json!(["foo", "bar"]));
    world.reconcile_by_name_of(before).await.unwrap();
    assert_eq!(world.object("bar", "settings").unwrap()["data"], json!({"a": "settings"}));
    assert_eq!(world.counts()["synced"], 2);
}

/// Who writes a selector decides how long it is, and a watch has it in memory.
#[tokio::test]
async fn the_selector_of_a_watch_counts_as_what_watches_keep() {
    let limits = WatchLimits { bytes: 3_000, ..LIMITS };
    for (more, is_polled) in [(0, false), (30, true)] {
        let world = SyncWorld::limited(Duration::ZERO, Duration::from_mins(5), limits).await;
        let mut labels = json!({"share": "true"});
        for number in 0..more {
            labels[format!("x{number}")] = json!("x".repeat(63));
        }
        world.put("team-a", "settings", "settings", &json!({"labels": labels}));
        let mut selecting = spec(&["foo"]);
        selecting["source"] = json!({"namespace": "team-a", "selector": {"matchLabels": labels}});
        world.create(&selecting, &[]);
        world.settle().await;
        let authorized = world.condition("Authorized");
        let message = authorized["message"].as_str().unwrap();
        assert_eq!(message.contains("1 namespaces are polled"), is_polled, "{authorized}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_for_a_sync_has_all_rights_asked_again_but_not_in_a_loop() {
    let world = SyncWorld::remembering(Duration::ZERO, Duration::from_mins(5)).await;
    world.server.forbid("bar", true);
    let mut selecting = spec(&["foo"]);
    selecting["targets"]["patterns"] = json!(["ba?"]);
    world.create(&selecting, &[]);
    world.settle().await;
    world.server.forbid("bar", false);
    world.reconcile().await.unwrap();
    assert_eq!(world.counts()["desired"], 2, "the refusal is remembered");
    world.server.asked();
    let all: &[&str] = &["bar", "baz", "foo", "team-a"];
    for (after, expected) in [(0, all), (0, &[]), (29, &[]), (1, all)] {
        advance(Duration::from_secs(after)).await;
        let now = world.sync()["metadata"]["resourceVersion"].clone();
        world.change(|sync| sync["metadata"]["annotations"] = json!({SYNC_NOW_ANNOTATION: now}));
        world.settle().await;
        let mut asked = world.server.asked();
        asked.sort();
        asked.dedup();
        assert_eq!(asked, expected);
        assert_eq!(world.counts()["synced"], 3);
    }
}

#[tokio::test]
async fn a_newly_excluded_namespace_loses_its_copy() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.create(&spec(&["foo", "bar"]), &[]);
    world.settle().await;
    world.change(|sync| {
        sync["spec"]["targets"]["exclude"] = json!(["bar"]);
    });
    world.settle().await;
    assert_eq!(world.object("bar", "settings"), None);
    assert!(world.object("foo", "settings").is_some());
    assert_eq!(world.counts()["desired"], 1);
}

#[tokio::test]
async fn while_suspended_nothing_is_written_but_the_status_and_then_all_is_made_good() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.create(&spec(&["foo", "bar"]), &[]);
    world.settle().await;
    let before = world.object("foo", "settings");
    world.change(|sync| sync["spec"]["suspend"] = true.into());
    assert_eq!(world.settle().await, [format!("PATCH {SYNC}/status")]);
    world.put("team-a", "settings", "new", &json!({}));
    world.change(|sync| sync["spec"]["targets"]["namespaces"] = json!(["foo", "baz"]));
    assert_eq!(world.settle().await, [format!("PATCH {SYNC}/status")], "its generation");
    assert_eq!(world.object("foo", "settings"), before);
    assert_eq!(world.condition("Paused")["status"], "True");
    assert_eq!(world.condition("Ready")["reason"], "Suspended");
    world.change(|sync| sync["spec"]["suspend"] = false.into());
    world.settle().await;
    for namespace in ["foo", "baz"] {
        assert_eq!(world.object(namespace, "settings").unwrap()["data"], json!({"a": "new"}));
    }
    assert_eq!(world.object("bar", "settings"), None);
    assert_eq!(world.condition("Ready")["status"], "True");
}

#[tokio::test]
async fn a_dry_run_of_a_new_resource_sets_no_finalizer_and_reports_its_plan() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.put("bar", "settings", "theirs", &json!({}));
    world.server.lacks("baz");
    let mut dry = spec(&["foo", "bar", "baz"]);
    dry["dryRun"] = true.into();
    world.create(&dry, &[]);
    assert_eq!(world.settle().await, [format!("PATCH {SYNC}/status")]);
    assert_eq!((world.finalizers(), world.object("foo", "settings")), (json!([]), None));
    let shown: Vec<Value> = world.sync()["status"]["targets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|target| json!([target["namespace"], target["reason"]]))
        .collect();
    assert_eq!(
        Value::from(shown),
        json!([["bar", "NotOurs"], ["baz", "NamespaceMissing"], ["foo", "WouldBeCreated"]])
    );
    world.change(|sync| sync["spec"]["dryRun"] = false.into());
    world.settle().await;
    assert!(world.object("foo", "settings").is_some());
}

#[tokio::test]
async fn a_dry_run_of_a_change_tells_it_and_leaves_every_copy() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.create(&spec(&["foo", "bar"]), &[]);
    world.settle().await;
    let copies = || (world.object("foo", "settings"), world.object("bar", "settings"));
    let before = copies();
    world.put("team-a", "settings", "new", &json!({}));
    world.change(|sync| {
        sync["spec"]["dryRun"] = true.into();
        sync["spec"]["targets"]["namespaces"] = json!(["foo"]);
    });
    // Reported more than once, it stays the same.
    for expected in [vec![format!("PATCH {SYNC}/status")], vec![]] {
        assert_eq!(world.settle().await, expected);
        let plan = "0 of 1 targets hold the copy; foo: would be updated; \
                    ConfigMap bar/settings: would be removed";
        assert_eq!(world.condition("TargetsSynced")["message"], plan);
        assert_eq!(copies(), before);
    }
    world.change(|sync| sync["spec"]["dryRun"] = false.into());
    world.settle().await;
    let (foo, bar) = copies();
    assert_eq!((&foo.unwrap()["data"], bar), (&json!({"a": "new"}), None));
}

#[tokio::test]
async fn what_a_client_of_v1alpha1_dropped_from_the_status_is_written_again() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.create(&spec(&["foo"]), &[]);
    world.settle().await;
    let before = world.sync()["status"].clone();
    world.change(|sync| {
        let status = sync["status"].as_object_mut().unwrap();
        status.retain(|field, _| field == "conditions");
        status.insert("theirs".into(), "kept".into());
    });
    assert_eq!(world.settle().await, [format!("PATCH {SYNC}/status")]);
    let mut expected = before;
    expected["theirs"] = "kept".into();
    assert_eq!(world.sync()["status"], expected);
}

#[tokio::test]
async fn round_trip_content_that_breaks_a_rule_is_reported_and_the_rest_is_done() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.create(&spec(&["foo"]), &[]);
    world.change(|sync| {
        sync["metadata"]["annotations"] = json!({"weaver.example.com/converted": "not what we write"});
    });
    world.settle().await;
    assert_eq!(world.condition("Migrated")["reason"], "RoundTripAnnotationIgnored");
    assert!(world.object("foo", "settings").is_some());
}

#[tokio::test]
async fn a_deleted_resource_that_orphans_its_copies_removes_none_whatever_else_it_says() {
    let invalid = json!({"deletionPolicy": "Orphan"});
    let mut selecting = spec(&["foo"]);
    selecting["deletionPolicy"] = "Orphan".into();
    selecting["targets"]["selector"] = json!({});
    let mut suspended = spec(&["foo"]);
    suspended["suspend"] = true.into();
    let mut plain = spec(&["foo"]);
    plain["deletionPolicy"] = "Orphan".into();
    for spec_then in [plain, selecting, suspended, invalid] {
        let world = SyncWorld::new(Duration::from_hours(1)).await;
        world.create(&spec(&["foo"]), &[]);
        world.settle().await;
        let copy = world.object("foo", "settings");
        world.change(|sync| sync["spec"] = spec_then.clone());
        world.delete();
        assert_eq!(world.settle().await, [format!("PATCH {SYNC}")], "{spec_then}");
        assert!(world.is_deleted());
        assert_eq!(world.object("foo", "settings"), copy, "byte for byte, ownership labels too");
    }
}

#[tokio::test]
async fn an_object_that_cannot_be_understood_is_reported_once_and_left_alone() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.create(&json!({"resyncSeconds": "often"}), &[UPSTREAM_FINALIZER]);
    world.change(|sync| sync["status"] = json!({"counts": {"desired": 1}, "theirs": "kept"}));
    assert_eq!(world.settle().await, [format!("PATCH {SYNC}/status")]);
    let ready = world.condition("Ready");
    assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("ParseFailed")));
    let words = r#"spec.resyncSeconds: Invalid type string "often""#;
    assert!(ready["message"].as_str().unwrap().contains(words), "{ready}");
    let status = world.sync()["status"].clone();
    assert_eq!((&status["counts"], &status["theirs"]), (&Value::Null, &json!("kept")));
    assert_eq!(world.finalizers(), json!([UPSTREAM_FINALIZER]));

    world.create(&spec(&["foo"]), &[]);
    world.settle().await;
    assert_eq!(world.condition("Ready")["status"], "True", "mended, it continues");
}

#[tokio::test]
async fn an_object_of_which_every_write_is_refused_is_not_tried_in_a_circle_and_not_stuck() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.create(&spec(&["foo"]), &[]);
    world.settle().await;
    let copy = world.object("foo", "settings");
    world.change(|sync| sync["spec"]["targets"]["namespaces"] = "foo".into());
    world.server.attempts();
    for _ in 0..3 {
        world.reconcile().await.unwrap();
    }
    assert_eq!(world.server.attempts(), [format!("PATCH {SYNC}/status")], "once is enough");

    world.delete();
    world.reconcile().await.unwrap();
    assert!(world.is_deleted());
    assert_eq!(world.object("foo", "settings"), copy);
}

#[tokio::test]
async fn a_status_that_cannot_be_read_is_written_again() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.create(&spec(&["foo"]), &[]);
    world.change(|sync| sync["status"] = json!({"counts": "many"}));
    world.settle().await;
    assert_eq!(world.condition("Ready")["status"], "True");
    assert_eq!(world.counts()["synced"], 1);
}

#[tokio::test]
async fn a_deleted_object_that_cannot_be_understood_is_released_after_the_patience_and_removes_nothing() {
    for (patience, released) in [(Duration::from_hours(1), false), (Duration::ZERO, true)] {
        let world = SyncWorld::new(patience).await;
        world.create(&spec(&["foo"]), &[]);
        world.settle().await;
        let copy = world.object("foo", "settings");
        world.change(|sync| sync["spec"]["conflictPolicy"] = "Merge".into());
        world.delete();
        let done = world.reconcile().await;
        assert_eq!(done.is_ok(), released);
        if let Err(error) = done {
            assert!(matches!(&error, Failure::CleanupPending(why) if why.contains("Merge")), "{error}");
        }
        assert_eq!(world.is_deleted(), released);
        assert_eq!(world.object("foo", "settings"), copy);
    }
}

#[tokio::test]
async fn a_deleted_resource_takes_its_copies_with_it_also_when_its_spec_has_become_another() {
    let world = SyncWorld::new(Duration::ZERO).await;
    world.create(&spec(&["foo", "bar"]), &[]);
    world.settle().await;
    world.change(|sync| sync["spec"]["source"]["kind"] = "Secret".into());
    world.delete();
    world.settle().await;
    assert!(world.is_deleted());
    for namespace in ["foo", "bar"] {
        assert_eq!(world.object(namespace, "settings"), None);
    }
}

#[tokio::test]
async fn a_finalizer_that_someone_took_away_is_set_again_before_copies_are_forgotten() {
    for left in [&["foo", "bar"][..], &["foo"]] {
        let world = SyncWorld::new(Duration::ZERO).await;
        world.create(&spec(&["foo", "bar"]), &[]);
        world.settle().await;
        // As `kubectl replace` with a manifest from git does it.
        world.change(|sync| {
            sync["spec"] = spec(left);
            sync["metadata"]["finalizers"] = json!([]);
        });
        world.settle().await;
        assert_eq!(world.finalizers(), json!([FINALIZER]));
        assert_eq!(world.object("bar", "settings").is_some(), left.contains(&"bar"));
        world.delete();
        world.settle().await;
        assert_eq!((world.object("foo", "settings"), world.object("bar", "settings")), (None, None));
    }
}

/// One pass has time for some four hundred copies that take eighteen seconds each.
#[tokio::test(start_paused = true)]
async fn however_many_copies_hang_each_has_its_turn_and_the_deletion_ends() {
    let world = SyncWorld::new(Duration::from_mins(5)).await;
    for number in 0..256 {
        world.put("team-a", &format!("source-{number}"), "x", &json!({"labels": {"share": "true"}}));
    }
    let mut selecting = spec(&["foo", "bar"]);
    selecting["source"] = json!({"namespace": "team-a", "selector": {"matchLabels": {"share": "true"}}});
    world.create(&selecting, &[]);
    world.settle().await;
    assert!(world.object("foo", "source-255").is_some());
    for namespace in ["foo", "bar"] {
        world.server.breaks(namespace);
    }
    world.server.answers_late("/configmaps/source-", Duration::from_secs(9));
    world.delete();
    assert!(world.reconcile().await.is_err(), "not all have had their turn");
    assert!(!world.is_deleted());
    world.reconcile().await.unwrap();
    assert!(world.is_deleted());
}

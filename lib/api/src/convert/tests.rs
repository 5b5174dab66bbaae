//! Cases of conversion, on objects as the API server hands them over: with the defaults of the
//! version they were stored or sent in.

#![allow(clippy::needless_pass_by_value, reason = "objects are written where they are used")]

use serde_json::{Map, Value, json};

use super::structural::with_defaults;
use super::{ANNOTATION, convert, round_trip_faults};

pub(super) fn to(version: &str, object: &Value) -> Value {
    convert(object.clone(), &format!("weaver.example.com/{version}")).unwrap()
}

pub(super) fn object(kind: &str, version: &str, rest: &Value) -> Value {
    let mut object = json!({
        "apiVersion": format!("weaver.example.com/{version}"), "kind": kind,
        "metadata": {"name": "a", "namespace": "team-a", "uid": "u", "labels": {"l": "1"}},
    });
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    with_defaults(object)
}

pub(super) fn old_sync(rest: Value) -> Value {
    object("ConfigMapSync", "v1alpha1", &rest)
}

pub(super) fn new_sync(rest: Value) -> Value {
    object("ConfigMapSync", "v1beta1", &rest)
}

fn annotation(object: &Value) -> Option<Value> {
    object["metadata"]["annotations"][ANNOTATION].as_str().map(|text| serde_json::from_str(text).unwrap())
}

/// There and back, through the defaults of the version that is stored.
pub(super) fn round(object: &Value, via: &str) -> Value {
    let back = object["apiVersion"].as_str().unwrap().split('/').next_back().unwrap();
    to(back, &with_defaults(to(via, object)))
}

fn minimal() -> Value {
    json!({"spec": {"serviceAccount": {"name": "sync"}, "source": {"name": "settings", "namespace": "team-a"},
                    "syncToNamespaces": ["foo", "bar"]}})
}

#[test]
fn what_upstream_wrote_comes_back_without_an_annotation() {
    let sent = old_sync(minimal());
    let stored = to("v1beta1", &sent);
    assert_eq!(
        stored["spec"],
        json!({"serviceAccount": {"name": "sync"},
               "source": {"kind": "ConfigMap", "name": "settings", "namespace": "team-a"},
               "targets": {"namespaces": ["foo", "bar"]}, "conflictPolicy": "Refuse",
               "sourceDeletionPolicy": "Retain", "deletionPolicy": "Delete", "resyncSeconds": 600,
               "suspend": false, "dryRun": false})
    );
    assert_eq!(with_defaults(stored.clone()), stored, "a write that changes nothing changes nothing");
    assert_eq!(annotation(&stored), None);
    assert_eq!(round(&sent, "v1beta1"), sent);
}

#[test]
fn test_num_status_test_and_repeated_names_survive() {
    let mut sent = old_sync(minimal());
    sent["spec"]["testNum"] = json!(3);
    sent["spec"]["syncToNamespaces"] = json!(["foo", "bar", "foo"]);
    sent["status"] = json!({"test": "kept", "conditions": []});
    let stored = to("v1beta1", &sent);
    assert_eq!(stored["spec"]["targets"]["namespaces"], json!(["foo", "bar"]));
    assert_eq!(stored["status"], json!({"conditions": []}));
    assert_eq!(round(&sent, "v1beta1"), sent);
}

#[test]
fn visible_fields_win_over_the_round_trip_annotation() {
    let mut sent = old_sync(minimal());
    sent["spec"]["testNum"] = json!(3);
    sent["spec"]["syncToNamespaces"] = json!(["foo", "bar", "foo"]);
    let mut stored = to("v1beta1", &sent);
    stored["spec"]["targets"]["namespaces"] = json!(["foo", "new"]);
    let read = to("v1alpha1", &stored);
    assert_eq!(read["spec"]["syncToNamespaces"], json!(["foo", "new"]));
    assert_eq!(read["spec"]["testNum"], 3);
}

#[test]
fn an_edit_at_v1alpha1_keeps_what_it_cannot_show() {
    let stored = new_sync(json!({"spec": {
        "serviceAccount": {"name": "sync"}, "source": {"kind": "Secret", "namespace": "a", "name": "b"},
        "targets": {"namespaces": ["foo"], "exclude": ["bar"]}, "resyncSeconds": 60,
    }}));
    let mut read = to("v1alpha1", &stored);
    read["spec"]["syncToNamespaces"] = json!(["baz"]);
    read["spec"]["source"]["name"] = json!("c");
    let written = to("v1beta1", &read);
    let mut expected = stored["spec"].clone();
    expected["source"]["name"] = json!("c");
    expected["targets"]["namespaces"] = json!(["baz"]);
    assert_eq!(written["spec"], expected);
    assert_eq!(annotation(&written), None);
}

#[test]
fn no_account_is_guessed_where_there_is_none() {
    for (sent, account) in [
        (json!({}), Value::Null),
        (json!({"spec": {"serviceAccount": {}}}), Value::Null),
        (json!({"spec": {"serviceAccount": {"name": ""}}}), Value::Null),
        (json!({"spec": {}}), json!({"name": "default"})),
    ] {
        let sent = old_sync(sent);
        let stored = to("v1beta1", &sent);
        assert!(stored["spec"].is_object(), "v1beta1 always has a spec: {stored}");
        assert_eq!(stored["spec"]["serviceAccount"], account, "{sent}");
        let read = round(&sent, "v1beta1");
        assert_eq!(read, sent);
        assert_eq!(with_defaults(read.clone()), read, "v1alpha1 fills in nothing");
    }
}

#[test]
fn what_is_filled_in_at_v1beta1_wins_over_there_having_been_no_spec() {
    let mut stored = to("v1beta1", &old_sync(json!({})));
    stored["spec"]["source"] = json!({"namespace": "a", "name": "b"});
    let read = to("v1alpha1", &stored);
    assert_eq!(read["spec"], json!({"serviceAccount": {}, "source": {"namespace": "a", "name": "b"}}));
}

fn faults(object: &Value) -> Vec<String> {
    round_trip_faults(&serde_json::from_value(object["metadata"].clone()).unwrap())
}

#[test]
fn a_hand_edited_annotation_is_input_like_any_other() {
    let mut read = old_sync(minimal());
    let text = json!({"version": "v1beta1", "exact": {"targets": []}, "spec": {
        "resyncSeconds": "60", "targets": {"exclude": ["bar"], "name": 7}, "source": {"kind": {"Secret": null}},
        "serviceAccount": {"name": "root"}, "odd": 1,
    }});
    read["metadata"]["annotations"] = json!({ANNOTATION: text.to_string(), "other": "kept"});
    let stored = to("v1beta1", &read);
    assert_eq!(stored["spec"]["targets"], json!({"namespaces": ["foo", "bar"], "exclude": ["bar"]}));
    assert_eq!(
        (&stored["spec"]["resyncSeconds"], &stored["spec"]["source"]["kind"]),
        (&json!(600), &json!("ConfigMap"))
    );
    assert_eq!(
        stored["spec"]["serviceAccount"],
        json!({"name": "sync"}),
        "a visible field is never in the round-trip annotation"
    );
    assert_eq!(stored["metadata"]["annotations"]["other"], "kept");
    let found = faults(&stored);
    for path in ["resyncSeconds", "targets.name", "source.kind", "serviceAccount", "odd", "targets"] {
        assert!(found.iter().any(|fault| fault.contains(&format!("spec.{path}"))), "{path}: {found:?}");
    }
    // It is kept, reported and not used, however often it is converted back and forth.
    let again = round(&stored, "v1alpha1");
    assert_eq!((&again["spec"], faults(&again)), (&stored["spec"], found));
}

#[test]
fn what_breaks_a_rule_goes_back_to_the_spec_where_the_rules_refuse_it() {
    let sent = new_sync(json!({"spec": {
        "serviceAccount": {"name": "sync"}, "source": {"namespace": "a", "name": "b"},
        "targets": {"namespaces": ["foo"]}, "keys": {"include": ["public"], "rename": {"private": "p"}},
    }}));
    let invalid = |object: &Value| {
        let spec: crate::v1beta1::ConfigMapSyncSpec = serde_json::from_value(object["spec"].clone()).unwrap();
        crate::validate::validate(Some(&spec)).is_err()
    };
    assert!(invalid(&sent));
    let back = round(&sent, "v1alpha1");
    assert_eq!(back, sent, "no restriction is lost");
    let tokens: Vec<Value> =
        (0..16).map(|n| json!({"key": format!("k{n}"), "serviceAccount": {"name": "a"}})).collect();
    let full = object(
        "ServiceToken",
        "v1beta1",
        &json!({"spec": {"writer": {"serviceAccount": {"name": "w"}}, "tokens": tokens}}),
    );
    let mut read = to("v1alpha1", &full);
    read["spec"]["serviceAccount"] = json!({"name": "one-more"});
    assert_eq!(to("v1beta1", &read)["spec"]["tokens"].as_array().unwrap().len(), 17);
}

#[test]
fn what_stands_in_the_annotation_at_v1beta1_never_becomes_part_of_the_spec() {
    let stored = with_defaults(to("v1beta1", &old_sync(minimal())));
    for text in [
        json!({"version": "v1beta1", "spec": {"source": {"kind": "Secret"}, "targets": {"selector": {}}}}),
        json!({"version": "v1alpha1", "ignored": {"v1beta1": {"source": {"kind": "Secret"}}}}),
        json!({"version": "v1alpha1", "ignored": {"source": {"kind": "Secret"}}}),
    ] {
        let mut planted = stored.clone();
        planted["metadata"]["annotations"] = json!({ANNOTATION: text.to_string()});
        let back = round(&round(&planted, "v1alpha1"), "v1alpha1");
        assert_eq!(back["spec"], stored["spec"], "{text}");
        assert_eq!(annotation(&back), Some(text));
    }
}

#[test]
fn annotations_never_grow_beyond_what_the_api_server_takes() {
    let long = |count: usize, length: usize| (0..count).map(|n| format!("{n:0length$}")).collect::<Vec<_>>();
    let texts: Map<String, Value> =
        long(32, 63).into_iter().map(|key| (key, json!("x".repeat(4_096)))).collect();
    let large = new_sync(json!({"spec": {
        "serviceAccount": {"name": "sync"}, "source": {"namespace": "a", "name": "b"},
        "targets": {"namespaces": ["foo"], "exclude": long(1_000, 63), "annotations": texts},
        "keys": {"include": long(256, 251)},
    }}));
    let size = |object: &Value| {
        let all = object["metadata"]["annotations"].as_object().into_iter().flatten();
        all.map(|(key, value)| key.len() + value.as_str().unwrap().len()).sum::<usize>()
    };
    let read = to("v1alpha1", &large);
    assert!(size(&read) <= 256 * 1_024);
    assert!(read["spec"]["roundTrip"].is_string() && annotation(&read).is_none(), "one place for all of it");
    assert_eq!(with_defaults(to("v1beta1", &read)), large);

    // Next to what others have written, and the other way round.
    let twice: Vec<String> = [long(900, 60), long(900, 60)].concat();
    let mut sent =
        old_sync(json!({"spec": {"serviceAccount": {"name": "a"}, "syncToNamespaces": twice, "testNum": 1},
                                   "status": {"test": "t".repeat(300_000)}}));
    for others in [0, 150_000, 261_000, 262_100, 300_000] {
        sent["metadata"]["annotations"] = json!({"o": "x".repeat(others)});
        let stored = to("v1beta1", &sent);
        assert!(size(&stored) <= (256 * 1_024).max(others + 1), "{others}");
    }
}

#[test]
fn text_that_is_no_round_trip_content_comes_back_to_the_byte() {
    for text in ["", "{", "[]", "hello", r#"{"version":"v2"}"#, r#"{"version":"v1beta1","more":1}"#] {
        let mut read = old_sync(minimal());
        read["metadata"]["annotations"] = json!({ANNOTATION: text});
        let stored = to("v1beta1", &read);
        let meta = serde_json::from_value(stored["metadata"].clone()).unwrap();
        assert_eq!(round_trip_faults(&meta).len(), 1, "{text}");
        assert_eq!(round(&read, "v1beta1"), read, "{text}");
        // Next to other round-trip data it still comes back.
        read["spec"]["testNum"] = json!(1);
        assert_eq!(round(&read, "v1beta1"), read, "{text}");
    }
}

#[test]
fn a_round_trip_field_of_v1alpha1_that_breaks_a_rule_is_kept_and_reported() {
    let mut stored = to("v1beta1", &old_sync(minimal()));
    let text = json!({"version": "v1alpha1", "spec": {"testNum": "many"}, "status": {"test": 3}});
    stored["metadata"]["annotations"] = json!({ANNOTATION: text.to_string()});
    let meta = serde_json::from_value(stored["metadata"].clone()).unwrap();
    assert_eq!(round_trip_faults(&meta).len(), 2);
    let read = to("v1alpha1", &stored);
    assert_eq!((&read["spec"]["testNum"], &read["status"]["test"]), (&Value::Null, &Value::Null));
    assert_eq!(annotation(&round(&stored, "v1alpha1")), Some(text));
}

#[test]
fn values_of_a_wrong_type_come_out_as_they_went_in() {
    for spec in [
        json!("text"),
        json!(["list"]),
        json!({"serviceAccount": 1, "source": "x", "syncToNamespaces": "foo"}),
        json!({"serviceAccount": {"name": 7}, "source": {"name": []}, "syncToNamespaces": ["a", 1, "a"]}),
        json!({"serviceAccount": null, "source": null, "syncToNamespaces": null}),
    ] {
        let sent = json!({"apiVersion": "weaver.example.com/v1alpha1", "kind": "ConfigMapSync",
                          "metadata": {"name": "a"}, "spec": spec, "status": "odd"});
        assert_eq!(round(&sent, "v1beta1"), sent);
    }
}

#[test]
fn a_list_too_long_for_an_exact_round_trip_comes_back_with_each_name_once() {
    let names: Vec<String> = (0..3_000).map(|n| format!("namespace-{n:050}")).collect();
    let twice: Vec<&String> = names.iter().chain(&names).collect();
    let spec = json!({"serviceAccount": {"name": "a"}, "syncToNamespaces": twice, "testNum": 1});
    let stored = to("v1beta1", &old_sync(json!({"spec": spec})));
    assert_eq!(faults(&stored), Vec::<String>::new(), "nothing is lost that means something");
    let read = to("v1alpha1", &stored);
    assert_eq!((&read["spec"]["syncToNamespaces"], &read["spec"]["testNum"]), (&json!(names), &json!(1)));
}

#[test]
fn nothing_but_annotations_of_the_metadata_changes() {
    let mut sent = old_sync(minimal());
    sent["metadata"]["managedFields"] = json!([{"manager": "x"}]);
    sent["metadata"]["annotations"] = json!({"mine": "1"});
    sent["spec"]["testNum"] = json!(1);
    let mut stored = to("v1beta1", &sent);
    stored["metadata"]["annotations"].as_object_mut().unwrap().remove(ANNOTATION);
    assert_eq!(stored["metadata"], sent["metadata"]);
}

#[test]
fn numbers_and_targets_of_a_status_are_computed_again() {
    let mut stored = to("v1beta1", &old_sync(minimal()));
    stored["status"] = json!({"observedGeneration": 3, "counts": {"desired": 1}, "targets": [], "truncated": false,
                              "conditions": [{"type": "Ready"}]});
    let shown = json!({"conditions": [{"type": "Ready"}, {"type": "Available"}]});
    assert_eq!(to("v1alpha1", &stored)["status"], shown);
}

#[test]
fn v1alpha1_shows_the_conditions_that_clients_of_the_upstream_operator_wait_for() {
    let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "message": "m", "observedGeneration": 3});
    for (stored, shown) in [
        (["SourceFound", "True", "Found"], ["SourceConfigMapFound", "True", "ConfigMapFound"]),
        (["SourceFound", "False", "SourceMissing"], ["SourceConfigMapFound", "False", "ConfigMapMissing"]),
        (
            ["SourceFound", "Unknown", "SourceForbidden"],
            ["SourceConfigMapFound", "Unknown", "SourceForbidden"],
        ),
        (["TargetsSynced", "True", "Synced"], ["AllTargetsSynced", "True", "AllConfigMapsSynced"]),
        (["TargetsSynced", "False", "TargetsFailed"], ["AllTargetsSynced", "False", "SyncsFailed"]),
        (["Ready", "False", "Conflict"], ["Available", "False", "Conflict"]),
    ] {
        let [stored, shown] = [stored, shown].map(|[kind, status, reason]| condition(kind, status, reason));
        let sync = new_sync(json!({"status": {"conditions": [stored]}}));
        assert_eq!(to("v1alpha1", &sync)["status"]["conditions"], json!([stored, shown]));
        assert_eq!(round(&sync, "v1alpha1")["status"], sync["status"]);
    }
    let token = object(
        "ServiceToken",
        "v1beta1",
        &json!({"status": {"conditions": [condition("Ready", "True", "R")]}}),
    );
    assert_eq!(to("v1alpha1", &token)["status"]["conditions"][1], condition("Available", "True", "R"));
}

#[test]
fn what_the_upstream_operator_says_itself_is_neither_hidden_nor_lost() {
    let own = json!([{"type": "Ready", "status": "True"}, {"type": "SourceConfigMapFound", "status": "True"},
                     {"type": "SourceFound", "status": "False"}, {"type": "Available", "status": "True"}]);
    let sent = old_sync(json!({"status": {"conditions": own}}));
    let stored = to("v1beta1", &sent);
    assert_eq!(stored["status"]["conditions"], json!([own[0], own[1], own[2]]));
    assert_eq!(to("v1alpha1", &stored)["status"], sent["status"]);
}

#[test]
fn one_of_many_tokens_is_edited_and_the_others_stay() {
    let stored = object(
        "ServiceToken",
        "v1beta1",
        &json!({"spec": {
            "writer": {"serviceAccount": {"name": "w"}}, "renewAtPercent": 50,
            "tokens": [{"key": "a", "serviceAccount": {"name": "a"}},
                       {"key": "token", "serviceAccount": {"name": "t"}, "notBefore": "2030-01-01T00:00:00Z"}],
        }}),
    );
    let mut read = to("v1alpha1", &stored);
    assert_eq!(read["spec"], json!({"serviceAccount": {"name": "t"}, "expirationSeconds": 3600}));
    read["spec"]["serviceAccount"]["name"] = json!("u");
    let written = with_defaults(to("v1beta1", &read));
    let mut expected = stored.clone();
    expected["spec"]["tokens"][1]["serviceAccount"]["name"] = json!("u");
    assert_eq!(written, expected);
    assert_eq!(round(&stored, "v1alpha1"), stored);
}

#[test]
fn at_v1alpha1_the_account_of_the_token_writes_the_secret() {
    let sent = object(
        "ServiceToken",
        "v1alpha1",
        &json!({"spec": {"serviceAccount": {"name": "t"}, "secretName": "s"}}),
    );
    let stored = to("v1beta1", &sent);
    assert_eq!(
        stored["spec"],
        json!({"secretName": "s", "writer": {"serviceAccount": {"name": "t"}}, "renewAtPercent": 80,
               "tokens": [{"key": "token", "serviceAccount": {"name": "t"}, "expirationSeconds": 3600}]})
    );
    assert_eq!(annotation(&stored), None);
    assert_eq!(round(&sent, "v1beta1"), sent);
}

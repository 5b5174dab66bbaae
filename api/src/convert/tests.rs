//! Cases of conversion, on objects as the API server hands them over: with the defaults of the
//! version they were stored or sent in.

#![allow(clippy::needless_pass_by_value, reason = "objects are written where they are used")]

use serde_json::{Value, json};

use super::structural::with_defaults;
use super::{ANNOTATION, carried_faults, convert};

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
fn visible_fields_win_over_what_was_carried() {
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
fn b28_no_account_is_guessed_where_there_is_none() {
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

#[test]
fn a_hand_edited_annotation_is_input_like_any_other() {
    let mut read = old_sync(minimal());
    let text = json!({"version": "v1beta1", "spec": {
        "resyncSeconds": 5, "targets": {"exclude": ["bar"], "name": "No Name"}, "serviceAccount": {"name": "root"}, "odd": 1,
    }});
    read["metadata"]["annotations"] = json!({ANNOTATION: text.to_string(), "other": "kept"});
    let stored = to("v1beta1", &read);
    assert_eq!(stored["spec"]["targets"], json!({"namespaces": ["foo", "bar"], "exclude": ["bar"]}));
    assert_eq!(stored["spec"]["resyncSeconds"], 600, "5 is too short: kept and not used");
    assert_eq!(stored["spec"]["serviceAccount"], json!({"name": "sync"}), "a visible field is never carried");
    assert_eq!(stored["metadata"]["annotations"]["other"], "kept");
    let meta = serde_json::from_value(stored["metadata"].clone()).unwrap();
    let faults = carried_faults(&meta);
    for path in ["spec.resyncSeconds", "spec.targets.name", "spec.serviceAccount", "spec.odd"] {
        assert!(faults.iter().any(|fault| fault.contains(path)), "{path}: {faults:?}");
    }
    assert_eq!(faults.len(), 4, "{faults:?}");
    let again = to("v1alpha1", &stored);
    assert_eq!(annotation(&again), Some(text), "nothing is lost");
}

#[test]
fn text_that_is_no_carried_content_comes_back_to_the_byte() {
    for text in ["", "{", "[]", "hello", r#"{"version":"v2"}"#, r#"{"version":"v1beta1","more":1}"#] {
        let mut read = old_sync(minimal());
        read["metadata"]["annotations"] = json!({ANNOTATION: text});
        let stored = to("v1beta1", &read);
        let meta = serde_json::from_value(stored["metadata"].clone()).unwrap();
        assert_eq!(carried_faults(&meta).len(), 1, "{text}");
        assert_eq!(round(&read, "v1beta1"), read, "{text}");
        // Beside something that has to be carried it still comes back.
        read["spec"]["testNum"] = json!(1);
        assert_eq!(round(&read, "v1beta1"), read, "{text}");
    }
}

#[test]
fn a_carried_field_of_v1alpha1_that_breaks_a_rule_is_kept_and_reported() {
    let mut stored = to("v1beta1", &old_sync(minimal()));
    let text = json!({"version": "v1alpha1", "spec": {"testNum": "many"}, "status": {"test": 3}});
    stored["metadata"]["annotations"] = json!({ANNOTATION: text.to_string()});
    let meta = serde_json::from_value(stored["metadata"].clone()).unwrap();
    assert_eq!(carried_faults(&meta).len(), 2);
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
fn a_list_too_long_to_be_carried_exactly_comes_back_with_each_name_once() {
    let names: Vec<String> = (0..3_000).map(|n| format!("namespace-{n:050}")).collect();
    let twice: Vec<&String> = names.iter().chain(&names).collect();
    let sent =
        old_sync(json!({"spec": {"serviceAccount": {"name": "a"}, "syncToNamespaces": twice, "testNum": 1}}));
    let stored = to("v1beta1", &sent);
    assert!(stored["metadata"]["annotations"][ANNOTATION].as_str().unwrap().len() < 1_000);
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
    assert_eq!(to("v1alpha1", &stored)["status"], json!({"conditions": [{"type": "Ready"}]}));
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

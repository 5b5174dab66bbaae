//! Definitions newer than this program: what it does not know survives a write at v1alpha1; and what only looks so,
//! because it was written into the annotation by hand, does no harm.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::properties::{any_leaf, any_new_sync, any_new_token, any_value};
use super::structural::with_defaults;
use super::tests::{new_sync, object, to};
use super::{ANNOTATION, round_trip_faults, types, unknown};

/// Where a newer definition may have one more field, in objects of both kinds.
const PARENTS: [&str; 15] = [
    "/spec",
    "/spec/serviceAccount",
    "/spec/source",
    "/spec/source/selector",
    "/spec/targets",
    "/spec/targets/selector",
    "/spec/keys",
    "/spec/merge",
    "/spec/writer",
    "/spec/writer/serviceAccount",
    "/spec/generate",
    "/spec/tokens/0",
    "/spec/tokens/1",
    "/spec/tokens/0/serviceAccount",
    "/spec/tokens/1/serviceAccount",
];

/// What the API server does at v1alpha1, whose definition is the same in every release.
fn pruned(mut object: Value) -> Value {
    let kind = object["kind"].as_str().unwrap().to_owned();
    for part in ["spec", "status"] {
        if let Some(fields) = object.get_mut(part).and_then(Value::as_object_mut) {
            unknown::take(types::schema(&kind, "v1alpha1", part), fields);
        }
    }
    with_defaults(object)
}

/// Read at v1alpha1 and written back.
fn written_back(stored: &Value) -> Value {
    with_defaults(to("v1beta1", &pruned(to("v1alpha1", stored))))
}

/// Nothing of it is hidden from v1alpha1.
fn minimal() -> Value {
    new_sync(json!({"spec": {
        "serviceAccount": {"name": "sync"}, "source": {"namespace": "a", "name": "b"},
        "targets": {"namespaces": ["foo"]},
    }}))
}

fn faults(object: &Value) -> Vec<String> {
    round_trip_faults(&serde_json::from_value(object["metadata"].clone()).unwrap())
}

fn any_later() -> impl Strategy<Value = Value> {
    any_value(any_leaf(), "(name|key|spec|[a-z]{1,3})")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn fields_of_a_newer_definition_survive_a_write_at_v1alpha1(
        stored in prop_oneof![any_new_sync(), any_new_token()],
        more in vec((proptest::sample::select(PARENTS.to_vec()), "later[A-C]", any_later()), 0..6),
        annotations in prop_oneof![Just(0_usize), 250_000..262_000_usize],
    ) {
        let mut stored = stored;
        for (parent, name, value) in more {
            if let Some(Value::Object(fields)) = stored.pointer_mut(parent) {
                fields.insert(name, value);
            }
        }
        stored["metadata"]["annotations"] = json!({"others": "x".repeat(annotations)});
        prop_assert_eq!(written_back(&stored), stored);
    }
}

#[test]
fn an_edit_at_v1alpha1_keeps_fields_of_a_newer_definition() {
    let stored = new_sync(json!({
        "spec": {"serviceAccount": {"name": "sync", "later": 1}, "later": [{"a": 1}],
                 "source": {"namespace": "a", "name": "b", "selector": {"matchExpressions": [
                     {"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists", "later": true}]}},
                 "targets": {"namespaces": ["foo"], "later": {"deep": {"er": 1}}}},
        "status": {"later": "x", "observedGeneration": 3, "conditions": [{"type": "Ready", "later": 1}]},
    }));
    let mut read = pruned(to("v1alpha1", &stored));
    read["spec"]["syncToNamespaces"] = json!(["bar"]);
    let mut expected = stored.clone();
    expected["spec"]["targets"]["namespaces"] = json!(["bar"]);
    // As all of a status but its conditions: the operator writes it again.
    expected["status"] = json!({"conditions": [{"type": "Ready"}]});
    let written = with_defaults(to("v1beta1", &read));
    assert_eq!(written, expected);
    // Without targets at v1alpha1, those of the newer definition are still there.
    read["spec"].as_object_mut().unwrap().remove("syncToNamespaces");
    assert_eq!(to("v1beta1", &read)["spec"]["targets"], json!({"later": {"deep": {"er": 1}}}));
}

#[test]
fn fields_of_a_newer_definition_stay_with_their_token_and_go_with_it() {
    let account = |name: &str, later: u8| json!({"name": name, "later": later});
    let stored = object(
        "ServiceToken",
        "v1beta1",
        &json!({"spec": {
            "writer": {"serviceAccount": account("t", 1)},
            "tokens": [{"key": "token", "serviceAccount": account("t", 2), "later": 3},
                       {"key": "other", "serviceAccount": account("o", 4)}],
        }}),
    );
    assert_eq!(written_back(&stored), stored);
    let mut read = pruned(to("v1alpha1", &stored));
    read["spec"].as_object_mut().unwrap().remove("serviceAccount");
    let written = to("v1beta1", &read);
    assert_eq!(written["spec"]["tokens"], json!([stored["spec"]["tokens"][1]]));
}

#[test]
fn no_known_object_is_made_for_a_field_that_is_not_known() {
    for has_namespaces in [true, false] {
        let mut read = pruned(to("v1alpha1", &minimal()));
        if !has_namespaces {
            read["spec"].as_object_mut().unwrap().remove("syncToNamespaces");
        }
        let clean = to("v1beta1", &read);
        for unknown in [
            json!({"targets": {"selector": {"later": 1}}}),
            json!({"source": {"selector": {"later": 1}}}),
            json!({"merge": {"later": 1}}),
            json!({"keys": {"later": 1}}),
        ] {
            let planted = json!({"version": "v1beta1", "unknownSpec": unknown});
            read["metadata"]["annotations"] = json!({ANNOTATION: planted.to_string()});
            assert_eq!(to("v1beta1", &read)["spec"], clean["spec"], "{unknown}");
        }
    }
}

#[test]
fn the_annotation_brings_nothing_into_a_status() {
    let mut read = pruned(to("v1alpha1", &minimal()));
    let status = json!({
        "later": 1, "counts": {"desired": 1, "later": 1}, "conditions": [{"type": "Ready", "later": 1}],
    });
    for has_status in [false, true] {
        if has_status {
            read["status"] = json!({"conditions": [{"type": "Ready"}]});
        }
        for part in ["status", "unknownStatus"] {
            let planted = json!({"version": "v1beta1", part: status});
            read["metadata"]["annotations"] = json!({ANNOTATION: planted.to_string()});
            let written = to("v1beta1", &read);
            assert_eq!(written.get("status"), read.get("status"), "{part}");
        }
    }
}

#[test]
fn what_is_known_is_never_taken_from_the_part_for_what_is_not() {
    let mut read = pruned(to("v1alpha1", &minimal()));
    let clean = to("v1beta1", &read);
    let planted = json!({"version": "v1beta1", "unknownSpec": {
        "serviceAccount": {"name": "root"}, "suspend": true, "targets": {"namespaces": ["evil"]},
    }});
    read["metadata"]["annotations"] = json!({ANNOTATION: planted.to_string()});
    let written = to("v1beta1", &read);
    assert_eq!(written["spec"], clean["spec"]);
    let found = faults(&written);
    for path in ["serviceAccount", "suspend", "targets.namespaces"] {
        assert!(found.iter().any(|fault| fault.contains(&format!("spec.{path} "))), "{path}: {found:?}");
    }
    assert_eq!(written_back(&written), written);
}

/// Text of an annotation at `version` that is nested so deeply, with `part` of it.
fn deep(version: &str, part: &str, levels: usize) -> String {
    let (open, close) = ("[".repeat(levels - 3), "]".repeat(levels - 3));
    format!(r#"{{"version":"{version}","{part}":{{"v1beta1":{{"a":{open}{close}}}}}}}"#)
}

#[test]
fn an_annotation_of_any_depth_hides_nothing_and_comes_back_to_the_byte() {
    let plain = new_sync(json!({"spec": {
        "serviceAccount": {"name": "sync"}, "source": {"namespace": "a", "name": "b"}, "keys": {"include": ["public"]},
        "targets": {"namespaces": ["foo"], "exclude": ["bar"]}, "suspend": true,
    }}));
    for levels in [4, 63, 64, 65, 66, 125, 126, 127, 128, 129, 1_000] {
        for part in ["spec", "status", "exact", "ignored", "unknownSpec", "more"] {
            let mut stored = plain.clone();
            stored["metadata"]["annotations"] = json!({ANNOTATION: deep("v1alpha1", part, levels)});
            assert_eq!(written_back(&stored), stored, "{part} {levels}");
            // A form that means nothing at v1alpha1 is no fault.
            assert_eq!(faults(&stored).is_empty(), part == "exact" && levels <= 64, "{part} {levels}");
        }
    }
}

#[test]
fn a_deep_annotation_of_v1alpha1_is_kept_reported_and_never_stops_conversion() {
    let read = to("v1alpha1", &minimal());
    let clean = to("v1beta1", &read);
    for levels in [64, 65, 126, 127, 128, 1_000] {
        for part in ["spec", "status", "exact", "ignored"] {
            let mut planted = read.clone();
            planted["metadata"]["annotations"] = json!({ANNOTATION: deep("v1beta1", part, levels)});
            let written = to("v1beta1", &planted);
            assert_eq!(written["spec"], clean["spec"], "{part} {levels}");
            assert!(!faults(&written).is_empty(), "{part} {levels}");
            assert_eq!(written_back(&written), written, "{part} {levels}");
        }
    }
}

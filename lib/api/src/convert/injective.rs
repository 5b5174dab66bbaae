//! Conversion to v1alpha1 loses nothing: what is stored comes back equal, whatever is in the annotations and however
//! full they are. A function with a left inverse is injective, so different objects have different v1alpha1 forms.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::properties::{any_leaf, any_new_sync, any_new_token, any_value};
use super::round_trip::{self, CONTAINERS, RoundTrip, space_left};
use super::structural::with_defaults;
use super::tests::{object, round, to};
use super::{ANNOTATION, lost, round_trip_faults};
use crate::crds;
use crate::schema::ROUND_TRIP_FIELD as FIELD;

/// A spec of each kind with something hidden in every part of it.
fn full(kind: &str) -> Value {
    let spec = match kind {
        "ConfigMapSync" => json!({
            "serviceAccount": {"name": "robot"}, "source": {"kind": "Secret", "namespace": "a", "name": "conf"},
            "targets": {"namespaces": ["t1", "t2"], "exclude": ["t2"], "name": "n"},
            "keys": {"include": ["public"]}, "deletionPolicy": "Orphan", "conflictPolicy": "Adopt",
        }),
        _ => json!({
            "writer": {"serviceAccount": {"name": "writer"}}, "renewAtPercent": 50,
            "tokens": [{"key": "other", "serviceAccount": {"name": "robot"}},
                       {"key": "token", "serviceAccount": {"name": "robot"}, "notBefore": "2030-01-01T00:00:00Z"}],
        }),
    };
    with_defaults(object(kind, "v1beta1", &json!({"spec": spec})))
}

const KINDS: [&str; 2] = ["ConfigMapSync", "ServiceToken"];

/// Texts of the annotation, by hand and by conversion, and pieces of JSON that could fool it.
fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "", " ", "{", "[]", "null", "hello", r#""text""#, "\u{0}\u{1f}\"\\", r#"{"version":"v2"}"#,
        r#"{"version":"v1alpha1"}"#, r#" { "version" : "v1alpha1" } "#, r#"{"version":"v1beta1"}"#,
        r#"{"version":"v1alpha1","spec":{"testNum":3}}"#, r#"{"spec":{"testNum":3},"version":"v1alpha1"}"#,
        r#"{"version":"v1alpha1","spec":{"testNum":3}} "#, r#"{"version":"v1alpha1","spec":{"testNum":3.0}}"#,
        r#"{"version":"v1alpha1","spec":{"testNum":3,"testNum":4}}"#, r#"{"version":"v1alpha1","spec":{}}"#,
        r#"{"version":"v1alpha1","version":"v1alpha1"}"#, r#"{"ver\u0073ion":"v1alpha1","spec":{"testNum":1e2}}"#,
        r#"{"version":"v1alpha1","spec":{"testNum":"many","odd":1}}"#, r#"{"version":"v1alpha1","status":{"test":"t"}}"#,
        r#"{"version":"v1alpha1","status":{"test":3}}"#, r#"{"version":"v1alpha1","withoutSpec":true}"#,
        r#"{"version":"v1alpha1","withoutSpec":true,"spec":{"testNum":1}}"#, r#"{"version":"v1alpha1","withoutSpec":false}"#,
        r#"{"version":"v1alpha1","exact":{"roundTrip":"{\"version\":\"v1beta1\",\"spec\":{\"suspend\":true}}"}}"#,
        r#"{"version":"v1alpha1","exact":{"syncToNamespaces":["t1","t2","t1"],"more":1}}"#,
        r#"{"version":"v1alpha1","exact":{"source":{"name":"conf","namespace":"a","more":1}}}"#,
        r#"{"version":"v1alpha1","exact":{"serviceAccount":null,"expirationSeconds":null,"source":null}}"#,
        r#"{"version":"v1alpha1","exact":{"serviceAccount":{"name":"robot","more":1},"secretName":null,"audiences":[]}}"#,
        r#"{"version":"v1alpha1","ignored":{"v1beta1":{"keys":1},"annotation":"x","roundTrip":"y"},"unread":"u"}"#,
        r#"{"version":"v1alpha1","unread":"u"}"#, r#"{"version":"v1alpha1","unread":"{\"version\":\"v2\"}"}"#,
        r#"{"version":"v1alpha1","was":"w"}"#, r#"{"version":"v1alpha1","was":"{\"version\":\"v1alpha1\"}","exact":{}}"#,
        r#"{"version":"v1alpha1","dropped":true}"#, r#"{"version":"v1alpha1", "dropped":true}"#,
        r#"{"version":"v1beta1","dropped":true}"#, r#"{"version":"v1alpha1","dropped":true,"unread":"u"}"#,
        r#"{"version":"v1beta1","spec":{"source":{"kind":"Secret"},"suspend":true}}"#,
    ]
    .map(str::to_owned)
    .to_vec();
    texts.push(format!(
        r#"{{"version":"v1alpha1","spec":{{"testNum":3}},"unread":"{}"}}"#,
        "\\\"".repeat(40_000)
    ));
    texts
}

fn comes_back(stored: &Value) -> Result<(), String> {
    let shown = to("v1alpha1", stored);
    let mut back = with_defaults(to("v1beta1", &with_defaults(shown.clone())));
    // `status.test` of the annotation is shown in a status.
    if back["status"] == json!({}) && stored.get("status").is_none() {
        back.as_object_mut().unwrap().remove("status");
    }
    if back == *stored { Ok(()) } else { Err(format!("{stored}\n{shown}\n{back}")) }
}

/// Bytes that the text of the annotation may have.
fn space(object: &Value) -> usize {
    let mut others = object.clone();
    round_trip::take(&mut others);
    space_left(&others)
}

/// Adds other annotations so that so many bytes are left for the text of ours.
fn filled(mut stored: Value, left: usize) -> Value {
    let pad = space(&stored).saturating_sub("pad".len() + left);
    stored["metadata"]["annotations"]["pad"] = json!("x".repeat(pad));
    assert_eq!(space(&stored), left);
    stored
}

/// Size of the annotation, in bytes, that fits all that `object` hides, and some more: a larger one changes nothing.
fn enough(object: &Value) -> usize {
    to("v1alpha1", object)["metadata"]["annotations"][ANNOTATION].as_str().unwrap().len() + 64
}

#[test]
fn an_object_whose_annotations_are_full_to_every_byte_comes_back_equal() {
    for kind in KINDS {
        for left in 0..=enough(&full(kind)) {
            let mut stored = filled(full(kind), left);
            assert_eq!(comes_back(&stored), Ok(()), "{kind} {left}");
            stored["metadata"]["annotations"][ANNOTATION] = json!("u".repeat(left));
            assert_eq!(comes_back(&stored), Ok(()), "{kind} {left}, with text of its own");
        }
    }
}

#[test]
fn any_text_in_the_annotation_comes_back_to_the_byte_next_to_any_spec() {
    for kind in KINDS {
        let minimal = match kind {
            "ConfigMapSync" => {
                json!({"serviceAccount": {"name": "robot"}, "source": {"namespace": "a", "name": "conf"},
                                      "targets": {"namespaces": ["t1", "t2"]}})
            }
            _ => json!({"writer": {"serviceAccount": {"name": "robot"}},
                        "tokens": [{"key": "token", "serviceAccount": {"name": "robot"}}]}),
        };
        let of = |rest: Value| with_defaults(object(kind, "v1beta1", &rest));
        let empty = of(json!({"spec": {}}));
        for base in [full(kind), of(json!({"spec": minimal})), empty, of(json!({}))] {
            for text in texts() {
                for left in [0, 1, 60, 1_000, 100_000] {
                    let mut stored = base.clone();
                    stored["metadata"]["annotations"] = json!({ANNOTATION: text});
                    let stored = filled(stored, left + text.len());
                    assert_eq!(comes_back(&stored), Ok(()), "{kind} {left}");
                }
            }
        }
    }
}

/// Each leaf of a schema: its path, and a value that is not its default.
fn leaves(schema: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    let (array, map) = (&schema["items"], &schema["additionalProperties"]);
    if let Some(fields) = schema["properties"].as_object() {
        for (name, field) in fields {
            leaves(field, &format!("{path}/{name}"), found);
        }
    } else if array.is_object() {
        leaves(array, &format!("{path}/0"), found);
    } else if map.is_object() {
        leaves(map, &format!("{path}/some-key"), found);
    } else {
        let other =
            |values: &[Value]| values.iter().find(|value| **value != schema["default"]).unwrap().clone();
        let value = match (schema["type"].as_str().unwrap(), schema["enum"].as_array()) {
            (_, Some(allowed)) => other(allowed),
            ("string", None) => json!("2031-01-01T00:00:00Z"),
            ("integer", None) => other(&[json!(61), json!(62)]),
            ("boolean", None) => other(&[json!(true), json!(false)]),
            (other, None) => panic!("{path}: {other}"),
        };
        found.push((path.to_owned(), value));
    }
}

/// Writes a value at a path, whose way there is made where it is not there.
fn put(at: &mut Value, path: &str, value: Value) {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let next = if first == "0" {
        if !at.is_array() {
            *at = json!([{}]);
        }
        &mut at[0]
    } else {
        &mut at[first]
    };
    if rest.is_empty() { *next = value } else { put(next, rest, value) }
}

#[test]
fn every_field_of_the_stored_spec_is_shown_or_in_the_round_trip_annotation() {
    for crd in crds::all().iter().map(|crd| serde_json::to_value(crd).unwrap()) {
        let kind = crd["spec"]["names"]["kind"].as_str().unwrap();
        if !KINDS.contains(&kind) {
            continue;
        }
        let stored =
            crd["spec"]["versions"].as_array().unwrap().iter().find(|version| version["storage"] == true);
        let schema = &stored.unwrap()["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let mut found = Vec::new();
        leaves(schema, "", &mut found);
        assert!(found.len() > 7, "{found:?}");
        for base in [with_defaults(object(kind, "v1beta1", &json!({"spec": {}}))), full(kind)] {
            for (path, value) in &found {
                for left in [0, 100_000] {
                    let mut changed = base.clone();
                    put(&mut changed["spec"], path.trim_start_matches('/'), value.clone());
                    let changed = filled(with_defaults(changed), left);
                    let without = filled(base.clone(), left);
                    if changed["spec"] == without["spec"] {
                        assert_eq!(base, full(kind), "{kind} {path}: the row shows nothing");
                        continue;
                    }
                    assert_ne!(
                        to("v1alpha1", &changed)["spec"].to_string()
                            + &to("v1alpha1", &changed)["metadata"].to_string(),
                        to("v1alpha1", &without)["spec"].to_string()
                            + &to("v1alpha1", &without)["metadata"].to_string(),
                        "{kind} spec{path} is neither shown at v1alpha1 nor in the round-trip annotation"
                    );
                    assert_eq!(comes_back(&changed), Ok(()), "{kind} spec{path}");
                }
            }
        }
    }
}

#[test]
fn a_write_of_the_status_at_v1alpha1_changes_neither_the_spec_nor_what_conversion_makes_of_it() {
    for kind in KINDS {
        for text in texts() {
            for left in [0, 60, 100_000] {
                let mut stored = full(kind);
                stored["metadata"]["annotations"] = json!({ANNOTATION: text});
                let stored = filled(stored, left + text.len());
                let mut shown = to("v1alpha1", &stored);
                shown["status"] = json!({"test": "t".repeat(300_000), "conditions": []});
                let written = to("v1beta1", &shown);
                assert_eq!(written["spec"], stored["spec"]);
                let meta = |object: &Value| serde_json::from_value(object["metadata"].clone()).unwrap();
                assert_eq!(lost(&meta(&written)).is_some(), lost(&meta(&stored)).is_some(), "{text}");
            }
        }
    }
}

#[test]
fn the_field_wins_over_the_annotation_which_is_kept_and_reported() {
    let stored = filled(full("ConfigMapSync"), 0);
    let mut shown = to("v1alpha1", &stored);
    assert!(shown["spec"][FIELD].is_string());
    shown["metadata"]["annotations"] = json!({ANNOTATION: r#"{"version":"v1beta1","spec":{"suspend":true,"keys":{"include":["private"]}}}"#});
    let written = to("v1beta1", &shown);
    assert_eq!(written["spec"], stored["spec"]);
    let faults =
        |object: &Value| round_trip_faults(&serde_json::from_value(object["metadata"].clone()).unwrap());
    assert_eq!(
        faults(&written),
        ["it was written at v1alpha1 next to spec.roundTrip, which is used instead"]
    );
    assert!(written["metadata"]["annotations"][ANNOTATION].as_str().unwrap().contains("private"));
    assert_eq!(comes_back(&written), Ok(()));

    for (odd, used) in [(json!("text"), true), (json!(7), true), (json!(r#"{"version":"v1alpha1"}"#), true)] {
        let mut shown = to("v1alpha1", &full("ConfigMapSync"));
        shown["spec"][FIELD] = odd;
        let written = to("v1beta1", &shown);
        assert_eq!(written["spec"] == full("ConfigMapSync")["spec"], used, "the annotation is used then");
        assert_eq!(
            faults(&written),
            ["spec.roundTrip at v1alpha1 held what conversion has not written there"]
        );
        assert_eq!(comes_back(&written), Ok(()));
    }
}

#[test]
fn a_large_object_without_a_spec_keeps_having_none() {
    for kind in KINDS {
        for left in [0, 60, 100_000] {
            assert_eq!(
                comes_back(&filled(object(kind, "v1beta1", &json!({})), left)),
                Ok(()),
                "{kind} {left}"
            );
        }
    }
}

#[test]
fn a_write_at_v1alpha1_sheds_only_what_has_no_effect_and_never_the_mark_of_an_older_release() {
    for mark in [r#"{"version":"v1beta1","dropped":true}"#, r#"{"dropped": true, "version":"v1beta1"}"#] {
        let mut shown = object(
            "ConfigMapSync",
            "v1alpha1",
            &json!({"spec": {"testNum": 3, "syncToNamespaces": ["a", "a"]}}),
        );
        shown["metadata"]["annotations"] = json!({ANNOTATION: mark});
        for left in mark.len()..mark.len() + 200 {
            let written = to("v1beta1", &filled(shown.clone(), left));
            let meta = serde_json::from_value(written["metadata"].clone()).unwrap();
            assert!(lost(&meta).is_some(), "{left}: {}", written["metadata"]["annotations"][ANNOTATION]);
            assert!(written["metadata"]["annotations"][ANNOTATION].as_str().unwrap().len() <= left);
        }
    }
}

/// With names and texts that conversion reads.
fn any_part() -> impl Strategy<Value = Value> {
    let texts = proptest::sample::select(texts()).prop_filter("short", |text| text.len() < 999);
    let leaf = prop_oneof![4 => any_leaf(), 1 => texts.prop_map(Value::from)];
    let keys = proptest::sample::select(vec![
        "version",
        "spec",
        "status",
        "exact",
        "withoutSpec",
        "ignored",
        "dropped",
        "unread",
        "was",
        "testNum",
        "test",
        "serviceAccount",
        "source",
        "name",
        "namespace",
        "kind",
        "syncToNamespaces",
        "roundTrip",
        "tokens",
        "expirationSeconds",
        "audiences",
        "secretName",
        "targets",
        "v1alpha1",
        "v1beta1",
        "a",
    ]);
    any_value(leaf, keys.prop_map(str::to_owned))
}

/// Text that conversion reads as its own, mostly.
fn any_text() -> impl Strategy<Value = String> {
    (any_part(), any_part(), any_part(), any::<[bool; 4]>()).prop_map(
        |(a, b, c, [spec, exact, without, lone])| {
            if lone {
                return a.to_string();
            }
            let mut text = json!({"version": "v1alpha1"});
            for (name, value, present) in [("spec", a, spec), ("exact", b, exact), ("ignored", c, true)] {
                if value.is_object() && present {
                    text[name] = value;
                }
            }
            if without {
                text["withoutSpec"] = json!(true);
            }
            text.to_string()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    #[test]
    fn what_is_stored_comes_back_equal(
        stored in prop_oneof![
            proptest::sample::select(KINDS.map(full).to_vec()), any_new_sync(), any_new_token(),
            proptest::sample::select(KINDS.map(|kind| object(kind, "v1beta1", &json!({}))).to_vec()),
        ],
        text in any_text(), left in prop_oneof![0..3_000_usize, 0..262_000_usize],
    ) {
        let mut stored = stored;
        stored["metadata"]["annotations"] = json!({ANNOTATION: text});
        let stored = filled(stored, left.max(text.len()));
        prop_assert_eq!(comes_back(&stored), Ok(()));
    }

    #[test]
    fn what_is_planted_at_v1alpha1_reaches_no_field_that_the_writer_does_not_name(
        text in any_text(), field in proptest::option::of(any_part()),
    ) {
        let mut shown = object("ConfigMapSync", "v1alpha1", &json!({"spec": {"serviceAccount": {"name": "robot"}}}));
        shown["metadata"]["annotations"] = json!({ANNOTATION: text.replace("v1alpha1", "v1beta1")});
        if let Some(field) = field {
            shown["spec"][FIELD] = field;
        }
        let written = to("v1beta1", &shown);
        prop_assert_eq!(&written["spec"]["serviceAccount"], &json!({"name": "robot"}));
        prop_assert_eq!(round(&written, "v1alpha1"), written);
    }
}

#[test]
fn the_mark_of_an_older_release_is_seen_however_it_is_written() {
    for (text, expected) in [
        (r#"{"version":"v1alpha1","dropped":true}"#, true),
        (r#" {"dropped" : true} "#, true),
        (r#"{"version":"v9","dropped":true,"more":1}"#, true),
        (r#"{"version":"v1alpha1"}"#, false),
        (r#"{"version":"v1alpha1","dropped":"true"}"#, false),
        ("dropped", false),
    ] {
        assert_eq!(RoundTrip::parse(text, "v1alpha1").dropped, expected, "{text}");
    }
}

/// A map of one entry has seven bytes and takes seven hundred.
#[test]
fn an_annotation_of_very_many_small_maps_is_kept_to_the_byte_and_not_used() {
    let text = |version: &str, maps: usize| {
        let maps = vec![r#"{"a":0}"#; maps].join(",");
        format!(r#"{{"version":"{version}","dropped":true,"ignored":{{"v1beta1":{{"odd":[{maps}]}}}}}}"#)
    };
    // Those around the maps are four.
    for (version, most) in [("v1alpha1", CONTAINERS), ("v1beta1", 2 * CONTAINERS)] {
        for (maps, is_read) in [(most - 4, true), (most - 3, false)] {
            let parsed = RoundTrip::parse(&text(version, maps), version);
            assert_eq!(parsed.unread.is_none(), is_read, "{version} {maps}");
            assert_eq!(parsed.ignored.is_empty(), !is_read, "{version} {maps}");
            assert!(parsed.dropped, "{version} {maps}: the mark of an older release");
        }
    }
    for kind in KINDS {
        for (maps, is_read) in [(CONTAINERS - 4, true), (CONTAINERS - 3, false), (32_000, false)] {
            let mut stored = full(kind);
            stored["metadata"]["annotations"][ANNOTATION] = json!(text("v1alpha1", maps));
            assert_eq!(comes_back(&stored), Ok(()), "{kind} {maps}");
            let faults = round_trip_faults(&serde_json::from_value(stored["metadata"].clone()).unwrap());
            let fault = "it holds more than 2048 arrays and objects, and none of it is used";
            assert_eq!(faults.iter().any(|found| found == fault), !is_read, "{kind} {maps}: {faults:?}");
        }
    }
}

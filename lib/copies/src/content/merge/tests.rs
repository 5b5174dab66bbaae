use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::object::Object;

fn of<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

/// What sources of `kind` make, which are called `s0`, `s1` and so on.
fn merged(merge: &Value, kind: ObjectKind, sources: &[Value]) -> Result<Value, String> {
    let merge: Merge = of(merge);
    let names: Vec<String> = (0..sources.len()).map(|number| format!("s{number}")).collect();
    let mut merging = ContentMerger::new(&merge, kind);
    for (index, name) in reading_order(&merge, &names) {
        let mut source = sources[index].clone();
        source["apiVersion"] = json!("v1");
        source["kind"] = json!(kind.as_str());
        source["metadata"] = json!({});
        merging.add(index, name, Content::of(&of::<Object>(&source)));
    }
    let copy = merging.finish().map_err(|why| why.to_string())?;
    Ok(json!(copy.with(kind, ObjectMeta::default())))
}

fn maps(merge: &Value, sources: &[Value]) -> Result<Value, String> {
    let sources: Vec<Value> = sources.iter().map(|data| json!({"data": data})).collect();
    merged(merge, ObjectKind::CONFIG_MAP, &sources).map(|copy| copy["data"].clone())
}

#[test]
fn a_copy_has_the_keys_of_each_source_and_the_policy_says_whose_value_counts() {
    let [one, two, three] = [json!({"a": "1", "x": "1"}), json!({"b": "2", "x": "2"}), json!({"x": "3"})];
    let sources = [one, two, three];
    for (policy, expected) in
        [("First", json!({"a": "1", "b": "2", "x": "1"})), ("Last", json!({"a": "1", "b": "2", "x": "3"}))]
    {
        assert_eq!(maps(&json!({"clashPolicy": policy}), &sources), Ok(expected), "{policy}");
    }
    let said = maps(&json!({}), &sources).unwrap_err();
    assert!(
        said.starts_with("sources have the same key: x in s0 and s1, x in s0 and s2; name it in"),
        "{said}"
    );
    assert_eq!(maps(&json!({}), &sources[..1]), Ok(json!({"a": "1", "x": "1"})));
    // Equal values are a clash too: an edit of one would be.
    assert!(maps(&json!({}), &[json!({"a": "1"}), json!({"a": "1"})]).is_err());
    assert_eq!(maps(&json!({}), &[]), Ok(Value::Null));
}

#[test]
fn values_are_joined_on_lines_of_their_own_in_the_order_of_the_sources() {
    for policy in ["Refuse", "First", "Last"] {
        for (values, expected) in [
            (vec!["a", "b"], "a\nb"),
            (vec!["a\n", "b\n"], "a\nb\n"),
            (vec!["a", "", "b\n", "c"], "a\nb\nc"),
            (vec!["", "\n", "b"], "\nb"),
            (vec!["a"], "a"),
            (vec!["a\r\n", "a"], "a\r\na"),
        ] {
            let sources: Vec<Value> = values.iter().map(|value| json!({"ca.crt": value})).collect();
            let merge = json!({"clashPolicy": policy, "join": ["ca.crt"]});
            assert_eq!(maps(&merge, &sources), Ok(json!({"ca.crt": expected})), "{values:?}");
        }
    }
}

#[test]
fn a_merged_secret_is_opaque_and_mutable_and_its_values_are_joined_as_bytes() {
    let secret = |value: &[u8]| {
        let value = STANDARD.encode(value);
        json!({"type": "kubernetes.io/tls", "immutable": true, "data": {"tls.crt": value}})
    };
    let sources = [secret(b"\xff\xfe"), secret(b"b")];
    let copy = merged(&json!({"join": ["tls.crt"]}), ObjectKind::SECRET, &sources).unwrap();
    let expected = json!({"tls.crt": STANDARD.encode(b"\xff\xfe\nb")});
    assert_eq!((&copy["data"], &copy["type"], copy.get("immutable")), (&expected, &json!("Opaque"), None));
}

#[test]
fn a_key_is_one_in_data_and_binary_data_and_what_is_binary_is_not_joined() {
    let sources = [json!({"data": {"x": "1"}}), json!({"binaryData": {"x": "AAE="}})];
    let map = |merge: &Value| merged(merge, ObjectKind::CONFIG_MAP, &sources);
    let last = map(&json!({"clashPolicy": "Last"})).unwrap();
    assert_eq!((last.get("data"), &last["binaryData"]["x"]), (None, &json!("AAE=")));
    assert!(map(&json!({})).unwrap_err().contains("x in s0 and s1"));
    let said = map(&json!({"join": ["x"]})).unwrap_err();
    assert!(said.starts_with("key x of s1 is in binaryData, which is not joined"), "{said}");
}

#[test]
fn a_copy_of_a_mebibyte_is_made_and_a_larger_one_is_refused_with_the_sizes() {
    let half = "x".repeat(MAX_BYTES / 2);
    let two = |more: &str| [json!({"a": half}), json!({"b": format!("{half}{more}")})];
    assert!(maps(&json!({}), &two("")).is_ok());
    let said = maps(&json!({}), &two("y")).unwrap_err();
    let expected = "the copy would have 1048577 bytes or more, and at most 1048576 are allowed: s1 has 524289, s0 has 524288";
    assert_eq!(said, expected);
    // The newline counts, and what is written over does not.
    let join = json!({"join": ["a"]});
    assert!(maps(&join, &[json!({"a": half}), json!({"a": half})]).unwrap_err().contains("1048577"));
    for policy in ["First", "Last"] {
        let (large, small) = (json!({"a": half}), json!({"a": "1", "b": half}));
        assert!(maps(&json!({"clashPolicy": policy}), &[large.clone(), small, large]).is_ok(), "{policy}");
    }
    let secret = json!({"data": {"a": STANDARD.encode(&half)}});
    let other = json!({"data": {"b": STANDARD.encode(&half)}});
    assert!(merged(&json!({}), ObjectKind::SECRET, &[secret, other]).is_ok(), "base64 is not what is stored");
}

#[test]
fn keys_count_as_well_and_of_many_clashes_a_few_are_named() {
    let keys = |from: usize| -> Value {
        (from..from + 4_000)
            .map(|number| (format!("{number:0250}"), json!("")))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let said = maps(&json!({}), &[keys(0), keys(4_000)]).unwrap_err();
    assert!(
        said.starts_with("the copy would have 2000000 bytes or more, and at most 1572864 are allowed"),
        "{said}"
    );
    let said = maps(&json!({}), &[keys(0), keys(0)]).unwrap_err();
    assert!(said.contains(" and 3995 more; name it in") && said.len() < 2_000, "{said}");
}

proptest! {
    #[test]
    fn a_copy_is_what_a_map_that_is_written_in_order_holds(
        sources in proptest::collection::vec(proptest::collection::btree_map("[a-d]", "[xyz]{0,2}\n?", 0..4), 0..5),
        join in proptest::collection::btree_set("[a-d]", 0..3),
    ) {
        let maps_of: Vec<Value> = sources.iter().map(|source| json!(source)).collect();
        for (policy, reversed) in [("Last", false), ("First", true)] {
            let mut model: BTreeMap<String, String> = BTreeMap::new();
            let mut order: Vec<_> = sources.iter().collect();
            if reversed {
                order.reverse();
            }
            for (key, value) in order.into_iter().flatten().filter(|(key, _)| !join.contains(*key)) {
                model.insert(key.clone(), value.clone());
            }
            for key in &join {
                let values: Vec<&String> = sources.iter().filter_map(|source| source.get(key)).collect();
                if values.is_empty() {
                    continue;
                }
                let text = values.into_iter().filter(|value| !value.is_empty()).fold(String::new(), |all, value| {
                    let newline = if all.is_empty() || all.ends_with('\n') { "" } else { "\n" };
                    format!("{all}{newline}{value}")
                });
                model.insert(key.clone(), text);
            }
            let found = maps(&json!({"clashPolicy": policy, "join": join}), &maps_of);
            let expected = if model.is_empty() { Value::Null } else { json!(model) };
            prop_assert_eq!(found, Ok(expected));
        }
    }
}

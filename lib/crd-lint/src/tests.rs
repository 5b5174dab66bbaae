//! Pairs of definitions: per rule one that breaks and one near it that does not.

use serde_json::{Value, json};

use super::*;

mod definitions;
mod fields;
mod limits;

/// A definition whose only version has this schema for `spec`.
fn with_spec(spec: &Value) -> CustomResourceDefinition {
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Thing", "listKind": "ThingList", "plural": "things", "singular": "thing",
                      "shortNames": ["th", "tg"], "categories": ["all"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
                },
                "selectableFields": [{"jsonPath": ".spec.name"}],
            }],
        },
    });
    serde_json::from_value(definition).unwrap()
}

/// From a released `spec` to one that breaks it, of which `said` is said, and to one near it that does not.
fn proven(old: &Value, breaking: &Value, said: &str, fine: &Value) {
    let broken = |new: &Value| -> Vec<String> {
        breaks(&with_spec(old), &with_spec(new)).iter().map(ToString::to_string).collect()
    };
    assert_eq!(broken(breaking), [format!("things.example.com v1 {said}")], "{old} -> {breaking}");
    assert_ne!(old, fine, "the row of {said} shows nothing");
    assert_eq!(broken(fine), Vec::<String>::new(), "{old} -> {fine}");
}

/// Rows of schemas for the field `x`, all with what is in `base`; what is said begins after `spec.x`.
fn proven_of_x<const N: usize>(base: &Value, rows: [(Value, Value, &str, Value); N]) {
    let spec = |x: &Value| json!({"type": "object", "properties": {"x": merged(base, x)}});
    for (old, breaking, said, fine) in rows {
        proven(&spec(&old), &spec(&breaking), &format!("spec.x{said}"), &spec(&fine));
    }
}

fn merged(base: &Value, more: &Value) -> Value {
    let (Value::Object(base), Value::Object(more)) = (base, more) else { panic!("{base} and {more}") };
    base.clone().into_iter().chain(more.clone()).collect()
}

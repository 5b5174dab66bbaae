//! Properties of the comparison, over generated schemas of a few levels.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::fields::compare;
use super::*;

/// A schema of objects, lists, maps and limited values.
fn schema() -> impl Strategy<Value = Value> {
    let text = (1..9_i64, 10..99_i64, any::<bool>()).prop_map(|(min, max, or_null)| {
        json!({"type": "string", "minLength": min, "maxLength": max, "nullable": or_null})
    });
    let number = (-9..0_i64, 10..99_i64, 1..9_i64).prop_map(|(min, max, step)| {
        json!({"type": "integer", "minimum": min, "maximum": max, "multipleOf": step, "default": 0})
    });
    let choice = Just(json!({"type": "string", "enum": ["A", "B", "C"]}));
    prop_oneof![text, number, choice].prop_recursive(3, 24, 3, |inner| {
        let fields = proptest::collection::btree_map("[a-c]", (inner.clone(), any::<bool>()), 1..4);
        let object = fields.prop_map(|fields| {
            let required: Vec<&String> =
                fields.iter().filter(|(_, (_, required))| *required).map(|(name, _)| name).collect();
            let properties: Value =
                fields.iter().map(|(name, (field, _))| (name.clone(), field.clone())).collect();
            json!({"type": "object", "properties": properties, "required": required})
        });
        let list = (inner.clone(), 1..99_i64)
            .prop_map(|(items, max)| json!({"type": "array", "items": items, "maxItems": max}));
        let map = inner.prop_map(|values| json!({"type": "object", "additionalProperties": values}));
        prop_oneof![object, list, map]
    })
}

/// One way to accept less: the whole schema after it, the path that breaks, and whether its reverse is a
/// loosening.
struct Tightening {
    schema: Value,
    path: String,
    reversible: bool,
}

/// Every known tightening, at every position.
fn tightenings(root: &Value) -> Vec<Tightening> {
    let mut places = Vec::new();
    collect(root, String::new(), String::new(), &mut places);
    let mut found = Vec::new();
    for (pointer, path) in places {
        let place = root.pointer(&pointer).unwrap();
        let mut add = |path: String, reversible: bool, edit: &dyn Fn(&mut Value)| {
            let mut schema = root.clone();
            edit(schema.pointer_mut(&pointer).unwrap());
            found.push(Tightening { schema, path, reversible });
        };
        let set = |key: &'static str, value: Value| move |place: &mut Value| place[key] = value.clone();
        let by_one = |key: &str, step: i64| json!(place[key].as_i64().unwrap_or(0) + step);
        add(path.clone(), true, &set("x-kubernetes-validations", json!([{"rule": "self == self"}])));
        add(path.clone(), true, &set("not", json!({"title": "forbidden"})));
        add(path.clone(), false, &set("type", json!("boolean")));
        add(path.clone(), false, &set("default", json!("another")));
        if place["nullable"] == true {
            add(path.clone(), true, &set("nullable", json!(false)));
        }
        if place["enum"].is_array() {
            add(path.clone(), true, &set("enum", json!(["C", "A"])));
        }
        match place["type"].as_str().unwrap() {
            "string" => {
                add(path.clone(), true, &set("minLength", by_one("minLength", 1)));
                add(path.clone(), true, &set("maxLength", json!(9)));
                add(path.clone(), true, &set("pattern", json!("^a")));
                add(path, true, &set("format", json!("date")));
            }
            "integer" => {
                add(path.clone(), true, &set("minimum", by_one("minimum", 1)));
                add(path.clone(), true, &set("maximum", by_one("maximum", -1)));
                add(path.clone(), true, &set("exclusiveMinimum", json!(true)));
                add(path.clone(), true, &set("exclusiveMaximum", json!(true)));
                add(path, true, &set("multipleOf", json!(place["multipleOf"].as_i64().unwrap() * 2)));
            }
            "array" => {
                add(path.clone(), true, &set("minItems", json!(1)));
                add(path.clone(), true, &set("maxItems", by_one("maxItems", -1)));
                add(path, true, &set("x-kubernetes-list-type", json!("set")));
            }
            _ => {
                for name in place["properties"].as_object().into_iter().flat_map(serde_json::Map::keys) {
                    let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    add(below.clone(), true, &|place| {
                        place["properties"].as_object_mut().unwrap().remove(name);
                    });
                    let required = place["required"].as_array().unwrap();
                    if !required.contains(&json!(name)) {
                        let more = [required.as_slice(), &[json!(name)]].concat();
                        add(below, true, &set("required", json!(more)));
                    }
                }
                if place["additionalProperties"].is_object() {
                    add(path.clone(), true, &set("additionalProperties", json!(false)));
                }
                add(path, true, &set("maxProperties", json!(1)));
            }
        }
    }
    found
}

/// Pointer and path of each schema within `schema`.
fn collect(schema: &Value, pointer: String, path: String, places: &mut Vec<(String, String)>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        collect(field, format!("{pointer}/properties/{name}"), below, places);
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[key].is_object() {
            collect(&schema[key], format!("{pointer}/{key}"), format!("{path}{mark}"), places);
        }
    }
    places.push((pointer, path));
}

fn found(old: &Value, new: &Value) -> Vec<(String, SchemaChange)> {
    let parsed = |schema: &Value| -> JSONSchemaProps { serde_json::from_value(schema.clone()).unwrap() };
    let mut found = Vec::new();
    compare(&parsed(old), &parsed(new), "", &mut found);
    found
}

proptest! {
    #[test]
    fn a_schema_breaks_nothing_of_itself(schema in schema()) {
        prop_assert_eq!(found(&schema, &schema), []);
    }

    #[test]
    fn one_tightening_is_one_break_where_it_was_made(schema in schema(), which in any::<Index>()) {
        let all = tightenings(&schema);
        let Tightening { schema: tighter, path, reversible } = which.get(&all);
        let breaks = found(&schema, tighter);
        prop_assert_eq!(breaks.len(), 1, "{} -> {}: {:?}", schema, tighter, breaks);
        prop_assert_eq!(&breaks[0].0, path);
        if *reversible {
            prop_assert_eq!(found(tighter, &schema), [], "loosening is never a break");
        }
    }
}

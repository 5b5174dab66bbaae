//! Whether a value of the round-trip annotation has the type of its field at v1beta1.
//!
//! Only types: a value that breaks a rule is put back where it was, and [`crate::validate`] says so. A value of
//! another type would make the stored object unreadable for every client that knows the types.

use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::crds::{self, STORED};

/// The schemas of `spec` and `status`, by kind and version.
static SCHEMAS: LazyLock<Value> = LazyLock::new(|| {
    let mut schemas = json!({});
    for crd in crds::all() {
        #[expect(clippy::expect_used, reason = "our own definitions, the same at each start")]
        let crd = serde_json::to_value(crd).expect("a definition can be written as JSON");
        for version in crd["spec"]["versions"].as_array().into_iter().flatten() {
            if let (Some(kind), Some(name)) =
                (crd["spec"]["names"]["kind"].as_str(), version["name"].as_str())
            {
                schemas[kind][name] = version["schema"]["openAPIV3Schema"]["properties"].clone();
            }
        }
    }
    schemas
});

/// The schema of a `part` of `kind` at `version`: of its `spec` or its `status`.
pub(super) fn schema(kind: &str, version: &str, part: &str) -> &'static Value {
    &SCHEMAS[kind][version][part]
}

/// The schema of a field of an object, if the object's has one for it.
pub(super) fn known<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema["properties"].get(name).or_else(|| schema.get("additionalProperties"))
}

/// Does the type of `value` fit the field at `path` of a spec of `kind` at v1beta1?
pub(super) fn fits(kind: &str, path: &[&str], value: &Value) -> bool {
    let spec = schema(kind, STORED, "spec");
    let schema = path.iter().try_fold(spec, |schema, field| schema["properties"].get(*field));
    schema.is_some_and(|schema| has_type(schema, value))
}

fn has_type(schema: &Value, value: &Value) -> bool {
    let typed = match (schema["type"].as_str(), value) {
        (_, Value::Null) => return schema["nullable"] == true,
        (Some("object"), Value::Object(fields)) => fields
            .iter()
            .all(|(name, value)| known(schema, name).is_some_and(|schema| has_type(schema, value))),
        (Some("array"), Value::Array(items)) => items.iter().all(|item| has_type(&schema["items"], item)),
        (Some("integer"), value) => {
            value.as_i64().is_some_and(|number| schema["format"] != "int32" || i32::try_from(number).is_ok())
        }
        (Some("string"), value) => value.is_string(),
        (Some("boolean"), value) => value.is_boolean(),
        _ => false,
    };
    typed && schema["enum"].as_array().is_none_or(|allowed| allowed.contains(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_only_look_like_a_type_to_a_parser_do_not_fit() {
        for (path, value, expected) in [
            (&["source", "kind"][..], json!("Secret"), true),
            (&["source", "kind"], json!({"Secret": null}), false),
            (&["source", "kind"], json!("Pod"), false),
            (&["conflictPolicy"], json!({"Adopt": null}), false),
            (&["targets", "patterns"], json!(["app-*"]), true),
            (&["targets", "patterns"], json!("app-*"), false),
            (&["targets", "selector"], json!({}), true),
            (&["targets", "selector"], json!([]), false),
            (&["targets", "selector"], json!({"matchLabels": {"a": 1}}), false),
            (&["targets", "selector"], json!({"more": 1}), false),
            (&["source", "selector"], json!({"matchLabels": {"a": "b"}}), true),
            (&["source", "selector"], json!("a=b"), false),
            (&["targets", "namePrefix"], json!("a-"), true),
            (&["targets", "nameSuffix"], json!(1), false),
            (&["targets", "name"], json!(null), true),
            (&["targets", "exclude"], json!(null), false),
            (&["keys"], json!([["a"]]), false),
            (&["keys"], json!({"include": ["a", "a"]}), true),
            (&["resyncSeconds"], json!(5), true),
            (&["resyncSeconds"], json!(3_000_000_000_u32), false),
            (&["resyncSeconds"], json!(60.5), false),
            (&["suspend"], json!("true"), false),
            (&["more"], json!(1), false),
        ] {
            assert_eq!(fits("ConfigMapSync", path, &value), expected, "{path:?} {value}");
        }
    }
}

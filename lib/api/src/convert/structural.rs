//! Structural defaulting as the API server does it on reading an object, for the tests of conversion.

use std::sync::LazyLock;

use serde_json::Value;

use crate::crds;

/// Generating them takes longer than all that is done with them.
static DEFINITIONS: LazyLock<Vec<Value>> =
    LazyLock::new(|| crds::all().iter().map(|crd| serde_json::to_value(crd).unwrap()).collect());

/// `object` with the defaults of its own version filled in.
pub(super) fn with_defaults(mut object: Value) -> Value {
    let crd = DEFINITIONS.iter().find(|crd| crd["spec"]["names"]["kind"] == object["kind"]).unwrap();
    let name = object["apiVersion"].as_str().unwrap().split('/').next_back().unwrap().to_owned();
    let versions = crd["spec"]["versions"].as_array().unwrap();
    let version = versions.iter().find(|version| version["name"] == name.as_str()).unwrap();
    fill(&mut object, &version["schema"]["openAPIV3Schema"]);
    object
}

fn fill(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                // A null that is not meant gives way to the default.
                let replaced =
                    fields.get(name).is_none_or(|found| found.is_null() && field["nullable"] != true);
                if replaced && !field["default"].is_null() {
                    fields.insert(name.clone(), field["default"].clone());
                }
                if let Some(found) = fields.get_mut(name) {
                    fill(found, field);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, &schema["items"])),
        _ => {}
    }
}

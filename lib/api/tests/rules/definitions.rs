//! The generated schemas, and where in them a field is.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::Value;
use weaver_api::crds;

/// Kind, version and schema of each version that has a spec.
static SCHEMAS: LazyLock<Vec<(String, String, Value)>> = LazyLock::new(|| {
    let mut schemas = Vec::new();
    for crd in crds::all() {
        for version in &crd.spec.versions {
            let schema = version.schema.as_ref().unwrap().open_api_v3_schema.as_ref().unwrap();
            let schema = serde_json::to_value(schema).unwrap();
            if schema["properties"]["spec"].is_object() {
                schemas.push((crd.spec.names.kind.clone(), version.name.clone(), schema));
            }
        }
    }
    schemas
});

/// Every version that has a spec: kind, version, schema.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str, &'static Value)> {
    SCHEMAS.iter().map(|(kind, version, schema)| (kind.as_str(), version.as_str(), schema))
}

/// The schema of one version, from the root of an object.
pub fn schema(kind: &str, version: &str) -> &'static Value {
    let mut found = all().filter(|found| (found.0, found.1) == (kind, version));
    found.next().unwrap_or_else(|| panic!("there is no {kind} of {version} with a spec")).2
}

/// The fields of a spec by their paths, `[]` for items and `{}` for values, each with the keywords it has.
pub fn spec_fields(schema: &'static Value) -> BTreeMap<String, Vec<&'static str>> {
    fn add(path: &str, schema: &'static Value, found: &mut BTreeMap<String, Vec<&'static str>>) {
        let structure = ["description", "properties", "items", "additionalProperties"];
        let keywords = schema.as_object().unwrap().keys().map(String::as_str);
        found.insert(path.to_owned(), keywords.filter(|keyword| !structure.contains(keyword)).collect());
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            add(&format!("{path}.{name}"), field, found);
        }
        for (inner, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
            if schema[inner].is_object() {
                add(&format!("{path}{mark}"), &schema[inner], found);
            }
        }
    }
    let mut found = BTreeMap::new();
    add("spec", &schema["properties"]["spec"], &mut found);
    found
}

/// `.spec.tokens[0].key` as [`spec_fields`] writes it, `.spec.tokens[].key`; `None` where there is no such
/// field.
pub fn general(schema: &Value, field: &str) -> Option<String> {
    if field.is_empty() {
        return Some(String::new());
    }
    if schema["additionalProperties"].is_object() {
        // The rest is one key, dots and all: our maps contain strings only.
        return field.starts_with('.').then(|| "{}".to_owned());
    }
    if let Some(rest) = field.strip_prefix('[') {
        let (index, rest) = rest.split_once(']')?;
        index.parse::<usize>().ok()?;
        return Some(format!("[]{}", general(schema.get("items")?, rest)?));
    }
    let field = field.strip_prefix('.')?;
    let (name, rest) = field.split_at(field.find(['.', '[']).unwrap_or(field.len()));
    Some(format!(".{name}{}", general(schema.get("properties")?.get(name)?, rest)?))
}

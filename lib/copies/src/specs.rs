//! Specs for the tests, and copies as the API server reads them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use weaver_api::validate::{ValidSync, validate};

use crate::copy::DesiredCopy;
use crate::object::Object;

/// A plain spec with these targets.
pub fn spec(targets: &[&str]) -> Value {
    json!({
        "serviceAccount": {"name": "sync"},
        "source": {"namespace": "team-a", "name": "settings"},
        "targets": {"namespaces": targets},
    })
}

pub fn valid(spec: Value) -> ValidSync {
    validate(Some(&serde_json::from_value(spec).unwrap())).unwrap()
}

/// What is written to `namespace` where nothing is.
pub fn created(copy: &DesiredCopy, namespace: &str) -> Object {
    serde_json::from_slice(&copy.create_json(namespace)).unwrap()
}

/// What is written over `seen`.
pub fn updated(copy: &DesiredCopy, seen: &ObjectMeta) -> Object {
    serde_json::from_slice(&copy.json(&copy.update_metadata(seen), &[])).unwrap()
}

//! Specs for the tests.

use serde_json::{Value, json};
use weaver_api::validate::{ValidSync, validate};

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

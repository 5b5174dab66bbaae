//! What a valid spec may ask for and this release does not do. Pure.
//!
//! Such a field is never passed over in silence: a resource that uses one is not acted upon at all, and its
//! status names every field that is in the way.

use weaver_api::validate::ValidSync;

/// The fields that ask for what is not done yet, in the order in which they are documented.
#[must_use]
pub fn unsupported(spec: &ValidSync) -> Vec<&'static str> {
    [(spec.selector.is_some(), "spec.targets.selector")]
        .into_iter()
        .filter_map(|(used, field)| used.then_some(field))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use weaver_api::v1beta1::ConfigMapSyncSpec;
    use weaver_api::validate::validate;

    use super::*;

    /// What is found in a plain spec with `patch` over it.
    fn found(patch: &Value) -> Vec<&'static str> {
        let mut spec = json!({
            "serviceAccount": {"name": "sync"},
            "source": {"namespace": "team-a", "name": "settings"},
            "targets": {"namespaces": ["foo"]},
        });
        for (field, value) in patch.as_object().cloned().unwrap_or_default() {
            match (spec[&field].as_object_mut(), value) {
                (Some(here), Value::Object(more)) => here.extend(more),
                (_, value) => spec[&field] = value,
            }
        }
        let spec: ConfigMapSyncSpec = serde_json::from_value(spec).unwrap();
        unsupported(&validate(Some(&spec)).unwrap())
    }

    #[test]
    fn each_field_that_is_not_done_yet_is_named() {
        assert_eq!(found(&json!({"targets": {"selector": {}}})), ["spec.targets.selector"]);
    }

    #[test]
    fn what_is_done_and_every_default_written_out_is_accepted() {
        for patch in [
            json!({}),
            json!({"source": {"kind": "ConfigMap"}}),
            json!({"source": {"kind": "Secret"}}),
            json!({"targets": {"exclude": ["bar"], "name": "settings", "labels": {}, "annotations": {}}}),
            json!({"targets": {"name": "other"}, "keys": {"exclude": ["a"], "rename": {"b": "c"}}}),
            json!({"keys": {}, "conflictPolicy": "Refuse", "sourceDeletionPolicy": "Retain", "suspend": true}),
            json!({"deletionPolicy": "Orphan", "resyncSeconds": 60, "dryRun": true}),
        ] {
            assert_eq!(found(&patch), Vec::<&str>::new(), "{patch}");
        }
    }
}

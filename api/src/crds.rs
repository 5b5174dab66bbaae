//! The generated `CustomResourceDefinition`s: `deploy/crds/`, the copies inside the programs and
//! `weaver crd show` are these bytes (R-C01).

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;

use crate::v1alpha1::ConfigMapSync;

/// First line of every generated file.
pub const HEADER: &str = "# Generated from the types in api/ by `make generate`; do not edit.\n";

/// All definitions, in the order in which they are installed.
#[must_use]
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![ConfigMapSync::crd()]
}

/// One definition as a manifest.
///
/// # Errors
/// Only if the definition cannot be written as YAML, which a test rules out.
pub fn manifest(crd: &CustomResourceDefinition) -> Result<String, serde_saphyr::ser::Error> {
    Ok(format!("{HEADER}{}", serde_saphyr::to_string(crd)?))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn configmapsync() -> Value {
        serde_json::to_value(ConfigMapSync::crd()).unwrap()
    }

    #[test]
    fn the_committed_files_are_the_generated_ones() {
        for crd in all() {
            let path =
                format!("{}/../deploy/crds/{}.yaml", env!("CARGO_MANIFEST_DIR"), crd.spec.names.plural);
            let committed = std::fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(committed, manifest(&crd).unwrap(), "{path} is stale: run `make generate`");
        }
    }

    #[test]
    fn scope_plural_short_names_and_category_agree() {
        let crd = configmapsync();
        assert_eq!(crd["metadata"]["name"], "configmapsyncs.weaver.example.com");
        assert_eq!(crd["spec"]["scope"], "Namespaced");
        assert_eq!(crd["spec"]["group"], crate::GROUP);
        assert_eq!(
            crd["spec"]["names"],
            json!({"kind": "ConfigMapSync", "plural": "configmapsyncs", "singular": "configmapsync",
                   "shortNames": ["cms", "cmsync"], "categories": ["weaver"]})
        );
        let stored: Vec<_> =
            crd["spec"]["versions"].as_array().unwrap().iter().map(|v| &v["storage"]).collect();
        assert_eq!(stored, [&json!(true)]);
    }

    #[test]
    fn v1alpha1_requires_nothing_and_defaults_the_account() {
        let root = &configmapsync()["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert_eq!(root["required"], Value::Null);
        let spec = &root["properties"]["spec"];
        assert_eq!(spec["required"], Value::Null);
        assert_eq!(spec["properties"]["serviceAccount"]["default"], json!({"name": "default"}));
        assert_eq!(spec["properties"]["source"]["required"], Value::Null);
        assert_eq!(spec["properties"]["testNum"]["format"], "int32");
    }

    #[test]
    fn every_field_is_described() {
        fn undescribed(schema: &Value, path: &str, found: &mut Vec<String>) {
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                let path = format!("{path}.{name}");
                if field["description"].as_str().is_none_or(str::is_empty) {
                    found.push(path.clone());
                }
                undescribed(field, &path, found);
                undescribed(&field["items"], &path, found);
            }
        }
        let mut found = Vec::new();
        for version in configmapsync()["spec"]["versions"].as_array().unwrap() {
            undescribed(&version["schema"]["openAPIV3Schema"], "", &mut found);
        }
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn an_object_without_spec_parses() {
        let object: ConfigMapSync = serde_json::from_value(json!({"metadata": {"name": "a"}})).unwrap();
        assert_eq!(object.desired(), None);
    }

    #[test]
    fn a_condition_that_cannot_be_read_does_not_make_the_object_unreadable() {
        let condition = |time: &str| json!({"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": time});
        let conditions = [condition("2020-01-01T00:00:00x5Z"), condition("2020-01-01T00:00:00Z")];
        let object = json!({"metadata": {"name": "a"}, "status": {"conditions": conditions, "test": "kept"}});
        let status = serde_json::from_value::<ConfigMapSync>(object).unwrap().status.unwrap();
        assert_eq!((status.conditions.len(), status.test.as_deref()), (1, Some("kept")));
    }

    #[test]
    fn what_upstream_writes_survives_reading_and_writing() {
        let upstream = json!({
            "apiVersion": "weaver.example.com/v1alpha1", "kind": "ConfigMapSync",
            "metadata": {"name": "configmapsync-sample", "namespace": "default"},
            "spec": {"serviceAccount": {"name": "default"}, "source": {"name": "settings", "namespace": "default"},
                     "syncToNamespaces": ["foo", "bar", "foo"], "testNum": 3},
            "status": {"test": "kept"},
        });
        let object: ConfigMapSync = serde_json::from_value(upstream.clone()).unwrap();
        assert_eq!(serde_json::to_value(object).unwrap(), upstream);
    }
}

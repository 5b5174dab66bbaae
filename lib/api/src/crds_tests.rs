use kube::core::Version;
use serde_json::{Value, json};

use super::*;

fn definitions() -> Vec<Value> {
    all().iter().map(|crd| serde_json::to_value(crd).unwrap()).collect()
}

/// Calls `look` with each field's path and schema, those of all versions and of status included.
fn each_field(look: &mut dyn FnMut(&str, &Value)) {
    fn below(schema: &Value, path: &str, look: &mut dyn FnMut(&str, &Value)) {
        look(path, schema);
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            below(field, &format!("{path}.{name}"), look);
        }
        for inner in ["items", "additionalProperties"] {
            if schema[inner].is_object() {
                below(&schema[inner], &format!("{path}[]"), look);
            }
        }
    }
    for crd in definitions() {
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let name = format!("{} {}", crd["spec"]["names"]["plural"], version["name"]);
            below(&version["schema"]["openAPIV3Schema"], &name, look);
        }
    }
}

#[test]
fn the_committed_files_are_the_generated_ones() {
    for crd in all() {
        let path = format!("{}/../../deploy/crds/{}.yaml", env!("CARGO_MANIFEST_DIR"), crd.spec.names.plural);
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == manifest(&crd).unwrap(), "{path} is stale: run `make generate`");
    }
}

#[test]
fn name_group_scope_short_names_and_category_agree() {
    let found: Vec<_> = definitions()
        .into_iter()
        .map(|crd| {
            let (spec, names) = (&crd["spec"], &crd["spec"]["names"]);
            assert_eq!(spec["group"], crate::GROUP);
            assert_eq!(
                crd["metadata"]["name"],
                format!("{}.{}", names["plural"].as_str().unwrap(), crate::GROUP)
            );
            assert_eq!(names["plural"], names["kind"].as_str().unwrap().to_lowercase() + "s");
            assert_eq!(names["categories"], json!(["weaver"]));
            (names["kind"].clone(), spec["scope"].clone(), names["shortNames"].clone())
        })
        .collect();
    assert_eq!(
        json!(found),
        json!([
            ["ConfigMapSync", "Namespaced", ["cms", "cmsync"]],
            ["ResourceSync", "Namespaced", ["rsync"]],
            ["ServiceToken", "Namespaced", ["svctok"]],
            ["NodeReport", "Cluster", ["nr"]],
        ])
    );
}

#[test]
fn one_version_is_stored_and_the_older_ones_are_deprecated_with_a_way_out() {
    for crd in definitions() {
        let versions = crd["spec"]["versions"].as_array().unwrap();
        let names: Vec<&str> = versions.iter().map(|version| version["name"].as_str().unwrap()).collect();
        let priority = |name: &&str| std::cmp::Reverse(Version::parse(name).priority());
        assert!(names.is_sorted_by_key(priority), "{names:?}");
        for version in versions {
            let is_stored = version["name"] == STORED;
            assert_eq!(version["storage"], is_stored);
            assert_eq!(version["served"], true);
            assert_eq!(version["subresources"], json!({"status": {}}));
            let warning = version["deprecationWarning"].as_str();
            assert_eq!(
                warning.is_some_and(|warning| warning.contains("use weaver.example.com/v1beta1")),
                !is_stored
            );
        }
    }
}

#[test]
fn conversion_fails_closed_and_never_prunes() {
    for crd in definitions() {
        assert_eq!(
            crd["spec"]["conversion"],
            json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": crate::webhook::URL}, "conversionReviewVersions": ["v1"]}})
        );
    }
}

#[test]
fn no_more_than_a_spec_is_required_and_only_the_rule_on_round_trip_stands_at_a_root() {
    let mut ruled = Vec::new();
    for crd in definitions() {
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let root = &version["schema"]["openAPIV3Schema"];
            let never_without = crd["spec"]["names"]["kind"] == "ResourceSync";
            let expected = if never_without { json!(["spec"]) } else { Value::Null };
            assert_eq!(root["required"], expected, "{}", crd["spec"]["names"]["kind"]);
            for rule in root["x-kubernetes-validations"].as_array().into_iter().flatten() {
                assert!(
                    rule["rule"].as_str().unwrap().contains("oldSelf"),
                    "it is none for a creation: {rule}"
                );
                assert!(rule["message"].as_str().unwrap().starts_with("spec.roundTrip"), "{rule}");
                ruled.push((crd["spec"]["names"]["kind"].clone(), version["name"].clone()));
            }
        }
    }
    assert_eq!(json!(ruled), json!([["ConfigMapSync", "v1alpha1"], ["ServiceToken", "v1alpha1"]]));
}

#[test]
fn v1alpha1_requires_nothing_and_defaults_the_account() {
    let crd = &definitions()[0]["spec"]["versions"][1];
    assert_eq!(crd["name"], "v1alpha1");
    let spec = &crd["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(spec["required"], Value::Null);
    assert_eq!(spec["properties"]["serviceAccount"]["default"], json!({"name": "default"}));
    assert_eq!(spec["properties"]["source"]["required"], Value::Null);
    assert_eq!(spec["properties"]["testNum"]["format"], "int32");
}

#[test]
fn a_number_of_32_bits_in_a_spec_has_bounds_of_its_own() {
    let mut found = Vec::new();
    each_field(&mut |path, schema| {
        let is_open = schema["minimum"].is_null() || schema["maximum"].is_null();
        if path.contains(".spec.") && schema["format"] == "int32" && is_open {
            found.push(path.to_owned());
        }
    });
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn every_field_is_described_and_says_its_default() {
    let mut found = Vec::new();
    each_field(&mut |path, schema| {
        let is_field = path.contains('.') && !path.ends_with(']');
        let description = schema["description"].as_str().unwrap_or_default();
        if is_field
            && (description.is_empty() || !schema["default"].is_null() && !description.contains("Default: "))
        {
            found.push(path.to_owned());
        }
    });
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn exclusive_bounds_are_booleans_next_to_their_bound() {
    let mut exclusive = 0;
    each_field(&mut |path, schema| {
        for (flag, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
            if !schema[flag].is_null() {
                assert!(schema[flag].is_boolean() && schema[bound].is_number(), "{path}");
                exclusive += 1;
            }
        }
    });
    assert_eq!(exclusive, 2);
}

#[test]
fn null_is_accepted_only_where_it_is_meant() {
    let mut found = Vec::new();
    each_field(&mut |path, schema| {
        if schema["nullable"] == true {
            found.push(path.to_owned());
        }
    });
    let expected = ["configmapsyncs", "resourcesyncs"]
        .map(|plural| format!(r#""{plural}" "v1beta1".spec.targets.name"#));
    assert_eq!(found, expected);
}

#[test]
fn nothing_is_kept_that_is_not_described_and_nothing_recurses() {
    let mut fields = 0;
    each_field(&mut |path, schema| {
        assert_eq!(schema["x-kubernetes-preserve-unknown-fields"], Value::Null, "{path}");
        assert_eq!(schema["uniqueItems"], Value::Null, "{path}: the API server refuses it");
        assert!(schema["type"].is_string(), "{path} has no type: {schema}");
        fields += 1;
    });
    assert!(fields > 100);
}

#[test]
fn an_object_without_spec_parses_in_each_version() {
    let bare = json!({"metadata": {"name": "a"}});
    assert_eq!(serde_json::from_value::<v1alpha1::ConfigMapSync>(bare.clone()).unwrap().spec.spec, None);
    assert_eq!(serde_json::from_value::<v1beta1::ConfigMapSync>(bare.clone()).unwrap().spec.spec, None);
    assert_eq!(serde_json::from_value::<v1alpha1::ServiceToken>(bare.clone()).unwrap().spec.spec, None);
    assert_eq!(serde_json::from_value::<v1beta1::ResourceSync>(bare.clone()).unwrap().spec.spec, None);
    assert_eq!(serde_json::from_value::<v1beta1::ServiceToken>(bare).unwrap().spec.spec, None);
}

#[test]
fn a_condition_that_cannot_be_read_does_not_make_the_object_unreadable() {
    let condition = |time: &str| json!({"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": time});
    let conditions = [condition("2020-01-01T00:00:00x5Z"), condition("2020-01-01T00:00:00Z")];
    let object = json!({"metadata": {"name": "a"}, "status": {"conditions": conditions}});
    let status = serde_json::from_value::<v1beta1::ConfigMapSync>(object).unwrap().status.unwrap();
    assert_eq!(status.conditions.len(), 1);
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
    let object: v1alpha1::ConfigMapSync = serde_json::from_value(upstream.clone()).unwrap();
    assert_eq!(serde_json::to_value(object).unwrap(), upstream);
}

#[test]
fn what_v1beta1_requires_is_said_in_its_schema() {
    let mut found = Vec::new();
    each_field(&mut |path, schema| {
        if let Some(required) = schema["required"].as_array().filter(|_| path.contains(".spec")) {
            let names: Vec<&str> = required.iter().filter_map(Value::as_str).collect();
            found.push(format!("{}: {}", path.replace('"', ""), names.join(", ")));
            assert!(names.iter().all(|name| schema["properties"][name]["default"].is_null()), "{path}");
        }
    });
    assert_eq!(
        found,
        [
            "configmapsyncs v1beta1.spec: serviceAccount, source, targets",
            "configmapsyncs v1beta1.spec.serviceAccount: name",
            "configmapsyncs v1beta1.spec.source: namespace",
            "configmapsyncs v1beta1.spec.source.selector.matchExpressions[]: key, operator",
            "configmapsyncs v1beta1.spec.targets.selector.matchExpressions[]: key, operator",
            "resourcesyncs v1beta1.spec: serviceAccount, source, targets",
            "resourcesyncs v1beta1.spec.serviceAccount: name",
            "resourcesyncs v1beta1.spec.source: apiVersion, kind, namespace",
            "resourcesyncs v1beta1.spec.source.selector.matchExpressions[]: key, operator",
            "resourcesyncs v1beta1.spec.targets.selector.matchExpressions[]: key, operator",
            "servicetokens v1beta1.spec: writer",
            "servicetokens v1beta1.spec.generate: count, name",
            "servicetokens v1beta1.spec.tokens[]: key, serviceAccount",
            "servicetokens v1beta1.spec.tokens[].serviceAccount: name",
            "servicetokens v1beta1.spec.writer: serviceAccount",
            "servicetokens v1beta1.spec.writer.serviceAccount: name",
        ]
    );
}

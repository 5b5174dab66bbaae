use std::fs;

use serde_json::{Value, json};

use super::*;

fn webhook() -> Webhook {
    Webhook { service: None, url: "https://127.0.0.1:9443/convert".into(), ca_bundle: "the CA".into() }
}

fn desired() -> CustomResourceDefinition {
    complete(weaver_api::crds::all().remove(0), &webhook())
}

/// As the API server returns it, after `change`.
fn installed(change: impl FnOnce(&mut Value)) -> CustomResourceDefinition {
    let mut desired = desired();
    desired.spec = normal(&desired.spec);
    let mut value = serde_json::to_value(desired).unwrap();
    value["metadata"]["resourceVersion"] = json!("17");
    value["metadata"]["uid"] = json!("u");
    value["spec"]["names"]["singular"] = json!("configmapsync");
    value["status"] = json!({
        "acceptedNames": {"kind": "ConfigMapSync", "plural": "configmapsyncs"},
        "conditions": [], "storedVersions": ["v1beta1"],
    });
    change(&mut value);
    serde_json::from_value(value).unwrap()
}

/// The definition of the operator that was there before us: one version, no conversion, fewer names.
fn upstream() -> CustomResourceDefinition {
    let text = |pattern: Option<&str>| match pattern {
        Some(pattern) => json!({"type": "string", "pattern": pattern}),
        None => json!({"type": "string"}),
    };
    let spec = json!({"type": "object", "properties": {
        "serviceAccount": {"type": "object",
            "properties": {"name": text(Some("^[a-z][a-z0-9-]{2,62}[a-z0-9]$"))}},
        "source": {"type": "object", "properties": {"name": text(None), "namespace": text(None)}},
        "syncToNamespaces": {"type": "array", "items": text(None)},
        "testNum": {"type": "integer", "format": "int32"},
    }});
    let condition = json!({"type": "object",
    "required": ["lastTransitionTime", "message", "reason", "status", "type"],
    "properties": {
        "lastTransitionTime": {"type": "string", "format": "date-time"},
        "message": {"type": "string", "maxLength": 32768},
        "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
        "reason": {"type": "string", "minLength": 1, "maxLength": 1024},
        "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
        "type": {"type": "string", "maxLength": 316},
    }});
    let status = json!({"type": "object", "properties": {
        "conditions": {"type": "array", "items": condition}, "test": text(None)}});
    serde_json::from_value(json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "configmapsyncs.weaver.example.com", "resourceVersion": "3",
                     "annotations": {"of": "someone"}, "labels": {"of": "someone"}},
        "spec": {
            "group": "weaver.example.com", "scope": "Namespaced",
            "conversion": {"strategy": "None"},
            "names": {"kind": "ConfigMapSync", "listKind": "ConfigMapSyncList", "plural": "configmapsyncs",
                      "singular": "configmapsync", "shortNames": ["cms", "cmsync"]},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "apiVersion": text(None), "kind": text(None), "metadata": {"type": "object"},
                    "spec": spec, "status": status}}}}],
        },
        "status": {"storedVersions": ["v1alpha1"]},
    }))
    .unwrap()
}

fn version<'a>(value: &'a mut Value, name: &str) -> &'a mut Value {
    let versions = value["spec"]["versions"].as_array_mut().unwrap();
    versions.iter_mut().find(|version| version["name"] == name).unwrap()
}

fn fields<'a>(value: &'a mut Value, name: &str) -> &'a mut Value {
    &mut version(value, name)["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
}

fn remove(value: &mut Value, field: &str) {
    value.as_object_mut().unwrap().remove(field).unwrap();
}

#[test]
fn what_is_not_there_is_created() {
    assert_eq!(plan(None, &desired()), DefinitionPlan::Create);
}

#[test]
fn what_the_api_server_fills_in_is_no_difference() {
    assert_eq!(plan(Some(&installed(|_| {})), &desired()), DefinitionPlan::Keep);
    let with_more = installed(|value| {
        value["spec"]["preserveUnknownFields"] = json!(false);
        value["metadata"]["labels"] = json!({"of": "someone"});
        value["metadata"]["generation"] = json!(4);
        value["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["type"] = json!("object");
    });
    assert_eq!(plan(Some(&with_more), &desired()), DefinitionPlan::Keep);
}

#[test]
fn every_definition_can_be_compared() {
    for definition in weaver_api::crds::all() {
        let desired = complete(definition, &webhook());
        let mut installed = desired.clone();
        installed.spec = normal(&installed.spec);
        assert_eq!(plan(Some(&installed), &desired), DefinitionPlan::Keep, "{}", desired.name_any());
        let conversion = desired.spec.conversion.unwrap().webhook.unwrap().client_config.unwrap();
        assert_eq!(conversion.ca_bundle.unwrap().0, b"the CA");
    }
}

#[test]
fn each_difference_is_replaced_with_its_reason() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change, &[&str]); 12] = [
        (
            "another CA",
            |v| v["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] = json!("b2xk"),
            &["caBundle"],
        ),
        (
            "no CA",
            |v| remove(&mut v["spec"]["conversion"]["webhook"]["clientConfig"], "caBundle"),
            &["caBundle"],
        ),
        (
            "elsewhere",
            |v| v["spec"]["conversion"]["webhook"]["clientConfig"]["url"] = json!("https://a/convert"),
            &["webhook"],
        ),
        (
            "no conversion",
            |v| v["spec"]["conversion"] = json!({"strategy": "None"}),
            &["caBundle", "webhook"],
        ),
        (
            "other reviews",
            |v| v["spec"]["conversion"]["webhook"]["conversionReviewVersions"] = json!(["v1beta1"]),
            &["conversion"],
        ),
        ("short names", |v| v["spec"]["names"]["shortNames"] = json!(["cms"]), &["names"]),
        ("pruning", |v| v["spec"]["preserveUnknownFields"] = json!(true), &["pruning"]),
        (
            "a version less",
            |v| drop(v["spec"]["versions"].as_array_mut().unwrap().remove(1)),
            &["v1alpha1 added"],
        ),
        (
            "a dead version more",
            |v| {
                let mut dead = v["spec"]["versions"][1].clone();
                dead["name"] = json!("v1alpha0");
                dead["served"] = json!(false);
                v["spec"]["versions"].as_array_mut().unwrap().push(dead);
            },
            &["v1alpha0 removed"],
        ),
        ("a field less", |v| remove(fields(v, "v1beta1"), "suspend"), &["schema of v1beta1"]),
        ("a column less", |v| remove(version(v, "v1alpha1"), "additionalPrinterColumns"), &["v1alpha1"]),
        (
            "another order",
            |v| v["spec"]["versions"].as_array_mut().unwrap().reverse(),
            &["order of versions"],
        ),
    ];
    for (name, change, expected) in cases {
        let DefinitionPlan::Replace { reasons, with, .. } = plan(Some(&installed(change)), &desired()) else {
            panic!("{name} is not replaced")
        };
        assert_eq!(reasons, expected, "{name}");
        assert_eq!(with.spec, desired().spec, "{name}");
        assert_eq!(with.metadata.resource_version.as_deref(), Some("17"), "{name}");
    }
}

#[test]
fn ca_and_conversion_are_in_what_is_written() {
    let DefinitionPlan::Replace { with, .. } = plan(Some(&upstream()), &desired()) else {
        panic!("not replaced")
    };
    let conversion = with.spec.conversion.unwrap();
    assert_eq!(conversion.strategy, "Webhook");
    assert!(conversion.webhook.unwrap().client_config.unwrap().ca_bundle.is_some());
}

#[test]
fn upstreams_definition_is_replaced_and_others_metadata_kept() {
    let DefinitionPlan::Replace { reasons, with, warnings } = plan(Some(&upstream()), &desired()) else {
        panic!("{:?}", plan(Some(&upstream()), &desired()))
    };
    assert!(reasons.contains(&"v1beta1 added".to_owned()), "{reasons:?}");
    assert!(warnings.iter().any(|warning| warning.contains("v1alpha1 spec.serviceAccount")), "{warnings:?}");
    assert_eq!((with.labels()["of"].as_str(), with.annotations()["of"].as_str()), ("someone", "someone"));
    assert_eq!(with.metadata.resource_version.as_deref(), Some("3"));
}

#[test]
fn our_own_labels_are_added_to_those_of_others() {
    let mut desired = desired();
    desired.metadata.labels = Some([("ours".to_owned(), "1".to_owned())].into());
    let there = installed(|value| value["metadata"]["labels"] = json!({"theirs": "2"}));
    let DefinitionPlan::Replace { reasons, with, .. } = plan(Some(&there), &desired) else {
        panic!("not replaced")
    };
    assert_eq!((reasons, with.labels().len()), (vec!["labels".to_owned()], 2));
}

#[test]
fn what_would_destroy_something_is_refused() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change, &[&str]); 10] = [
        (
            "another scope",
            |v| v["spec"]["scope"] = json!("Cluster"),
            &[
                "scope is Cluster, not Namespaced",
                "cannot be changed",
                "kubectl delete crd configmapsyncs.weaver.example.com",
            ],
        ),
        (
            "another kind",
            |v| v["spec"]["names"]["kind"] = json!("Sync"),
            &["kind is Sync, not ConfigMapSync", "another program"],
        ),
        (
            "a newer release's version in use",
            |v| v["status"]["storedVersions"] = json!(["v1beta1", "v1"]),
            &["objects are stored at v1,", "it knows v1beta1, v1alpha1", "weaver crd migrate"],
        ),
        (
            "a newer release's storage version",
            |v| version(v, "v1beta1")["name"] = json!("v2"),
            &["objects are stored at v2,"],
        ),
        (
            "a version that only they serve",
            |v| {
                let mut theirs = v["spec"]["versions"][1].clone();
                theirs["name"] = json!("v1gamma1");
                v["spec"]["versions"].as_array_mut().unwrap().push(theirs);
            },
            &["it serves v1gamma1"],
        ),
        (
            "a field more",
            |v| fields(v, "v1beta1")["newer"] = json!({"type": "string"}),
            &["v1beta1 spec.newer: the field is gone", "would be dropped"],
        ),
        (
            "a field more in the older version",
            |v| fields(v, "v1alpha1")["source"]["properties"]["newer"] = json!({"type": "string"}),
            &["v1alpha1 spec.source.newer"],
        ),
        (
            "unknown fields kept",
            |v| fields(v, "v1beta1")["source"]["x-kubernetes-preserve-unknown-fields"] = json!(true),
            &["v1beta1 spec.source"],
        ),
        (
            "another type",
            |v| fields(v, "v1beta1")["suspend"] = json!({"type": "string"}),
            &["v1beta1 spec.suspend: type was string, is boolean"],
        ),
        (
            "on its way out",
            |v| v["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
            &["being deleted", "then run this again"],
        ),
    ];
    for (name, change, words) in cases {
        let plan = plan(Some(&installed(change)), &desired());
        let DefinitionPlan::Refuse(refusals) = &plan else { panic!("{name}: {plan:?}") };
        let text = refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        for expected in words {
            assert!(text.contains(expected), "{name}: {text}");
        }
    }
}

#[test]
fn what_becomes_stricter_is_a_warning() {
    let there = installed(|value| remove(&mut fields(value, "v1beta1")["resyncSeconds"], "maximum"));
    let DefinitionPlan::Replace { warnings, .. } = plan(Some(&there), &desired()) else {
        panic!("not replaced")
    };
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("v1beta1 spec.resyncSeconds: maximum"), "{warnings:?}");
}

#[test]
fn a_scope_is_refused_with_the_number_of_objects() {
    let refusal = |objects| DefinitionRefusal::Scope {
        name: "a.example".into(),
        installed: "Namespaced".into(),
        ours: "Cluster".into(),
        objects,
    };
    assert!(refusal(Some(7)).to_string().contains("it has 7 stored objects"));
    assert!(refusal(None).to_string().contains("unknown number"));
    assert!(refusal(None).to_string().contains("kubectl get a.example --all-namespaces -o yaml"));
}

#[test]
fn stored_are_what_the_status_says_and_what_is_written_now() {
    assert_eq!(stored_versions(&upstream()), ["v1alpha1"]);
    let both = installed(|value| value["status"]["storedVersions"] = json!(["v1alpha1"]));
    assert_eq!(stored_versions(&both), ["v1alpha1", "v1beta1"]);
    let fresh = installed(|value| remove(value, "status"));
    assert_eq!(stored_versions(&fresh), ["v1beta1"]);
}

#[test]
fn the_rule_on_a_field_is_news_only_where_the_field_was_there() {
    let warnings = |with_the_field: bool| {
        let there = installed(|value| {
            remove(&mut version(value, "v1alpha1")["schema"]["openAPIV3Schema"], "x-kubernetes-validations");
            if !with_the_field {
                remove(fields(value, "v1alpha1"), "roundTrip");
            }
        });
        let DefinitionPlan::Replace { warnings, .. } = plan(Some(&there), &desired()) else {
            panic!("not replaced")
        };
        warnings
    };
    assert_eq!(warnings(false), Vec::<String>::new());
    assert!(warnings(true)[0].starts_with("v1alpha1: rule is new: "), "{:?}", warnings(true));
}

#[test]
fn what_is_written_and_read_again_breaks_nothing() {
    for crd in weaver_api::crds::all() {
        let read = serde_saphyr::from_str(&weaver_api::crds::manifest(&crd).unwrap()).unwrap();
        assert_eq!((breaks(&crd, &read), breaks(&read, &crd)), (Vec::new(), Vec::new()));
    }
}

#[test]
fn the_definitions_break_nothing_that_was_released() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds/released");
    let current = weaver_api::crds::all();
    let (mut released, mut found) = (0, Vec::new());
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = fs::read_to_string(&path).unwrap();
            let old: CustomResourceDefinition =
                serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let new = current.iter().find(|new| new.name_any() == old.name_any());
            let new = new.unwrap_or_else(|| panic!("{}: the definition is gone", path.display()));
            let broken = breaks(&old, new).into_iter().filter(|one| !comes_with_its_field(one, &old, new));
            found.extend(broken.map(|one| one.to_string()));
            released += 1;
        }
    }
    assert!(released > 0, "deploy/crds/released/ has no definition: see its README.md");
    assert!(found.is_empty(), "deploy/crds/released/README.md says what to do:\n{}", found.join("\n"));
}

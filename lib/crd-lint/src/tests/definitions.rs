use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinitionStatus;

use super::*;

/// The JSON pointer of a key's parent, and the key.
type Key = (&'static str, &'static str);

/// The fixture with one key set, or removed by `null`.
fn with((place, key): Key, value: Value) -> CustomResourceDefinition {
    let mut crd = serde_json::to_value(with_spec(&json!({"type": "object"}))).unwrap();
    crd.pointer_mut(place).unwrap()[key] = value;
    serde_json::from_value(crd).unwrap()
}

/// Rows of a key, a value that breaks, what is said of it, and a key and value near it that do not.
fn proven_of_keys<const N: usize>(rows: [(Key, Value, &str, Key, Value); N]) {
    let old = with_spec(&json!({"type": "object"}));
    for (key, breaking, said, near, fine) in rows {
        let found: Vec<String> = breaks(&old, &with(key, breaking)).iter().map(ToString::to_string).collect();
        assert_eq!(found, [format!("things.example.com{said}")]);
        let fine = with(near, fine);
        assert_ne!(old, fine, "the row of {said} shows nothing");
        assert_eq!(breaks(&old, &fine), [], "the row of {said}");
    }
}

#[test]
fn names() {
    let (spec, names) = ("/spec", "/spec/names");
    let scope = ": scope was Namespaced, is Cluster";
    let group = ": group was example.com, is example.org";
    let plural = ": plural was things, is thingies";
    let list = ": list kind was ThingList, is Things";
    let more = json!(["tg", "x", "th"]);
    proven_of_keys([
        ((spec, "scope"), json!("Cluster"), scope, (spec, "preserveUnknownFields"), json!(false)),
        ((spec, "group"), json!("example.org"), group, ("/metadata", "name"), json!(null)),
        ((names, "plural"), json!("thingies"), plural, (spec, "conversion"), json!({"strategy": "None"})),
        (
            (names, "kind"),
            json!("Item"),
            ": kind was Thing, is Item",
            ("/metadata", "labels"),
            json!({"a": "b"}),
        ),
        ((names, "singular"), json!("one"), ": singular was thing, is one", (names, "singular"), json!(null)),
        ((names, "listKind"), json!("Things"), list, (names, "listKind"), json!(null)),
        ((names, "shortNames"), json!(["tg"]), ": short name th is gone", (names, "shortNames"), more),
        (
            (names, "categories"),
            json!(null),
            ": category all is gone",
            (names, "categories"),
            json!(["all", "x"]),
        ),
    ]);
}

#[test]
fn versions_and_subresources() {
    let v1 = "/spec/versions/0";
    let subresources = "/spec/versions/0/subresources";
    let unserved = " v1: the version is not served any more";
    let status = " v1: subresource status was present, is absent";
    let scale = json!({"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"});
    let other = json!({"specReplicasPath": ".spec.m", "statusReplicasPath": ".status.n"});
    let moved = format!(" v1: subresource scale was {scale}, is {other}");
    let gone = format!(" v1: subresource scale was {scale}, is absent");
    let unselectable = " v1 spec.name: the field cannot be selected by any more";
    let selectable = json!([{"jsonPath": ".spec.more"}, {"jsonPath": ".spec.name"}]);
    proven_of_keys([
        ((v1, "name"), json!("v2"), " v1: the version is gone", (v1, "storage"), json!(false)),
        ((v1, "served"), json!(false), unserved, (v1, "deprecated"), json!(true)),
        ((subresources, "status"), json!(null), status, (v1, "additionalPrinterColumns"), json!([])),
        ((subresources, "scale"), other, &moved, (v1, "deprecationWarning"), json!("use another")),
        ((subresources, "scale"), json!(null), &gone, (v1, "deprecated"), json!(false)),
        ((v1, "selectableFields"), json!([]), unselectable, (v1, "selectableFields"), selectable),
    ]);
}

#[test]
fn a_new_status_subresource_breaks_and_a_new_scale_does_not() {
    let new = with_spec(&json!({"type": "object"}));
    let found = breaks(&with(("/spec/versions/0/subresources", "status"), json!(null)), &new);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].to_string(), "things.example.com v1: subresource status was absent, is present");
    assert_eq!(breaks(&with(("/spec/versions/0/subresources", "scale"), json!(null)), &new), []);
}

#[test]
fn a_version_that_no_one_could_use_may_go_and_one_that_holds_objects_may_not() {
    let mut old = with_spec(&json!({"type": "object"}));
    let unused = CustomResourceDefinitionVersion {
        name: "v0".into(),
        served: false,
        storage: false,
        ..old.spec.versions[0].clone()
    };
    old.spec.versions.push(unused);
    let new = with_spec(&json!({"type": "object"}));
    assert_eq!(breaks(&old, &new), []);
    let mut written_at = old.clone();
    written_at.spec.versions[1].storage = true;
    // As a cluster reports it: once written at v0, and not yet migrated.
    let mut once_written_at = old.clone();
    let status = CustomResourceDefinitionStatus {
        stored_versions: Some(vec!["v0".into(), "v1".into()]),
        ..CustomResourceDefinitionStatus::default()
    };
    once_written_at.status = Some(status);
    for old in [written_at, once_written_at] {
        let found: Vec<String> = breaks(&old, &new).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["things.example.com v0: the version is gone"]);
    }
}

#[test]
fn versions_are_compared_with_themselves_only() {
    let narrow = json!({"type": "object", "properties": {"x": {"type": "string", "maxLength": 1}}});
    let mut both = with_spec(&json!({"type": "object", "properties": {"x": {"type": "string"}}}));
    let newer =
        CustomResourceDefinitionVersion { name: "v2".into(), ..with_spec(&narrow).spec.versions[0].clone() };
    let old = both.clone();
    both.spec.versions.insert(0, newer);
    assert_eq!(breaks(&old, &both), []);
}

#[test]
fn a_definition_that_is_gone_is_found_and_a_new_one_is_none() {
    let one = with_spec(&json!({"type": "object"}));
    let mut other = one.clone();
    other.spec.names.plural = "others".into();
    assert_eq!(breaks_since(std::slice::from_ref(&one), &[other.clone(), one.clone()]), []);
    let found = breaks_since(&[one.clone(), other], &[one]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].to_string(), "others.example.com: the definition is gone");
}

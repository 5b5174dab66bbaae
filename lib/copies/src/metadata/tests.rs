use proptest::prelude::*;
use serde_json::{Value, json};
use weaver_api::validate::validate;

use super::*;

fn owner() -> Owner {
    Owner { namespace: "team-a".into(), name: "sync".into(), uid: "u1".into() }
}

/// What copies carry of a source with this metadata, and of `spec.targets`.
fn metadata(source: &Value, targets: &Value) -> Metadata {
    let mut spec = json!({
        "serviceAccount": {"name": "sync"}, "source": {"namespace": "team-a", "name": "settings"},
        "targets": targets,
    });
    spec["targets"]["namespaces"] = json!(["foo"]);
    let spec = validate(Some(&serde_json::from_value(spec).unwrap())).unwrap();
    let source = serde_json::from_value(source.clone()).unwrap();
    Metadata::new(&owner(), "ConfigMap/team-a/settings", &source, &spec)
}

fn meta(value: &Value) -> ObjectMeta {
    serde_json::from_value(value.clone()).unwrap()
}

fn keys(map: Option<&Map>) -> Vec<&str> {
    map.into_iter().flatten().map(|(key, _)| key.as_str()).collect()
}

#[test]
fn a_copy_has_the_sources_labels_and_annotations_and_those_of_the_spec_which_win() {
    let source = json!({"labels": {"app": "x", "tier": "db"}, "annotations": {"note": "theirs"}});
    let targets = json!({"labels": {"tier": "copy"}, "annotations": {"more": "1"}});
    let copy = metadata(&source, &targets).of_new("foo", "settings");
    let labels = copy.labels.unwrap();
    assert_eq!((labels["app"].as_str(), labels["tier"].as_str()), ("x", "copy"));
    let annotations = copy.annotations.unwrap();
    assert_eq!((annotations["note"].as_str(), annotations["more"].as_str()), ("theirs", "1"));
    assert_eq!(annotations[KEYS_ANNOTATION], r#"{"labels":["app","tier"],"annotations":["more","note"]}"#);
}

#[test]
fn ownership_labels_fit_whatever_the_resource_is_called_and_a_plain_copy_has_nothing_else() {
    let copy = metadata(&json!({}), &json!({})).of_new("foo", "settings");
    assert_eq!(copy.labels, Some(owner().labels()));
    assert_eq!(copy.annotations, Some(owner().annotations("ConfigMap/team-a/settings")));
    assert!(copy.labels.iter().flatten().all(|(_, value)| value.len() <= 63));
}

#[test]
fn what_deployment_tools_and_other_syncers_know_their_own_by_is_never_copied() {
    let own = [
        "kubectl.kubernetes.io/last-applied-configuration",
        "argocd.argoproj.io/tracking-id",
        "app.kubernetes.io/managed-by",
        "app.kubernetes.io/instance",
        "meta.helm.sh/release-name",
        "helm.sh/chart",
        "objectset.rio.cattle.io/hash",
        "kustomize.toolkit.fluxcd.io/name",
        "kapp.k14s.io/app",
        "reflector.v1.k8s.emberstack.com/reflection-allowed",
        "replicator.v1.mittwald.de/replicate-to",
        "cert-manager.io/certificate-name",
        "weaver.example.com/sync-uid",
        "configmapsync.io/owner-name",
    ];
    let all: Map = own.iter().map(|key| ((*key).to_owned(), "x".to_owned())).collect();
    let source = json!({
        "labels": all, "annotations": all, "finalizers": ["a/b"], "generateName": "x-",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}],
    });
    assert_eq!(metadata(&source, &json!({})), metadata(&json!({}), &json!({})));
    assert_eq!(
        metadata(&source, &json!({})).of_new("foo", "settings"),
        metadata(&json!({}), &json!({})).of_new("foo", "settings")
    );
}

#[test]
fn what_asks_for_a_class_is_copied() {
    let copy = metadata(&json!({"annotations": {"kubernetes.io/ingress.class": "internal"}}), &json!({}));
    let annotations = copy.of_new("foo", "settings").annotations.unwrap();
    assert_eq!(annotations["kubernetes.io/ingress.class"], "internal");
}

#[test]
fn other_peoples_metadata_stays_and_what_we_set_goes_when_it_is_not_wanted_any_more() {
    let before = metadata(&json!({"labels": {"app": "x"}}), &json!({"annotations": {"note": "1"}}));
    let mut found = before.of_new("foo", "settings");
    found.labels.as_mut().unwrap().insert("theirs".into(), "x".into());
    found.annotations.as_mut().unwrap().insert("theirs/note".into(), "y".into());
    found.finalizers = Some(vec!["theirs/f".into()]);
    (found.uid, found.resource_version) = (Some("u".into()), Some("7".into()));
    assert!(before.is_on(&found));

    let plain = metadata(&json!({}), &json!({}));
    assert!(!plain.is_on(&found));
    let written = plain.put_on(&found);
    assert!(plain.is_on(&written));
    let labels = ["app.kubernetes.io/managed-by", "theirs", SYNC_UID_LABEL];
    assert_eq!(keys(written.labels.as_ref()), labels);
    assert_eq!(keys(written.annotations.as_ref()), ["theirs/note", SOURCE_ANNOTATION, SYNC_ANNOTATION]);
    assert_eq!(written.finalizers, found.finalizers);
    assert_eq!((written.uid, written.resource_version), (found.uid, found.resource_version));
}

#[test]
fn a_list_of_keys_that_someone_edited_costs_no_one_a_mark() {
    let plain = metadata(&json!({}), &json!({}));
    for text in ["nonsense", r#"{"labels":["weaver.example.com/sync-uid"],"annotations":["theirs","a/b"]}"#] {
        let mut found = plain.of_new("foo", "settings");
        found.annotations.as_mut().unwrap().insert(KEYS_ANNOTATION.into(), text.into());
        assert!(!plain.is_on(&found));
        assert_eq!(plain.put_on(&found), plain.of_new("foo", "settings"));
    }
}

#[test]
fn an_adopted_object_goes_back_to_whose_it_was_with_what_they_put_on_it() {
    let theirs = meta(&json!({"name": "settings", "labels": {"a": "b"}, "annotations": {"c": "d"}}));
    let copy = adopted(metadata(&json!({}), &json!({})).put_on(&theirs));
    assert!(is_adopted(&copy) && !is_adopted(&theirs));
    assert_eq!(released(copy), theirs);
    // Someone else's word for who manages it is no mark of ours.
    let managed = meta(&json!({"labels": {MANAGED_BY_LABEL: "Helm"}}));
    assert_eq!(released(managed.clone()), managed);
}

proptest! {
    #[test]
    fn whatever_was_before_what_is_put_on_is_on_and_nothing_of_others_is_lost(
        first in proptest::collection::btree_map("[a-d]", "[xy]", 0..4),
        second in proptest::collection::btree_map("[a-d]", "[xy]", 0..4),
        theirs in proptest::collection::btree_map("[e-h]", "[xy]", 0..4),
    ) {
        let of = |labels: &Map| metadata(&json!({"labels": labels}), &json!({}));
        let mut found = of(&first).of_new("foo", "settings");
        found.labels.get_or_insert_default().extend(theirs.clone());
        let written = of(&second).put_on(&found);
        prop_assert!(of(&second).is_on(&written));
        prop_assert_eq!(of(&first).is_on(&written), first == second);
        // The naive model: theirs, our current ones, the ownership labels and
        // annotations, and nothing else.
        let mut model = theirs;
        model.extend(second);
        model.extend(owner().labels());
        prop_assert_eq!(written.labels, Some(model));
    }
}

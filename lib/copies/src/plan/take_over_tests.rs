//! What is written, over all combinations of our ownership labels, upstream's, finalizers and object keys.

use proptest::prelude::*;
use weaver_api::ownership::{
    FINALIZER, SOURCE_ANNOTATION, UPSTREAM_FINALIZER, UPSTREAM_NAME_ANNOTATION, UPSTREAM_NAME_LABEL,
    UPSTREAM_NAMESPACE_ANNOTATION, UPSTREAM_NAMESPACE_LABEL,
};

use super::tests::{desired, desired_of, owner, stored};
use super::*;
use crate::specs::{created, spec, updated, valid};

fn holds(finalizer: &str) -> Vec<String> {
    vec!["example.com/keep".into(), finalizer.into()]
}

/// Which ownership labels of upstream's an object has.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Upstream {
    None,
    This,
    OtherName,
    OtherNamespace,
    NameOnly,
    NamespaceOnly,
    LabelsOnly,
}

const UPSTREAM: [Upstream; 7] = [
    Upstream::None,
    Upstream::This,
    Upstream::OtherName,
    Upstream::OtherNamespace,
    Upstream::NameOnly,
    Upstream::NamespaceOnly,
    Upstream::LabelsOnly,
];

fn mark(object: &mut Object, upstream: Upstream) {
    let (name, namespace) = match upstream {
        Upstream::None => return,
        Upstream::LabelsOnly => {
            let labels = object.metadata.labels.get_or_insert_default();
            labels.insert(UPSTREAM_NAME_LABEL.into(), "settings".into());
            labels.insert(UPSTREAM_NAMESPACE_LABEL.into(), "team-a".into());
            return;
        }
        Upstream::This => (Some("settings"), Some("team-a")),
        Upstream::OtherName => (Some("other"), Some("team-a")),
        Upstream::OtherNamespace => (Some("settings"), Some("team-b")),
        Upstream::NameOnly => (Some("settings"), None),
        Upstream::NamespaceOnly => (None, Some("team-a")),
    };
    let annotations = object.metadata.annotations.get_or_insert_default();
    for (key, value) in [(UPSTREAM_NAME_ANNOTATION, name), (UPSTREAM_NAMESPACE_ANNOTATION, namespace)] {
        annotations.extend(value.map(|value| (key.to_owned(), value.to_owned())));
    }
}

/// Which ownership labels and annotations of ours an object has.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ours {
    None,
    This,
    Other,
}

fn object(ours: Ours, upstream: Upstream, key: (&str, &str), value: &str, immutable: bool) -> Object {
    let owner = match ours {
        Ours::Other => Owner { namespace: "b".into(), name: "b".into(), uid: "u2".into() },
        Ours::None | Ours::This => owner("u1"),
    };
    let mut object = stored(created(&desired_of(owner, value), key.0), "c", "1");
    object.metadata.name = Some(key.1.into());
    if ours == Ours::None {
        (object.metadata.labels, object.metadata.annotations) = (None, None);
    }
    object.immutable = immutable.then_some(true);
    mark(&mut object, upstream);
    object
}

/// Every combination of our ownership labels, upstream's, finalizer and object key: the operator takes over what
/// upstream labelled for this very resource, where the spec wants a copy, while upstream's finalizer is there; and
/// nothing else.
#[test]
fn what_is_taken_over_from_upstream_and_what_is_not() {
    let mut plain = spec(&["foo", "bar", "excluded", "team-a"]);
    plain["targets"]["exclude"] = serde_json::json!(["excluded"]);
    let as_named = valid(plain.clone());
    // A renamed copy may stand next to its source; it is still never taken over there.
    plain["targets"]["name"] = "renamed".into();
    let renamed = valid(plain);
    assert!(renamed.targets.contains("team-a"));

    let mut taken = Vec::new();
    for (spec, copy) in [(&as_named, "settings"), (&renamed, "renamed")] {
        for finalizer in [UPSTREAM_FINALIZER, FINALIZER, "configmapsync.io/finalizer2"] {
            for ours in [Ours::None, Ours::This, Ours::Other] {
                for upstream in UPSTREAM {
                    for namespace in ["foo", "bar", "excluded", "team-a", "elsewhere"] {
                        for name in [copy, "another"] {
                            let finalizers = holds(finalizer);
                            let found = object(ours, upstream, (namespace, name), "2", false);
                            let step = by_object(
                                &desired("1"),
                                upgrading(TakeOver::of(spec, &resource(&finalizers))),
                                Some(&found),
                            );
                            let expected = finalizer == UPSTREAM_FINALIZER
                                && ours == Ours::None
                                && upstream == Upstream::This
                                && ["foo", "bar"].contains(&namespace)
                                && name == copy;
                            let case = format!("{finalizer} {ours:?} {upstream:?} {namespace}/{name}");
                            assert_eq!(
                                matches!(step, CopyStep::Update(PreviousOwner::Upstreams, _)),
                                expected,
                                "{case}: {step:?}"
                            );
                            if ours == Ours::None && !expected {
                                assert_eq!(step, CopyStep::Refuse(Foreign::Unlabeled), "{case}");
                            }
                            taken.extend(expected.then_some(case));
                        }
                    }
                }
            }
        }
    }
    assert_eq!(taken.len(), 4, "{taken:?}");
}

#[test]
fn no_upgrade_is_under_way_without_upstreams_finalizer() {
    let spec = valid(spec(&["foo"]));
    assert!(TakeOver::of(&spec, &resource(&[])).is_none());
    assert!(TakeOver::of(&spec, &resource(&holds(FINALIZER))).is_none());
    assert!(TakeOver::of(&spec, &resource(&holds(UPSTREAM_FINALIZER))).is_some());
}

#[test]
fn taking_over_writes_our_ownership_labels_over_exactly_what_was_seen_and_keeps_upstreams() {
    let spec = valid(spec(&["foo"]));
    let finalizers = holds(UPSTREAM_FINALIZER);
    let upgrade = upgrading(TakeOver::of(&spec, &resource(&finalizers)));
    // Equal content makes no difference: the ownership labels are missing.
    for value in ["1", "2"] {
        let found = object(Ours::None, Upstream::This, ("foo", "settings"), value, false);
        let step = by_object(&desired("1"), upgrade, Some(&found));
        let CopyStep::Update(PreviousOwner::Upstreams, seen) = step else { panic!("{value}: {step:?}") };
        assert_eq!(*seen, found.metadata);
        let written = updated(&desired("1"), &seen);
        assert_eq!(written.metadata.resource_version, found.metadata.resource_version);
        assert!(made_by_upstream(&owner("u1"), &written.metadata), "other people's metadata stays");
        assert_eq!(by_object(&desired("1"), upgrade, Some(&written)), CopyStep::Keep);
        assert_eq!(by_object(&desired("1"), Takes::default(), Some(&written)), CopyStep::Keep);
    }
}

#[test]
fn nothing_is_deleted_on_upstreams_ownership_labels() {
    let spec = valid(spec(&["foo"]));
    let finalizers = holds(UPSTREAM_FINALIZER);
    let secrets = ValidSync { source_kind: ObjectKind::SECRET, ..spec.clone() };
    assert!(TakeOver::of(&secrets, &resource(&finalizers)).is_none(), "upstream knew no Secrets");
    let immutable = object(Ours::None, Upstream::This, ("foo", "settings"), "2", true);
    let step =
        by_object(&desired("1"), upgrading(TakeOver::of(&spec, &resource(&finalizers))), Some(&immutable));
    assert_eq!(step, CopyStep::Refuse(Foreign::Unlabeled), "it could only be deleted and made again");
    let (kind, namespace, name) = (ObjectKind::CONFIG_MAP, Some("team-a".into()), Some("settings".into()));
    let source = SpecSource { kind, namespace, name, names: Vec::new(), is_selected: false };
    for upstream in UPSTREAM {
        for namespace in ["foo", "team-a"] {
            let found = object(Ours::None, upstream, (namespace, "settings"), "1", false);
            // Named in the log where it was a copy; a source is none.
            let named = upstream == Upstream::This && namespace == "foo";
            let expected = if named { StaleCopy::Upstreams } else { StaleCopy::Others };
            let of_kind = |kind| stale_copy(&owner("u1"), &source, kind, &found.metadata);
            assert_eq!(of_kind(ObjectKind::CONFIG_MAP), expected, "{upstream:?} {namespace}");
            assert_eq!(of_kind(ObjectKind::SECRET), StaleCopy::Others, "upstream knew no Secrets");
        }
    }
}

#[test]
fn a_source_that_has_our_own_ownership_labels_is_not_taken_over_either() {
    let spec = valid(spec(&["foo"]));
    let finalizers = holds(UPSTREAM_FINALIZER);
    let mut marked = object(Ours::None, Upstream::This, ("foo", "settings"), "2", false);
    let itself = (SOURCE_ANNOTATION.to_owned(), "ConfigMap/foo/settings".to_owned());
    marked.metadata.annotations.get_or_insert_default().extend([itself]);
    let step =
        by_object(&desired("1"), upgrading(TakeOver::of(&spec, &resource(&finalizers))), Some(&marked));
    assert_eq!(step, CopyStep::Refuse(Foreign::Source));
}

fn any_object() -> impl Strategy<Value = Option<Object>> {
    let ours = prop_oneof![Just(Ours::None), Just(Ours::This), Just(Ours::Other)];
    let upstream = proptest::sample::select(UPSTREAM.to_vec());
    let namespace = proptest::sample::select(vec!["foo", "bar", "team-a"]);
    proptest::option::of((ours, upstream, namespace, "[12]", any::<bool>()).prop_map(
        |(ours, upstream, namespace, value, immutable)| {
            object(ours, upstream, (namespace, "settings"), &value, immutable)
        },
    ))
}

proptest! {
    #[test]
    fn only_our_own_objects_are_ever_written_but_for_those_taken_over_or_adopted(
        found in any_object(),
        is_upgrading: bool,
        adopts: bool,
    ) {
        let spec = valid(spec(&["foo"]));
        let finalizers = if is_upgrading { holds(UPSTREAM_FINALIZER) } else { holds(FINALIZER) };
        let takes = Takes { upstreams: TakeOver::of(&spec, &resource(&finalizers)), unlabeled: adopts, immutable: false };
        let step = by_object(&desired("1"), takes, found.as_ref());
        match (&step, &found) {
            (CopyStep::Create, found) => prop_assert!(found.is_none()),
            (CopyStep::Update(PreviousOwner::Ours, meta) | CopyStep::Replace(meta), Some(found)) => {
                prop_assert_eq!(ownership(&owner("u1"), meta), Ownership::Ours);
                prop_assert_eq!(&**meta, &found.metadata);
            }
            (CopyStep::Update(PreviousOwner::Theirs, meta), Some(found)) => {
                prop_assert!(adopts && desired("1").fits(found));
                prop_assert_eq!(ownership(&owner("u1"), meta), Ownership::Unlabeled);
                prop_assert_eq!(&**meta, &found.metadata);
            }
            (CopyStep::Update(PreviousOwner::Upstreams, meta), Some(found)) => {
                prop_assert!(is_upgrading && found.metadata.namespace.as_deref() == Some("foo"));
                prop_assert!(made_by_upstream(&owner("u1"), meta) && desired("1").fits(found));
                prop_assert_eq!(ownership(&owner("u1"), meta), Ownership::Unlabeled);
                prop_assert_eq!(&**meta, &found.metadata);
            }
            (CopyStep::Keep, Some(found)) => prop_assert!(desired("1").equals(found)),
            (CopyStep::Refuse(Foreign::Source), Some(found)) => {
                prop_assert_eq!(found.metadata.namespace.as_deref(), Some("team-a"));
            }
            (CopyStep::Refuse(Foreign::Unlabeled), Some(_)) => prop_assert!(!adopts),
            (CopyStep::Refuse(Foreign::Unfit), Some(found)) => prop_assert!(adopts && !desired("1").fits(found)),
            (CopyStep::Refuse(_), Some(found)) => {
                prop_assert_ne!(ownership(&owner("u1"), &found.metadata), Ownership::Ours);
            }
            (step, found) => prop_assert!(false, "{step:?} for {found:?}"),
        }
    }

    #[test]
    fn an_update_leads_to_keep(found in any_object()) {
        let spec = valid(spec(&["foo"]));
        let finalizers = holds(UPSTREAM_FINALIZER);
        let upgrade = upgrading(TakeOver::of(&spec, &resource(&finalizers)));
        if let CopyStep::Update(_, meta) = by_object(&desired("1"), upgrade, found.as_ref()) {
            let written = updated(&desired("1"), &meta);
            prop_assert_eq!(by_object(&desired("1"), upgrade, Some(&written)), CopyStep::Keep);
        }
    }
}

/// This upgrade, and no adoption.
fn upgrading(upstreams: Option<TakeOver<'_>>) -> Takes<'_> {
    Takes { upstreams, ..Takes::default() }
}

/// A resource with these finalizers whose source was noted when it was first seen.
fn resource(finalizers: &[String]) -> ObjectMeta {
    ObjectMeta {
        finalizers: Some(finalizers.to_vec()),
        annotations: Some([(UPSTREAM_SOURCE_ANNOTATION.to_owned(), "team-a/settings".to_owned())].into()),
        ..ObjectMeta::default()
    }
}

#[test]
fn upstreams_ownership_labels_do_not_count_once_the_source_is_another_one() {
    let spec = valid(spec(&["foo"]));
    let mut moved = spec.clone();
    moved.source_namespace = "baz".into();
    let resource = resource(&holds(UPSTREAM_FINALIZER));
    assert!(TakeOver::of(&spec, &resource).is_some());
    assert!(TakeOver::of(&moved, &resource).is_none(), "its former source may be among its targets now");
    let unseen = ObjectMeta { annotations: None, ..resource };
    assert!(TakeOver::of(&spec, &unseen).is_none(), "the source is noted before anything is taken over");
}

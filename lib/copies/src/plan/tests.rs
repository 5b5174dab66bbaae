use std::collections::BTreeMap;

use weaver_api::v1beta1::Source;

use super::*;
use crate::content::Content;
use crate::metadata::Metadata;
use crate::specs::{created, spec, valid};

pub fn owner(uid: &str) -> Owner {
    Owner { namespace: "team-a".into(), name: "settings".into(), uid: uid.into() }
}

pub fn desired(value: &str) -> DesiredCopy {
    desired_of(owner("u1"), value)
}

pub fn desired_of(owner: Owner, value: &str) -> DesiredCopy {
    let data = Some(BTreeMap::from([("a".into(), value.into())]));
    let source = Object { data, ..Object::default() };
    let metadata =
        Metadata::new(&owner, "ConfigMap/team-a/settings", &source.metadata, &valid(spec(&["foo"])));
    DesiredCopy::new(owner, ObjectKind::CONFIG_MAP, "settings", metadata, Content::of(&source))
}

pub fn stored(mut object: Object, uid: &str, version: &str) -> Object {
    object.metadata.uid = Some(uid.into());
    object.metadata.resource_version = Some(version.into());
    object
}

fn foreign_object() -> Object {
    stored(
        Object {
            metadata: ObjectMeta { name: Some("settings".into()), ..ObjectMeta::default() },
            data: created(&desired("1"), "foo").data,
            ..Object::default()
        },
        "theirs",
        "1",
    )
}

#[test]
fn what_was_there_before_and_what_has_data_is_never_deleted_to_be_made_again() {
    let made = created(&desired("1"), "foo").metadata;
    let adopted = crate::metadata::adopted(made.clone());
    let mut claim = desired("1");
    claim.kind = ObjectKind::served("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
    let of_another = desired_of(owner("u2"), "1");
    for (desired, seen, why) in [
        (desired("1"), &made, None),
        (desired("1"), &adopted, Some("it was there before")),
        (of_another, &made, Some("it was there before")),
        (claim, &made, Some("its data would be lost")),
    ] {
        let found = keeps_from_replacing(&desired, seen);
        assert_eq!(found.is_some(), why.is_some(), "{found:?}");
        assert!(found.unwrap_or_default().starts_with(why.unwrap_or_default()), "{found:?}");
    }
}

#[test]
fn an_unchanged_copy_is_kept_without_reading_it() {
    let copy = stored(created(&desired("1"), "foo"), "c", "5");
    let known = Verified::new(&copy.metadata, &desired("1"), None).unwrap();
    let meta = Arc::new(copy.metadata);
    assert_eq!(by_metadata(&desired("1"), &SeenCopy::Object(meta.clone()), Some(&known)), CopyStep::Keep);
}

#[test]
fn an_edited_source_is_written_without_reading_the_copy() {
    let copy = stored(created(&desired("1"), "foo"), "c", "5");
    let known = Verified::new(&copy.metadata, &desired("1"), None).unwrap();
    let meta = Arc::new(copy.metadata);
    assert_eq!(
        by_metadata(&desired("2"), &SeenCopy::Object(meta.clone()), Some(&known)),
        CopyStep::Update(PreviousOwner::Ours, meta.clone())
    );
}

#[test]
fn an_edited_or_unknown_copy_is_read_first() {
    let copy = stored(created(&desired("1"), "foo"), "c", "6");
    let known = Verified {
        resource_version: "5".into(),
        ..Verified::new(&copy.metadata, &desired("1"), None).unwrap()
    };
    let meta = Arc::new(copy.metadata);
    assert_eq!(by_metadata(&desired("1"), &SeenCopy::Object(meta.clone()), Some(&known)), CopyStep::Inspect);
    assert_eq!(by_metadata(&desired("1"), &SeenCopy::Object(meta.clone()), None), CopyStep::Inspect);
}

#[test]
fn without_the_source_a_copy_is_kept_where_it_is_kept_with_it() {
    let copy = stored(created(&desired("1"), "foo"), "c", "6");
    let own = Verified::new(&copy.metadata, &desired("1"), Some("5".to_owned())).unwrap();
    let other = Verified { uid: "another".into(), ..own.clone() };
    let shown = |version: &str| Arc::new(stored(created(&desired("1"), "foo"), "c", version).metadata);
    let foreign = ObjectMeta { labels: None, annotations: None, ..copy.metadata.clone() };
    let mut kept = 0;
    for seen in [
        SeenCopy::Unknown,
        SeenCopy::Nothing,
        SeenCopy::Object(shown("5")),
        SeenCopy::Object(shown("6")),
        SeenCopy::Metadata(shown("6")),
        SeenCopy::Object(shown("7")),
        SeenCopy::Object(Arc::new(foreign)),
    ] {
        for (known, wanted) in [(&own, "1"), (&own, "2"), (&other, "1")] {
            let desired = desired(wanted);
            let is_kept = is_kept(&desired.owner, desired.kind, &desired.digest, &seen, known);
            assert_eq!(is_kept, by_metadata(&desired, &seen, Some(known)) == CopyStep::Keep, "{seen:?}");
            kept += usize::from(is_kept);
        }
    }
    assert_eq!(kept, 3, "what it replaced, and itself, whole or in part");
}

/// The API server is slow to show large objects: each would be read once more.
#[test]
fn a_copy_whose_update_the_watch_does_not_show_yet_is_kept_without_reading_it() {
    let written = stored(created(&desired("2"), "foo"), "c", "6");
    let known = |replaced: &str| Verified::new(&written.metadata, &desired("2"), Some(replaced.to_owned()));
    let shown = SeenCopy::Object(Arc::new(stored(created(&desired("1"), "foo"), "c", "5").metadata));
    let step = |content, replaced| by_metadata(&desired(content), &shown, known(replaced).as_ref());
    assert_eq!(step("2", "5"), CopyStep::Keep);
    assert_eq!(step("2", "4"), CopyStep::Inspect, "someone wrote it since");
    assert_eq!(step("3", "5"), CopyStep::Inspect, "the source was edited again");
    let another =
        SeenCopy::Object(Arc::new(stored(created(&desired("1"), "foo"), "made-again", "5").metadata));
    assert_eq!(by_metadata(&desired("2"), &another, known("5").as_ref()), CopyStep::Inspect);
}

#[test]
fn what_a_dead_watch_showed_last_decides_nothing() {
    let copy = stored(created(&desired("1"), "foo"), "c", "5");
    let known = Verified::new(&copy.metadata, &desired("1"), None);
    assert_eq!(by_metadata(&desired("1"), &SeenCopy::Unknown, known.as_ref()), CopyStep::Inspect);
}

#[test]
fn a_foreign_object_is_refused_even_if_its_content_is_equal() {
    assert_eq!(
        by_object(&desired("1"), Takes::default(), Some(&foreign_object())),
        CopyStep::Refuse(Foreign::Unlabeled)
    );
}

fn copy_of_another() -> Object {
    let other = Owner { namespace: "team-b".into(), name: "other".into(), uid: "u2".into() };
    stored(created(&desired_of(other, "1"), "foo"), "c", "1")
}

#[test]
fn a_copy_of_another_resource_is_refused() {
    let found = copy_of_another();
    let refused =
        CopyStep::Refuse(Foreign::Other { holder: "ConfigMapSync team-b/other".into(), uid: "u2".into() });
    assert_eq!(by_object(&desired("1"), Takes::default(), Some(&found)), refused);
    assert_eq!(by_metadata(&desired("1"), &SeenCopy::Object(Arc::new(found.metadata)), None), refused);
}

#[test]
fn a_secret_that_a_service_token_fills_is_nobodys_to_adopt() {
    let mut found = foreign_object();
    let annotation = ("weaver.example.com/token".to_owned(), "team-b/tokens/u9".to_owned());
    found.metadata.annotations.get_or_insert_default().extend([annotation]);
    let takes = Takes { unlabeled: true, ..Takes::default() };
    let refused = CopyStep::Refuse(Foreign::Tokens("ServiceToken team-b/tokens".into()));
    assert_eq!(by_object(&desired("1"), takes, Some(&found)), refused);
}

#[test]
fn copies_of_a_resource_that_is_gone_are_those_of_its_name_and_no_one_elses() {
    let dead = |namespace: &str, name: &str| {
        let owner = Owner { namespace: namespace.into(), name: name.into(), uid: "dead".into() };
        stored(created(&desired_of(owner, "1"), "foo"), "c", "1")
    };
    for (namespace, name, taken) in [
        ("team-a", "settings", true),
        ("team-a", "other", false),
        ("team-b", "settings", false),
        ("team-b", "other", false),
    ] {
        for immutable in [None, Some(true)] {
            let found = Object { immutable, ..dead(namespace, name) };
            for unlabeled in [false, true] {
                let takes = Takes { unlabeled, ..Takes::default() };
                let step = by_object(&desired("2"), takes, Some(&found));
                let writes = matches!(step, CopyStep::Update(PreviousOwner::Ours, _) | CopyStep::Replace(_));
                let refuses = matches!(&step, CopyStep::Refuse(Foreign::Other { uid, .. }) if uid == "dead");
                assert_eq!((writes, refuses), (taken, !taken), "{namespace}/{name} {takes:?}: {step:?}");
            }
            let seen = SeenCopy::Object(Arc::new(found.metadata));
            let by_watch = by_metadata(&desired("2"), &seen, None);
            assert_eq!(by_watch == CopyStep::Inspect, taken, "{namespace}/{name}: {by_watch:?}");
        }
    }
}

#[test]
fn what_an_earlier_resource_of_the_same_name_left_behind_is_not_removed() {
    let (kind, source) = (ObjectKind::CONFIG_MAP, SpecSource::from(&Source::default()));
    let mut copy = created(&desired_of(owner("dead"), "1"), "foo").metadata;
    assert_eq!(stale_copy(&owner("u1"), &source, kind, &copy), StaleCopy::Others);
    // Taken over, and then either its ownership label or its annotation was lost.
    copy.labels.get_or_insert_default().insert(weaver_api::ownership::SYNC_UID_LABEL.into(), "u1".into());
    assert_eq!(stale_copy(&owner("u1"), &source, kind, &copy), StaleCopy::Ours);
    copy = created(&desired("1"), "foo").metadata;
    copy.labels = None;
    assert_eq!(stale_copy(&owner("u1"), &source, kind, &copy), StaleCopy::Ours);
}

#[test]
fn content_of_an_immutable_copy_is_replaced() {
    let mut found = stored(created(&desired("1"), "foo"), "c", "1");
    found.immutable = Some(true);
    assert!(matches!(by_object(&desired("2"), Takes::default(), Some(&found)), CopyStep::Replace(_)));
}

/// kubernetes#118588: an immutable Secret that has a key without a value.
#[test]
fn labels_of_an_immutable_copy_are_updated_in_place() {
    let labelled = |label: &str| {
        let metadata = ObjectMeta {
            labels: Some(BTreeMap::from([("foo".into(), label.into())])),
            ..ObjectMeta::default()
        };
        let data = BTreeMap::from([("foo".into(), String::new()), ("one".into(), "dHdvCg==".into())]);
        let source = Object { metadata, data: Some(data), immutable: Some(true), ..Object::default() };
        let marks =
            Metadata::new(&owner("u1"), "Secret/team-a/settings", &source.metadata, &valid(spec(&["foo"])));
        DesiredCopy::new(owner("u1"), ObjectKind::SECRET, "settings", marks, Content::of(&source))
    };
    let found = stored(created(&labelled("bar"), "foo"), "c", "1");
    assert_eq!(found.immutable, Some(true));
    assert_eq!(by_object(&labelled("bar"), Takes::default(), Some(&found)), CopyStep::Keep);
    let step = by_object(&labelled("baz"), Takes::default(), Some(&found));
    assert!(matches!(step, CopyStep::Update(PreviousOwner::Ours, _)), "{step:?}");
}

#[test]
fn what_carries_no_mark_is_adopted_where_the_spec_says_so_and_nothing_else_is() {
    let adopting = Takes { unlabeled: true, ..Takes::default() };
    let found = foreign_object();
    let step = by_object(&desired("2"), adopting, Some(&found));
    assert_eq!(step, CopyStep::Update(PreviousOwner::Theirs, Arc::new(found.metadata.clone())));
    let step = by_object(&desired("2"), adopting, Some(&copy_of_another()));
    assert!(matches!(step, CopyStep::Refuse(Foreign::Other { .. })), "{step:?}");
    // It could only be deleted and made again.
    for (immutable, kind) in [(Some(true), None), (None, Some("Opaque".to_owned()))] {
        let unfit = Object { immutable, type_: kind, ..foreign_object() };
        assert_eq!(by_object(&desired("2"), adopting, Some(&unfit)), CopyStep::Refuse(Foreign::Unfit));
    }
}

/// Its owner protects it, or the source becomes a Secret of another type: deleted and made again, it would be lost with
/// what others had put on it.
#[test]
fn what_was_adopted_is_never_replaced() {
    let mut adopted = stored(created(&desired("1"), "foo"), "c", "5");
    adopted.metadata = crate::metadata::adopted(adopted.metadata);
    for (immutable, kind) in [(Some(true), None), (None, Some("Opaque".to_owned()))] {
        let unfit = Object { immutable, type_: kind, ..adopted.clone() };
        assert_eq!(
            by_object(&desired("2"), Takes::default(), Some(&unfit)),
            CopyStep::Refuse(Foreign::Unfit)
        );
    }
}

#[test]
fn the_source_is_never_removed_whatever_ownership_labels_it_has() {
    let kind = ObjectKind::CONFIG_MAP;
    let marked = |namespace: &str| created(&desired("1"), namespace).metadata;
    let source = |namespace: Option<&str>, name: Option<&str>| SpecSource {
        kind,
        namespace: namespace.map(Into::into),
        name: name.map(Into::into),
        names: Vec::new(),
        is_selected: false,
    };
    let named = source(Some("team-a"), Some("settings"));
    assert_eq!(stale_copy(&owner("u1"), &named, kind, &marked("foo")), StaleCopy::Ours);
    assert_eq!(stale_copy(&owner("u1"), &named, kind, &foreign_object().metadata), StaleCopy::Others);
    // Restored from one of its copies it has their ownership labels; and the spec may name another source by now,
    // or none.
    for source in [named.clone(), source(Some("team-a"), Some("other")), source(None, None)] {
        let found = stale_copy(&owner("u1"), &source, kind, &marked("team-a"));
        assert_eq!(found, StaleCopy::Others, "{source:?}");
    }
    // Where labels select the sources, any object that someone labelled may be one; a copy names its source.
    let selecting = SpecSource { is_selected: true, ..source(Some("team-a"), None) };
    let mut forged = marked("team-a");
    forged.annotations.as_mut().unwrap().remove(SOURCE_ANNOTATION);
    forged.name = Some("other".into());
    assert_eq!(stale_copy(&owner("u1"), &selecting, kind, &forged), StaleCopy::Others);
    assert_eq!(stale_copy(&owner("u1"), &source(Some("team-a"), None), kind, &forged), StaleCopy::Ours);
    let copy = ObjectMeta { name: Some("copy".into()), ..marked("team-a") };
    assert_eq!(stale_copy(&owner("u1"), &selecting, kind, &copy), StaleCopy::Ours);
    assert_eq!(stale_copy(&owner("u1"), &selecting, kind, &marked("team-a")), StaleCopy::Others);
    // Of the other kind it is not the source, and its ownership labels say so.
    assert_eq!(stale_copy(&owner("u1"), &named, ObjectKind::SECRET, &marked("team-a")), StaleCopy::Ours);
    let restored = stored(created(&desired("1"), "team-a"), "c", "1");
    assert_eq!(
        by_object(&desired("2"), Takes::default(), Some(&restored)),
        CopyStep::Refuse(Foreign::Source)
    );
}

/// What a watch keeps of a large object lacks labels and annotations of other people: written back, they would be lost.
#[test]
fn what_is_known_by_its_ownership_labels_alone_is_never_written_over_unread() {
    let copy = stored(created(&desired("1"), "foo"), "c", "5");
    let known = Verified::new(&copy.metadata, &desired("1"), None).unwrap();
    let seen = SeenCopy::Metadata(Arc::new(copy.metadata));
    for (wanted, known, expected) in [
        ("1", Some(&known), CopyStep::Keep),
        ("2", Some(&known), CopyStep::Inspect),
        ("1", None, CopyStep::Inspect),
    ] {
        assert_eq!(by_metadata(&desired(wanted), &seen, known), expected, "{wanted}");
    }
}

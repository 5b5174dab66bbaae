use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use weaver_api::ownership::{KEYS_ANNOTATION, Owner, Ownership, ownership};
use weaver_tenant::Account;

use super::*;

fn owner() -> Owner {
    Owner { namespace: "team-a".into(), name: "sync".into(), uid: "u1".into() }
}

/// A copy of [`owner`] with an annotation of so many bytes.
fn copy(name: &str, bytes: usize) -> ObjectMeta {
    let mut annotations = owner().annotations("ConfigMap/team-a/settings");
    annotations.insert("note".into(), "x".repeat(bytes));
    annotations.insert(KEYS_ANNOTATION.into(), "{}".into());
    ObjectMeta {
        name: Some(name.into()),
        namespace: Some("foo".into()),
        uid: Some("c1".into()),
        resource_version: Some("7".into()),
        labels: Some(owner().labels()),
        annotations: Some(annotations),
        ..ObjectMeta::default()
    }
}

#[test]
fn an_ordinary_copy_is_kept_whole_and_a_large_one_by_what_says_whose_it_is() {
    assert_eq!(
        WatchedObject::of(copy("a", 1_000), true).seen(),
        SeenCopy::Object(Arc::new(copy("a", 1_000)))
    );
    for (meta, may_be_whole) in [(copy("a", 250_000), true), (copy("a", 1_000), false)] {
        let held = WatchedObject::of(meta, may_be_whole);
        assert!(held.bytes() < 1_024, "{}", held.bytes());
        let SeenCopy::Metadata(kept) = held.seen() else { panic!("{held:?}") };
        assert_eq!(ownership(&owner(), &kept), Ownership::Ours);
        assert_eq!(Owner::of(&kept), Some(owner()));
        assert_eq!((kept.uid.as_deref(), kept.resource_version.as_deref()), (Some("c1"), Some("7")));
    }
}

/// Ownership annotations are text of the tenant's, too.
#[test]
fn nothing_that_a_tenant_can_write_is_kept_at_any_length() {
    let long = || "é".repeat(120_000);
    let mut meta = copy("a", 0);
    let annotations = meta.annotations.get_or_insert_default();
    for key in [SYNC_ANNOTATION, SOURCE_ANNOTATION, TOKEN_ANNOTATION, KEYS_ANNOTATION] {
        annotations.insert(key.into(), long());
    }
    meta.finalizers = Some(vec![long()]);
    meta.generate_name = Some(long());
    let stranger = OwnerReference { kind: long(), ..OwnerReference::default() };
    meta.owner_references = Some(vec![stranger; 50]);
    let kept = WatchedObject::of(meta, true);
    assert!(kept.bytes() < 1_024, "{kept:?}");
    // Its label still says so.
    assert_eq!(ownership(&owner(), &kept.meta()), Ownership::Ours);
}

/// A watch as an account of [`owner`]'s namespace.
fn on(selector: WatchSelector) -> WatchKey<ObjectKind> {
    WatchKey {
        account: Account { namespace: "team-a".into(), name: "sync".into() },
        uid: "u".into(),
        kind: ObjectKind::CONFIG_MAP,
        namespace: Some("foo".into()),
        selector,
    }
}

/// Only of its own copies does a tenant need the whole metadata.
#[test]
fn of_copies_that_another_tenant_made_the_ownership_labels_are_kept() {
    let copies = CopyWatches::new(Triggers::default());
    let mut theirs = copy("theirs", 9);
    let mark = (SYNC_ANNOTATION.to_owned(), "team-b/sync/uid".to_owned());
    theirs.annotations.get_or_insert_default().extend([mark]);
    let by_name = WatchSelector::Name("theirs".into());
    for (meta, selector, whole) in [
        (theirs.clone(), CopyWatches::selector(), false),
        (copy("ours", 9), CopyWatches::selector(), true),
        (theirs, by_name, true),
    ] {
        let held = copies.keep(&on(selector), meta);
        assert_eq!(matches!(held.seen(), SeenCopy::Object(_)), whole, "{held:?}");
        assert_eq!(held.meta().annotations.unwrap().contains_key("note"), whole);
    }
}

#[test]
fn a_copy_concerns_its_owner_and_a_source_all_who_read_it() {
    let copies = CopyWatches::new(Triggers::default());
    let concerned = |selector, meta| copies.concerned(&on(selector), &WatchedObject::of(meta, false));
    let owner = ResourceRef { namespace: "team-a".into(), name: "sync".into() };
    assert_eq!(concerned(CopyWatches::selector(), copy("a", 0)), Concerned::These(vec![owner]));
    assert_eq!(concerned(CopyWatches::selector(), ObjectMeta::default()), Concerned::These(Vec::new()));
    assert_eq!(concerned(WatchSelector::Name("a".into()), copy("a", 0)), Concerned::All);
    let by_labels = WatchSelector::Labels(format!("share=true,!{SYNC_UID_LABEL}"));
    assert_eq!(concerned(by_labels, ObjectMeta::default()), Concerned::All);
    assert_eq!(concerned(WatchSelector::All, copy("a", 0)), Concerned::These(Vec::new()));
}

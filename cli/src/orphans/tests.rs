use proptest::prelude::*;
use serde_json::{Value, json};
use weaver_diagnostics::finding_text::is_unprintable;

use super::*;

#[test]
fn a_copy_is_an_orphan_when_neither_its_uid_nor_its_name_lives() {
    let living =
        Living { uids: ["u1".to_owned()].into(), names: [("team-a".to_owned(), "sync".to_owned())].into() };
    let marked = |label: Value, sync: Value, source: &str| {
        serde_json::from_value::<ObjectMeta>(json!({
            "namespace": "foo", "name": "settings", "labels": {"weaver.example.com/sync-uid": label},
            "annotations": {"weaver.example.com/sync": sync, "weaver.example.com/source": source},
        }))
        .unwrap()
    };
    let away = "ConfigMap/team-a/settings";
    for (label, sync, source, expected) in [
        ("u1", json!("team-a/sync/u1"), away, None),
        // Restored from a backup: the resource has another uid now.
        ("u0", json!("team-a/sync/u0"), away, None),
        ("u0", json!("team-a/other/u0"), away, Some("ConfigMapSync team-a/other")),
        ("u0", json!("team-a/other/u1"), away, None),
        ("u0", json!("not ours"), away, Some("a ConfigMapSync with uid u0")),
        ("u0", json!("team-a/other/u0"), "ConfigMap/foo/settings", None),
    ] {
        let meta = marked(json!(label), sync.clone(), source);
        let key = ObjectKey::of(ObjectKind::CONFIG_MAP, &meta).unwrap();
        let found = living.orphan(Marked { key, meta }).map(|orphan| orphan.holder);
        assert_eq!(found.as_deref(), expected, "{label} {sync} {source}");
    }
}

#[test]
fn what_a_controller_made_of_a_copy_is_no_orphan_and_what_says_little_is_not_deleted() {
    let marked = |owners: Value, source: &str, sync: &str| {
        let meta: ObjectMeta = serde_json::from_value(json!({
            "namespace": "foo", "name": "tls", "labels": {"weaver.example.com/sync-uid": "u0"},
            "annotations": {"weaver.example.com/sync": sync, "weaver.example.com/source": source},
            "ownerReferences": owners,
        }))
        .unwrap();
        Marked { key: ObjectKey::of(ObjectKind::SECRET, &meta).unwrap(), meta }
    };
    let owner = |controller: bool| {
        json!([{"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "name": "tls", "uid": "c",
                "controller": controller}])
    };
    let living = Living { uids: BTreeSet::new(), names: BTreeSet::new() };
    for (owners, source, expected) in [
        (json!([]), "Secret/team-a/tls", true),
        (owner(false), "Secret/team-a/tls", true),
        (owner(true), "Secret/team-a/tls", false),
        (json!([]), "Certificate/team-a/tls", false),
    ] {
        let copy = marked(owners.clone(), source, "team-a/sync/u0");
        assert_eq!(living.orphan(copy).is_some(), expected, "{owners} {source}");
    }
    for (sync, words) in [
        ("team-a/sync/u0", None),
        ("team-a/sync/u9", Some("does not say whose copy it was")),
        ("", Some("does not say whose copy it was")),
    ] {
        let orphan = living.orphan(marked(json!([]), "Secret/team-a/tls", sync)).unwrap();
        let why = orphan.why_kept();
        assert_eq!(why.is_some(), words.is_some(), "{sync}: {why:?}");
        assert!(words.is_none_or(|words| why.unwrap().contains(words)), "{sync}");
    }
}

#[test]
fn a_name_is_obeyed_by_no_shell_and_forges_no_column() {
    let living = Living { uids: BTreeSet::new(), names: BTreeSet::new() };
    let orphan = |name: &str| {
        let meta: ObjectMeta = serde_json::from_value(json!({
            "namespace": "foo", "name": name, "labels": {"weaver.example.com/sync-uid": "u0"},
        }))
        .unwrap();
        let key = ObjectKey::of(ObjectKind::CONFIG_MAP, &meta).unwrap();
        living.orphan(Marked { key, meta }).unwrap()
    };
    let kept = orphan("a;reboot").why_kept().unwrap();
    assert!(kept.contains("`weaver orphans adopt 'ConfigMap/foo/a;reboot'`"), "{kept}");
    let line = orphan("a\tcopy of\u{1b}[2J").line();
    assert!(line.starts_with("ConfigMap/foo/a\\tcopy of\\u{1b}[2J\tcopy of"), "{line}");
    assert_eq!(line.matches('\t').count(), 2);
}

proptest! {
    #[test]
    fn no_annotation_is_obeyed_forges_a_line_or_a_column(
        text in "[\u{1b}\u{7}\r\n\t\u{9b}\u{202e}\u{2066}\u{200b}\u{2028}a-z/]{0,40}", sync in any::<String>(),
    ) {
        let meta: ObjectMeta = serde_json::from_value(json!({
            "namespace": "foo", "name": "settings", "labels": {"weaver.example.com/sync-uid": "u0"},
            "annotations": {"weaver.example.com/sync": sync + &text, "weaver.example.com/source": format!("ConfigMap/{text}")},
        }))
        .unwrap();
        let key = ObjectKey::of(ObjectKind::CONFIG_MAP, &meta).unwrap();
        let living = Living { uids: BTreeSet::new(), names: BTreeSet::new() };
        let line = living.orphan(Marked { key, meta }).unwrap().line();
        prop_assert!(!line.contains(|c| c != '\t' && is_unprintable(c)), "{line:?}");
        prop_assert_eq!(line.matches('\t').count(), 2);
    }
}

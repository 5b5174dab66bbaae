use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::kind::ObjectKind;
use crate::names::{dns_label, dns_subdomain};
use crate::v1beta1::{ConflictPolicy, DeletionPolicy, SourceDeletionPolicy};

/// A sound spec with `more` merged into it, one level deep.
fn spec(more: &Value) -> ConfigMapSyncSpec {
    let mut spec = json!({
        "serviceAccount": {"name": "sync"},
        "source": {"namespace": "team-a", "name": "settings"},
        "targets": {"namespaces": ["foo"]},
    });
    for (name, value) in more.as_object().unwrap() {
        spec[name] = value.clone();
    }
    serde_json::from_value(spec).unwrap()
}

fn targets(namespaces: &[&str], exclude: &[&str], name: Option<&str>) -> ConfigMapSyncSpec {
    spec(&json!({"targets": {"namespaces": namespaces, "exclude": exclude, "name": name}}))
}

fn faults(spec: &ConfigMapSyncSpec) -> Vec<String> {
    validate(Some(spec)).err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

fn faults_of_keys(keys: &Value) -> Vec<String> {
    faults(&spec(&json!({"keys": keys})))
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn a_missing_spec_source_or_target_is_named() {
    let found = faults(&ConfigMapSyncSpec::default());
    let fields = ["spec.serviceAccount.name", "spec.source.namespace", "spec.source.name", "spec.targets"];
    for (fault, field) in found.iter().zip(fields) {
        assert!(fault.starts_with(&format!("{field} is missing: ")), "{fault}");
    }
    assert_eq!(found.len(), 4);
    assert_eq!(found[0], "spec.serviceAccount.name is missing: name a ServiceAccount of this namespace");
    assert_eq!(validate(None), validate(Some(&ConfigMapSyncSpec::default())), "absent lacks all of it");
}

#[test]
fn an_empty_name_counts_as_missing() {
    let found =
        faults(&spec(&json!({"serviceAccount": {"name": ""}, "source": {"namespace": "", "name": ""}})));
    assert_eq!(found.len(), 3);
    assert!(found.iter().all(|fault| fault.contains(" is missing: ")), "{found:?}");
}

#[test]
fn a_target_of_300_characters_is_named_by_its_place() {
    let found = faults(&targets(&["foo", &"x".repeat(300)], &[], None));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("spec.targets.namespaces[1] \"xxx"), "{}", found[0]);
    assert!(found[0].contains("has 300 characters; at most 63"), "{}", found[0]);
    assert!(found[0].len() < 150, "{}", found[0]);
}

#[test]
fn a_target_that_stands_twice_is_named_by_its_place() {
    let found = faults(&targets(&["foo", "bar", "foo"], &[], None));
    assert_eq!(found, ["spec.targets.namespaces[2] \"foo\" is listed twice: list it once".to_owned()]);
}

#[test]
fn the_sources_own_namespace_is_never_a_target() {
    let valid = validate(Some(&targets(&["team-a", "foo"], &[], None))).unwrap();
    assert_eq!((valid.targets, valid.names_source_namespace), (set(&["foo"]), true));
    let valid = validate(Some(&targets(&["team-a", "foo"], &[], Some("settings")))).unwrap();
    assert_eq!((valid.targets, valid.names_source_namespace), (set(&["foo"]), true));
}

#[test]
fn a_copy_of_another_name_may_stand_next_to_its_source() {
    let valid = validate(Some(&targets(&["team-a", "foo"], &[], Some("copy")))).unwrap();
    assert_eq!((valid.copy_name("settings").as_str(), valid.source_name()), ("copy", Some("settings")));
    assert_eq!((valid.targets, valid.names_source_namespace), (set(&["team-a", "foo"]), false));
}

#[test]
fn an_excluded_namespace_is_no_target() {
    let valid = validate(Some(&targets(&["team-a", "foo", "bar"], &["bar", "team-a", "baz"], None))).unwrap();
    assert_eq!((valid.targets, valid.names_source_namespace), (set(&["foo"]), false));
    assert_eq!(valid.exclude, set(&["bar", "baz", "team-a"]));
}

#[test]
fn a_selector_alone_says_where_the_copies_go() {
    let valid = validate(Some(&spec(&json!({"targets": {"selector": {}}})))).unwrap();
    assert_eq!((valid.targets, valid.selector), (set(&[]), Some(Selector::default())));
}

#[test]
fn patterns_alone_say_where_the_copies_go() {
    let of = |patterns: &Value| validate(Some(&spec(&json!({"targets": {"patterns": patterns}}))));
    let valid = of(&json!(["app-*", "team-?"])).unwrap();
    assert!(valid.has_selection() && valid.targets.is_empty());
    assert!(valid.matches("app-1") && valid.matches("team-a") && !valid.matches("team-ab"));
    for (patterns, field) in [
        (json!([]), "spec.targets"),
        (json!(["app-*", "app"]), "spec.targets.patterns[1]"),
        (json!(["app-*", "app-*"]), "spec.targets.patterns[1]"),
        (json!(["^app-.+$"]), "spec.targets.patterns[0]"),
        (json!((0..33).map(|number| format!("a{number}*")).collect::<Vec<_>>()), "spec.targets.patterns"),
    ] {
        let found = of(&patterns).unwrap_err();
        assert_eq!((found.len(), found[0].field()), (1, field), "{patterns} {found:?}");
    }
}

#[test]
fn sources_are_named_or_selected_and_copies_are_called_in_one_way() {
    let labels = json!({"matchLabels": {"share": "true"}});
    let values: Vec<String> = (0..64).map(|number| format!("{number:063}")).collect();
    let expression = |key: u8| json!({"key": format!("a{key}"), "operator": "In", "values": values});
    let long = json!({"matchExpressions": [expression(1), expression(2), expression(3)]});
    for (source, targets, fields) in [
        (json!({"selector": labels}), json!({}), [].as_slice()),
        (json!({"selector": labels}), json!({"namePrefix": "a-", "nameSuffix": ".b"}), &[]),
        (json!({"name": "settings"}), json!({"namePrefix": "a-"}), &[]),
        (json!({}), json!({}), &["spec.source.name"]),
        (json!({"selector": {}}), json!({}), &["spec.source.selector"]),
        (json!({"name": "settings", "selector": labels}), json!({}), &["spec.source.name"]),
        (json!({"selector": labels}), json!({"name": "copy"}), &["spec.targets.name"]),
        (json!({"name": "settings"}), json!({"name": "copy", "nameSuffix": "-b"}), &["spec.targets.name"]),
        (
            json!({"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
            json!({}),
            &["spec.source.selector.matchExpressions[0].values"],
        ),
        (json!({"selector": long}), json!({}), &["spec.source.selector"]),
        (
            json!({"name": "settings"}),
            json!({"namePrefix": "-", "nameSuffix": "."}),
            &["spec.targets.namePrefix", "spec.targets.nameSuffix"],
        ),
    ] {
        let mut spec = spec(&json!({"targets": {"namespaces": ["foo"]}}));
        let mut parts = json!({"source": {"namespace": "team-a"}, "targets": {"namespaces": ["foo"]}});
        for (part, more) in [("source", &source), ("targets", &targets)] {
            parts[part].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        }
        spec.source = serde_json::from_value(parts["source"].clone()).unwrap();
        spec.targets = serde_json::from_value(parts["targets"].clone()).unwrap();
        let faults = validate(Some(&spec)).err().unwrap_or_default();
        let found: Vec<&str> = faults.iter().map(SpecFault::field).collect();
        assert_eq!(found, fields, "{source} {targets}");
    }
}

#[test]
fn the_namespace_of_selected_sources_gets_no_copies() {
    let mut spec = targets(&["team-a", "foo"], &[], None);
    let selector = json!({"namespace": "team-a", "selector": {"matchLabels": {"a": "b"}}});
    spec.source = serde_json::from_value(selector).unwrap();
    spec.targets.as_mut().unwrap().name_prefix = Some("a-".into());
    let valid = validate(Some(&spec)).unwrap();
    assert!(valid.names_source_namespace && valid.targets == set(&["foo"]), "{valid:?}");
    assert_eq!(valid.copy_name("x"), "a-x");
    for (copy, source) in [("a-x", Some("x")), ("a-", None), ("x", None), ("b-x", None)] {
        assert_eq!(valid.source_of(copy), source, "{copy}");
    }
    let named = validate(Some(&targets(&["foo"], &[], Some("copy")))).unwrap();
    assert_eq!((named.source_of("copy"), named.source_of("settings")), (Some("settings"), None));
}

#[test]
fn what_is_left_out_has_its_default() {
    let valid = validate(Some(&spec(&json!({})))).unwrap();
    assert_eq!(
        valid,
        ValidSync {
            account: "sync".into(),
            source_kind: ObjectKind::CONFIG_MAP,
            source_namespace: "team-a".into(),
            sources: Sources::Named("settings".into()),
            copy_names: CopyNames::Around(String::new(), String::new()),
            targets: set(&["foo"]),
            names_source_namespace: false,
            patterns: set(&[]),
            selector: None,
            exclude: set(&[]),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            merge: None,
            keys: Keys::default(),
            conflict_policy: ConflictPolicy::Refuse,
            immutable_policy: ImmutablePolicy::Replace,
            source_deletion_policy: SourceDeletionPolicy::Retain,
            deletion_policy: DeletionPolicy::Delete,
            resync: Duration::from_mins(10),
            suspend: false,
            dry_run: false,
        }
    );
}

#[test]
fn all_that_is_asked_for_is_carried_out() {
    let valid = validate(Some(&spec(&json!({
        "source": {"kind": "Secret", "namespace": "team-a", "name": "settings"},
        "targets": {"namespaces": ["foo"], "labels": {"tier": "web"}, "annotations": {"note": "x y"}},
        "keys": {"include": ["a", "b"], "rename": {"a": "b", "b": "a"}},
        "conflictPolicy": "Adopt", "sourceDeletionPolicy": "Delete", "deletionPolicy": "Orphan",
        "resyncSeconds": 60, "suspend": true, "dryRun": true,
    }))))
    .unwrap();
    let map = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    assert_eq!(valid.source_kind, ObjectKind::SECRET);
    assert_eq!((valid.labels, valid.annotations), (map("tier", "web"), map("note", "x y")));
    assert_eq!((valid.keys.include.len(), valid.keys.rename.len()), (2, 2));
    assert_eq!(
        (valid.conflict_policy, valid.source_deletion_policy, valid.deletion_policy),
        (ConflictPolicy::Adopt, SourceDeletionPolicy::Delete, DeletionPolicy::Orphan)
    );
    assert_eq!((valid.resync, valid.suspend, valid.dry_run), (Duration::from_mins(1), true, true));
}

#[test]
fn short_and_dotted_account_names_are_accepted() {
    for name in ["a", "0", "sa.v2", "x".repeat(253).as_str()] {
        assert_eq!(faults(&spec(&json!({"serviceAccount": {"name": name}}))), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn more_than_a_thousand_targets_are_refused() {
    let names: Vec<String> = (0..=MAX_NAMESPACES).map(|n| format!("ns-{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let remedy = "has 1001 entries; at most 1000 are allowed: use a second resource";
    assert_eq!(faults(&targets(&names, &[], None)), [format!("spec.targets.namespaces {remedy}")]);
    assert!(validate(Some(&targets(&names[1..], &[], None))).is_ok());
}

#[test]
fn every_fault_is_found_at_once_in_the_order_of_the_fields() {
    let found = faults(&spec(&json!({
        "serviceAccount": {"name": "Sync"},
        "source": {"namespace": "team.a", "name": "settings/x"},
        "targets": {
            "namespaces": ["foo", "-"], "exclude": ["*"], "name": "",
            "selector": {"matchLabels": {"a/b/c": "-"}, "matchExpressions": [{"key": "", "operator": "In"}]},
            "labels": {"weaver.example.com/x": "a b"}, "annotations": {"": "x"},
        },
        "keys": {"include": ["a b"], "exclude": [".."], "rename": {"c": ""}},
        "resyncSeconds": 61,
    })));
    let fields = [
        "spec.serviceAccount.name \"Sync\" is not a valid name: ",
        "spec.source.namespace \"team.a\" is not a valid name: ",
        "spec.source.name \"settings/x\" is not a valid name: ",
        "spec.targets.namespaces[1] \"-\" is not a valid name: ",
        "spec.targets.selector.matchLabels key \"a/b/c\" is not a valid key: ",
        "spec.targets.selector.matchLabels.a/b/c \"-\" is not a valid label value: ",
        "spec.targets.selector.matchExpressions[0].key \"\" is not a valid key: ",
        "spec.targets.selector.matchExpressions[0].values are none, but In and NotIn need one: ",
        "spec.targets.exclude[0] \"*\" is not a valid name: ",
        "spec.targets.name \"\" is empty",
        "spec.targets.labels key \"weaver.example.com/x\" belongs to ",
        "spec.targets.labels.weaver.example.com/x \"a b\" is not a valid label value: ",
        "spec.targets.annotations key \"\" is not a valid key: ",
        "spec.keys.include[0] \"a b\" is not a valid key: ",
        "spec.keys.exclude[0] \"..\" is not a valid key: ",
        "spec.keys.rename.c \"\" is empty",
        "spec.keys.rename.c is without effect: drop it, or add the key to spec.keys.include",
        "spec.resyncSeconds 61 is not allowed: write a multiple of 10 from 60 to 86400",
    ];
    for (fault, beginning) in found.iter().zip(fields) {
        assert!(fault.starts_with(beginning), "{fault}\n{beginning}");
    }
    assert_eq!(found.len(), fields.len(), "{found:#?}");
}

#[test]
fn reserved_keys_are_refused_each_by_its_name() {
    for key in ["configmapsync.io/owner-name", "cmsOwnerName", "kubernetes.io/x", "meta.helm.sh/release-name"]
    {
        for field in ["labels", "annotations"] {
            let found = faults(&spec(&json!({"targets": {"namespaces": ["foo"], field: {key: "x"}}})));
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(
                found[0].starts_with(&format!("spec.targets.{field} key {key:?} belongs to ")),
                "{found:?}"
            );
        }
    }
}

#[test]
fn two_keys_that_are_renamed_to_one_name_are_refused() {
    assert_eq!(
        faults_of_keys(&json!({"rename": {"a": "x", "b": "x"}})),
        ["spec.keys.rename.b \"x\" is the name of key \"a\" already: give each key a name of its own"]
    );
}

#[test]
fn a_key_renamed_to_one_that_is_copied_too_is_refused() {
    let found = faults_of_keys(&json!({"include": ["a", "b"], "rename": {"a": "b"}}));
    assert_eq!(
        found,
        ["spec.keys.rename.a \"b\" is the name of key \"b\" already: give each key a name of its own"]
    );
    for free in [
        json!({"include": ["a", "b"], "exclude": ["b"], "rename": {"a": "b"}}),
        json!({"include": ["a", "b"], "rename": {"a": "b", "b": "c"}}),
        json!({"include": ["a"], "rename": {"a": "b"}}),
        json!({"include": ["a"], "rename": {"a": "a"}}),
        json!({"rename": {"a": "b"}}),
    ] {
        assert_eq!(faults_of_keys(&free), Vec::<String>::new(), "{free}");
    }
}

#[test]
fn a_renamed_key_that_is_not_copied_is_refused() {
    assert_eq!(
        faults_of_keys(&json!({"exclude": ["a"], "rename": {"a": "b"}})),
        ["spec.keys.rename.a is without effect: drop it, or take the key out of spec.keys.exclude"]
    );
    assert_eq!(
        faults_of_keys(&json!({"include": ["b"], "rename": {"a": "c"}})),
        ["spec.keys.rename.a is without effect: drop it, or add the key to spec.keys.include"]
    );
}

#[test]
fn a_renaming_of_a_key_that_cannot_be_is_refused() {
    let found = faults_of_keys(&json!({"rename": {"a/b": "c"}}));
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("spec.keys.rename key \"a/b\" is not a valid key: "), "{}", found[0]);
}

#[test]
fn a_huge_key_or_value_does_not_fill_the_status() {
    let huge = "x".repeat(100_000);
    let found = faults(&spec(&json!({"targets": {"namespaces": [huge], "labels": {huge.as_str(): huge}}})));
    assert_eq!(found.len(), 3);
    assert!(found.iter().all(|fault| fault.len() < 600), "{found:?}");
}

proptest! {
    #[test]
    fn whatever_is_accepted_has_valid_names_and_never_the_source_for_a_target(
        namespaces in vec("[a-c.-]{0,3}|team-a|[a-z]{60,70}", 0..5),
        exclude in vec("[a-c]{1,2}|team-a", 0..3),
        name in option::of("[a-z.]{0,4}|settings"),
    ) {
        let spec = spec(&json!({"targets": {"namespaces": namespaces, "exclude": exclude, "name": name}}));
        if let Ok(valid) = validate(Some(&spec)) {
            prop_assert!(dns_subdomain(&valid.copy_name("settings")).is_ok());
            prop_assert!(valid.targets.iter().all(|target| dns_label(target).is_ok()));
            prop_assert!(valid.targets.is_disjoint(&valid.exclude));
            let is_source = |target: &String| {
                *target == valid.source_namespace && valid.copy_name("settings") == "settings"
            };
            prop_assert!(!valid.targets.iter().any(is_source));
            for namespace in &namespaces {
                let left_out = exclude.contains(namespace) || is_source(namespace);
                prop_assert_eq!(valid.targets.contains(namespace), !left_out);
            }
            let mut named = namespaces.iter().filter(|namespace| !exclude.contains(namespace));
            prop_assert_eq!(valid.names_source_namespace, named.any(is_source));
        }
    }

    #[test]
    fn whatever_is_accepted_gives_each_key_that_is_mentioned_a_name_of_its_own(
        include in proptest::collection::btree_set("[a-d]", 0..4),
        exclude in proptest::collection::btree_set("[a-d]", 0..2),
        rename in proptest::collection::btree_map("[a-d]", "[a-d]", 0..4),
    ) {
        let spec = spec(&json!({"keys": {"include": include, "exclude": exclude, "rename": rename}}));
        let copied = |key: &&String| {
            (include.is_empty() || include.contains(*key)) && !exclude.contains(*key)
        };
        let mentioned: BTreeSet<&String> = include.iter().chain(rename.keys()).filter(copied).collect();
        let names: BTreeSet<&String> = mentioned.iter().map(|key| rename.get(*key).unwrap_or(key)).collect();
        let right = names.len() == mentioned.len() && rename.keys().all(|key| copied(&key));
        prop_assert_eq!(validate(Some(&spec)).is_ok(), right);
    }
}

//! What matters of a namespace: whether a resource selects it, and whether it lets copies in and out. Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weaver_api::ownership::{ACCEPT_FROM_ANNOTATION, OFFER_TO_ANNOTATION, PAUSED_ANNOTATION};
use weaver_api::v1beta1::Selector;
use weaver_api::validate::ValidSync;

/// With its name, the API server labels each namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// What matters of a namespace.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Traits {
    /// It is being deleted.
    pub terminating: bool,
    pub labels: BTreeMap<String, String>,
    pub accept_from: Option<String>,
    pub offer_to: Option<String>,
    /// Value of [`PAUSED_ANNOTATION`]; it matters on the operator's own.
    pub paused: Option<String>,
}

impl Traits {
    /// Those of the namespace with this metadata.
    pub fn of(meta: &ObjectMeta) -> Self {
        let annotation = |key| meta.annotations.as_ref().and_then(|all| all.get(key)).cloned();
        Self {
            terminating: meta.deletion_timestamp.is_some(),
            labels: meta.labels.clone().unwrap_or_default(),
            accept_from: annotation(ACCEPT_FROM_ANNOTATION),
            offer_to: annotation(OFFER_TO_ANNOTATION),
            paused: annotation(PAUSED_ANNOTATION),
        }
    }

    /// Does the namespace's `accept-from` annotation allow copies from resources of the namespace `tenant`? It is a
    /// list of names with commas between; `none`, or any other value that is not a name, allows none. Without the
    /// annotation, RBAC alone decides.
    pub fn accepts(&self, tenant: &str) -> bool {
        is_named(self.accept_from.as_deref(), tenant)
    }

    /// Do those who answer for the namespace let copies of its objects into the namespace `target`? They say so as in
    /// [`Traits::accepts`].
    pub fn offers(&self, target: &str) -> bool {
        is_named(self.offer_to.as_deref(), target)
    }
}

/// Does an annotation name it, or is there none?
fn is_named(annotation: Option<&str>, wanted: &str) -> bool {
    annotation.is_none_or(|names| names.split(',').any(|name| name.trim() == wanted))
}

/// Does the spec select this namespace, by its name or its labels? One that is named besides is not selected, and the
/// source's own is not where a copy would be a source.
pub fn selects(spec: &ValidSync, name: &str, traits: &Traits) -> bool {
    let is_source = spec.spares_own_namespace() && name == spec.source_namespace;
    !is_source
        && !spec.targets.contains(name)
        && !spec.exclude.contains(name)
        && (spec.matches(name) || spec.selector.as_ref().is_some_and(|one| one.matches(&traits.labels)))
}

/// Is the account asked whether it may know of such a namespace? By how long that takes it could learn how many there
/// are; so no name that the spec has makes a difference, be it excluded, named besides or in a pattern. Where names
/// are selected, by patterns or by their label, all are asked about.
pub fn is_candidate(spec: &ValidSync, traits: &Traits) -> bool {
    let is_selected = |selector: &Selector| {
        selector.keys().any(|key| key == NAME_LABEL) || selector.matches(&traits.labels)
    };
    !spec.patterns.is_empty() || spec.selector.as_ref().is_some_and(is_selected)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::{Value, json};
    use weaver_api::validate::validate;

    use super::*;

    fn traits(labels: &[(&str, &str)]) -> Traits {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Traits { labels, ..Traits::default() }
    }

    fn spec(targets: &Value) -> ValidSync {
        let spec = json!({
            "serviceAccount": {"name": "sync"}, "source": {"namespace": "team-a", "name": "settings"},
            "targets": targets,
        });
        validate(Some(&serde_json::from_value(spec).unwrap())).unwrap()
    }

    #[test]
    fn a_namespace_lets_in_and_out_whom_its_annotations_name() {
        for (annotation, expected) in [
            (None, true),
            (Some("none"), false),
            (Some(""), false),
            (Some("team-a"), true),
            (Some("team-b, team-a"), true),
            (Some("team-b,team-aa"), false),
            (Some("*"), false),
            (Some("team-a;team-b"), false),
        ] {
            let traits = Traits { accept_from: annotation.map(Into::into), ..Traits::default() };
            assert_eq!(
                (traits.accepts("team-a"), traits.offers("team-a")),
                (expected, true),
                "{annotation:?}"
            );
            let traits = Traits { offer_to: annotation.map(Into::into), ..Traits::default() };
            assert_eq!(
                (traits.offers("team-a"), traits.accepts("team-a")),
                (expected, true),
                "{annotation:?}"
            );
        }
    }

    #[test]
    fn the_source_is_not_selected_unless_its_copy_has_another_name() {
        let everything = spec(&json!({"selector": {}}));
        assert!(!selects(&everything, "team-a", &traits(&[])));
        let renamed = spec(&json!({"selector": {}, "name": "copy"}));
        assert!(selects(&renamed, "team-a", &traits(&[])));
    }

    #[test]
    fn the_namespace_of_selected_sources_is_not_selected_whatever_copies_are_called() {
        let mut raw = json!({
            "serviceAccount": {"name": "sync"},
            "source": {"namespace": "team-a", "selector": {"matchLabels": {"a": "b"}}},
            "targets": {"selector": {}, "patterns": ["*"]},
        });
        for prefix in [Value::Null, json!("copy-of-")] {
            raw["targets"]["namePrefix"] = prefix;
            let spec = validate(Some(&serde_json::from_value(raw.clone()).unwrap())).unwrap();
            assert!(!selects(&spec, "team-a", &traits(&[])) && selects(&spec, "foo", &traits(&[])));
        }
    }

    #[test]
    fn a_pattern_selects_next_to_names_and_labels_and_less_than_is_excluded() {
        let spec = spec(&json!({
            "namespaces": ["app-1"], "patterns": ["app-*", "app-?", "team-*"], "exclude": ["app-3"],
            "selector": {"matchLabels": {"tier": "dev"}},
        }));
        for (name, labels, expected) in [
            ("app-1", [].as_slice(), false),
            ("app-2", &[], true),
            ("app-3", &[("tier", "dev")], false),
            ("app", &[], false),
            ("other", &[("tier", "dev")], true),
            ("other", &[], false),
            ("team-a", &[("tier", "dev")], false),
            ("team-b", &[], true),
        ] {
            assert_eq!(selects(&spec, name, &traits(labels)), expected, "{name} {labels:?}");
        }
    }

    proptest! {
        #[test]
        fn named_and_selected_make_up_what_a_naive_model_has(
            named in proptest::collection::btree_set("[a-f]", 0..4),
            exclude in proptest::collection::btree_set("[a-f]", 0..3),
            labels in proptest::collection::btree_map("[a-f]", "[xy]", 0..6),
        ) {
            let spec = spec(&json!({
                "namespaces": named, "exclude": exclude, "selector": {"matchLabels": {"tier": "x"}},
            }));
            let all: BTreeMap<&String, Traits> =
                labels.iter().map(|(name, tier)| (name, traits(&[("tier", tier)]))).collect();
            let selected = all.iter().filter(|(name, traits)| selects(&spec, name, traits));
            let found: BTreeSet<String> =
                selected.map(|(name, _)| (*name).clone()).chain(spec.targets.clone()).collect();
            let by_label = labels.iter().filter(|(_, tier)| *tier == "x").map(|(name, _)| name.clone());
            let model: BTreeSet<String> =
                named.union(&by_label.collect()).filter(|name| !exclude.contains(*name)).cloned().collect();
            prop_assert_eq!(found, model);
        }
    }
}

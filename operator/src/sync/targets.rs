//! Which namespaces a resource asks for, and which changes of a namespace concern it. Pure.
//!
//! Named namespaces are always tried, whether they exist or not. Of the selected ones a tenant learns only where its
//! account has a right; that is not known here ([`crate::tenant::Reach`]).

use weaver_api::v1beta1::{ConfigMapSync, Targets};
use weaver_api::validate::{ValidSync, validate};

use crate::watch::{NamespaceChange, Traits};

/// Does the spec select this namespace by its labels? One that is named besides is not selected, and the source's own
/// is not where the copy would be the source.
#[must_use]
pub fn selects(spec: &ValidSync, name: &str, traits: &Traits) -> bool {
    let is_source = spec.copy_name == spec.source_name && name == spec.source_namespace;
    !is_source
        && !spec.targets.contains(name)
        && !spec.exclude.contains(name)
        && spec.selector.as_ref().is_some_and(|selector| selector.matches(&traits.labels))
}

/// Does this change of a namespace matter to `sync`? It may be to hold a copy, or be the resource's own.
#[must_use]
pub fn concerns(sync: &ConfigMapSync, change: NamespaceChange<'_>) -> bool {
    if sync.metadata.namespace.as_deref() == Some(change.name) {
        return true;
    }
    // Most changes concern nobody; a list of a thousand names is not judged for each.
    let targets = sync.desired().and_then(|spec| spec.targets.as_ref());
    let may_concern = |targets: &Targets| {
        targets.selector.is_some() || targets.namespaces.iter().any(|name| name == change.name)
    };
    if !targets.is_some_and(may_concern) {
        return false;
    }
    let Ok(spec) = validate(sync.desired()) else { return false };
    let selected = |traits: Option<&Traits>| traits.is_some_and(|traits| selects(&spec, change.name, traits));
    let [before, now] = [change.before, change.now].map(selected);
    let but_labels =
        |traits: Option<&Traits>| traits.map(|traits| (traits.terminating, traits.accept_from.clone()));
    let moved = but_labels(change.before) != but_labels(change.now);
    before != now || (moved && (now || spec.targets.contains(change.name)))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::outcome::tests::valid;
    use super::*;

    fn traits(labels: &[(&str, &str)]) -> Traits {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Traits { labels, ..Traits::default() }
    }

    fn spec(targets: &Value) -> Value {
        json!({
            "serviceAccount": {"name": "sync"}, "source": {"namespace": "team-a", "name": "settings"},
            "targets": targets,
        })
    }

    fn sync(targets: &Value) -> ConfigMapSync {
        serde_json::from_value(json!({
            "metadata": {"namespace": "team-a", "name": "sync"}, "spec": spec(targets),
        }))
        .unwrap()
    }

    #[test]
    fn a_change_matters_to_those_it_concerns_and_to_nobody_else() {
        let dev = traits(&[("tier", "dev")]);
        let other = traits(&[("tier", "dev"), ("more", "1")]);
        let prod = traits(&[("tier", "prod")]);
        let going = Traits { terminating: true, ..dev.clone() };
        let closed = Traits { accept_from: Some("none".into()), ..dev.clone() };
        let named = json!({"namespaces": ["foo", "bar"], "exclude": ["bar", "baz"]});
        let selecting = json!({"selector": {"matchLabels": {"tier": "dev"}}, "exclude": ["bar"]});
        for (targets, name, before, now, expected) in [
            (&named, "foo", None, Some(&dev), true),
            (&named, "foo", Some(&dev), Some(&prod), false),
            (&named, "foo", Some(&dev), Some(&going), true),
            (&named, "foo", Some(&dev), Some(&closed), true),
            (&named, "bar", None, Some(&dev), false),
            (&named, "other", None, Some(&dev), false),
            (&named, "team-a", Some(&dev), Some(&going), true),
            (&selecting, "foo", None, Some(&dev), true),
            (&selecting, "foo", None, Some(&prod), false),
            (&selecting, "foo", Some(&dev), None, true),
            (&selecting, "foo", Some(&dev), Some(&prod), true),
            (&selecting, "foo", Some(&prod), Some(&dev), true),
            (&selecting, "foo", Some(&dev), Some(&other), false),
            (&selecting, "foo", Some(&dev), Some(&closed), true),
            (&selecting, "bar", None, Some(&dev), false),
        ] {
            let change = NamespaceChange { name, before, now };
            assert_eq!(concerns(&sync(targets), change), expected, "{targets} {change:?}");
        }
        let bare: ConfigMapSync =
            serde_json::from_value(json!({"metadata": {"namespace": "team-a", "name": "bare"}})).unwrap();
        let appears = |name| NamespaceChange { name, before: None, now: Some(&dev) };
        assert!(concerns(&bare, appears("team-a")) && !concerns(&bare, appears("foo")));
    }

    #[test]
    fn b3_the_source_is_not_selected_unless_its_copy_has_another_name() {
        let everything = valid(spec(&json!({"selector": {}})));
        assert!(!selects(&everything, "team-a", &traits(&[])));
        let renamed = valid(spec(&json!({"selector": {}, "name": "copy"})));
        assert!(selects(&renamed, "team-a", &traits(&[])));
    }

    proptest! {
        #[test]
        fn named_and_selected_make_up_what_a_naive_model_has(
            named in proptest::collection::btree_set("[a-f]", 0..4),
            exclude in proptest::collection::btree_set("[a-f]", 0..3),
            labels in proptest::collection::btree_map("[a-f]", "[xy]", 0..6),
        ) {
            let spec = valid(spec(&json!({
                "namespaces": named, "exclude": exclude, "selector": {"matchLabels": {"tier": "x"}},
            })));
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

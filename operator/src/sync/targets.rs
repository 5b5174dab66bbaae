//! Which namespaces a resource asks for, and which changes of a namespace concern it. Pure.
//!
//! Named namespaces are always tried, whether they exist or not. Of the selected ones a tenant learns only where its
//! account has a right; that is not known here ([`weaver_tenant::AccessCache`]).

use weaver_api::kind::ObjectKind;
use weaver_api::v1beta1::Targets;
use weaver_tenant::Account;

use super::declared::Declares;
use super::kinds::Kinds;
use crate::watch::NamespaceChange;
use weaver_copies::namespace::{Traits, selects};

/// What a change of a namespace causes for a resource.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Reaction {
    /// Nothing: it is no matter of the resource's.
    None,
    /// A reconciliation: it is the resource's own namespace.
    Reconcile,
    /// A reconciliation if this account has a right on this kind in the namespace ([`super::access_checks`]).
    ReconcileIfAllowed(Account, ObjectKind),
}

/// What this change of a namespace causes for `sync`: the namespace may be a target, or the resource's own.
pub fn reaction<K: Declares>(sync: &K, kinds: &Kinds, change: NamespaceChange<'_>) -> Reaction {
    let own = sync.meta().namespace.clone().unwrap_or_default();
    if own == change.name {
        return Reaction::Reconcile;
    }
    let offer = |traits: Option<&Traits>| traits.map(|traits| traits.offer_to.clone());
    let spec = sync.asked();
    let source = spec.as_ref().and_then(|spec| spec.source.as_ref()?.namespace.as_deref());
    let offers_otherwise = source == Some(change.name) && offer(change.before) != offer(change.now);
    // Most changes concern no resource; a list of a thousand names is not judged for each.
    let targets = spec.as_ref().and_then(|spec| spec.targets.as_ref());
    let may_concern = |targets: &Targets| {
        targets.has_selection() || targets.namespaces.iter().any(|name| name == change.name)
    };
    if !offers_otherwise && !targets.is_some_and(may_concern) {
        return Reaction::None;
    }
    let Ok(declared) = sync.valid() else { return Reaction::None };
    // What it does not know yet, it has not copied.
    let Some(kind) = kinds.known(&declared.kind) else { return Reaction::None };
    let spec = declared.of(kind);
    let selected = |traits: Option<&Traits>| traits.is_some_and(|traits| selects(&spec, change.name, traits));
    let [before, now] = [change.before, change.now].map(selected);
    let but_labels =
        |traits: Option<&Traits>| traits.map(|traits| (traits.terminating, traits.accept_from.clone()));
    let moved = but_labels(change.before) != but_labels(change.now);
    // Of one that is suspended nothing is done whose effect could be seen.
    let concerns =
        before != now || offers_otherwise || (moved && (now || spec.targets.contains(change.name)));
    if concerns && !spec.suspend {
        Reaction::ReconcileIfAllowed(Account { namespace: own, name: spec.account }, spec.source_kind)
    } else {
        Reaction::None
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use weaver_api::v1beta1::ConfigMapSync;

    use super::*;

    fn traits(labels: &[(&str, &str)]) -> Traits {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Traits { labels, ..Traits::default() }
    }

    fn spec(targets: &Value) -> Value {
        json!({
            "serviceAccount": {"name": "sync"}, "source": {"namespace": "shared", "name": "settings"},
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
    fn a_change_matters_to_those_it_concerns_and_to_no_one_else() {
        use Reaction::{None as Nothing, Reconcile};
        let asks = || {
            Reaction::ReconcileIfAllowed(
                Account { namespace: "team-a".into(), name: "sync".into() },
                ObjectKind::CONFIG_MAP,
            )
        };
        let dev = traits(&[("tier", "dev")]);
        let other = traits(&[("tier", "dev"), ("more", "1")]);
        let prod = traits(&[("tier", "prod")]);
        let going = Traits { terminating: true, ..dev.clone() };
        let closed = Traits { accept_from: Some("none".into()), ..dev.clone() };
        let offers = Traits { offer_to: Some("foo".into()), ..dev.clone() };
        let named = json!({"namespaces": ["foo", "bar"], "exclude": ["bar", "baz"]});
        let selecting = json!({"selector": {"matchLabels": {"tier": "dev"}}, "exclude": ["bar"]});
        let matching = json!({"patterns": ["f*", "ba?"], "exclude": ["bar"]});
        for (targets, name, before, now, expected) in [
            (&named, "foo", None, Some(&dev), asks()),
            (&named, "foo", Some(&dev), Some(&prod), Nothing),
            (&named, "foo", Some(&dev), Some(&going), asks()),
            (&named, "foo", Some(&dev), Some(&closed), asks()),
            (&named, "bar", None, Some(&dev), Nothing),
            (&named, "other", None, Some(&dev), Nothing),
            (&named, "team-a", Some(&dev), Some(&going), Reconcile),
            (&selecting, "foo", None, Some(&dev), asks()),
            (&selecting, "foo", None, Some(&prod), Nothing),
            (&selecting, "foo", Some(&dev), None, asks()),
            (&selecting, "foo", Some(&dev), Some(&prod), asks()),
            (&selecting, "foo", Some(&prod), Some(&dev), asks()),
            (&selecting, "foo", Some(&dev), Some(&other), Nothing),
            (&selecting, "foo", Some(&dev), Some(&closed), asks()),
            (&selecting, "bar", None, Some(&dev), Nothing),
            (&named, "shared", None, Some(&dev), asks()),
            (&named, "shared", Some(&dev), Some(&offers), asks()),
            (&named, "shared", Some(&offers), Some(&dev), asks()),
            (&named, "shared", Some(&dev), Some(&closed), Nothing),
            (&named, "foo", Some(&dev), Some(&offers), Nothing),
            (&matching, "foo", None, Some(&dev), asks()),
            (&matching, "foo", Some(&dev), None, asks()),
            (&matching, "foo", Some(&dev), Some(&prod), Nothing),
            (&matching, "foo", Some(&dev), Some(&closed), asks()),
            (&matching, "bar", None, Some(&dev), Nothing),
            (&matching, "other", None, Some(&dev), Nothing),
            (&matching, "other", Some(&dev), Some(&closed), Nothing),
        ] {
            let change = NamespaceChange { name, before, now };
            let mut sync = sync(targets);
            assert_eq!(reaction(&sync, &Kinds::default(), change), expected, "{targets} {change:?}");
            // Suspended, it reacts to its own namespace alone.
            sync.spec.spec.as_mut().unwrap().suspend = true;
            let expected = if expected == Reconcile { Reconcile } else { Nothing };
            assert_eq!(reaction(&sync, &Kinds::default(), change), expected, "{targets} {change:?}");
        }
        let bare: ConfigMapSync =
            serde_json::from_value(json!({"metadata": {"namespace": "team-a", "name": "bare"}})).unwrap();
        let appears = |name| NamespaceChange { name, before: None, now: Some(&dev) };
        assert_eq!(reaction(&bare, &Kinds::default(), appears("team-a")), Reconcile);
        assert_eq!(reaction(&bare, &Kinds::default(), appears("foo")), Nothing);
    }
}

//! Which rights an account lacks for a ConfigMapSync, looked at with the rights of the person who types.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use weaver_api::validate::ValidSync;
use weaver_api::{OPERATOR_NAMESPACE, pattern};
use weaver_copies::namespace::{Traits, selects};
use weaver_copies::rights::{Right, for_source, for_target};
use weaver_tenant::Account;
use weaver_tenant::review::denied;

use crate::review;

/// Where to say what is worth a line next to the answer.
pub type Tell = fn(&str);

/// What an account lacks.
pub struct Missing {
    /// What a Role can grant.
    pub rights: BTreeSet<Right>,
    /// Whether the namespaces of all of them exist for certain.
    pub exist: bool,
    /// Whether it lacks any right, one in a namespace that does not exist too.
    pub any: bool,
}

/// Asks the API server.
///
/// # Errors
/// The API server cannot be asked, or does not let the person ask.
pub async fn named(
    client: &Client,
    account: &Account,
    spec: &ValidSync,
    targets: &BTreeSet<String>,
    tell: Tell,
) -> anyhow::Result<Missing> {
    let missing = denied(needed(spec, targets), |right| review::allowed(client, account, right)).await?;
    Ok(of(client, missing, tell).await)
}

/// What is to be granted: where the person may not ask, all that is needed.
///
/// # Errors
/// The API server cannot be asked.
pub async fn to_grant(
    client: &Client,
    account: &Account,
    spec: &ValidSync,
    targets: &BTreeSet<String>,
    tell: Tell,
) -> anyhow::Result<BTreeSet<Right>> {
    let kept_out: Vec<&str> =
        targets.iter().filter(|target| !is_granted(spec, target)).map(String::as_str).collect();
    if !kept_out.is_empty() {
        tell(&format!(
            "nothing is granted in {}: spec.targets selects them and does not name them; list them in \
             spec.targets.namespaces to grant rights there",
            kept_out.join(", ")
        ));
    }
    let missing = denied(needed(spec, targets), |right| review::known(client, account, right)).await?;
    Ok(of(client, missing, tell).await.rights)
}

/// In a namespace of Kubernetes or of the operator, a Role is not for those who wrote a pattern like `*` and thought of
/// their own.
fn is_granted(spec: &ValidSync, target: &str) -> bool {
    let is_system = target.starts_with("kube-") || target == OPERATOR_NAMESPACE;
    !is_system || spec.targets.contains(target)
}

/// Says of a namespace that does not exist that there is nothing to grant in it.
async fn of(client: &Client, missing: BTreeSet<Right>, tell: Tell) -> Missing {
    let any = !missing.is_empty();
    let presence = presence(client, &missing).await;
    for (namespace, presence) in &presence {
        match presence {
            Presence::There => {}
            Presence::Absent => tell(&format!(
                "namespace {namespace} does not exist: create it, or take it out of the spec; there is nothing to grant in it"
            )),
            Presence::Hidden(why) => {
                tell(&format!("it is unknown whether namespace {namespace} exists: {why}"));
            }
        }
    }
    let (rights, exist) = grantable(missing, &presence);
    Missing { rights, exist, any }
}

/// A namespace, as the person who types may see it.
#[derive(Debug, Eq, PartialEq)]
enum Presence {
    There,
    Absent,
    /// The API server does not say. Why.
    Hidden(String),
}

/// Each namespace in which a right is missing.
async fn presence(client: &Client, missing: &BTreeSet<Right>) -> BTreeMap<String, Presence> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let names: BTreeSet<&String> = missing.iter().map(|right| &right.namespace).collect();
    let mut presence = BTreeMap::new();
    for name in names {
        let seen = match namespaces.get_metadata_opt(name).await {
            Ok(Some(_)) => Presence::There,
            Ok(None) => Presence::Absent,
            Err(error) => Presence::Hidden(error.to_string()),
        };
        presence.insert(name.clone(), seen);
    }
    presence
}

/// Those of the `missing` rights that a Role can grant, since a namespace that does not exist holds none; and
/// do all the others' namespaces exist for certain?
fn grantable(missing: BTreeSet<Right>, presence: &BTreeMap<String, Presence>) -> (BTreeSet<Right>, bool) {
    let of = |right: &Right| presence.get(&right.namespace);
    let grantable: BTreeSet<Right> =
        missing.into_iter().filter(|right| of(right) != Some(&Presence::Absent)).collect();
    let exist = grantable.iter().all(|right| of(right) == Some(&Presence::There));
    (grantable, exist)
}

/// Named and, as far as who types may list namespaces, selected ones.
pub async fn targets(client: &Client, spec: &ValidSync, tell: Tell) -> BTreeSet<String> {
    let mut targets = spec.targets.clone();
    if !spec.has_selection() {
        return targets;
    }
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match namespaces.list_metadata(&ListParams::default()).await {
        Ok(list) => {
            let selected = list.iter().filter(|namespace| {
                let traits = Traits::of(&namespace.metadata);
                !traits.terminating && selects(spec, &namespace.name_any(), &traits)
            });
            targets.extend(selected.map(kube::ResourceExt::name_any));
            for one in &spec.patterns {
                let count = targets.iter().filter(|target| pattern::matches(one, target)).count();
                tell(&format!("targets that match {one} now: {count}"));
            }
        }
        Err(error) => {
            tell(&format!("the selected namespaces could not be listed with your rights: {error}"));
        }
    }
    targets
}

fn needed(spec: &ValidSync, targets: &BTreeSet<String>) -> Vec<Right> {
    let source = for_source(spec.source_kind, &spec.source_namespace, &spec.source_name);
    let targets = targets.iter().filter(|target| is_granted(spec, target));
    let targets = targets.flat_map(|target| for_target(spec.source_kind, target));
    source.into_iter().chain(targets).collect()
}

#[cfg(test)]
mod tests {
    use weaver_api::v1beta1::SourceKind;
    use weaver_api::validate::validate;

    use super::*;

    #[test]
    fn a_pattern_asks_for_no_role_in_a_namespace_of_the_system() {
        let spec = |targets: serde_json::Value| {
            let spec = serde_json::json!({
                "serviceAccount": {"name": "sync"}, "source": {"namespace": "team-a", "name": "settings"},
                "targets": targets,
            });
            validate(Some(&serde_json::from_value(spec).unwrap())).unwrap()
        };
        let all = ["app", "config-weaver", "kube-public", "kube-system", "team-a"].map(str::to_owned).into();
        let namespaces = |spec: &ValidSync| -> BTreeSet<String> {
            needed(spec, &all).into_iter().map(|right| right.namespace).collect()
        };
        let selecting = spec(serde_json::json!({"patterns": ["*"]}));
        assert_eq!(namespaces(&selecting), ["app", "team-a"].map(str::to_owned).into());
        let named = spec(serde_json::json!({"patterns": ["*"], "namespaces": ["kube-public"]}));
        assert_eq!(namespaces(&named), ["app", "kube-public", "team-a"].map(str::to_owned).into());
    }

    #[test]
    fn no_role_is_printed_for_a_namespace_that_does_not_exist() {
        let missing = || -> BTreeSet<Right> {
            ["there", "absent", "hidden"]
                .into_iter()
                .flat_map(|name| for_target(SourceKind::ConfigMap, name))
                .collect()
        };
        let presence = |hidden: Presence| -> BTreeMap<String, Presence> {
            [("there", Presence::There), ("absent", Presence::Absent), ("hidden", hidden)]
                .map(|(name, presence)| (name.to_owned(), presence))
                .into()
        };
        for (hidden, printed, known) in [
            (Presence::Hidden("403".into()), vec!["hidden", "there"], false),
            (Presence::There, vec!["hidden", "there"], true),
            (Presence::Absent, vec!["there"], true),
        ] {
            let (grantable, exist) = grantable(missing(), &presence(hidden));
            let names: BTreeSet<&str> = grantable.iter().map(|right| right.namespace.as_str()).collect();
            assert_eq!((names.into_iter().collect::<Vec<_>>(), exist), (printed, known));
        }
    }
}

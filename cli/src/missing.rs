//! Which rights an account lacks for a ConfigMapSync, looked at with the rights of the person who types.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use weaver_api::validate::ValidSync;
use weaver_copies::namespace::{Traits, selects};
use weaver_copies::rights::{Right, for_source, for_target};
use weaver_tenant::Account;
use weaver_tenant::review::denied;

use crate::review;
use crate::stdout::say;

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
) -> anyhow::Result<Missing> {
    let missing = denied(needed(spec, targets), |right| review::allowed(client, account, right)).await?;
    Ok(of(client, missing).await)
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
) -> anyhow::Result<BTreeSet<Right>> {
    let missing = denied(needed(spec, targets), |right| review::known(client, account, right)).await?;
    Ok(of(client, missing).await.rights)
}

/// Says of a namespace that does not exist that there is nothing to grant in it.
async fn of(client: &Client, missing: BTreeSet<Right>) -> Missing {
    let any = !missing.is_empty();
    let presence = presence(client, &missing).await;
    for (namespace, presence) in &presence {
        match presence {
            Presence::There => {}
            Presence::Absent => say(format_args!(
                "namespace {namespace} does not exist: create it, or take it out of the spec; there is nothing to grant in it"
            )),
            Presence::Hidden(why) => {
                say(format_args!("it is unknown whether namespace {namespace} exists: {why}"));
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
pub async fn targets(client: &Client, spec: &ValidSync) -> BTreeSet<String> {
    let mut targets = spec.targets.clone();
    if spec.selector.is_none() {
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
        }
        Err(error) => {
            say(format_args!("the selected namespaces could not be listed with your rights: {error}"));
        }
    }
    targets
}

fn needed(spec: &ValidSync, targets: &BTreeSet<String>) -> Vec<Right> {
    let source = for_source(spec.source_kind, &spec.source_namespace, &spec.source_name);
    let targets = targets.iter().flat_map(|target| for_target(spec.source_kind, target));
    source.into_iter().chain(targets).collect()
}

#[cfg(test)]
mod tests {
    use weaver_api::v1beta1::SourceKind;

    use super::*;

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

//! Whether the rights of the user suffice to make what an account lacks. No more than a forecast, which
//! decides whether a button is shown: the API server judges each request again.

use std::collections::BTreeSet;

use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding};
use kube::{Client, Resource, ResourceExt as _};
use weaver_tenant::review::{Access, GroupResource, missing};

use crate::grant::GrantObject;

/// For a namespace in which everything is allowed, one question.
const EVERYTHING: &str = "*";

/// A right, as an access review names it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Needed(Access);

impl Needed {
    fn new(verb: &str, resource: GroupResource, namespace: String, name: Option<String>) -> Self {
        Self(Access { verb: verb.to_owned().into(), resource, namespace: Some(namespace), name })
    }
}

impl From<&Needed> for ResourceAttributes {
    fn from(needed: &Needed) -> Self {
        let mut attributes = Self::from(&needed.0);
        // A rule names both in one word.
        if let Some((resource, part)) = needed.0.resource.resource.split_once('/') {
            attributes.subresource = Some(part.to_owned());
            attributes.resource = Some(resource.to_owned());
        }
        attributes
    }
}

/// The rights that the user lacks to create these, as text; empty where they have all.
pub async fn lacking(client: &Client, parts: &[GrantObject]) -> anyhow::Result<Vec<String>> {
    let namespaces: BTreeSet<String> = parts.iter().map(namespace).collect();
    let everything = namespaces.into_iter().map(everything).collect();
    let limited: BTreeSet<String> =
        missing(client, everything).await?.into_iter().filter_map(|needed| needed.0.namespace).collect();
    let parts: Vec<&GrantObject> = parts.iter().filter(|part| limited.contains(&namespace(part))).collect();
    let lacking = missing(client, parts.iter().copied().flat_map(needed).collect()).await?;
    let instead = parts.iter().copied().flat_map(|part| instead(part, &lacking)).collect();
    let not_instead = missing(client, instead).await?;
    Ok(left(&parts, lacking, &not_instead).iter().map(|needed| needed.0.to_string()).collect())
}

/// The rights to grant more than one has: to write such a Role, and to bind it. Only where that matters.
fn instead(part: &GrantObject, lacking: &BTreeSet<Needed>) -> Vec<Needed> {
    let GrantObject::Role(role) = part else { return Vec::new() };
    let of = |verb| Needed::new(verb, resource_of::<Role>(), namespace(part), Some(role.name_any()));
    let is_needed = held(part).iter().any(|needed| lacking.contains(needed));
    if is_needed { vec![of("escalate"), of("bind")] } else { Vec::new() }
}

/// Those of the lacking rights that no other right replaces.
fn left(
    parts: &[&GrantObject],
    lacking: BTreeSet<Needed>,
    not_instead: &BTreeSet<Needed>,
) -> BTreeSet<Needed> {
    let is_free = |part: &&GrantObject| {
        let instead = instead(part, &lacking);
        !instead.is_empty() && instead.iter().all(|needed| !not_instead.contains(needed))
    };
    let (free, bound): (Vec<&GrantObject>, Vec<&GrantObject>) = parts.iter().copied().partition(is_free);
    let written = parts.iter().copied().flat_map(written_part);
    let bound: BTreeSet<Needed> = bound.into_iter().flat_map(held).chain(written).collect();
    let free: BTreeSet<Needed> = free.into_iter().flat_map(held).collect();
    lacking.into_iter().filter(|needed| bound.contains(needed) || !free.contains(needed)).collect()
}

fn namespace(part: &GrantObject) -> String {
    match part {
        GrantObject::Account(account) => account.namespace(),
        GrantObject::Role(role) => role.namespace(),
        GrantObject::Binding(binding) => binding.namespace(),
    }
    .unwrap_or_default()
}

fn everything(namespace: String) -> Needed {
    let resource = GroupResource { group: EVERYTHING.into(), resource: EVERYTHING.into() };
    Needed::new(EVERYTHING, resource, namespace, None)
}

/// To write it; and for a Role, to have what it grants, since no user may grant more except by [`instead`].
fn needed(part: &GrantObject) -> Vec<Needed> {
    written_part(part).into_iter().chain(held(part)).collect()
}

/// How it is made: a Role and a binding are applied, which creates them where they are not there.
fn written_part(part: &GrantObject) -> Vec<Needed> {
    let (resource, applied) = match part {
        GrantObject::Account(_) => (resource_of::<ServiceAccount>(), None),
        GrantObject::Role(role) => (resource_of::<Role>(), Some(role.name_any())),
        GrantObject::Binding(binding) => (resource_of::<RoleBinding>(), Some(binding.name_any())),
    };
    let patch = applied.map(|name| Needed::new("patch", resource.clone(), namespace(part), Some(name)));
    std::iter::once(Needed::new("create", resource, namespace(part), None)).chain(patch).collect()
}

/// What a Role grants.
fn held(part: &GrantObject) -> Vec<Needed> {
    let GrantObject::Role(role) = part else { return Vec::new() };
    let granted = role.rules.iter().flatten().flat_map(granted);
    granted.map(|(resource, verb, name)| Needed::new(verb, resource, namespace(part), name)).collect()
}

fn resource_of<K: Resource<DynamicType = ()>>() -> GroupResource {
    GroupResource::of::<K>(&())
}

/// Each right that a rule grants.
fn granted(rule: &PolicyRule) -> Vec<(GroupResource, &str, Option<String>)> {
    let names: Vec<Option<String>> = match rule.resource_names.as_deref() {
        None | Some([]) => vec![None],
        Some(names) => names.iter().cloned().map(Some).collect(),
    };
    let mut rights = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            for verb in &rule.verbs {
                let resource = GroupResource { group: group.clone(), resource: resource.clone() };
                rights.extend(names.iter().map(|name| (resource.clone(), verb.as_str(), name.clone())));
            }
        }
    }
    rights
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weaver_api::kind::ObjectKind;
    use weaver_api::minting;
    use weaver_copies::rights::{for_source, roles};
    use weaver_tenant::Account;

    use super::*;

    #[test]
    fn to_grant_takes_the_right_to_write_roles_and_to_hold_what_they_grant() {
        let account = Account { namespace: "team-a".into(), name: "sync".into() };
        let missing: BTreeSet<_> =
            for_source(ObjectKind::SECRET, "foo", Some("registry")).into_iter().collect();
        let (role, binding) = roles(&account, &missing).remove(0);
        let rights =
            |part: &GrantObject| needed(part).iter().map(|needed| needed.0.to_string()).collect::<Vec<_>>();
        let rbac = "rbac.authorization.k8s.io";
        let name = role.name_any();
        assert_eq!(
            rights(&GrantObject::Binding(binding)),
            [
                format!("create rolebindings.{rbac} in namespace foo"),
                format!("patch rolebindings.{rbac} \"{name}\" in namespace foo"),
            ]
        );
        assert_eq!(
            rights(&GrantObject::Role(role)),
            [
                format!("create roles.{rbac} in namespace foo"),
                format!("patch roles.{rbac} \"{name}\" in namespace foo"),
                "get secrets \"registry\" in namespace foo".to_owned(),
                "list secrets \"registry\" in namespace foo".to_owned(),
                "watch secrets \"registry\" in namespace foo".to_owned(),
            ]
        );
    }

    #[test]
    fn who_may_escalate_and_bind_need_not_hold_what_a_role_grants() {
        let account = Account { namespace: "team-a".into(), name: "sync".into() };
        let rights =
            ["foo", "bar"].map(|namespace| for_source(ObjectKind::SECRET, namespace, Some("registry")));
        let parts: Vec<GrantObject> = roles(&account, &rights.into_iter().flatten().collect())
            .into_iter()
            .flat_map(|(role, binding)| [GrantObject::Role(role), GrantObject::Binding(binding)])
            .collect();
        let parts: Vec<&GrantObject> = parts.iter().collect();
        let held = |verb: &str| {
            let all = parts.iter().copied().flat_map(needed);
            all.filter(|needed| needed.0.verb == verb).collect::<BTreeSet<_>>()
        };
        let rights =
            |found: BTreeSet<Needed>| found.iter().map(|needed| needed.0.to_string()).collect::<Vec<_>>();
        let asked: BTreeSet<Needed> =
            parts.iter().copied().flat_map(|part| instead(part, &held("get"))).collect();
        assert_eq!(asked.len(), 4, "{asked:?}");
        let of = |verb: &str, namespace: &str| {
            let is_it =
                |needed: &&Needed| needed.0.verb == verb && needed.0.namespace.as_deref() == Some(namespace);
            asked.iter().find(is_it).cloned().into_iter().collect::<BTreeSet<_>>()
        };
        let none = BTreeSet::new();
        assert_eq!(rights(left(&parts, held("get"), &none)), [""; 0]);
        // One of the two is not enough, and rights in one namespace do not count in another.
        for verb in ["escalate", "bind"] {
            let left = rights(left(&parts, held("get"), &of(verb, "foo")));
            assert_eq!(left, ["get secrets \"registry\" in namespace foo"], "{verb}");
        }
        // No other right replaces the one to write the Role.
        let create: BTreeSet<Needed> = held("create").into_iter().chain(held("get")).collect();
        let left = rights(left(&parts, create, &none));
        assert!(left.len() == 4 && left.iter().all(|right| right.starts_with("create role")), "{left:?}");
        assert!(
            parts.iter().copied().all(|part| instead(part, &none).is_empty()),
            "nothing is asked in vain"
        );
    }

    #[test]
    fn a_part_of_a_resource_is_asked_for_as_such() {
        let (role, _) = minting::grant("team-a", "sync");
        let needed = needed(&GrantObject::Role(role));
        let asked: Vec<ResourceAttributes> = needed.iter().map(ResourceAttributes::from).collect();
        let tokens = asked.last().unwrap();
        assert_eq!(tokens.resource.as_deref(), Some("serviceaccounts"));
        assert_eq!(tokens.subresource.as_deref(), Some("token"));
        assert_eq!((tokens.verb.as_deref(), tokens.name.as_deref()), (Some("create"), Some("sync")));
    }
}

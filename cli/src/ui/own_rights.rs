//! Whether the rights of the person suffice to make what an account lacks. No more than a forecast, which decides whether a
//! button is shown: the API server judges each request again.

use std::collections::BTreeSet;

use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding};
use kube::{Client, Resource, ResourceExt as _};
use weaver_tenant::review::{Access, GroupResource, missing};

use crate::grant::Part;

/// For a namespace in which everything is allowed, one question.
const EVERYTHING: &str = "*";

/// A right, as a review asks for it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Needed(Access);

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

/// What the person lacks to make these, in words; nothing where they can.
///
/// # Errors
/// The API server cannot be asked.
pub async fn lacking(client: &Client, parts: &[Part]) -> anyhow::Result<Vec<String>> {
    let namespaces: BTreeSet<String> = parts.iter().map(namespace).collect();
    let everything = namespaces.into_iter().map(everything).collect();
    let limited: BTreeSet<String> =
        missing(client, everything).await?.into_iter().filter_map(|needed| needed.0.namespace).collect();
    let needed = parts.iter().filter(|part| limited.contains(&namespace(part))).flat_map(needed).collect();
    Ok(missing(client, needed).await?.iter().map(|needed| needed.0.to_string()).collect())
}

fn namespace(part: &Part) -> String {
    match part {
        Part::Account(account) => account.namespace(),
        Part::Role(role) => role.namespace(),
        Part::Binding(binding) => binding.namespace(),
    }
    .unwrap_or_default()
}

fn everything(namespace: String) -> Needed {
    let resource = GroupResource { group: EVERYTHING.into(), resource: EVERYTHING.into() };
    Needed(Access { verb: EVERYTHING.into(), resource, namespace: Some(namespace), name: None })
}

/// To write it; and for a Role, to hold what it grants, since no one may grant more.
fn needed(part: &Part) -> Vec<Needed> {
    let namespace = namespace(part);
    let of = |resource: GroupResource, verb: &str, name: Option<&String>| {
        let (verb, name) = (verb.to_owned().into(), name.cloned());
        Needed(Access { verb, resource, namespace: Some(namespace.clone()), name })
    };
    match part {
        Part::Account(_) => vec![of(resource_of::<ServiceAccount>(), "create", None)],
        Part::Role(role) => {
            let writes = written(role).map(|(verb, name)| of(resource_of::<Role>(), verb, name.as_ref()));
            let granted = role.rules.iter().flatten().flat_map(granted);
            writes
                .into_iter()
                .chain(granted.map(|(resource, verb, name)| of(resource, verb, name.as_ref())))
                .collect()
        }
        Part::Binding(binding) => {
            let writes = written(binding);
            writes.map(|(verb, name)| of(resource_of::<RoleBinding>(), verb, name.as_ref())).into()
        }
    }
}

fn resource_of<K: Resource<DynamicType = ()>>() -> GroupResource {
    GroupResource::of::<K>(&())
}

/// How it is applied, which creates it where it is not there.
fn written(object: &impl kube::ResourceExt) -> [(&'static str, Option<String>); 2] {
    [("create", None), ("patch", Some(object.name_any()))]
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

    use weaver_api::minting;
    use weaver_api::v1beta1::SourceKind;
    use weaver_copies::rights::{for_source, roles};
    use weaver_tenant::Account;

    use super::*;

    #[test]
    fn to_grant_takes_the_right_to_write_roles_and_to_hold_what_they_grant() {
        let account = Account { namespace: "team-a".into(), name: "sync".into() };
        let missing: BTreeSet<_> =
            for_source(SourceKind::Secret, "foo", Some("registry")).into_iter().collect();
        let (role, binding) = roles(&account, &missing).remove(0);
        let words = |part: &Part| needed(part).iter().map(|needed| needed.0.to_string()).collect::<Vec<_>>();
        let rbac = "rbac.authorization.k8s.io";
        let name = role.name_any();
        assert_eq!(
            words(&Part::Binding(binding)),
            [
                format!("create rolebindings.{rbac} in namespace foo"),
                format!("patch rolebindings.{rbac} \"{name}\" in namespace foo"),
            ]
        );
        assert_eq!(
            words(&Part::Role(role)),
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
    fn a_part_of_a_resource_is_asked_for_as_such() {
        let (role, _) = minting::grant("team-a", "sync");
        let needed = needed(&Part::Role(role));
        let asked: Vec<ResourceAttributes> = needed.iter().map(ResourceAttributes::from).collect();
        let tokens = asked.last().unwrap();
        assert_eq!(tokens.resource.as_deref(), Some("serviceaccounts"));
        assert_eq!(tokens.subresource.as_deref(), Some("token"));
        assert_eq!((tokens.verb.as_deref(), tokens.name.as_deref()), (Some("create"), Some("sync")));
    }
}

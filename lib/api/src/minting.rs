//! The right to mint tokens for one account: a Role with `resourceNames` in the tenant's namespace.
//!
//! The operator has no right to mint by default. Anyone who owns the namespace grants it, per account, by these
//! two objects; `weaver tenant allow` writes them and a status that lacks them prints them.

use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{OPERATOR_ACCOUNT, OPERATOR_NAMESPACE};

/// What the names of the two begin with; that of the account follows.
const PREFIX: &str = "weaver-mint-";

/// Role and binding that let the operator mint tokens for `account` of `namespace`, and for no other.
pub fn grant(namespace: &str, account: &str) -> (Role, RoleBinding) {
    let metadata = ObjectMeta {
        name: Some(format!("{PREFIX}{account}")),
        namespace: Some(namespace.into()),
        ..ObjectMeta::default()
    };
    let role = Role {
        metadata: metadata.clone(),
        rules: Some(vec![PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["serviceaccounts/token".into()]),
            resource_names: Some(vec![account.into()]),
            verbs: vec!["create".into()],
            ..PolicyRule::default()
        }]),
    };
    let binding = RoleBinding {
        role_ref: RoleRef {
            api_group: String::from("rbac.authorization.k8s.io").into(),
            kind: "Role".into(),
            name: format!("{PREFIX}{account}"),
        },
        metadata,
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".into(),
            name: OPERATOR_ACCOUNT.into(),
            namespace: Some(OPERATOR_NAMESPACE.into()),
            ..Subject::default()
        }]),
    };
    (role, binding)
}

/// Is it called like a Role or a binding of [`grant`]? That alone does not make it ours.
pub fn is_named_like_ours(meta: &ObjectMeta) -> bool {
    granted_for(meta).is_some()
}

/// Is it the Role of a [`grant`], with its rules and no others?
pub fn is_granted(role: &Role) -> bool {
    granted_for(&role.metadata).is_some_and(|(granted, _)| granted.rules == role.rules)
}

/// Is it the binding of a [`grant`], for the operator alone?
pub fn is_bound(binding: &RoleBinding) -> bool {
    granted_for(&binding.metadata).is_some_and(|(_, granted)| {
        granted.role_ref == binding.role_ref && granted.subjects == binding.subjects
    })
}

/// The grant that has this name in this namespace.
fn granted_for(meta: &ObjectMeta) -> Option<(Role, RoleBinding)> {
    let account = meta.name.as_deref()?.strip_prefix(PREFIX)?;
    Some(grant(meta.namespace.as_deref()?, account))
}

/// The command that grants it.
pub fn command(namespace: &str, account: &str) -> String {
    format!("weaver tenant allow {namespace} {account}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grant_is_for_one_account_of_one_namespace() {
        let (role, binding) = grant("team-a", "sync");
        let rules = role.rules.unwrap();
        assert_eq!(rules.len(), 1);
        assert_eq!(rules[0].resource_names.as_deref(), Some(&["sync".to_owned()][..]));
        // The sub-resource is in the core group.
        assert_eq!(rules[0].api_groups.as_deref(), Some(&[String::new()][..]));
        assert_eq!(binding.metadata.namespace.as_deref(), Some("team-a"));
        assert_eq!(binding.role_ref.name, role.metadata.name.unwrap());
    }

    #[test]
    fn a_grant_is_known_again_and_one_that_someone_has_changed_is_not() {
        let (role, binding) = grant("team-a", "sync");
        assert!(is_granted(&role) && is_bound(&binding) && is_named_like_ours(&role.metadata));
        let mut wider = role.clone();
        wider.rules.as_mut().unwrap()[0].resource_names = None;
        let mut shared = binding.clone();
        shared.subjects.as_mut().unwrap().push(Subject { kind: "User".into(), ..Subject::default() });
        let mut elsewhere = binding;
        elsewhere.role_ref.name = "weaver-mint-other".into();
        let mut called_otherwise = role;
        called_otherwise.metadata.name = Some("mint-sync".into());
        assert!(
            !is_granted(&wider)
                && !is_bound(&shared)
                && !is_bound(&elsewhere)
                && !is_granted(&called_otherwise)
        );
        assert!(is_named_like_ours(&wider.metadata) && !is_named_like_ours(&called_otherwise.metadata));
    }
}

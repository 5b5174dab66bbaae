//! The right to mint tokens for one account: a Role with `resourceNames` in the tenant's namespace (R-T15).
//!
//! The operator holds no right to mint by default. Whoever owns the namespace grants it, per account, by these
//! two objects; `weaver tenant allow` writes them and a status that lacks them prints them.

use k8s_openapi::api::rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{OPERATOR_ACCOUNT, OPERATOR_NAMESPACE};

/// Role and binding that let the operator mint tokens for `account` of `namespace`, and for no other.
#[must_use]
pub fn grant(namespace: &str, account: &str) -> (Role, RoleBinding) {
    let metadata = ObjectMeta {
        name: Some(format!("weaver-mint-{account}")),
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
            api_group: Some("rbac.authorization.k8s.io".into()),
            kind: "Role".into(),
            name: format!("weaver-mint-{account}"),
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

/// The command that grants it.
#[must_use]
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
        // The sub-resource is in the core group; the notes this grew from had it elsewhere (requirements E1).
        assert_eq!(rules[0].api_groups.as_deref(), Some(&[String::new()][..]));
        assert_eq!(binding.metadata.namespace.as_deref(), Some("team-a"));
        assert_eq!(binding.role_ref.name, role.metadata.name.unwrap());
    }
}

//! What nodes that are no servers may do: write the NodeReport of their own name.
//!
//! The policy that limits each to its own (`deploy/admission/nodes.yaml`) is there before the rights
//! (`deploy/rbac/nodes.yaml`). The rights are ours like the policy: what differs is replaced. Failure: an
//! [`InstallError`]; what was written before stays.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Client;

use super::guard::{Guard, ensure, two_of};
use super::install::{InstallError, Installed};

const POLICY: &str = include_str!("../../../deploy/admission/nodes.yaml");
const RIGHTS: &str = include_str!("../../../deploy/rbac/nodes.yaml");

/// Of all four objects.
pub const NAME: &str = "weaver-node-reports";

/// The policy, as this program was built with it.
///
/// # Errors
/// The manifest does not parse; a test keeps that from being built.
pub fn built_in() -> Result<Guard, InstallError> {
    Guard::parse(POLICY)
}

/// Puts the policy into the API server, and then the rights.
pub(super) async fn install(client: &Client) -> Result<Vec<Installed>, InstallError> {
    let (role, binding): (ClusterRole, ClusterRoleBinding) = two_of(RIGHTS)?;
    let mut installed = built_in()?.install(client).await?;
    let rules = |found: &ClusterRole| {
        let with = ClusterRole { rules: role.rules.clone(), ..found.clone() };
        (found.rules != role.rules).then_some((with, "rules"))
    };
    installed.push(ensure(client, &role, rules).await?.0);
    let subjects = |found: &ClusterRoleBinding| {
        let with = ClusterRoleBinding { subjects: binding.subjects.clone(), ..found.clone() };
        (found.subjects != binding.subjects).then_some((with, "subjects"))
    };
    installed.push(ensure(client, &binding, subjects).await?.0);
    Ok(installed)
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt as _;
    use serde_json::json;

    use super::*;
    use crate::installer::fake_api::{FakeApi, Fate};
    use crate::installer::install::Outcome;

    const ROLE: &str = "clusterroles/weaver-node-reports";
    const BINDING: &str = "clusterrolebindings/weaver-node-reports";

    #[test]
    fn the_policy_refuses_what_it_cannot_judge_and_the_rights_are_what_the_agent_asks_for() {
        let Guard { policy, binding } = built_in().unwrap();
        assert_eq!((policy.name_any(), binding.name_any()), (NAME.into(), NAME.into()));
        assert_eq!(binding.spec.policy_name, NAME);
        assert_eq!(binding.spec.validation_actions, ["Deny"]);
        let spec = json!(policy.spec);
        assert_eq!(spec["failurePolicy"], "Fail");
        let rules = &spec["matchConstraints"]["resourceRules"];
        assert_eq!(rules[0]["apiVersions"], json!([weaver_api::crds::STORED]));
        assert_eq!(rules[0]["resources"], json!(["nodereports", "nodereports/status"]));
        assert_eq!(rules[0]["operations"], json!(["CREATE", "UPDATE"]));
        let (role, bound): (ClusterRole, ClusterRoleBinding) = two_of(RIGHTS).unwrap();
        assert_eq!((role.name_any(), bound.role_ref.name.as_str()), (NAME.into(), NAME));
        assert_eq!(bound.subjects.unwrap()[0].name, "system:nodes");
        let granted: Vec<_> =
            role.rules.unwrap().into_iter().map(|rule| (rule.resources, rule.verbs)).collect();
        let verbs = |verbs: &[&str]| verbs.iter().map(|verb| (*verb).to_owned()).collect::<Vec<_>>();
        let whole = (Some(vec!["nodereports".to_owned()]), verbs(&["get", "create", "patch"]));
        let status = (Some(vec!["nodereports/status".to_owned()]), verbs(&["patch"]));
        assert_eq!(granted, [whole, status], "no list, no watch, no deletion");
    }

    #[tokio::test]
    async fn the_policy_is_there_before_the_rights_and_what_was_changed_comes_back() {
        let api = FakeApi::new();
        install(&api.client()).await.unwrap();
        let order = api.with(|stored| std::mem::take(&mut stored.writes));
        let kinds = ["policies", "policybindings", "clusterroles", "clusterrolebindings"];
        assert_eq!(order.len(), kinds.len());
        assert!(order.iter().zip(kinds).all(|(write, kind)| write.ends_with(kind)), "{order:?}");

        let right = api.with(|stored| (stored.admission[ROLE].clone(), stored.admission[BINDING].clone()));
        api.with(|stored| {
            let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
            stored.admission.get_mut(ROLE).unwrap()["rules"] = everything;
            let everybody = json!([{"kind": "Group", "name": "system:authenticated"}]);
            stored.admission.get_mut(BINDING).unwrap()["subjects"] = everybody;
        });
        let second = install(&api.client()).await.unwrap();
        let outcomes: Vec<_> = second.iter().map(|installed| installed.outcome.clone()).collect();
        let replaced = |what: &str| Outcome::Replaced(vec![what.into()]);
        let unchanged = Outcome::Unchanged;
        assert_eq!(outcomes, [unchanged.clone(), unchanged, replaced("rules"), replaced("subjects")]);
        api.with(|stored| {
            assert_eq!(stored.admission[ROLE]["rules"], right.0["rules"]);
            assert_eq!(stored.admission[BINDING]["subjects"], right.1["subjects"]);
        });
    }

    #[tokio::test]
    async fn without_the_policy_no_node_gets_a_right() {
        let api = FakeApi::new();
        api.hook(|_, method, path| {
            let is_policy = *method == http::Method::POST && path.contains("validatingadmissionpolic");
            if is_policy { Fate::Refused(403, "no, says the server") } else { Fate::Answered }
        });
        install(&api.client()).await.unwrap_err();
        api.with(|stored| assert!(stored.admission.is_empty(), "{:?}", stored.admission));
    }
}

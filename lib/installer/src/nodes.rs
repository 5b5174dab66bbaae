//! What nodes that are no servers may do: write the NodeReport of their own name.
//!
//! The policy that limits each to its own (`deploy/admission/nodes.yaml`) is there before the rights
//! (`deploy/rbac/nodes.yaml`). The rights are ours like the policy: what differs is replaced. Failure: an
//! [`InstallError`]; what was written before stays.

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Client;
use kube::api::Api;
use weaver_client::call::lookup;

use super::guard::{Guard, two_of};
use super::report::{InstallError, Installed, failed};
use super::write::ensure;

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

/// Puts the rights into the API server, whose policy has to be there. A binding of another role gets no subject
/// of ours: nodes would have that role's rights.
pub(super) async fn install(client: &Client) -> Result<Vec<Installed>, InstallError> {
    let (role, binding): (ClusterRole, ClusterRoleBinding) = two_of(RIGHTS)?;
    let api: Api<ClusterRoleBinding> = Api::all(client.clone());
    let found = lookup(api.get(NAME)).await;
    let found = found.map_err(failed(format!("reading clusterrolebinding/{NAME}")))?;
    if let Some(other) = found.map(|found| found.role_ref).filter(|other| *other != binding.role_ref) {
        return Err(InstallError::OtherRole { name: NAME, role: format!("{} {}", other.kind, other.name) });
    }
    let rules = |found: &ClusterRole| {
        // An aggregated role has the rules of others.
        let same = found.rules == role.rules && found.aggregation_rule == role.aggregation_rule;
        let with = ClusterRole { metadata: found.metadata.clone(), ..role.clone() };
        (!same).then_some((with, "rules"))
    };
    let role = ensure(client, &role, rules).await?.0;
    let subjects = |found: &ClusterRoleBinding| {
        let with = ClusterRoleBinding { metadata: found.metadata.clone(), ..binding.clone() };
        (found.subjects != binding.subjects).then_some((with, "subjects"))
    };
    Ok(vec![role, ensure(client, &binding, subjects).await?.0])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::ResourceExt as _;
    use serde_json::json;

    use super::*;
    use crate::fake_api::{FakeApi, RequestFate};
    use crate::{InstallOptions, InstallOutcome, Prove, Webhook};

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
    async fn what_was_changed_comes_back() {
        let api = FakeApi::new();
        install(&api.client()).await.unwrap();

        let right = api.with(|stored| (stored.admission[ROLE].clone(), stored.admission[BINDING].clone()));
        api.with(|stored| {
            let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
            stored.admission.get_mut(ROLE).unwrap()["rules"] = everything;
            let others = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
            stored.admission.get_mut(ROLE).unwrap()["aggregationRule"] = others;
            let everybody = json!([{"kind": "Group", "name": "system:authenticated"}]);
            stored.admission.get_mut(BINDING).unwrap()["subjects"] = everybody;
        });
        let second = install(&api.client()).await.unwrap();
        let outcomes: Vec<_> = second.iter().map(|installed| installed.outcome.clone()).collect();
        let replaced = |what: &str| InstallOutcome::Replaced(vec![what.into()]);
        assert_eq!(outcomes, [replaced("rules"), replaced("subjects")]);
        api.with(|stored| {
            assert_eq!(stored.admission[ROLE]["rules"], right.0["rules"]);
            assert!(stored.admission[ROLE].get("aggregationRule").is_none());
            assert_eq!(stored.admission[BINDING]["subjects"], right.1["subjects"]);
        });
    }

    #[tokio::test]
    async fn without_the_policies_nothing_else_is_written_and_one_that_fails_keeps_no_other_out() {
        let api = FakeApi::new();
        api.hook(|stored, method, path| {
            let is_policy = *method == http::Method::POST && path.ends_with("/validatingadmissionpolicies");
            // The policy on accounts: nothing is there yet.
            if is_policy && stored.writes.is_empty() {
                RequestFate::Refused(403, "no, says the server")
            } else {
                RequestFate::Answered
            }
        });
        let webhook =
            Webhook { url: "https://127.0.0.1:1/convert".into(), service: None, ca_bundle: String::new() };
        let options =
            InstallOptions { prove: Prove::OnChange, ca_from: None, patience: Duration::from_millis(300) };
        let error = crate::install(&api.client(), &webhook, &options, |_| ()).await.unwrap_err();
        assert!(error.to_string().contains("no, says the server"), "{error}");
        api.with(|stored| {
            let written: Vec<_> = stored.admission.keys().cloned().collect();
            assert!(written.iter().all(|one| one.starts_with("validatingadmission")), "{written:?}");
            assert!(stored.definitions.is_empty(), "{written:?}");
        });
    }

    #[tokio::test]
    async fn a_binding_of_another_role_gets_no_subject_and_its_rights_go_to_no_node() {
        let api = FakeApi::new();
        install(&api.client()).await.unwrap();
        let theirs = api.with(|stored| {
            let binding = stored.admission.get_mut(BINDING).unwrap();
            binding["roleRef"]["name"] = json!("cluster-admin");
            binding["subjects"] = json!([]);
            binding.clone()
        });
        let error = install(&api.client()).await.unwrap_err();
        assert!(error.is_refusal());
        let message = error.to_string();
        assert!(
            message.contains("weaver-node-reports") && message.contains("ClusterRole cluster-admin"),
            "{message}"
        );
        assert!(message.contains("kubectl delete clusterrolebinding weaver-node-reports"), "{message}");
        api.with(|stored| assert_eq!(stored.admission[BINDING], theirs));
    }
}

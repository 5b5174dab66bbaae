//! An admission policy of ours, and the binding that puts it in force.
//!
//! The policy is ours: one that differs is replaced. The binding belongs to the administrator, who may turn
//! the policy off with it: a missing one is created, an existing one is left as it is. Failure: an
//! [`InstallError`]; what was written before stays.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::api::Api;
use kube::{Client, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::report::{InstallError, Installed};
use super::write::ensure;

/// The two objects, which have one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Guard {
    pub policy: ValidatingAdmissionPolicy,
    /// What puts them in force.
    pub binding: ValidatingAdmissionPolicyBinding,
}

/// State of a policy in a cluster.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PolicyState {
    /// It is in force, for all namespaces.
    InForce,
    /// This kind of the two is not there, so no request is refused.
    Absent(&'static str),
    /// Its rules are not those of this release.
    OtherRules,
    /// Its owner has turned it off, wholly or for some: in these words.
    Off(String),
}

impl Guard {
    /// Both, from a manifest of this repository.
    pub(super) fn parse(manifest: &str) -> Result<Self, InstallError> {
        let (policy, binding) = two_of(manifest)?;
        Ok(Self { policy, binding })
    }

    /// Judges what a cluster has.
    pub fn policy_state(
        &self,
        policy: Option<&ValidatingAdmissionPolicy>,
        binding: Option<&ValidatingAdmissionPolicyBinding>,
    ) -> PolicyState {
        let Some(policy) = policy else { return PolicyState::Absent("ValidatingAdmissionPolicy") };
        let Some(binding) = binding else { return PolicyState::Absent("ValidatingAdmissionPolicyBinding") };
        match self.off(binding) {
            Some(message) => PolicyState::Off(message),
            None if policy.spec != self.policy.spec => PolicyState::OtherRules,
            None => PolicyState::InForce,
        }
    }

    /// Asks a cluster, and judges what it has.
    ///
    /// # Errors
    /// It does not answer, or may not be asked.
    pub async fn asked(&self, client: &Client) -> kube::Result<PolicyState> {
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
        let policy = policies.get_opt(&self.policy.name_any()).await?;
        let binding = bindings.get_opt(&self.binding.name_any()).await?;
        Ok(self.policy_state(policy.as_ref(), binding.as_ref()))
    }

    /// In what the binding lets someone pass.
    fn off(&self, binding: &ValidatingAdmissionPolicyBinding) -> Option<String> {
        let spec = &binding.spec;
        if spec.policy_name != self.binding.spec.policy_name {
            return Some(format!("its binding refers to another policy: {}", spec.policy_name));
        }
        if !spec.validation_actions.iter().any(|action| action == "Deny") {
            let actions = spec.validation_actions.join(", ");
            return Some(format!(
                "the validationActions of its binding are [{actions}], so no request is refused"
            ));
        }
        spec.match_resources
            .as_ref()
            .map(|_| "its binding has matchResources, so it may not apply everywhere".into())
    }

    /// Puts the policy into the API server, and a binding where there is none.
    pub(super) async fn install(&self, client: &Client) -> Result<Vec<Installed>, InstallError> {
        let rules = |found: &ValidatingAdmissionPolicy| {
            let with = ValidatingAdmissionPolicy { spec: self.policy.spec.clone(), ..found.clone() };
            (found.spec != self.policy.spec).then_some((with, "rules"))
        };
        let (policy, _) = ensure(client, &self.policy, rules).await?;
        let (mut installed, binding) = ensure(client, &self.binding, |_| None).await?;
        installed
            .warnings
            .extend(self.off(&binding).map(|message| format!("left unchanged, although {message}")));
        Ok(vec![policy, installed])
    }
}

/// The two documents of a manifest that is built in.
pub(super) fn two_of<A, B>(manifest: &str) -> Result<(A, B), InstallError>
where
    A: DeserializeOwned,
    B: DeserializeOwned,
{
    let whole = manifest.split_once("\n---\n");
    let (first, second) = whole.ok_or_else(|| InstallError::BuiltIn("it has only one document".into()))?;
    Ok((built_in(first)?, built_in(second)?))
}

/// By way of a value: the parser of YAML would be compiled for each type within `T`, half a megabyte of program.
fn built_in<T: DeserializeOwned>(document: &str) -> Result<T, InstallError> {
    let value: Value =
        serde_saphyr::from_str(document).map_err(|error| InstallError::BuiltIn(error.to_string()))?;
    serde_json::from_value(value).map_err(|error| InstallError::BuiltIn(error.to_string()))
}

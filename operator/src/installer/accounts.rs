//! The admission policy by which only who may impersonate a ServiceAccount can name it: `deploy/admission/accounts.yaml`,
//! which has the rules and their reasons.
//!
//! The policy is ours: one that differs is replaced. Its binding belongs to whoever administrates the cluster, who turns
//! the policy off by it: it is made where there is none, and otherwise left as it is. Failure: an [`InstallError`]; what
//! was written before stays.

use std::fmt;

use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::api::{Api, PostParams};
use kube::{Client, Resource, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::MANAGER;
use super::install::{InstallError, Installed, Outcome, ROUNDS, failed};
use crate::tenant::call::{CallError, call, lookup};

const MANIFEST: &str = include_str!("../../../deploy/admission/accounts.yaml");

/// Of the policy and of its binding.
pub const NAME: &str = "weaver-accounts";

/// The two objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Accounts {
    /// The rules.
    pub policy: ValidatingAdmissionPolicy,
    /// What puts them in force.
    pub binding: ValidatingAdmissionPolicyBinding,
}

/// As this program was built with them.
///
/// # Errors
/// The manifest does not parse; a test keeps that from being built.
pub fn built_in() -> Result<Accounts, InstallError> {
    let whole = MANIFEST.split_once("\n---\n");
    let (policy, binding) = whole.ok_or_else(|| InstallError::BuiltIn("it has only one document".into()))?;
    let odd = |error: serde_saphyr::Error| InstallError::BuiltIn(error.to_string());
    Ok(Accounts {
        policy: serde_saphyr::from_str(policy).map_err(odd)?,
        binding: serde_saphyr::from_str(binding).map_err(odd)?,
    })
}

/// How a cluster stands to the policy.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Standing {
    /// It is in force, for all namespaces.
    InForce,
    /// This kind of the two is not there, so nobody is refused.
    Absent(&'static str),
    /// Its rules are not those of this release.
    OtherRules,
    /// Its owner has turned it off, wholly or for some: in these words.
    Off(String),
}

/// Judges what a cluster has.
#[must_use]
pub fn standing(
    built_in: &Accounts,
    policy: Option<&ValidatingAdmissionPolicy>,
    binding: Option<&ValidatingAdmissionPolicyBinding>,
) -> Standing {
    let Some(policy) = policy else { return Standing::Absent("ValidatingAdmissionPolicy") };
    let Some(binding) = binding else { return Standing::Absent("ValidatingAdmissionPolicyBinding") };
    match off(binding) {
        Some(words) => Standing::Off(words),
        None if policy.spec != built_in.policy.spec => Standing::OtherRules,
        None => Standing::InForce,
    }
}

/// In what the binding lets somebody pass.
fn off(binding: &ValidatingAdmissionPolicyBinding) -> Option<String> {
    let spec = &binding.spec;
    if spec.policy_name != NAME {
        return Some(format!("its binding puts another policy in force: {}", spec.policy_name));
    }
    if !spec.validation_actions.iter().any(|action| action == "Deny") {
        let actions = spec.validation_actions.join(", ");
        return Some(format!("the validationActions of its binding are [{actions}], so nobody is refused"));
    }
    spec.match_resources
        .as_ref()
        .map(|_| "its binding has matchResources, so it may not be in force everywhere".into())
}

/// Puts the policy into the API server, and a binding where there is none.
pub(super) async fn install(client: &Client) -> Result<Vec<Installed>, InstallError> {
    let Accounts { policy, binding } = built_in()?;
    let rules = |found: &ValidatingAdmissionPolicy| {
        let with = ValidatingAdmissionPolicy { spec: policy.spec.clone(), ..found.clone() };
        (found.spec != policy.spec).then_some(with)
    };
    let (policy, _) = ensure(client, &policy, rules).await?;
    let (mut installed, binding) = ensure(client, &binding, |_| None).await?;
    installed.warnings.extend(off(&binding).map(|words| format!("left as it is, although {words}")));
    Ok(vec![policy, installed])
}

/// Makes the object where it is not there, and replaces it by what `other` makes of it, if anything. Returns what was
/// done, and the object as it is now.
async fn ensure<K>(
    client: &Client,
    wanted: &K,
    other: impl Fn(&K) -> Option<K>,
) -> Result<(Installed, K), InstallError>
where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>
        + Clone
        + fmt::Debug
        + DeserializeOwned
        + Serialize,
{
    let api: Api<K> = Api::all(client.clone());
    let params = PostParams { dry_run: false, field_manager: Some(MANAGER.into()) };
    let id = wanted.name_any();
    let name = format!("{}/{id}", K::kind(&()).to_lowercase());
    let done = |outcome| Installed { name: name.clone(), outcome, warnings: Vec::new() };
    for _ in 0..ROUNDS {
        let found = lookup(api.get(&id)).await.map_err(failed(format!("reading {name}")))?;
        let (outcome, written) = match found {
            None => (Outcome::Created, call(api.create(&params, wanted)).await),
            Some(found) => match other(&found) {
                None => return Ok((done(Outcome::Unchanged), found)),
                Some(with) => {
                    let written = call(api.replace(&id, &params, &with)).await;
                    (Outcome::Replaced(vec!["rules".into()]), written)
                }
            },
        };
        match written {
            Ok(now) => return Ok((done(outcome), now)),
            // Made, changed or deleted since it was read.
            Err(CallError::Conflict(_) | CallError::NotFound(_)) => {}
            Err(error) => return Err(failed(format!("writing {name}"))(error)),
        }
    }
    Err(InstallError::Contested(name))
}

#[cfg(test)]
#[path = "accounts_tests.rs"]
mod tests;

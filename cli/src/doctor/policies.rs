//! Whether our admission policies are in force: who may name an account, and what a node may write.

use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::{Api, Client, ResourceExt as _};
use weaver_diagnostics::catalogue;
use weaver_diagnostics::finding::{Code, Finding};
use weaver_operator::installer::guard::{Guard, Standing};
use weaver_operator::installer::{accounts, nodes};

use super::cluster::asked;

/// The policy that refuses deletions which orphan dependents, and its binding.
const DELETIONS: &str = "weaver-deletions";

/// A policy, and what it is when it is not there, or lets somebody pass.
struct Watched {
    guard: Guard,
    missing: Code,
    changed: Code,
}

/// All of them. One that does not parse is left out; a test keeps that from being built.
fn watched() -> Vec<Watched> {
    let accounts = accounts::built_in().map(|guard| Watched {
        guard,
        missing: Code::AccountPolicyMissing,
        changed: Code::AccountPolicyChanged,
    });
    let nodes = nodes::built_in().map(|guard| Watched {
        guard,
        missing: Code::NodePolicyNotInForce,
        changed: Code::NodePolicyNotInForce,
    });
    [accounts, nodes].into_iter().flatten().collect()
}

/// Looks at each; who may not look at one may look at none.
pub async fn look(client: &Client) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(unanswered) = judge(client, &mut findings).await {
        findings.push(*unanswered);
    }
    findings
}

async fn judge(client: &Client, findings: &mut Vec<Finding>) -> Result<(), Box<Finding>> {
    for watched in watched() {
        let (policy, binding) = both(client, &watched.guard.policy.name_any()).await?;
        findings.extend(unguarded(&watched, watched.guard.standing(policy.as_ref(), binding.as_ref())));
    }
    let (policy, binding) = both(client, DELETIONS).await?;
    findings.extend(deletions(policy.as_ref(), binding.as_ref()));
    Ok(())
}

type Both = (Option<ValidatingAdmissionPolicy>, Option<ValidatingAdmissionPolicyBinding>);

/// Policy and binding of this name.
async fn both(client: &Client, name: &str) -> Result<Both, Box<Finding>> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    let what = "looking for the admission policy";
    Ok((asked(what, policies.get_opt(name)).await?, asked(what, bindings.get_opt(name)).await?))
}

/// Does the policy that refuses orphaning deletions refuse them? Its rules are not compared.
fn deletions(
    policy: Option<&ValidatingAdmissionPolicy>,
    binding: Option<&ValidatingAdmissionPolicyBinding>,
) -> Option<Finding> {
    let mut expected = ValidatingAdmissionPolicyBinding::default();
    expected.spec.policy_name = DELETIONS.into();
    let mut rules = policy.cloned().unwrap_or_default();
    rules.metadata.name = Some(DELETIONS.into());
    let code = Code::DeletionPolicyNotInForce;
    let guard = Guard { policy: rules, binding: expected };
    let standing = guard.standing(policy, binding);
    unguarded(&Watched { guard, missing: code, changed: code }, standing)
}

fn unguarded(watched: &Watched, standing: Standing) -> Option<Finding> {
    let name = watched.guard.policy.name_any();
    let (code, message) = match standing {
        Standing::InForce => return None,
        Standing::Absent(kind) => (watched.missing, format!("there is no {kind} {name}")),
        Standing::OtherRules => {
            let message = format!("the rules of the admission policy {name} are not those of this version");
            (watched.changed, message)
        }
        Standing::Off(words) => (watched.changed, format!("the admission policy {name}: {words}")),
    };
    Some(catalogue::finding(code, message))
}

#[cfg(test)]
mod tests {
    use weaver_diagnostics::finding::Severity;

    use super::*;

    #[test]
    fn a_policy_that_refuses_nobody_is_a_warning_with_a_remedy() {
        let all = watched();
        let [accounts, nodes] = all.as_slice() else { panic!("{} policies", all.len()) };
        let (missing, changed) = (Code::AccountPolicyMissing, Code::AccountPolicyChanged);
        let off = Code::NodePolicyNotInForce;
        for (watched, standing, expected) in [
            (accounts, Standing::InForce, None),
            (accounts, Standing::Absent("ValidatingAdmissionPolicy"), Some(missing)),
            (accounts, Standing::OtherRules, Some(changed)),
            (accounts, Standing::Off("so it is".into()), Some(changed)),
            (nodes, Standing::InForce, None),
            (nodes, Standing::Absent("ValidatingAdmissionPolicy"), Some(off)),
            (nodes, Standing::OtherRules, Some(off)),
            (nodes, Standing::Off("so it is".into()), Some(off)),
        ] {
            let finding = unguarded(watched, standing.clone());
            assert_eq!(finding.as_ref().map(|finding| finding.code), expected, "{standing:?}");
            if let Some(finding) = finding {
                assert_eq!(finding.severity, Severity::Warn);
                assert!(finding.message.contains(&watched.guard.policy.name_any()), "{finding:?}");
                assert!(!finding.remedy.unwrap().commands.is_empty());
            }
        }
    }

    #[test]
    fn a_policy_on_deletions_that_is_not_in_force_is_a_warning() {
        let named = |name: &str, actions: &[&str]| {
            let mut binding = ValidatingAdmissionPolicyBinding::default();
            binding.spec.policy_name = name.into();
            binding.spec.validation_actions = actions.iter().map(|action| (*action).into()).collect();
            Some(binding)
        };
        let policy = || Some(ValidatingAdmissionPolicy::default());
        for (policy, binding, is_fine) in [
            (policy(), named(DELETIONS, &["Deny"]), true),
            (policy(), named(DELETIONS, &["Audit"]), false),
            (policy(), named("other", &["Deny"]), false),
            (policy(), None, false),
            (None, named(DELETIONS, &["Deny"]), false),
        ] {
            let found = deletions(policy.as_ref(), binding.as_ref());
            assert_eq!(found.is_none(), is_fine, "{found:?}");
            if let Some(finding) = found {
                assert_eq!(
                    (finding.code, finding.severity),
                    (Code::DeletionPolicyNotInForce, Severity::Warn)
                );
                assert!(finding.message.contains(DELETIONS), "{finding:?}");
            }
        }
    }
}

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
    for watched in watched() {
        match standing(client, &watched.guard).await {
            Ok(standing) => findings.extend(unguarded(&watched, standing)),
            Err(finding) => {
                findings.push(*finding);
                break;
            }
        }
    }
    findings
}

async fn standing(client: &Client, guard: &Guard) -> Result<Standing, Box<Finding>> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    let (what, name) = ("looking for the admission policy", guard.policy.name_any());
    let policy = asked(what, policies.get_opt(&name)).await?;
    let binding = asked(what, bindings.get_opt(&name)).await?;
    Ok(guard.standing(policy.as_ref(), binding.as_ref()))
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
}

//! Whether our admission policies are in force: who may name an account, what a node may write, and
//! that no deletion orphans.

use kube::{Client, ResourceExt as _};
use weaver_diagnostics::finding::{Code, Finding};
use weaver_installer::guard::{Guard, Standing};
use weaver_installer::{accounts, deletions, nodes};

use super::ask::asked;

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
    let deletions = deletions::built_in().map(|guard| Watched {
        guard,
        missing: Code::DeletionPolicyNotInForce,
        changed: Code::DeletionPolicyNotInForce,
    });
    [accounts, nodes, deletions].into_iter().flatten().collect()
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
        let standing = asked("looking for the admission policy", watched.guard.asked(client)).await?;
        findings.extend(unguarded(&watched, standing));
    }
    Ok(())
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
    Some(Finding::new(code, message))
}

#[cfg(test)]
mod tests {
    use weaver_diagnostics::finding::Severity;

    use super::*;

    #[test]
    fn a_policy_that_refuses_nobody_is_a_warning_with_a_remedy() {
        let all = watched();
        let [accounts, nodes, deletions] = all.as_slice() else { panic!("{} policies", all.len()) };
        let (missing, changed) = (Code::AccountPolicyMissing, Code::AccountPolicyChanged);
        let (off, orphaning) = (Code::NodePolicyNotInForce, Code::DeletionPolicyNotInForce);
        for (watched, standing, expected) in [
            (accounts, Standing::InForce, None),
            (accounts, Standing::Absent("ValidatingAdmissionPolicy"), Some(missing)),
            (accounts, Standing::OtherRules, Some(changed)),
            (accounts, Standing::Off("so it is".into()), Some(changed)),
            (nodes, Standing::InForce, None),
            (nodes, Standing::Absent("ValidatingAdmissionPolicy"), Some(off)),
            (nodes, Standing::OtherRules, Some(off)),
            (nodes, Standing::Off("so it is".into()), Some(off)),
            (deletions, Standing::InForce, None),
            (deletions, Standing::Absent("ValidatingAdmissionPolicyBinding"), Some(orphaning)),
            (deletions, Standing::OtherRules, Some(orphaning)),
            (deletions, Standing::Off("so it is".into()), Some(orphaning)),
        ] {
            let finding = unguarded(watched, standing.clone());
            assert_eq!(finding.as_ref().map(|finding| finding.code), expected, "{standing:?}");
            if let Some(finding) = finding {
                assert_eq!(finding.severity(), Severity::Warn);
                assert!(finding.message.contains(&watched.guard.policy.name_any()), "{finding:?}");
                assert!(!finding.remedy.unwrap().commands.is_empty());
            }
        }
    }
}

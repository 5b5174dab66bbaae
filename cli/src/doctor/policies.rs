//! Whether our admission policies are in force: who may name an account, what a node may write, and
//! that no deletion orphans.

use kube::{Client, ResourceExt as _};
use weaver_diagnostics::finding::{Code, Finding};
use weaver_installer::guard::{Guard, PolicyState};
use weaver_installer::{accounts, deletions, nodes};

use super::ask::asked;

/// A policy, and the finding when it is missing, or lets someone pass.
struct WatchedPolicy {
    guard: Guard,
    missing: Code,
    changed: Code,
}

/// All of them. One that does not parse is left out; a test ensures that there is none.
fn watched() -> Vec<WatchedPolicy> {
    let all = [
        (accounts::built_in(), Code::AccountPolicyMissing, Code::AccountPolicyChanged),
        (nodes::built_in(), Code::NodePolicyNotInForce, Code::NodePolicyNotInForce),
        (deletions::built_in(), Code::DeletionPolicyNotInForce, Code::DeletionPolicyNotInForce),
    ];
    let watched = all.into_iter().filter_map(|(guard, missing, changed)| {
        let guard = guard.ok()?;
        Some(WatchedPolicy { guard, missing, changed })
    });
    watched.collect()
}

/// Checks each; a user who may not read one may read none.
pub async fn look(client: &Client) -> Vec<Finding> {
    let mut findings = Vec::new();
    for watched in watched() {
        match asked("looking for the admission policy", watched.guard.asked(client)).await {
            Ok(policy_state) => findings.extend(unguarded(&watched, policy_state)),
            Err(unanswered) => {
                findings.push(*unanswered);
                break;
            }
        }
    }
    findings
}

fn unguarded(watched: &WatchedPolicy, policy_state: PolicyState) -> Option<Finding> {
    let name = watched.guard.policy.name_any();
    let (code, message) = match policy_state {
        PolicyState::InForce => return None,
        PolicyState::Absent(kind) => (watched.missing, format!("there is no {kind} {name}")),
        PolicyState::OtherRules => {
            let message = format!("the rules of the admission policy {name} are of another version");
            (watched.changed, message)
        }
        PolicyState::Off(text) => (watched.changed, format!("the admission policy {name}: {text}")),
    };
    Some(Finding::new(code, message))
}

#[cfg(test)]
mod tests {
    use weaver_diagnostics::finding::Severity;

    use super::*;

    #[test]
    fn a_policy_that_refuses_no_one_is_a_warning_with_a_remedy() {
        let all = watched();
        let [accounts, nodes, deletions] = all.as_slice() else { panic!("{} policies", all.len()) };
        let (missing, changed) = (Code::AccountPolicyMissing, Code::AccountPolicyChanged);
        let (off, orphaning) = (Code::NodePolicyNotInForce, Code::DeletionPolicyNotInForce);
        for (watched, policy_state, expected) in [
            (accounts, PolicyState::InForce, None),
            (accounts, PolicyState::Absent("ValidatingAdmissionPolicy"), Some(missing)),
            (accounts, PolicyState::OtherRules, Some(changed)),
            (accounts, PolicyState::Off("so it is".into()), Some(changed)),
            (nodes, PolicyState::InForce, None),
            (nodes, PolicyState::Absent("ValidatingAdmissionPolicy"), Some(off)),
            (nodes, PolicyState::OtherRules, Some(off)),
            (nodes, PolicyState::Off("so it is".into()), Some(off)),
            (deletions, PolicyState::InForce, None),
            (deletions, PolicyState::Absent("ValidatingAdmissionPolicyBinding"), Some(orphaning)),
            (deletions, PolicyState::OtherRules, Some(orphaning)),
            (deletions, PolicyState::Off("so it is".into()), Some(orphaning)),
        ] {
            let finding = unguarded(watched, policy_state.clone());
            assert_eq!(finding.as_ref().map(|finding| finding.code), expected, "{policy_state:?}");
            if let Some(finding) = finding {
                assert_eq!(finding.severity(), Severity::Warn);
                assert!(finding.message.contains(&watched.guard.policy.name_any()), "{finding:?}");
                assert!(!finding.remedy.unwrap().commands.is_empty());
            }
        }
    }
}

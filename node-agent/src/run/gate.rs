//! The verdict of one check on the gate. Pure; [`super::phase`] decides what follows from it.
//!
//! It opens when nothing is known bad and every configured name is proven.

use weaver_diagnostics::finding::{Code, Finding, Severity};

use crate::checks::CheckResult;

/// The verdict of a check on the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateVerdict {
    /// The names are proven and nothing is known bad.
    Good,
    /// Something is known bad: the reason.
    Bad(String),
    /// Nothing is known bad and the proof is missing: the reason.
    Unproven(String),
}

pub fn verdict(check: &CheckResult) -> GateVerdict {
    let failures: Vec<_> = check.failures().map(sentence).collect();
    if !failures.is_empty() {
        return GateVerdict::Bad(failures.join("; "));
    }
    if check.proven {
        return GateVerdict::Good;
    }
    let open = check
        .findings
        .iter()
        .find(|f| f.severity() == Severity::Unknown && is_about_names(f.code))
        .map_or_else(|| "the served names are not proven yet".to_owned(), sentence);
    GateVerdict::Unproven(open)
}

const fn is_about_names(code: Code) -> bool {
    matches!(code, Code::ServingNamesUnknown | Code::K3sFileUnreadable)
}

/// Whether the API server, or a file of it, gave no answer on the names.
pub fn is_silent(check: &CheckResult) -> bool {
    check.findings.iter().any(|f| f.severity() == Severity::Unknown && is_about_names(f.code))
}

fn sentence(finding: &Finding) -> String {
    format!("{}: {}", finding.code.id(), finding.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(proven: bool, findings: Vec<Finding>) -> CheckResult {
        let api_address = ([127, 0, 0, 1], 6443).into();
        CheckResult {
            findings,
            proven,
            api_address,
            server_ca: None,
            seen: vec![],
            served: vec![],
            certificate: None,
            watched_dirs: vec![],
            load: None,
        }
    }

    #[test]
    fn proven_and_nothing_bad_opens() {
        let warn = Finding::new(Code::NamesShadowed, "w");
        let unknown = Finding::new(Code::MemoryCgroupUnknown, "u");
        assert_eq!(verdict(&check(true, vec![warn, unknown])), GateVerdict::Good);
    }

    #[test]
    fn known_bad_shuts_even_when_the_names_are_proven() {
        let bad = Finding::new(Code::MemoryCgroupAbsent, "no controller");
        assert_eq!(verdict(&check(true, vec![bad])), GateVerdict::Bad("N-01: no controller".into()));
    }

    #[test]
    fn an_unanswered_question_does_not_open_and_is_not_bad() {
        let unknown = Finding::new(Code::ServingNamesUnknown, "refused");
        assert_eq!(verdict(&check(false, vec![unknown])), GateVerdict::Unproven("T-09: refused".into()));
        assert!(matches!(verdict(&check(false, vec![])), GateVerdict::Unproven(_)));
    }
}

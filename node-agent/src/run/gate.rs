//! The gate, decided from one check. Pure.
//!
//! It opens when nothing is known bad and every configured name is proven; it
//! never closes again while the agent runs, nor, where systemd runs the
//! operator, for an agent that is started again: a verdict that turns bad is
//! shown beside the open gate, and the operator goes on.

use weaver_diagnostics::finding::{Code, Finding, Severity};

use crate::checks::Check;

/// What a check says about the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The names are proven and nothing is known bad.
    Good,
    /// Something is known bad: the reason.
    Bad(String),
    /// Nothing is known bad and the proof is not there: the reason.
    Unproven(String),
}

/// The verdict of a check.
#[must_use]
pub fn verdict(check: &Check) -> Verdict {
    let failures: Vec<_> = check.failures().map(sentence).collect();
    if !failures.is_empty() {
        return Verdict::Bad(failures.join("; "));
    }
    if check.proven {
        return Verdict::Good;
    }
    let open = check
        .findings
        .iter()
        .find(|f| f.severity == Severity::Unknown && is_about_names(f.code))
        .map_or_else(|| "the served names are not proven yet".to_owned(), sentence);
    Verdict::Unproven(open)
}

const fn is_about_names(code: Code) -> bool {
    matches!(code, Code::ServingNamesUnknown | Code::K3sFileUnreadable)
}

/// Whether the API server, or a file of it, gave no answer on the names.
#[must_use]
pub fn is_silent(check: &Check) -> bool {
    check.findings.iter().any(|f| f.severity == Severity::Unknown && is_about_names(f.code))
}

/// What the report says beside an open gate.
#[must_use]
pub fn open_reason(verdict: Verdict, renewal_failure: Option<&str>) -> String {
    let reason = match verdict {
        Verdict::Good => "every configured name is proven".to_owned(),
        Verdict::Bad(why) | Verdict::Unproven(why) => format!("it was proven before; now: {why}"),
    };
    match renewal_failure {
        Some(failure) => format!("{reason}; the operator's token could not be renewed: {failure}"),
        None => reason,
    }
}

/// What the report says of a node that joins a server, beside a gate that never opens.
#[must_use]
pub fn joined_reason(verdict: Verdict) -> String {
    match verdict {
        Verdict::Bad(why) => why,
        Verdict::Good | Verdict::Unproven(_) => {
            "this node joins a server, and the operator runs there".to_owned()
        }
    }
}

fn sentence(finding: &Finding) -> String {
    format!("{}: {}", finding.code.id(), finding.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_joins_says_what_is_bad_first() {
        assert!(joined_reason(Verdict::Unproven("no name".to_owned())).contains("joins a server"));
        assert_eq!(joined_reason(Verdict::Bad("N-12: small".to_owned())), "N-12: small");
    }

    fn check(proven: bool, findings: Vec<Finding>) -> Check {
        let api_address = ([127, 0, 0, 1], 6443).into();
        Check {
            findings,
            proven,
            api_address,
            server_ca: "/ca".into(),
            seen: vec![],
            served: vec![],
            places: vec![],
        }
    }

    #[test]
    fn proven_and_nothing_bad_opens() {
        let warn = Finding::new(Severity::Warn, Code::NamesShadowed, "w");
        let unknown = Finding::new(Severity::Unknown, Code::MemoryCgroupUnknown, "u");
        assert_eq!(verdict(&check(true, vec![warn, unknown])), Verdict::Good);
    }

    #[test]
    fn known_bad_shuts_even_when_the_names_are_proven() {
        let bad = Finding::new(Severity::Fail, Code::MemoryCgroupAbsent, "no controller");
        assert_eq!(verdict(&check(true, vec![bad])), Verdict::Bad("N-01: no controller".into()));
    }

    #[test]
    fn beside_an_open_gate_stands_what_is_wrong_now() {
        for (verdict, failure, want) in [
            (Verdict::Good, None, "every configured name is proven"),
            (Verdict::Bad("T-02".into()), None, "it was proven before; now: T-02"),
            (Verdict::Unproven("T-09".into()), None, "it was proven before; now: T-09"),
            (
                Verdict::Good,
                Some("404"),
                "every configured name is proven; the operator's token could not be renewed: 404",
            ),
        ] {
            assert_eq!(open_reason(verdict, failure), want);
        }
    }

    #[test]
    fn an_unanswered_question_does_not_open_and_is_not_bad() {
        let unknown = Finding::new(Severity::Unknown, Code::ServingNamesUnknown, "refused");
        assert_eq!(verdict(&check(false, vec![unknown])), Verdict::Unproven("T-09: refused".into()));
        assert!(matches!(verdict(&check(false, vec![])), Verdict::Unproven(_)));
    }
}

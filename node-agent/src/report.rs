//! Findings for a user, for a program and for the log.

use anyhow::Context as _;
use schemars::JsonSchema;
use serde::Serialize;
use weaver_diagnostics::{
    exit_code,
    finding::{Finding, Severity},
    finding_text,
};

/// The findings as a user reads them on a console, the worst last: that one stays on the screen.
pub fn text(findings: &[Finding]) -> String {
    let mut sorted: Vec<_> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.severity());
    let mut out = String::new();
    for finding in sorted {
        out.extend([&finding_text::text(finding), "\n"]);
    }
    out.push_str(match exit_code::of(findings) {
        exit_code::FINE => "No problem was found.\n",
        exit_code::REBOOT_NEEDED => "A problem was found that a reboot fixes.\n",
        _ => "Problems were found: follow the remedies above, then check again.\n",
    });
    out
}

/// Writes a finding to the log, with its code as a field.
pub fn log(finding: &Finding) {
    let (code, message) = (finding.code.id(), finding.message.as_str());
    match finding.severity() {
        Severity::Fail => tracing::error!(code, "{message}"),
        Severity::Warn => tracing::warn!(code, "{message}"),
        Severity::Ok | Severity::Unknown => tracing::info!(code, "{message}"),
    }
}

/// What `check -o json` and `preflight -o json` print.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CheckReport<'a> {
    /// The exit code of the process: 0, 10 (a check failed) or 11 (a reboot fixes it).
    pub exit_code: u8,
    /// What was found.
    pub findings: &'a [Finding],
}

/// The findings for a program.
///
/// # Errors
/// They could not be written as JSON.
pub fn json(findings: &[Finding]) -> anyhow::Result<String> {
    let report = CheckReport { exit_code: exit_code::of(findings), findings };
    serde_json::to_string_pretty(&report).map(|text| text + "\n").context("writing the findings as JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use weaver_diagnostics::finding::Code;

    fn findings() -> Vec<Finding> {
        vec![Finding::new(Code::NameInvalid, "bad name"), Finding::new(Code::MemoryCgroupOk, "fine")]
    }

    #[test]
    fn a_person_sees_the_worst_last() {
        let text = text(&findings());
        assert!(
            text.starts_with("N-00  OK      memory-cgroup-ok\n        fine\n\nT-08  FAIL    name-invalid"),
            "{text}"
        );
        assert!(text.ends_with("then check again.\n"));
    }

    #[test]
    fn a_program_sees_codes_and_the_exit_code() {
        let json: serde_json::Value = serde_json::from_str(&json(&findings()).unwrap()).unwrap();
        assert_eq!(json["exitCode"], 10);
        assert_eq!(json["findings"][0]["code"], "T-08");
    }
}

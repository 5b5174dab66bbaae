//! Findings for a person, for a program and for the log.

use anyhow::Context as _;
use serde::Serialize;
use weaver_diagnostics::{
    exit_code,
    finding::{Finding, Remedy, Severity},
};

/// No single line of evidence is worth more. What is to be done is never cut.
const EVIDENCE: usize = 400;
/// A message holds the served names, which are worth reading to the end.
const MESSAGE: usize = 8 * 1024;

/// The findings as a person reads them on a console, the worst last: that is
/// what stays on the screen.
#[must_use]
pub fn text(findings: &[Finding]) -> String {
    let mut sorted: Vec<_> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.severity);
    let mut out = String::new();
    for finding in sorted {
        let severity = finding.severity.to_string().to_uppercase();
        out.extend([format!("{severity:8}{}  {}\n", finding.code.id(), finding.name)]);
        out.extend(["        ", &cut(&finding.message, MESSAGE), "\n"]);
        for evidence in &finding.evidence {
            out.extend(["        seen  ", &cut(&evidence.to_string(), EVIDENCE), "\n"]);
        }
        if let Some(remedy) = &finding.remedy {
            write_remedy(&mut out, remedy);
        }
        out.push('\n');
    }
    out.push_str(match exit_code::of(findings) {
        exit_code::FINE => "Nothing is known to be bad.\n",
        exit_code::REBOOT_NEEDED => "Known bad, and a reboot cures it.\n",
        _ => "Known bad: follow the remedies above, then check again.\n",
    });
    out
}

fn write_remedy(out: &mut String, remedy: &Remedy) {
    let mut explain = remedy.explain.lines();
    out.extend(["        do    ", &clean(explain.next().unwrap_or_default()), "\n"]);
    for line in explain {
        out.extend(["                ", &clean(line), "\n"]);
    }
    for command in &remedy.commands {
        out.extend(["              $ ", &clean(command), "\n"]);
    }
    for line in remedy.diff.iter().flat_map(|diff| diff.lines()) {
        out.extend(["              | ", &clean(line), "\n"]);
    }
}

/// Writes a finding to the log, with its code as a field (R-Y04).
pub fn log(finding: &Finding) {
    let (code, message) = (finding.code.id(), finding.message.as_str());
    match finding.severity {
        Severity::Fail => tracing::error!(code, "{message}"),
        Severity::Warn => tracing::warn!(code, "{message}"),
        Severity::Ok | Severity::Unknown => tracing::info!(code, "{message}"),
    }
}

/// What files hold may hold terminal sequences: they are shown, not obeyed.
fn clean(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// What comes from a file, at most so many characters of it, on one line and
/// without terminal sequences.
#[must_use]
pub fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => clean(&text[..end]) + "…",
        None => clean(text),
    }
}

/// The findings for a program.
///
/// # Errors
/// They could not be written as JSON.
pub fn json(findings: &[Finding]) -> anyhow::Result<String> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Report<'a> {
        exit_code: u8,
        findings: &'a [Finding],
    }
    let report = Report { exit_code: exit_code::of(findings), findings };
    serde_json::to_string_pretty(&report).map(|text| text + "\n").context("writing the findings as JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use weaver_diagnostics::finding::{Code, Place, Severity};

    fn findings() -> Vec<Finding> {
        vec![
            Finding::new(Severity::Fail, Code::NameInvalid, "bad \u{1b}[31mname")
                .saw(Place::line("/c.yaml", 2), "x".repeat(500))
                .remedy(Remedy::new("write:\n- pi").command("true")),
            Finding::new(Severity::Ok, Code::MemoryCgroupOk, "fine"),
        ]
    }

    #[test]
    fn a_person_sees_the_worst_last_and_no_terminal_sequences() {
        let text = text(&findings());
        assert!(text.starts_with("OK      N-00  memory-cgroup-ok\n        fine\n"), "{text}");
        assert!(text.contains("FAIL    T-08  name-invalid\n        bad \\u{1b}[31mname\n"), "{text}");
        assert!(text.contains("do    write:\n                - pi\n              $ true\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() < EVIDENCE + 20));
        assert!(text.ends_with("then check again.\n"));
    }

    #[test]
    fn evidence_is_cut_and_what_is_to_be_done_is_not() {
        let long = |c: &str| c.repeat(3000) + "END";
        let remedy = Remedy { diff: Some(long("d")), ..Remedy::new(long("e")).command(long("c")) };
        let finding = Finding::new(Severity::Fail, Code::NameNotServed, long("m"))
            .saw(Place::file("/f"), long("s"))
            .remedy(remedy);
        let shown = text(&[finding]);
        assert_eq!(shown.matches("END").count(), 4, "{shown}");
        assert!(!shown.contains("sEND") && shown.contains("s…\n"), "{shown}");
        let endless = Finding::new(Severity::Fail, Code::NameNotServed, "m".repeat(100_000));
        assert!(text(&[endless]).len() < 10_000);
    }

    #[test]
    fn a_program_sees_codes_and_the_exit_code() {
        let json: serde_json::Value = serde_json::from_str(&json(&findings()).unwrap()).unwrap();
        assert_eq!(json["exitCode"], 10);
        assert_eq!(json["findings"][0]["code"], "T-08");
    }
}

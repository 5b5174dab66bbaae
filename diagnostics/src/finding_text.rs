//! A finding as a person reads it. Control characters are shown and not obeyed.

use crate::finding::{Finding, Remedy};

/// No single line of evidence is worth more. What is to be done is never cut.
const EVIDENCE: usize = 400;
/// A message holds the served names, which are worth reading to the end.
const MESSAGE: usize = 8 * 1024;

/// The finding on lines of its own; the first begins with its code.
#[must_use]
pub fn text(finding: &Finding) -> String {
    let severity = finding.severity.to_string().to_uppercase();
    let mut out = format!("{}  {severity:8}{}\n", finding.code.id(), finding.name);
    out.extend(["        ", &cut(&finding.message, MESSAGE), "\n"]);
    for evidence in &finding.evidence {
        out.extend(["        seen  ", &cut(&evidence.to_string(), EVIDENCE), "\n"]);
    }
    if let Some(remedy) = &finding.remedy {
        write_remedy(&mut out, remedy);
    }
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

/// What files hold may hold terminal sequences: they are shown, not obeyed.
fn clean(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// What comes from a file, at most so many characters of it, on one line and without terminal sequences.
#[must_use]
pub fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => clean(&text[..end]) + "…",
        None => clean(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Code, Place, Severity};

    #[test]
    fn the_first_line_begins_with_the_code_and_no_terminal_sequence_is_obeyed() {
        let finding = Finding::new(Severity::Fail, Code::NameInvalid, "bad \u{1b}[31mname")
            .saw(Place::line("/c.yaml", 2), "x".repeat(500))
            .remedy(Remedy::new("write:\n- pi").command("true"));
        let text = text(&finding);
        assert!(
            text.starts_with(
                "T-08  FAIL    name-invalid\n        bad \\u{1b}[31mname\n        seen  /c.yaml:2: xxx"
            ),
            "{text}"
        );
        assert!(text.ends_with("do    write:\n                - pi\n              $ true\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() < EVIDENCE + 20));
    }

    #[test]
    fn evidence_is_cut_and_what_is_to_be_done_is_not() {
        let long = |c: &str| c.repeat(3000) + "END";
        let remedy = Remedy { diff: Some(long("d")), ..Remedy::new(long("e")).command(long("c")) };
        let finding = Finding::new(Severity::Fail, Code::NameNotServed, long("m"))
            .saw(Place::file("/f"), long("s"))
            .remedy(remedy);
        let shown = text(&finding);
        assert_eq!(shown.matches("END").count(), 4, "{shown}");
        assert!(!shown.contains("sEND") && shown.contains("s…\n"), "{shown}");
        let endless = Finding::new(Severity::Fail, Code::NameNotServed, "m".repeat(100_000));
        assert!(text(&endless).len() < 10_000);
    }
}

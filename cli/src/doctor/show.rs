//! The findings, for a user and for a program.

use std::io;

use serde::Serialize;
use weaver_diagnostics::exit_code;
use weaver_diagnostics::finding::{Finding, Severity};
use weaver_diagnostics::finding_text;
use weaver_host::platform::colours;

use super::seen::LocatedFinding;
use crate::stdout::{document, json_text};

pub fn text(seen: &[LocatedFinding]) -> anyhow::Result<()> {
    let colours = colours(&io::stdout());
    let mut out = String::new();
    for LocatedFinding { finding, .. } in seen {
        out.push_str(&painted(finding, colours));
    }
    out.push_str(&verdict(seen));
    // What is foreign in it is clean, and the colours are ours.
    document(&out).map(|_| ())
}

/// A good finding takes two lines; any other shows all that is known.
fn painted(finding: &Finding, colours: bool) -> String {
    let text = if finding.severity() == Severity::Ok {
        let mut short = finding.clone();
        short.evidence.clear();
        finding_text::text(&short)
    } else {
        finding_text::text(finding) + "\n"
    };
    if !colours {
        return text;
    }
    let colour = match finding.severity() {
        Severity::Ok => "32",
        Severity::Unknown => "36",
        Severity::Warn => "33",
        Severity::Fail => "31;1",
    };
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    format!("\x1b[{colour}m{first}\x1b[0m\n{rest}")
}

fn verdict(seen: &[LocatedFinding]) -> String {
    let Some(first) = seen.iter().find(|seen| seen.is_bad()) else {
        let open = seen.iter().filter(|seen| seen.finding.severity() > Severity::Ok).count();
        return match open {
            0 => "All is well.\n".to_owned(),
            1 => "No failure was found; check the finding above.\n".to_owned(),
            open => format!("No failure was found; check the {open} findings above.\n"),
        };
    };
    let whose = first.location.phrase();
    let others = seen.iter().filter(|seen| seen.is_bad()).count() - 1;
    let then = if others > 0 {
        ", then run it again: other findings may be consequences"
    } else {
        ", then run it again"
    };
    format!("The problem is {whose}: {}. Follow its remedy{then}.\n", first.finding.code)
}

/// The findings for a program.
pub fn json(seen: &[LocatedFinding]) -> anyhow::Result<String> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct JsonReport<'a> {
        exit_code: u8,
        findings: &'a [LocatedFinding],
    }
    let findings: Vec<_> = seen.iter().map(|seen| seen.finding.clone()).collect();
    let report = JsonReport { exit_code: exit_code::of(&findings), findings: seen };
    json_text(&report, "the findings")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::seen::Location;
    use weaver_diagnostics::finding::{Code, Place};
    use weaver_diagnostics::reach;
    use weaver_diagnostics::serving::{HandshakeOutcome, Observation};

    fn seen(location: Location, severity: Severity) -> LocatedFinding {
        let finding = Finding::new(Code::NameNotFound, "m").milder(severity).saw(Place::file("/f"), "s");
        LocatedFinding { location, finding }
    }

    #[test]
    fn the_first_failure_is_whose_fault_it_is() {
        let all = [
            seen(Location::Here, Severity::Warn),
            seen(Location::Node, Severity::Fail),
            seen(Location::Cluster, Severity::Fail),
        ];
        let message = verdict(&all);
        assert!(
            message.starts_with("The problem is on the machine that k3s runs on: N-07 name-not-found."),
            "{message}"
        );
        assert!(message.contains("other findings may be consequences"), "{message}");
        assert_eq!(verdict(&all[..1]), "No failure was found; check the finding above.\n");
        assert_eq!(verdict(&[seen(Location::Here, Severity::Ok)]), "All is well.\n");
    }

    #[test]
    fn colours_go_around_the_first_line_only() {
        let plain = painted(&seen(Location::Here, Severity::Fail).finding, false);
        let coloured = painted(&seen(Location::Here, Severity::Fail).finding, true);
        assert!(
            coloured.starts_with("\x1b[31;1mN-07  FAIL") && plain.starts_with("N-07  FAIL"),
            "{coloured}"
        );
        assert_eq!(coloured.replace("\x1b[31;1m", "").replace("\x1b[0m", ""), plain);
        assert!(!painted(&seen(Location::Here, Severity::Ok).finding, false).contains("seen"));
    }

    /// The findings of the README's picture: a laptop whose name for the Pi is in no certificate.
    fn pictured() -> String {
        let served = ["kubernetes", "kubernetes.default", "localhost", "pi4.lan"].map(str::to_owned).into();
        let observed = Observation { outcome: HandshakeOutcome::NotServed, served };
        let name = "raspi".parse().unwrap();
        let fault = reach::handshake("raspi:6443", &name, &observed, None, "~/.kube/config");
        let fine = Finding::new(Code::MemoryCgroupOk, "the memory controller is available");
        let seen = [fine, fault].map(|finding| LocatedFinding { location: Location::Node, finding });
        let printed = seen.iter().map(|seen| painted(&seen.finding, false));
        format!("$ weaver doctor\n{}{}", printed.collect::<String>(), verdict(&seen))
    }

    #[test]
    fn the_picture_of_the_readme_shows_what_is_printed() {
        let svg = include_str!("../../../docs/images/doctor.svg");
        let lines = svg.lines().filter_map(|line| line.strip_prefix("<text ")?.split(['<', '>']).nth(1));
        let unescaped = |line: &str| {
            [("&#x27;", "'"), ("&quot;", "\""), ("&gt;", ">"), ("&lt;", "<"), ("&amp;", "&")]
                .iter()
                .fold(line.to_owned(), |line, (escaped, plain)| line.replace(escaped, plain))
        };
        let shown: String = lines.map(|line| unescaped(line) + "\n").collect();
        // The picture breaks long lines.
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let printed = pictured();
        assert_eq!(words(&shown), words(&printed), "docs/images/doctor.svg is to show:\n{printed}");
    }
}

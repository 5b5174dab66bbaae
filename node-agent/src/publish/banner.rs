//! The console's banner, for `/run/issue.d`. Pure.
//!
//! Backslashes of our own are few and meant: `\4` and `\6` let agetty fill in
//! the addresses as they are when the prompt is shown. Those in a text that
//! comes from a file are doubled, so that they are shown.

use weaver_diagnostics::finding::Severity;
use weaver_diagnostics::finding_text;

use super::page::Page;

/// Findings that are shown, and characters of a line of theirs.
const SHOWN: usize = 3;
const WIDTH: usize = 200;

/// The banner; `card_fault` says why the boot partition does not show the same.
#[must_use]
pub fn banner(page: &Page<'_>, card_fault: Option<&str>, full_text: &str) -> String {
    let mut out = format!("{} on {}  \\4  \\6\n", Page::product(), line(page.host_name));
    out.extend(["gate ", &line(&page.gate()), "\n"]);
    if page.report.k3s_blocked == Some(true) {
        out.push_str("k3s is not started\n");
    }
    let mut faults: Vec<_> = page.report.findings.iter().filter(|f| f.severity() >= Severity::Warn).collect();
    faults.sort_by_key(|finding| std::cmp::Reverse(finding.severity()));
    for finding in faults.iter().take(SHOWN) {
        let severity = finding.severity().to_string().to_uppercase();
        let (code, name) = (finding.code.id(), finding.name);
        out.extend([code, " ", &severity, " ", name, ": ", &line(&finding.message), "\n"]);
        let remedy = finding.remedy.as_ref();
        if let Some(first) = remedy.and_then(|remedy| remedy.explain.lines().next()) {
            out.extend(["     do: ", &line(first), "\n"]);
        }
    }
    if let more @ 1.. = faults.len().saturating_sub(SHOWN) {
        out.extend([format!("     and {more} more\n")]);
    }
    if let Some(fault) = card_fault {
        out.extend(["card: not up to date: ", &line(fault), "\n"]);
    }
    out.extend(["full report: sudo cat ", &line(full_text), "\n\n"]);
    out
}

/// One line of a text from elsewhere, shown and not obeyed.
fn line(text: &str) -> String {
    finding_text::cut(text, WIDTH).replace('\\', r"\\")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node_report::Report;
    use jiff::Timestamp;
    use weaver_diagnostics::finding::{Code, Finding, Remedy};

    fn shown(findings: Vec<Finding>, host_name: &str, card_fault: Option<&str>) -> String {
        let report = Report { findings, k3s_blocked: Some(true), ..Report::unchecked() };
        let page = Page { host_name, time: Timestamp::UNIX_EPOCH, synchronised: true, report: &report };
        banner(&page, card_fault, "/run/weaver/node-status.txt")
    }

    #[test]
    fn what_a_person_at_the_console_needs() {
        let bad =
            Finding::new(Code::MemoryTooSmall, "451 MB").remedy(Remedy::new("use another board\nor none"));
        let warn = Finding::new(Code::NamesShadowed, "w");
        let banner = shown(vec![warn, bad], "raspi", Some("no room"));
        assert!(banner.starts_with("Config Weaver ") && banner.contains(" on raspi  \\4  \\6\n"), "{banner}");
        for part in [
            "gate shut: no check has finished yet\n",
            "k3s is not started\n",
            "N-12 FAIL memory-too-small: 451 MB\n     do: use another board\n",
            "card: not up to date: no room\n",
            "sudo cat /run/weaver/node-status.txt\n",
        ] {
            assert!(banner.contains(part), "{part}: {banner}");
        }
        assert!(banner.find("N-12 FAIL") < banner.find("T-06 WARN names-shadowed: w\n"), "{banner}");
        assert!(!banner.contains("or none"), "{banner}");
    }

    #[test]
    fn escapes_in_what_files_hold_are_shown_and_not_obeyed() {
        let evil =
            Finding::new(Code::NameInvalid, "\\d \\S{x} \u{1b}[2J \n\\4").remedy(Remedy::new("write \\e"));
        let banner = shown(vec![evil], "a\\nb", Some("c\\t"));
        // With the doubled ones gone, only the two of our own are left.
        let left = banner.replace(r"\\", "");
        assert_eq!(left.matches('\\').count(), 2, "{banner}");
        assert!(left.contains("\\4  \\6\n") && !banner.contains('\u{1b}'), "{banner}");
        assert!(banner.contains(r"\\d \\S{x} \\u{1b}[2J \\n\\4"), "{banner}");
    }

    #[test]
    fn it_stays_short() {
        let bad = Finding::new(Code::NameInvalid, "m".repeat(5000)).remedy(Remedy::new("r".repeat(5000)));
        let banner = shown(vec![bad; 30], &"h".repeat(5000), None);
        assert!(banner.contains("and 27 more\n"), "{banner}");
        assert!(banner.lines().count() < 15 && banner.lines().all(|l| l.len() < 300), "{banner}");
    }
}

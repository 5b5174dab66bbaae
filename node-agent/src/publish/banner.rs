//! The console's banner, for `/run/issue.d`. Pure.
//!
//! Backslashes of our own are few and meant: `\4` and `\6` let agetty fill in
//! the addresses as they are when the prompt is shown. Those in a text that
//! comes from a file are doubled, so that they are shown.
//!
//! Where the card shows a page, its address comes with a QR code, unless the rest of the banner needs the lines of a
//! small console.

use qrcode::{EcLevel, QrCode, render::unicode::Dense1x2};

use weaver_diagnostics::finding::Severity;
use weaver_diagnostics::finding_text;

use super::{html, page::ReportPage};

/// Findings that are shown, and characters of a line of theirs.
const SHOWN: usize = 3;
const WIDTH: usize = 200;
/// Lines of a small console, but for that of the prompt, and their length.
const ROWS: usize = 24;
const COLUMNS: usize = 80;

/// The banner; `card_fault` says why the boot partition does not show the same, `has_page` whether a browser
/// can show it.
pub fn banner(page: &ReportPage<'_>, card_fault: Option<&str>, full_text: &str, has_page: bool) -> String {
    let mut out = format!("{} on {}  \\4  \\6\n", ReportPage::product(), line(page.host_name));
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
    out.extend(["full report: sudo cat ", &line(full_text), "\n"]);
    let address = has_page.then(|| html::address(page.host_name)).flatten();
    if let Some(address) = &address {
        out.extend([format!("in a browser: {address}, or port {} of an address above\n", html::PORT)]);
    }
    out.push('\n');
    let rows = |text: &str| -> usize {
        text.lines().map(|line| line.chars().count().div_ceil(COLUMNS).max(1)).sum()
    };
    let code = address.and_then(|address| picture(&address));
    let code = code.filter(|code| rows(code) + rows(&out) <= ROWS);
    code.unwrap_or_default() + &out
}

/// A QR code for a console with a dark background. Upper case makes it smaller, and is the same address.
fn picture(address: &str) -> Option<String> {
    let code = QrCode::with_error_correction_level(address.to_ascii_uppercase(), EcLevel::L).ok()?;
    let (dark, light) = (Dense1x2::Light, Dense1x2::Dark);
    Some(code.render::<Dense1x2>().dark_color(dark).light_color(light).build() + "\n")
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
        shown_with(findings, host_name, card_fault, false)
    }

    fn shown_with(
        findings: Vec<Finding>,
        host_name: &str,
        card_fault: Option<&str>,
        has_page: bool,
    ) -> String {
        let report = Report { findings, k3s_blocked: Some(true), ..Report::unchecked() };
        let page = ReportPage { host_name, time: Timestamp::UNIX_EPOCH, synchronised: true, report: &report };
        banner(&page, card_fault, "/run/weaver/node-status.txt", has_page)
    }

    /// What a camera reads: true where a module is dark, that is where the console stays dark.
    fn modules(lines: &[&str]) -> Vec<Vec<bool>> {
        let half = |c: char| match c {
            '\u{2588}' => (false, false),
            '\u{2580}' => (false, true),
            '\u{2584}' => (true, false),
            ' ' => (true, true),
            other => panic!("{other:?}"),
        };
        let rows = lines.iter().flat_map(|line| {
            let (upper, lower): (Vec<_>, Vec<_>) = line.chars().map(half).unzip();
            [upper, lower]
        });
        rows.collect()
    }

    #[test]
    fn the_address_of_the_page_comes_with_a_code_where_there_is_room() {
        let banner = shown_with(vec![], "raspi", None, true);
        assert!(
            banner.contains("in a browser: http://raspi.local:9480/, or port 9480 of an address above\n"),
            "{banner}"
        );
        let code: Vec<_> = banner.lines().take_while(|line| !line.contains("Config Weaver")).collect();
        let modules = modules(&code);
        let expected = QrCode::with_error_correction_level("HTTP://RASPI.LOCAL:9480/", EcLevel::L).unwrap();
        // A quiet zone of four light modules, as the standard has it.
        let seen: Vec<bool> = modules[4..4 + expected.width()]
            .iter()
            .flat_map(|row| &row[4..4 + expected.width()])
            .copied()
            .collect();
        let dark: Vec<bool> =
            expected.to_colors().iter().map(|colour| *colour == qrcode::Color::Dark).collect();
        assert_eq!(seen, dark);
        assert_eq!(expected.width(), 21, "the smallest there is");
        assert!(modules[..4].iter().flatten().all(|dark| !dark), "{banner}");
        assert!(banner.lines().count() <= ROWS && code[0].chars().count() <= 40, "{banner}");

        let faults = vec![Finding::new(Code::MemoryTooSmall, "m").remedy(Remedy::new("r")); 3];
        let full = shown_with(faults, "raspi", None, true);
        assert!(!full.contains('\u{2588}') && full.contains("http://raspi.local:9480/"), "{full}");
        for (name, has_page) in
            [("raspi", false), ("", true), ("a b", true), ("(no host name)", true), ("$(x)", true)]
        {
            let without = shown_with(vec![], name, None, has_page);
            assert!(!without.contains("in a browser") && !without.contains('\u{2588}'), "{name}: {without}");
        }
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
        // Without the doubled backslashes, only the two of our own remain.
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

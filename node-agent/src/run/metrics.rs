//! The agent's metrics for Prometheus, in the text format of `OpenMetrics`.
//!
//! Labels have values from closed sets: codes, severities. No name of this host or of its network is one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use jiff::Timestamp;
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};

use crate::node_report::{Gate, Report};

/// Counters of events; the rest is in the report.
#[derive(Debug, Clone, Default)]
pub struct EventCounters(Arc<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    rounds: AtomicU64,
    last_round_micros: AtomicU64,
    token_expires: AtomicI64,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct FindingLabels {
    code: &'static str,
    severity: String,
}

impl EventCounters {
    /// A round of checks has ended.
    pub fn round(&self, took: Duration) {
        self.0.rounds.fetch_add(1, Relaxed);
        self.0.last_round_micros.store(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// The operator has a token until then.
    pub fn token(&self, expires: Timestamp) {
        self.0.token_expires.store(expires.as_second(), Relaxed);
    }

    /// Everything, with the report as it is.
    pub fn text(&self, report: &Report) -> String {
        let mut registry = Registry::with_prefix("weaver_node");
        let gauge = |value: bool| -> Gauge {
            let gauge = Gauge::default();
            gauge.set(value.into());
            gauge
        };
        let findings = Family::<FindingLabels, Gauge>::default();
        for finding in &report.findings {
            let found = FindingLabels { code: finding.code.id(), severity: finding.severity().to_string() };
            findings.get_or_create(&found).inc();
        }
        registry.register("findings", "Findings of the last check by code and severity", findings);
        let blocked = report.k3s_blocked.unwrap_or_default();
        registry.register("k3s_blocked", "1 while k3s is blocked", gauge(blocked));
        let rounds = Counter::<u64>::default();
        rounds.inc_by(self.0.rounds.load(Relaxed));
        registry.register("checks", "Completed checks of the host", rounds);
        let took = Gauge::<f64, AtomicU64>::default();
        took.set(Duration::from_micros(self.0.last_round_micros.load(Relaxed)).as_secs_f64());
        registry.register_with_unit(
            "check_duration",
            "Duration of the last check of the host",
            Unit::Seconds,
            took,
        );
        // Metrics that only a server's agent has are left out elsewhere, so that no alert fires.
        if !report.joins {
            registry.register("gate_open", "1 while the operator may run", gauge(report.gate == Gate::Open));
            let installed = gauge(report.definitions.installed);
            let help = "1 if the CRDs are installed and conversion works";
            registry.register("definitions_installed", help, installed);
            let expires: Gauge = Gauge::default();
            expires.set(self.0.token_expires.load(Relaxed));
            let help =
                "Expiry time of the operator's token as a Unix timestamp; 0 if this agent has issued none";
            registry.register_with_unit("operator_token_expiry_timestamp", help, Unit::Seconds, expires);
        }
        let mut text = String::new();
        #[expect(clippy::expect_used, reason = "writing to a String does not fail")]
        encode(&mut text, &registry).expect("metrics can be written");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weaver_diagnostics::finding::{Code, Finding};

    #[test]
    fn what_was_found_and_counted_is_reported() {
        let counts = EventCounters::default();
        counts.round(Duration::from_millis(7));
        counts.round(Duration::from_millis(5));
        counts.token(Timestamp::from_second(1_800_000_000).unwrap());
        let not_served = || Finding::new(Code::NameNotServed, "box.example");
        let findings = vec![not_served(), not_served(), Finding::new(Code::MemoryCgroupOk, "fine")];
        let report = Report { findings, gate: Gate::Open, k3s_blocked: Some(true), ..Report::unchecked() };
        let text = counts.text(&report);
        for line in [
            r#"weaver_node_findings{code="T-02",severity="fail"} 2"#,
            r#"weaver_node_findings{code="N-00",severity="ok"} 1"#,
            "weaver_node_gate_open 1",
            "weaver_node_k3s_blocked 1",
            "weaver_node_definitions_installed 0",
            "weaver_node_checks_total 2",
            "weaver_node_check_duration_seconds 0.005",
            "weaver_node_operator_token_expiry_timestamp_seconds 1800000000",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("box.example"), "{text}");
    }

    #[test]
    fn a_node_that_joins_tells_nothing_of_what_its_server_does() {
        let text = EventCounters::default().text(&Report { joins: true, ..Report::unchecked() });
        for absent in ["gate_open", "definitions_installed", "operator_token"] {
            assert!(!text.contains(absent), "{absent} is in\n{text}");
        }
        assert!(text.contains("weaver_node_k3s_blocked 0"), "{text}");
    }
}

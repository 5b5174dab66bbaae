//! What the operator counts, in the text form of `OpenMetrics`.
//!
//! Labels have values from closed sets. No name of a tenant, a namespace or an object is a label value, so tenants
//! cannot create new series, and readers of the metrics learn no names.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

use crate::service_token::why::MintReason;

/// All that is counted.
pub struct Metrics {
    registry: Registry,
    reconciliations: Family<Reconciliation, Counter>,
    reconciliation_seconds: Histogram,
    writes: Family<WriteLabels, Counter>,
    requests: Family<RequestLabels, Counter>,
    tokens: Family<TokenLabels, Counter>,
    issued: Family<IssueLabels, Counter>,
    resources: Family<Ready, Gauge>,
    targets: Family<TargetLabels, Gauge>,
    service_tokens: Family<TargetLabels, Gauge>,
    token_resources: Family<Ready, Gauge>,
    watches: Family<WatchLabels, Gauge>,
    waiting: Gauge,
    leading: Gauge,
    paused: Gauge,
}

/// Values of the label `ready`: the status of `Ready`, or that someone wants nothing written.
pub const READY: [&str; 4] = ["true", "false", "unknown", "paused"];

/// Values of the label `state` of `weaver_targets`.
pub const TARGET_STATES: [&str; 4] = ["synced", "failed", "conflict", "waiting"];

/// Values of the label `state` of `weaver_service_tokens`.
pub const TOKEN_STATES: [&str; 2] = ["fresh", "missing"];

/// Values of the label `state` of `weaver_watches`.
pub const WATCH_STATES: [&str; 4] = ["opening", "synced", "refused", "failing"];

/// How a reconciliation ended.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum ReconcileResult {
    /// All is as it should be, or is not to be done.
    Settled,
    /// Something has to be tried again.
    Retry,
    /// The operator's own identity failed.
    Failed,
}

/// What was written of a copy.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum CopyWrite {
    Created,
    /// It was written over.
    Updated,
    /// It was deleted and made again.
    Replaced,
    Removed,
}

/// Who asked the API server.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RequestIdentity {
    Operator,
    /// An account of a tenant.
    Tenant,
    /// The operator itself, about its lease.
    Lease,
}

/// What became of the request for a token.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum MintOutcome {
    Minted,
    /// The account does not exist.
    Missing,
    /// The operator may not.
    Forbidden,
    /// The API server could not be asked, or refused.
    Failed,
}

/// A variant as the value of a label: in snake case, as all values are.
macro_rules! label_values {
    ($($kind:ident { $($variant:ident = $value:literal),+ })+) => {$(
        impl EncodeLabelValue for $kind {
            fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
                EncodeLabelValue::encode(&match self { $(Self::$variant => $value),+ }, encoder)
            }
        }
    )+};
}

label_values! {
    ReconcileResult { Settled = "settled", Retry = "retry", Failed = "failed" }
    CopyWrite { Created = "created", Updated = "updated", Replaced = "replaced", Removed = "removed" }
    RequestIdentity { Operator = "operator", Tenant = "tenant", Lease = "lease" }
    MintOutcome { Minted = "minted", Missing = "missing", Forbidden = "forbidden", Failed = "failed" }
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Reconciliation {
    result: ReconcileResult,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct WriteLabels {
    change: CopyWrite,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct RequestLabels {
    identity: RequestIdentity,
    method: &'static str,
    code: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct TokenLabels {
    result: MintOutcome,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct IssueLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct Ready {
    ready: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct TargetLabels {
    state: &'static str,
}

#[derive(Clone, Debug, EncodeLabelSet, Eq, Hash, PartialEq)]
struct WatchLabels {
    state: &'static str,
}

/// What is not counted as it happens but looked up when someone asks.
#[derive(Clone, Debug, Default)]
pub struct Gauges {
    /// Resources by [`READY`].
    pub resources: Vec<(&'static str, i64)>,
    /// Targets by their state.
    pub targets: Vec<(&'static str, i64)>,
    /// `ServiceToken`s by [`READY`].
    pub token_resources: Vec<(&'static str, i64)>,
    /// Tokens that they ask for, by state.
    pub service_tokens: Vec<(&'static str, i64)>,
    /// Watches by their state.
    pub watches: Vec<(&'static str, i64)>,
    /// Reconciliations waiting for a permit (concurrency limit).
    pub waiting: i64,
    pub leading: bool,
    pub paused: bool,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("weaver");
        let all = &mut registry;
        let metrics = Self {
            reconciliations: registered(
                all,
                "reconciliations",
                "Reconciliations by result",
                Family::default(),
            ),
            reconciliation_seconds: registered(
                all,
                "reconciliation_seconds",
                "Duration of reconciliations, without the wait for a permit",
                // From a millisecond to half a minute.
                Histogram::new(exponential_buckets(0.001, 2.0, 16)),
            ),
            writes: registered(all, "writes", "Writes of copies by change", Family::default()),
            requests: registered(
                all,
                "requests",
                "Requests to the API server by identity, method and status code",
                Family::default(),
            ),
            tokens: registered(
                all,
                "tokens",
                "TokenRequests for tenant ServiceAccounts by result",
                Family::default(),
            ),
            issued: registered(
                all,
                "service_tokens_issued",
                "Tokens written to Secrets of ServiceTokens by reason",
                Family::default(),
            ),
            resources: registered(
                all,
                "resources",
                "ConfigMapSyncs and ResourceSyncs by status of the condition Ready; paused includes suspended ones and dry runs",
                Family::default(),
            ),
            targets: registered(
                all,
                "targets",
                "Targets of ConfigMapSyncs and ResourceSyncs by state",
                Family::default(),
            ),
            token_resources: registered(
                all,
                "service_token_resources",
                "ServiceTokens by status of the condition Ready, or paused",
                Family::default(),
            ),
            service_tokens: registered(
                all,
                "service_tokens",
                "Requested tokens of ServiceTokens by state: fresh if the Secret holds a valid one, else missing",
                Family::default(),
            ),
            watches: registered(all, "watches", "Watches of tenants by state", Family::default()),
            waiting: registered(
                all,
                "reconciliations_waiting",
                "Reconciliations waiting for a permit (concurrency limit)",
                Gauge::default(),
            ),
            leading: registered(
                all,
                "leading",
                "1 while this process is the leader and may write",
                Gauge::default(),
            ),
            paused: registered(all, "paused", "1 while all resources are paused", Gauge::default()),
            registry,
        };
        metrics.begin();
        metrics
    }
}

fn registered<M: Metric + Clone>(all: &mut Registry, name: &str, help: &str, metric: M) -> M {
    all.register(name, help, metric.clone());
    metric
}

impl Metrics {
    /// Shows counters before their first event. One that appeared with it would begin at 1, and Prometheus, which sees
    /// the increase between two looks, would miss the first. Requests have too many labels for it.
    fn begin(&self) {
        for result in [ReconcileResult::Settled, ReconcileResult::Retry, ReconcileResult::Failed] {
            drop(self.reconciliations.get_or_create(&Reconciliation { result }));
        }
        for change in [CopyWrite::Created, CopyWrite::Updated, CopyWrite::Replaced, CopyWrite::Removed] {
            drop(self.writes.get_or_create(&WriteLabels { change }));
        }
        for result in [MintOutcome::Minted, MintOutcome::Missing, MintOutcome::Forbidden, MintOutcome::Failed]
        {
            drop(self.tokens.get_or_create(&TokenLabels { result }));
        }
        for why in MintReason::ALL {
            drop(self.issued.get_or_create(&IssueLabels { reason: why.label() }));
        }
    }

    pub fn reconciled(&self, result: ReconcileResult, took: Duration) {
        self.reconciliations.get_or_create(&Reconciliation { result }).inc();
        self.reconciliation_seconds.observe(took.as_secs_f64());
    }

    pub fn wrote(&self, change: CopyWrite) {
        self.writes.get_or_create(&WriteLabels { change }).inc();
    }

    /// The API server was asked; `code` is absent where it gave no answer.
    pub fn asked(
        &self,
        identity: RequestIdentity,
        method: &http::Method,
        watch: bool,
        code: Option<http::StatusCode>,
    ) {
        let method = match method.as_str() {
            "GET" if watch => "watch",
            "GET" => "get",
            "POST" => "post",
            "PUT" => "put",
            "PATCH" => "patch",
            "DELETE" => "delete",
            _ => "other",
        };
        let code = match code.map(|code| code.as_u16()) {
            None => "none",
            Some(401) => "401",
            Some(403) => "403",
            Some(404) => "404",
            Some(409) => "409",
            Some(429) => "429",
            Some(200..=299) => "2xx",
            Some(300..=499) => "4xx",
            Some(_) => "5xx",
        };
        self.requests.get_or_create(&RequestLabels { identity, method, code }).inc();
    }

    pub fn minted(&self, result: MintOutcome) {
        self.tokens.get_or_create(&TokenLabels { result }).inc();
    }

    /// Tokens were written to the Secret of a `ServiceToken`.
    pub fn issued(&self, tokens: &[(String, MintReason)]) {
        for (_, why) in tokens {
            self.issued.get_or_create(&IssueLabels { reason: why.label() }).inc();
        }
    }

    /// Everything, with what was looked up just now.
    pub fn text(&self, now: &Gauges) -> String {
        for (ready, count) in &now.resources {
            self.resources.get_or_create(&Ready { ready }).set(*count);
        }
        for (ready, count) in &now.token_resources {
            self.token_resources.get_or_create(&Ready { ready }).set(*count);
        }
        for (state, count) in &now.service_tokens {
            self.service_tokens.get_or_create(&TargetLabels { state }).set(*count);
        }
        for (state, count) in &now.targets {
            self.targets.get_or_create(&TargetLabels { state }).set(*count);
        }
        for (state, count) in &now.watches {
            self.watches.get_or_create(&WatchLabels { state }).set(*count);
        }
        self.waiting.set(now.waiting);
        self.leading.set(i64::from(now.leading));
        self.paused.set(i64::from(now.paused));
        let mut text = String::new();
        #[expect(clippy::expect_used, reason = "writing to a String does not fail")]
        encode(&mut text, &self.registry).expect("metrics can be written");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_reported_with_labels_of_closed_sets() {
        let metrics = Metrics::default();
        metrics.reconciled(ReconcileResult::Settled, Duration::from_millis(3));
        metrics.wrote(CopyWrite::Created);
        metrics.asked(RequestIdentity::Tenant, &http::Method::GET, true, Some(http::StatusCode::OK));
        metrics.asked(RequestIdentity::Operator, &http::Method::PATCH, false, None);
        metrics.asked(
            RequestIdentity::Operator,
            &http::Method::TRACE,
            false,
            Some(http::StatusCode::IM_A_TEAPOT),
        );
        metrics.minted(MintOutcome::Forbidden);
        let now = Gauges { targets: vec![("synced", 7)], waiting: 2, ..Gauges::default() };
        let text = metrics.text(&now);
        for line in [
            r#"weaver_reconciliations_total{result="settled"} 1"#,
            "weaver_reconciliation_seconds_count 1",
            r#"weaver_writes_total{change="created"} 1"#,
            r#"weaver_requests_total{identity="tenant",method="watch",code="2xx"} 1"#,
            r#"weaver_requests_total{identity="operator",method="patch",code="none"} 1"#,
            r#"weaver_requests_total{identity="operator",method="other",code="4xx"} 1"#,
            r#"weaver_tokens_total{result="forbidden"} 1"#,
            r#"weaver_tokens_total{result="missing"} 0"#,
            r#"weaver_service_tokens_issued_total{reason="due"} 0"#,
            r#"weaver_targets{state="synced"} 7"#,
            "weaver_reconciliations_waiting 2",
            "weaver_leading 0",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}

//! Alerts and the faults that fire them.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::alone::OperatorProcess;
use crate::exposition::{Sample, samples};
use crate::promtool::fires;

/// Fired by the leader, or by its absence; scenario `alerts_own_server`, as are the next three.
pub const LEADING: [&str; 3] = ["WeaverNoLeader", "WeaverPaused", "WeaverTwoLeaders"];

/// Fired by what tenants do.
pub const TENANTS: [&str; 6] = [
    "WeaverConflicts",
    "WeaverMintingRefused",
    "WeaverServiceTokensNotReady",
    "WeaverSyncsNotReady",
    "WeaverTokensMissing",
    "WeaverWriteStorm",
];

/// Fired by an API server that refuses, or takes its time.
pub const API_SERVER: [&str; 4] =
    ["WeaverApiServerSilent", "WeaverOperatorRefused", "WeaverReconciliationsWait", "WeaverWatchesFail"];

/// Fired by what the node agent finds.
pub const NODE: [&str; 3] = ["WeaverDefinitionsMissing", "WeaverGateShut", "WeaverNamesNotCovered"];

/// Fired by nothing that a test brings about within seconds, and why; judged by the page that the agent would serve.
pub const BY_PAGE: [(&str, &str); 3] = [
    ("WeaverK3sBlocked", "only under systemd does the agent keep k3s' block"),
    ("WeaverNodeFails", "the faults are those of a host: of its kernel, its clock, its power"),
    ("WeaverOperatorTokenEnds", "a token lives ten minutes at least, and the agent renews it long before"),
];

/// How long a fault may take to show.
const PATIENCE: Duration = Duration::from_mins(1);

const PAUSE: Duration = Duration::from_millis(100);

/// Alerts of a scenario: none fires at first, each fires upon its fault. Dropped, it fails where one has not.
#[derive(Debug)]
pub struct AlertObserver {
    alerts: &'static [&'static str],
    fired: BTreeSet<&'static str>,
}

impl AlertObserver {
    pub fn new(alerts: &'static [&'static str]) -> Self {
        Self { alerts, fired: BTreeSet::new() }
    }

    /// Waits until none of them fires on all that was counted since the programs began.
    pub async fn is_quiet(&self, reported: impl AsyncFn() -> Vec<Sample>) {
        let begun = Instant::now();
        loop {
            let now = reported().await;
            let nothing: Vec<Sample> =
                now.iter().cloned().map(|sample| Sample { value: 0.0, ..sample }).collect();
            let mut loud = Vec::new();
            for alert in self.alerts {
                if fires_on(alert, &nothing, &now).await {
                    loud.push(*alert);
                }
            }
            if loud.is_empty() {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{loud:?} fire where all is well: {now:#?}");
            sleep(PAUSE).await;
        }
    }

    /// Waits until this one fires. As in Prometheus, each series counts from its first sample on.
    pub async fn comes(&mut self, alert: &'static str, reported: impl AsyncFn() -> Vec<Sample>) {
        assert!(self.alerts.contains(&alert), "{alert} is none of this scenario's");
        let begun = Instant::now();
        let mut first: Vec<Sample> = Vec::new();
        loop {
            let now = reported().await;
            let is_known =
                |new: &Sample| first.iter().any(|old| (&old.name, &old.labels) == (&new.name, &new.labels));
            let new: Vec<Sample> = now.iter().filter(|sample| !is_known(sample)).cloned().collect();
            first.extend(new);
            if fires_on(alert, &first, &now).await {
                self.fired.insert(alert);
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{alert} does not fire: {now:#?}");
            sleep(PAUSE).await;
        }
    }
}

/// On a thread of its own: the programs' proxy runs on this one.
async fn fires_on(alert: &'static str, before: &[Sample], now: &[Sample]) -> bool {
    let (before, now) = (before.to_vec(), now.to_vec());
    tokio::task::spawn_blocking(move || fires(alert, &before, &now)).await.unwrap()
}

impl Drop for AlertObserver {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let all: BTreeSet<&str> = self.alerts.iter().copied().collect();
            assert_eq!(self.fired, all, "not each was seen to fire");
        }
    }
}

/// What these operators tell together.
pub async fn reported(operators: &[&OperatorProcess]) -> Vec<Sample> {
    let mut all = Vec::new();
    for operator in operators {
        let page = operator.metrics().await.0;
        all.extend(samples(&page).into_iter().map(|mut sample| {
            sample.labels.insert("instance".to_owned(), operator.pid().to_string());
            sample
        }));
    }
    all
}

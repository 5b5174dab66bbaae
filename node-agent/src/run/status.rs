//! The state that `run` reports: in `report.json`, and under systemd through [`publish`](crate::publish) everywhere.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use jiff::Timestamp;
use parking_lot::Mutex;
use sd_notify::NotifyState;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use weaver_api::v1beta1::NodeServing;
use weaver_diagnostics::{finding::Finding, finding_text::cut};
use weaver_host::durable_file;

use super::metrics::EventCounters;
use crate::{
    node_report::{ChildReport, Definitions, Gate, Report, Unseen},
    node_verdicts::VerdictChange,
    publish::{Publisher, card::Publication},
};

/// Pause before a report that could not be written is tried again.
const WRITE_AGAIN: Duration = Duration::from_secs(10);
/// The same, where only the boot partition does not show it.
const CARD_AGAIN: Duration = Duration::from_mins(1);
/// The same, where a try was made: each is one of the few writes of a day.
const CARD_TRIED_AGAIN: Duration = Duration::from_hours(1);
/// Characters of the line for `systemctl status`.
const STATUS_LINE: usize = 200;
/// The most news, other than those of findings, that wait until they are sent.
const MOST_NEWS: usize = 32;

/// The shared report: tasks change it, one task writes it.
#[derive(Debug, Clone)]
pub struct AgentStatus {
    report: watch::Sender<Report>,
    path: PathBuf,
    /// Whether a round of checks has ended.
    checked: watch::Sender<bool>,
    /// News that are no findings, such as the kernel's.
    news: Arc<Mutex<Vec<VerdictChange>>>,
    /// What was found in the cluster, and by no round of checks.
    in_cluster: watch::Sender<Option<Finding>>,
    /// The certificate that a round of checks saw.
    serving: watch::Sender<Option<NodeServing>>,
    pub counts: EventCounters,
}

/// How a round of checks ended under systemd.
#[derive(Debug)]
pub struct CheckOutcome {
    /// What a check finds.
    pub findings: Vec<Finding>,
    /// What only this agent knows.
    pub agent_only: Vec<Finding>,
    pub k3s_blocked: bool,
    /// Whether this node has joined its server.
    pub joined: bool,
    pub gate: Gate,
    pub reason: String,
}

impl AgentStatus {
    /// A gate that is shut because nothing was checked yet.
    pub fn new(path: PathBuf) -> Self {
        Self {
            report: watch::Sender::new(Report::unchecked()),
            path,
            checked: watch::Sender::new(false),
            news: Arc::default(),
            in_cluster: watch::Sender::new(None),
            serving: watch::Sender::new(None),
            counts: EventCounters::default(),
        }
    }

    /// Writes the report as it is now.
    pub fn write(&self) -> anyhow::Result<()> {
        let json = serde_json::to_vec_pretty(&*self.report.borrow())?;
        Ok(durable_file::replace(&self.path, &json, 0o640)?)
    }

    /// Returns when a round of checks has ended.
    ///
    /// # Errors
    /// The checks have ended.
    pub async fn checked(&self) -> anyhow::Result<()> {
        self.checked.subscribe().wait_for(|checked| *checked).await.map(drop).context("no agent is checking")
    }

    /// The report and its changes.
    pub fn subscribe(&self) -> watch::Receiver<Report> {
        self.report.subscribe()
    }

    /// Keeps news until they are taken; where there are too many, the last are dropped.
    pub fn add_news(&self, added: impl IntoIterator<Item = VerdictChange>) {
        let mut news = self.news.lock();
        news.extend(added);
        news.truncate(MOST_NEWS);
    }

    /// The news since the last call.
    pub fn take_news(&self) -> Vec<VerdictChange> {
        std::mem::take(&mut *self.news.lock())
    }

    /// The node's name in the cluster.
    pub fn set_node(&self, name: &str) {
        self.change(|report| report.node = Some(name.to_owned()));
    }

    /// What the cluster shows of this node in addition to its report; it is there from the next round on.
    pub fn set_in_cluster(&self, finding: Option<Finding>) {
        self.in_cluster.send_replace(finding);
    }

    /// The certificate that the API server shows; `None` keeps the last one.
    pub fn set_serving(&self, seen: Option<NodeServing>) {
        if seen.is_some() {
            self.serving.send_replace(seen);
        }
    }

    /// The certificate that the API server shows; `None` where none was seen yet.
    pub fn serving(&self) -> Option<NodeServing> {
        self.serving.borrow().clone()
    }

    /// The findings of a check; new ones are logged.
    pub fn set_findings(&self, findings: Vec<Finding>) {
        let agent_only = self.in_cluster.borrow().clone().into_iter().collect();
        self.change(|report| change_findings(report, findings, agent_only));
        self.checked.send_replace(true);
    }

    /// The gate and why it is as it is; a change is logged.
    pub fn set_gate(&self, gate: Gate, reason: String) {
        self.change(|report| change_gate(report, gate, reason));
    }

    /// How a round ended, under systemd: all at once, so that no state in
    /// between costs the boot partition a write.
    pub fn set_round(&self, checked: CheckOutcome) {
        let CheckOutcome { findings, mut agent_only, k3s_blocked, joined, gate, reason } = checked;
        agent_only.extend(self.in_cluster.borrow().clone());
        self.change(|report| {
            change_findings(report, findings, agent_only);
            change_gate(report, gate, reason);
            report.k3s_blocked = Some(k3s_blocked);
            report.joined = joined;
        });
        self.checked.send_replace(true);
    }

    /// The operator's process, or that there is none.
    pub fn set_operator(&self, pid: Option<u32>) {
        self.change(|report| report.operator = pid.map(|pid| ChildReport { pid }));
    }

    /// The webhook's process, or that there is none.
    pub fn set_webhook(&self, pid: Option<u32>) {
        self.change(|report| report.webhook = pid.map(|pid| ChildReport { pid }));
    }

    /// The result of the last check of the definitions; a change is logged.
    pub fn set_definitions(&self, look: Result<(), Unseen>) {
        self.change(|report| {
            let definitions = Definitions::after(&report.definitions, look);
            if report.definitions != definitions {
                match &definitions {
                    Definitions { unanswered: true, reason, .. } => {
                        info!("could not check the CRDs: {reason}");
                    }
                    Definitions { installed: true, .. } => {
                        info!("the CRDs are installed and conversion works");
                    }
                    Definitions { reason, .. } => warn!("the CRDs are not in order: {reason}"),
                }
            }
            report.definitions = definitions;
        });
    }

    /// What the API server was too slow to answer about the definitions, if it was.
    pub fn definitions_are_late(&self) -> Option<String> {
        let definitions = &self.report.borrow().definitions;
        definitions.unanswered.then(|| definitions.reason.clone())
    }

    /// Records that this node joins a server, whose agent manages the definitions, and that this is no fault.
    pub fn joins(&self) {
        let reason = "this node joins a server, whose agent maintains them".to_owned();
        let definitions = Definitions { installed: false, unanswered: false, reason };
        self.change(|report| {
            report.joins = true;
            report.definitions = definitions;
        });
    }

    fn change(&self, edit: impl FnOnce(&mut Report)) {
        self.report.send_if_modified(|report| {
            let before = report.clone();
            edit(report);
            *report != before
        });
    }
}

fn change_findings(report: &mut Report, findings: Vec<Finding>, agent_only: Vec<Finding>) {
    let all = findings.iter().chain(&agent_only);
    all.filter(|f| !report.findings.contains(f)).for_each(crate::report::log);
    report.set_findings(findings, agent_only);
}

fn change_gate(report: &mut Report, gate: Gate, reason: String) {
    if (report.gate, &report.reason) != (gate, &reason) {
        match gate {
            Gate::Open => info!("the gate is open: {reason}"),
            Gate::Shut => warn!("the gate is shut: {reason}"),
        }
    }
    report.gate = gate;
    report.reason = reason;
}

/// Writes the report at each change of its content.
pub async fn write_on_change(status: AgentStatus, stop: CancellationToken) -> anyhow::Result<()> {
    let mut report = status.report.subscribe();
    loop {
        report.borrow_and_update();
        // A full disk must not stop the agent: it is tried again.
        let written = status.write().inspect_err(|failure| error!("{failure:#}")).is_ok();
        tokio::select! {
            changed = report.changed() => changed?,
            () = tokio::time::sleep(WRITE_AGAIN), if !written => {}
            () = stop.cancelled() => return Ok(()),
        }
    }
}

/// Publishes the report at each change of its content, once a round has ended: the last report of the previous agent or
/// of preflight stays until then.
pub async fn publish_on_change(
    status: AgentStatus,
    publisher: Publisher,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut report = status.report.subscribe();
    tokio::select! {
        checked = status.checked() => checked?,
        () = stop.cancelled() => return Ok(()),
    }
    let (mut publisher, mut logged) = (publisher, None);
    loop {
        let current = report.borrow_and_update().clone();
        let line = cut(&format!("gate {}: {}", current.gate.word(), current.reason), STATUS_LINE);
        let _ = sd_notify::notify(&[NotifyState::Status(&line)]);
        // A dying card can take seconds to answer: never on the runtime's thread.
        let writing = tokio::task::spawn_blocking(move || {
            let outcome = publisher.publish(&current, Timestamp::now());
            (publisher, outcome)
        });
        let (returned, outcome) = writing.await.context("publishing the report")?;
        publisher = returned;
        // A full disk must not stop the agent: it is tried again.
        let (fault, again) = match outcome {
            Ok(outcome) => (outcome.fault(), retry(&outcome)),
            Err(failure) => (Some(failure.to_string()), Some(WRITE_AGAIN)),
        };
        if fault != logged {
            if let Some(fault) = &fault {
                warn!("the report is not published everywhere: {fault}");
            } else {
                info!("the report is published everywhere again");
            }
        }
        logged = fault;
        tokio::select! {
            changed = report.changed() => changed?,
            () = tokio::time::sleep(again.unwrap_or_default()), if again.is_some() => {}
            () = stop.cancelled() => return Ok(()),
        }
    }
}

const fn retry(outcome: &Publication) -> Option<Duration> {
    match outcome {
        Publication::Written | Publication::Current => None,
        Publication::Deferred(_) | Publication::Unwritable(_) => Some(CARD_AGAIN),
        Publication::Failed(_) => Some(CARD_TRIED_AGAIN),
    }
}

//! What `run` says about itself, in `report.json`.

use std::{path::PathBuf, time::Duration};

use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use weaver_diagnostics::finding::{Finding, Severity};
use weaver_operator::durable_file;

use super::gate::Gate;

/// Pause before a report that could not be written is tried again.
const WRITE_AGAIN: Duration = Duration::from_secs(10);

/// The report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether the operator may run.
    pub gate: Gate,
    /// Why.
    pub reason: String,
    /// The last check's findings.
    pub findings: Vec<Finding>,
    /// The operator, where this agent runs it.
    pub operator: Option<ChildReport>,
    /// The conversion webhook, where this agent runs it.
    pub webhook: Option<ChildReport>,
    /// Whether the definitions of our kinds are installed and converted.
    pub definitions: Definitions,
}

/// The definitions of our kinds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Definitions {
    /// They are as this agent wants them, and the webhook answers.
    pub installed: bool,
    /// Why not, and what to do.
    pub reason: String,
}

/// A running child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChildReport {
    /// Its process.
    pub pid: u32,
}

/// The shared report: tasks change it, one task writes it.
#[derive(Debug, Clone)]
pub struct Status {
    report: watch::Sender<Report>,
    path: PathBuf,
}

impl Status {
    /// A gate that is shut because nothing was checked yet.
    pub fn new(path: PathBuf) -> Self {
        let reason = "no check has ended yet".to_owned();
        let report = Report {
            gate: Gate::Shut,
            reason,
            findings: Vec::new(),
            operator: None,
            webhook: None,
            definitions: Definitions { installed: false, reason: "not looked at yet".to_owned() },
        };
        Self { report: watch::Sender::new(report), path }
    }

    /// Writes the report as it is now.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self) -> anyhow::Result<()> {
        let json = serde_json::to_vec_pretty(&*self.report.borrow())?;
        Ok(durable_file::replace(&self.path, &json, 0o640)?)
    }

    /// The findings of a check; new ones are logged.
    pub fn set_findings(&self, findings: Vec<Finding>) {
        self.change(|report| {
            for finding in findings.iter().filter(|f| !report.findings.contains(f)) {
                let (code, message) = (finding.code.id(), finding.message.as_str());
                match finding.severity {
                    Severity::Fail => error!(code, "{message}"),
                    Severity::Warn => warn!(code, "{message}"),
                    Severity::Ok | Severity::Unknown => info!(code, "{message}"),
                }
            }
            report.findings = findings;
        });
    }

    /// The gate and why it is as it is; a change is logged.
    pub fn set_gate(&self, gate: Gate, reason: String) {
        self.change(|report| {
            if (report.gate, &report.reason) != (gate, &reason) {
                match gate {
                    Gate::Open => info!("the gate is open: {reason}"),
                    Gate::Shut => warn!("the gate is shut: {reason}"),
                }
            }
            report.gate = gate;
            report.reason = reason;
        });
    }

    /// The operator's process, or that there is none.
    pub fn set_operator(&self, pid: Option<u32>) {
        self.change(|report| report.operator = pid.map(|pid| ChildReport { pid }));
    }

    /// The webhook's process, or that there is none.
    pub fn set_webhook(&self, pid: Option<u32>) {
        self.change(|report| report.webhook = pid.map(|pid| ChildReport { pid }));
    }

    /// How the last look at the definitions ended; a change is logged.
    pub fn set_definitions(&self, outcome: Result<(), String>) {
        let definitions = match outcome {
            Ok(()) => Definitions { installed: true, reason: String::new() },
            Err(reason) => Definitions { installed: false, reason },
        };
        self.change(|report| {
            if report.definitions != definitions {
                if definitions.installed {
                    info!("the definitions of our kinds are installed, and the webhook converts");
                } else {
                    warn!("the definitions of our kinds are not as they should be: {}", definitions.reason);
                }
            }
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

/// Writes the report at each change of its content.
pub async fn write_on_change(status: Status, stop: CancellationToken) -> anyhow::Result<()> {
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

//! The units that the agent manages under systemd: k3s, which it blocks and unblocks, and the operator, which it starts
//! when the gate opens.
//!
//! Guarantees: a running k3s is never stopped, and a running operator neither; a unit whose state is not known is not
//! blocked; each request that failed is made again in the next round and is in the report until then. The decisions are
//! pure, systemd is asked only where a decision needs it.

use std::error::Error as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};
use weaver_diagnostics::finding::{Code, Finding, K3S_LOG_END, Place, Remedy, Severity};
use weaver_diagnostics::host::load::{BUSY_PATIENCE, HostLoad};
use weaver_diagnostics::k3s_upgrade::Role;

use super::k3d_units::{K3dUnits, Reach};
use super::k3s_log::K3sLog;
use crate::systemctl::{Systemctl, SystemctlError, UnitState};
use crate::{k3s_block, node_report::Gate};

const K3S: &str = Role::Server.unit();
const OPERATOR: &str = "weaver-operator.service";
/// Pause between two questions about the same unit.
const LOOK: Duration = Duration::from_secs(10);
/// How long k3s may be starting before that is a fault. With [`LOOK`] and the
/// pause between two checks the fault is reported within two minutes.
const STARTING: Duration = Duration::from_secs(90);

/// How long the operator may wait for its credentials while k3s is starting: its API server proves names long before
/// it can create anything, minutes on a slow card.
const OPENING: Duration = Duration::from_mins(5);

/// Where a kubelet reports that it is healthy. The agent of k3s starts its kubelet when the server has accepted the
/// node, and notifies systemd minutes later on a busy board.
const KUBELET: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 10248);
/// For a connection on this machine.
const AT_ONCE: Duration = Duration::from_secs(1);

/// How a round of checks ended, as far as it concerns the units.
#[derive(Debug, Clone, Copy)]
pub struct CheckRound<'a> {
    pub gate: Gate,
    /// Whether all is proven now.
    pub good: bool,
    /// Whether k3s' API server does not answer, or not as it should.
    pub silent: bool,
    /// Why the operator could not be given its credentials, though all is proven.
    pub opening_failure: Option<&'a str>,
    /// How long that has been so only because there was no answer in time.
    pub opening_late_for: Option<Duration>,
    /// How busy the machine is, where something is late.
    pub load: Option<&'a HostLoad>,
}

#[derive(Debug)]
pub struct Units {
    systemctl: Systemctl,
    k3d: K3dUnits,
    runtime_dir: PathBuf,
    /// The unit of k3s, by the node's role.
    unit: &'static str,
    /// k3s was blocked, and its start was not requested since.
    k3s_is_due: bool,
    /// The operator must be started when all is well. Initially too: the agent may be a new one, and the operator may
    /// have ended.
    operator_is_due: bool,
    last_look: Option<Instant>,
    /// What k3s did then.
    k3s: Option<UnitState>,
    /// Since when k3s was starting in every query.
    starting_since: Option<Instant>,
    /// What the last round found about k3s' block.
    block_fault: Option<Finding>,
    /// The last finding about k3s' start.
    start_fault: Option<Finding>,
    /// Why the webhook is not where a cluster of k3d needs it.
    webhook_fault: Option<Finding>,
    /// Why k3s does not come up, by its own log.
    log: K3sLog,
    kubelet: SocketAddr,
}

/// What becomes of k3s' block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockAction {
    Nothing,
    /// Write what blocks it now; it is blocked already.
    Refresh,
    /// Block it if it does not run.
    Block,
    /// Unblock it and start it.
    Free,
}

const fn step(is_bad: bool, is_blocked: bool, is_due: bool) -> BlockAction {
    match (is_bad, is_blocked, is_due) {
        (true, true, _) => BlockAction::Refresh,
        (true, false, _) => BlockAction::Block,
        (false, true, _) | (false, false, true) => BlockAction::Free,
        (false, false, false) => BlockAction::Nothing,
    }
}

impl Units {
    /// The units as a new agent finds them.
    pub fn new(systemctl: Systemctl, runtime_dir: PathBuf, drop_ins: PathBuf, role: Role) -> Self {
        Self {
            k3d: K3dUnits::new(drop_ins, systemctl.clone()),
            systemctl,
            runtime_dir,
            unit: role.unit(),
            k3s_is_due: false,
            operator_is_due: true,
            last_look: None,
            k3s: None,
            starting_since: None,
            block_fault: None,
            start_fault: None,
            webhook_fault: None,
            log: K3sLog::new("journalctl".into()),
            kubelet: KUBELET,
        }
    }

    /// Whether the start of k3s is blocked.
    pub fn k3s_is_blocked(&self) -> bool {
        k3s_block::exists(&self.runtime_dir)
    }

    /// Whether k3s was ready at the last query.
    pub fn k3s_runs(&self) -> bool {
        self.k3s.as_ref().is_some_and(|state| state.active == "active")
    }

    /// Blocks k3s, or unblocks and starts it, after the host was judged.
    pub async fn guard_k3s(&mut self, host: &[Finding]) {
        let causes = k3s_block::causes(host);
        self.block_fault = match step(!causes.is_empty(), self.k3s_is_blocked(), self.k3s_is_due) {
            BlockAction::Nothing => None,
            BlockAction::Refresh => self.block(&causes),
            BlockAction::Block => match self.look().await {
                None => self.block_fault.take(),
                // Without the drop-in the owner controls it, and the agent only reports.
                Some(Ok(state)) if state.may_run() || !state.is_gated => None,
                Some(Ok(_)) => {
                    warn!("k3s is not running and stays blocked: a check has failed");
                    self.block(&causes)
                }
                Some(Err(failure)) => {
                    warn!("it is unknown whether k3s runs, so it is not blocked: {failure}");
                    None
                }
            },
            BlockAction::Free => self.free().await,
        };
    }

    fn block(&mut self, causes: &[Finding]) -> Option<Finding> {
        match k3s_block::write(&self.runtime_dir, causes) {
            Ok(()) => {
                self.k3s_is_due = true;
                None
            }
            Err(failure) => {
                warn!("{failure}");
                let path = k3s_block::path(&self.runtime_dir).display().to_string();
                let why = failure.source().map_or_else(|| failure.to_string(), ToString::to_string);
                let remedy = Remedy::new("free space in /run, which is memory; the agent keeps retrying")
                    .command("df -h /run")
                    .command(format!("sudo ls -l {path}*"));
                let message = "a check failed, but the block of k3s cannot be written";
                Some(not_started(message).saw(Place::file(path), why).remedy(remedy))
            }
        }
    }

    async fn free(&mut self) -> Option<Finding> {
        self.k3s_is_due = true;
        let (path, unit) = (k3s_block::path(&self.runtime_dir), self.unit);
        if let Err(failure) = k3s_block::remove(&self.runtime_dir) {
            let remedy = Remedy::new(format!("remove {} and start {unit}", path.display()))
                .command(format!("sudo rm -r {}", path.display()))
                .command(format!("sudo systemctl start {unit}"));
            let message = "the cause of the block of k3s is gone, but the block cannot be removed";
            return Some(
                not_started(message)
                    .saw(Place::file(path.display().to_string()), failure.to_string())
                    .remedy(remedy),
            );
        }
        if let Err(failure) = self.systemctl.start(unit).await {
            let remedy = Remedy::new(format!("start {unit}")).command(format!("sudo systemctl start {unit}"));
            let message = "k3s is no longer blocked, but systemd does not start it";
            return Some(not_started(message).saw(Place::file(unit), failure.to_string()).remedy(remedy));
        }
        info!("k3s is no longer blocked: asked systemd to start it");
        self.k3s_is_due = false;
        // It starts again.
        self.starting_since = None;
        self.k3s = None;
        None
    }

    /// Puts the webhook's socket where the containers of this cluster of k3d can connect to it; without one, where its
    /// unit has it.
    pub async fn place_webhook(&mut self, reach: Option<Reach>) {
        self.webhook_fault = self.k3d.place(reach).await;
    }

    /// Starts the operator where it is due, handles a k3s that does not answer; returns the findings.
    pub async fn attend(&mut self, round: CheckRound<'_>) -> Vec<Finding> {
        let mut findings = Vec::new();
        if round.good && round.gate == Gate::Open {
            findings.extend(self.start_operator().await);
        }
        if !round.good {
            self.operator_is_due = true;
        }
        if (round.silent || round.opening_failure.is_some())
            && let Some(Err(failure)) = self.look().await
        {
            info!("the state of k3s is unknown: {failure}");
        }
        if let Some(failure) = round.opening_failure {
            let (active, lasting) =
                self.k3s.as_ref().map_or(("", Duration::ZERO), |k3s| (&k3s.active, lasting(k3s)));
            let load = round.load.cloned().unwrap_or_default();
            let is_slow = round.opening_late_for.is_some_and(|silent_for| load.excuses(silent_for));
            findings.push(opening_fault(active, lasting, failure, is_slow));
        }
        if round.silent {
            // An API server that proves names and cannot create anything yet is still starting.
            let patience = if round.opening_failure.is_some() { OPENING } else { STARTING };
            // Between two queries, the last result.
            let is_busy = round.load.is_some_and(HostLoad::is_busy);
            self.start_fault = self.k3s.clone().and_then(|state| self.judge_start(&state, patience, is_busy));
            if self.start_fault.is_some() && self.has_joined().await {
                self.start_fault = None;
            }
            if let Some(fault) = self.start_fault.take() {
                self.start_fault = Some(self.log.explain(fault, self.unit).await);
            }
        } else {
            self.starting_since = None;
            self.start_fault = None;
        }
        let faults = [&self.block_fault, &self.start_fault, &self.webhook_fault];
        findings.extend(faults.into_iter().flatten().cloned());
        findings
    }

    async fn start_operator(&mut self) -> Option<Finding> {
        if !self.operator_is_due {
            return None;
        }
        match self.systemctl.start(OPERATOR).await {
            Ok(()) => {
                info!("asked systemd to start the operator");
                self.operator_is_due = false;
                None
            }
            Err(failure) => {
                warn!("{failure}");
                let message = "the gate is open, but systemd does not start the operator";
                let remedy = Remedy::new("wait for the agent's next check, or start the operator")
                    .command(format!("sudo systemctl start {OPERATOR}"));
                Some(operator_fault(message, &failure.to_string()).remedy(remedy))
            }
        }
    }

    /// Queries the state of k3s, unless that was done a moment ago.
    async fn look(&mut self) -> Option<Result<UnitState, SystemctlError>> {
        if self.last_look.is_some_and(|last| last.elapsed() < LOOK) {
            return None;
        }
        let looked = self.systemctl.state(self.unit).await;
        self.last_look = Some(Instant::now());
        self.k3s = looked.as_ref().ok().cloned();
        Some(looked)
    }

    /// Whether this is a node that its server has accepted, whatever its unit says.
    pub async fn has_joined(&self) -> bool {
        self.unit != K3S && matches!(timeout(AT_ONCE, TcpStream::connect(self.kubelet)).await, Ok(Ok(_)))
    }

    fn judge_start(&mut self, state: &UnitState, patience: Duration, is_busy: bool) -> Option<Finding> {
        if state.active != "activating" {
            self.starting_since = None;
        } else if self.starting_since.is_none() {
            self.starting_since = Some(Instant::now());
        }
        // systemd's own time, for a new agent; and ours, for a k3s that restarts again and again, which resets
        // systemd's.
        let seen = self.starting_since.map(|since| since.elapsed()).unwrap_or_default();
        let one_start = lasting(state);
        // One that starts again and again makes the load itself.
        let is_slow = is_busy && (patience..BUSY_PATIENCE).contains(&one_start);
        start_fault(self.unit, &state.active, seen.max(one_start), patience, is_slow)
    }
}

fn start_fault(
    unit: &str,
    active: &str,
    lasting: Duration,
    patience: Duration,
    is_slow: bool,
) -> Option<Finding> {
    let missing =
        if unit == K3S { "its API server does not answer correctly" } else { "has not joined its server" };
    let message = match active {
        "activating" if lasting >= patience && is_slow => {
            let message = format!(
                "k3s has been starting for more than {} s on a node that is busy",
                patience.as_secs()
            );
            let remedy = Remedy::new("wait: it is at work, and a restart would only make it start over")
                .command(format!("sudo journalctl -b -u {unit} | tail -n 50"));
            // One start on a busy machine takes long, and completes.
            let finding = not_started(&message).milder(Severity::Warn);
            return Some(finding.saw(Place::file(unit), "ActiveState=activating").remedy(remedy));
        }
        "activating" if lasting >= patience => {
            format!("k3s has been starting for more than {} s, and {missing}", patience.as_secs())
        }
        "failed" => "k3s has failed, and systemd does not restart it".to_owned(),
        _ => return None,
    };
    let remedy = Remedy::new("read its log to see why it waits or failed, then start it again")
        .command(format!("sudo journalctl -b -u {unit} | tail -n 50"))
        .command(format!("sudo systemctl restart --no-block {unit}"));
    Some(not_started(&message).saw(Place::file(unit), format!("ActiveState={active}")).remedy(remedy))
}

fn opening_fault(active: &str, lasting: Duration, why: &str, is_slow: bool) -> Finding {
    if active == "activating" && lasting < OPENING {
        let message = "the names are proven; the operator gets its credentials when k3s has started";
        // It is still starting.
        let finding = Finding::new(Code::OperatorNotStarted, message).milder(Severity::Unknown);
        return finding.saw(Place::file(K3S), why);
    }
    if is_slow {
        let message =
            "the names are proven; the API server is too slow to give the operator its credentials yet";
        let remedy = Remedy::new("wait: the agent keeps retrying").command("uptime");
        // Nothing was refused.
        let finding = Finding::new(Code::OperatorNotStarted, message).milder(Severity::Warn);
        return finding.saw(Place::file(OPERATOR), why).remedy(remedy);
    }
    let remedy = Remedy::new("the agent keeps retrying; the log of k3s has the reason").command(K3S_LOG_END);
    operator_fault("the names are proven, but the operator did not get its credentials", why).remedy(remedy)
}

fn not_started(message: &str) -> Finding {
    Finding::new(Code::K3sNotAnswering, message)
}

fn operator_fault(message: &str, why: &str) -> Finding {
    Finding::new(Code::OperatorNotStarted, message).saw(Place::file(OPERATOR), why)
}

/// How long the unit has been in its state, according to systemd.
fn lasting(state: &UnitState) -> Duration {
    state.since.and_then(|since| age(since, monotonic_now()?)).unwrap_or_default()
}

/// Time between two readings of the monotonic clock, in microseconds.
fn age(since: u64, now: u64) -> Option<Duration> {
    now.checked_sub(since).map(Duration::from_micros)
}

/// The clock of systemd's timestamps.
pub(super) fn monotonic_now() -> Option<u64> {
    match NotifyState::monotonic_usec_now() {
        Ok(NotifyState::MonotonicUsec(now)) => u64::try_from(now).ok(),
        _ => None,
    }
}

#[cfg(test)]
#[path = "units_tests.rs"]
mod tests;

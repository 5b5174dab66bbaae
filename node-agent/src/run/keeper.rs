//! Keeps the gate: checks after each change and at intervals, opens the gate once, renews the operator's
//! token; under systemd it also starts the units in each round.

use std::{future::pending, net::SocketAddr, time::Duration};

use anyhow::Context as _;
use jiff::Timestamp;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use weaver_diagnostics::finding::{Code, Finding};
use weaver_diagnostics::host::load::{self, HostLoad};
use weaver_host::backoff::{Backoff, jittered};

use super::{
    cluster, credentials,
    drift::Drift,
    gate::{GateVerdict, is_silent, verdict},
    k3d_units::Reach,
    kernel_log,
    phase::{Delivery, GatePhase, GateState},
    renewal::Renewal,
    status::{AgentStatus, CheckOutcome},
    units::{CheckRound, Units},
    watchdog::KeeperHeartbeat,
};
use crate::{
    args::RunArgs,
    boot_config,
    checks::{self, CheckResult},
    clock_wait,
    findings::Runs,
    host::Host,
    k3d::K3d,
    node_report::Gate,
    serving_report, slowness,
};

/// Longest time for one round without its pauses: reading, handshakes one after
/// another, opening or renewing, and some calls of `systemctl`. The probe's
/// patience and the pause between two rounds come on top.
const ROUND: Duration = Duration::from_mins(5);

/// How long the keeper may be silent before it counts as stuck.
pub fn longest_silence(args: &RunArgs) -> Duration {
    let pause = Duration::from_secs(args.recheck_seconds.max(args.retry_seconds)).max(SHUT);
    ROUND + pause * 2 + args.host.probe_patience()
}

/// Longest pause between two checks while the gate is shut, unless a longer one is configured.
const SHUT: Duration = Duration::from_secs(10);

/// Longest time for opening the gate or renewing, all requests together.
const OPENING: Duration = Duration::from_secs(90);

struct Keeper {
    host: Host,
    args: RunArgs,
    status: AgentStatus,
    open: watch::Sender<bool>,
    /// The address for the webhook, by which the API server connects to it; `None` before the first check.
    webhook: watch::Sender<Option<SocketAddr>>,
    /// Whether the API server serves what the operator works on.
    served: watch::Receiver<bool>,
    phase: GatePhase,
    /// What systemd runs, where it does.
    units: Option<Units>,
    /// The findings of the kernel's log, where it is read.
    kernel_log: Option<kernel_log::SharedLog>,
    heartbeat: KeeperHeartbeat,
    backoff: Backoff,
    /// Changes of the host's files, where the kernel reports them.
    drift: Option<Drift>,
    /// The address and the CA in the operator's kubeconfig.
    given: Option<(SocketAddr, String)>,
}

/// Keeps the gate until `stop` is cancelled; only an error ends it earlier.
#[expect(clippy::too_many_arguments, reason = "the ends of the channels to all other tasks")]
pub async fn keep(
    host: Host,
    args: RunArgs,
    status: AgentStatus,
    open: watch::Sender<bool>,
    webhook: watch::Sender<Option<SocketAddr>>,
    served: watch::Receiver<bool>,
    units: Option<Units>,
    kernel_log: Option<kernel_log::SharedLog>,
    heartbeat: KeeperHeartbeat,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let work = async {
        // What changes while the first check reads counts too.
        let read = {
            let host = host.clone();
            tokio::task::spawn_blocking(move || (host.all_watched_dirs(), host.joins()))
        };
        let (watched_dirs, joins) = read.await.context("reading")?;
        let was_open = units.is_some() && credentials::kubeconfig_path(&args.runtime_dir).exists();
        let backoff = Backoff::new(Duration::from_secs(args.retry_seconds));
        let phase = GatePhase::new(joins, was_open);
        let mut keeper = Keeper {
            host,
            args,
            status,
            open,
            webhook,
            served,
            phase,
            units,
            kernel_log,
            heartbeat,
            backoff,
            drift: Drift::if_possible(),
            given: None,
        };
        if let Some(drift) = &mut keeper.drift {
            drift.watch(&watched_dirs);
        }
        // The webhook does not wait for the first check, which may take as long as the API server.
        keeper.show_webhook();
        let mut known_bad = false;
        loop {
            // The first "no" is waited for, since a name appears a moment after a start. Once known, one probe per
            // round is enough.
            let patience = if known_bad { Duration::ZERO } else { keeper.args.host.probe_patience() };
            let begun = Instant::now();
            keeper.heartbeat.beat();
            keeper.guard_k3s().await?;
            let check = checks::check(&keeper.host, patience).await?;
            keeper.show_webhook();
            keeper.place_webhook(&check).await;
            if let Some(drift) = &mut keeper.drift {
                drift.watch(&check.watched_dirs);
            }
            known_bad = check.failures().next().is_some();
            keeper.status.set_serving(serving_report::of(&check));
            keeper.observe(&check).await?;
            keeper.status.counts.round(begun.elapsed());
            keeper.pause(&check).await;
        }
    };
    tokio::select! {
        ended = work => ended,
        () = stop.cancelled() => Ok(()),
    }
}

/// The findings of a check, with the node's load where an answer was late, or where `agent_only` says so.
fn with_slowness(
    status: &AgentStatus,
    check: &CheckResult,
    agent_only: &[Finding],
    load: Option<&HostLoad>,
) -> Vec<Finding> {
    let mut findings = check.findings.clone();
    let has = |findings: &[Finding], code| findings.iter().any(|finding| finding.code == code);
    if let Some(why) = status.definitions_are_late()
        && !has(&findings, Code::ApiServerSlow)
    {
        findings.push(load::slow(&check.api_address.to_string(), "the CRDs", &why));
    }
    let is_late = slowness::is_excused(&findings) || slowness::is_excused(agent_only);
    if is_late && !has(&findings, Code::NodeOverloaded) {
        findings.extend(load.and_then(HostLoad::judge));
    }
    findings
}

/// Returns when a file or a container has changed.
async fn changed(drift: Option<&mut Drift>, k3d: Option<&K3d>) {
    let files = async {
        match drift {
            Some(drift) => drift.changed().await,
            None => pending().await,
        }
    };
    let containers = async {
        match k3d {
            Some(k3d) => k3d.changed().await,
            None => pending().await,
        }
    };
    tokio::select! {
        () = files => {}
        () = containers => {}
    }
}

impl Keeper {
    /// Publishes the address at which the API server will call the webhook.
    fn show_webhook(&self) {
        let address = Some(self.host.webhook_address(self.args.webhook_address));
        self.webhook.send_if_modified(|known| std::mem::replace(known, address) != address);
    }

    /// The same for the webhook that systemd runs. A cluster that has stopped shows no gateway, and comes back with it.
    async fn place_webhook(&mut self, check: &CheckResult) {
        let (port, api) = (self.args.webhook_address.port(), check.api_address);
        let k3d = self.host.k3d();
        let reach = k3d.as_ref().and_then(|k3d| k3d.gateway).map(|gateway| Reach { gateway, api, port });
        if let Some(units) = &mut self.units
            && k3d.is_some() == reach.is_some()
        {
            units.place_webhook(reach).await;
        }
    }

    /// k3s first: what blocks it is known without the network.
    async fn guard_k3s(&mut self) -> anyhow::Result<()> {
        let Some(units) = &mut self.units else { return Ok(()) };
        if self.host.k3d().is_some() {
            return Ok(());
        }
        let host = self.host.clone();
        let judged = tokio::task::spawn_blocking(move || checks::preflight(&host).findings).await;
        units.guard_k3s(&judged.context("judging the host")?).await;
        Ok(())
    }

    async fn observe(&mut self, check: &CheckResult) -> anyhow::Result<()> {
        if self.units.is_none() {
            let load = self.load_if_late(check).await;
            self.status.set_findings(with_slowness(&self.status, check, &[], load.as_ref()));
        }
        self.attempt(check).await;
        let verdict = verdict(check);
        let good = verdict == GateVerdict::Good;
        let GateState { gate, reason, opening_failure } = self.phase.gate_state(verdict);
        let runs = self.host.runs();
        let load = if self.units.is_some() { self.load_if_late(check).await } else { None };
        match &mut self.units {
            None => self.status.set_gate(gate, reason),
            Some(units) => {
                let round = CheckRound {
                    gate,
                    good,
                    // On a node that joins, only systemd knows whether its k3s comes up; for a cluster of k3d it knows
                    // nothing.
                    silent: matches!(runs, Runs::Unit(_))
                        && (matches!(self.phase, GatePhase::Joined)
                            || is_silent(check)
                            || opening_failure.is_some()),
                    opening_failure: opening_failure.as_deref(),
                    opening_late_for: self.phase.late_since().map(|since| since.elapsed()),
                    load: load.as_ref(),
                };
                let attended = units.attend(round).await;
                let mut agent_only: Vec<_> =
                    attended.into_iter().map(|finding| runs.typed_there(finding)).collect();
                let (root, state_dir) = (self.host.root.clone(), self.args.state_dir.join("boot-config"));
                // A dying card can take seconds to answer: never on the runtime's thread.
                let read = tokio::task::spawn_blocking(move || {
                    (clock_wait::at_once(&root).judge(), boot_config::read_report(&root, &state_dir))
                });
                let (clock, booted) = read.await.context("reading the reports of this boot")?;
                agent_only.extend(clock);
                agent_only.extend(booted);
                // It is no cause to block k3s or the operator: it is about the past.
                let kernel = self.kernel_log.iter().flat_map(kernel_log::SharedLog::findings);
                agent_only.extend(kernel.map(|finding| runs.typed_there(finding)));
                let joined = matches!(self.phase, GatePhase::Joined) && units.has_joined().await;
                self.status.set_round(CheckOutcome {
                    findings: with_slowness(&self.status, check, &agent_only, load.as_ref()),
                    agent_only,
                    k3s_blocked: units.k3s_is_blocked(),
                    joined,
                    gate,
                    reason,
                });
            }
        }
        if gate == Gate::Open {
            self.open.send_replace(true);
        }
        Ok(())
    }

    /// How busy the machine is, where it may be the reason why something is late.
    async fn load_if_late(&self, check: &CheckResult) -> Option<HostLoad> {
        let is_late = is_silent(check)
            || self.phase.late_since().is_some()
            || self.status.definitions_are_late().is_some();
        match &check.load {
            _ if !is_late => None,
            // The check has read it already.
            Some(load) => Some(load.clone()),
            None => Some(slowness::load(&self.host.root).await),
        }
    }

    /// Gives the operator a token, where the check requires it.
    async fn attempt(&mut self, check: &CheckResult) {
        let is_another = self.given.as_ref().is_some_and(|(address, ca)| {
            *address != check.api_address || check.server_ca.as_ref().is_some_and(|now| now != ca)
        });
        let (now, clock) = (Instant::now(), Timestamp::now());
        let Some(mint) = self.phase.checked(&verdict(check), is_another, now, clock) else { return };
        if matches!(self.phase, GatePhase::Open(_)) {
            let why = if is_another { "another API server answers" } else { "the clock was set" };
            info!("{why}: renewing the operator's token early");
        }
        self.mint(check, mint).await;
    }

    /// Until the next check: when its time has come, or something has changed; renewals in between happen on time.
    async fn pause(&mut self, check: &CheckResult) {
        let asked = |seconds| Duration::from_secs(seconds);
        let longest = match &self.phase {
            // The API server of a cluster is there a while after its container.
            GatePhase::Open(_) if !check.proven && self.host.k3d().is_some() => SHUT,
            GatePhase::Open(_) => asked(self.args.recheck_seconds),
            // There is no gate to open: nothing is due on a node that has joined.
            GatePhase::Joined if self.units.as_ref().is_some_and(Units::k3s_runs) => {
                asked(self.args.recheck_seconds)
            }
            _ => SHUT.max(asked(self.args.retry_seconds)),
        };
        let earliest = Instant::now() + self.phase.pause();
        let next_check = Instant::now() + jittered(self.backoff.next(longest)).max(self.phase.pause());
        let k3d = self.host.k3d();
        loop {
            let renewal = self.phase.renewal().filter(|(at, _)| *at < next_check);
            tokio::select! {
                () = tokio::time::sleep_until(renewal.map_or(next_check, |(at, _)| at)) => {}
                () = changed(self.drift.as_mut(), k3d.as_deref()) => {
                    self.backoff.reset();
                    // Each attempt to open the gate costs one token, for any change of the files.
                    tokio::time::sleep_until(earliest).await;
                    return;
                }
            }
            let Some((_, mint)) = renewal else { return };
            self.heartbeat.beat();
            self.mint(check, mint).await;
            let GateState { gate, reason, .. } = self.phase.gate_state(verdict(check));
            self.status.set_gate(gate, reason);
        }
    }

    async fn mint(&mut self, check: &CheckResult, mint: Delivery) {
        match self.renew(check, mint).await {
            Ok(renewal) => self.phase.minted(renewal),
            Err(failure) => {
                // Where the CRDs were refused, waiting for them is no slowness.
                let is_served = *self.served.borrow() || self.status.definitions_are_late().is_some();
                let is_late = slowness::is_late(&failure) && is_served;
                if self.phase.failed(format!("{failure:#}"), is_late, Instant::now()) {
                    warn!("the operator's token could not be renewed, retrying: {failure:#}");
                }
            }
        }
    }

    fn too_long(&self) -> String {
        let missing = if *self.served.borrow() {
            ""
        } else {
            ": the API server does not serve v1beta1 of ConfigMapSync"
        };
        format!("timed out after {} s{missing}", OPENING.as_secs())
    }

    /// Mints a token and writes the operator's files.
    async fn renew(&mut self, check: &CheckResult, mint: Delivery) -> anyhow::Result<Renewal> {
        let work = async {
            let client = cluster::connect(&self.host.admin()).await?;
            if mint == Delivery::ManifestsAndToken {
                cluster::apply_all(&client).await?;
                // An operator that starts before its kinds are served only fails.
                self.served
                    .wait_for(|installed| *installed)
                    .await
                    .context("the CRDs are not maintained by this agent")?;
            }
            cluster::mint(&client, self.args.token_seconds).await
        };
        let token = tokio::time::timeout(OPENING, work).await.with_context(|| self.too_long())??;
        let ca = check.server_ca.clone().context("the CA of the API server is not known")?;
        let runtime_dir = &self.args.runtime_dir;
        // A child of ours is of our user, and reads them as they are.
        let group = self.units.as_ref().map(|_| credentials::group(runtime_dir)).transpose()?;
        credentials::write(runtime_dir, &token, check.api_address, &ca, group)?;
        self.given = Some((check.api_address, ca));
        let now = Instant::now();
        let renewal = Renewal::of(&token, Duration::from_secs(self.args.token_renew_seconds), now);
        info!(
            lifetime_seconds = token.lifetime.as_secs(),
            renewed_in_seconds = (renewal.at - now).as_secs(),
            "renewed the operator's token"
        );
        self.status.counts.token(token.expires);
        Ok(renewal)
    }
}

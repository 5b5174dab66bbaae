//! `run`: checks the host in a loop, opens the gate once, renews the operator's credentials and starts the operator;
//! keeps the CRDs installed and their conversion working.
//!
//! With `--systemd` it starts systemd units instead of child processes, maintains the block of k3s, follows the
//! kernel's log, and publishes the report in all places that preflight does. On a node that joins a server it proves no
//! names, starts no operator and installs no CRDs: the server's agent does that.
//!
//! The tasks share one cancellation token: gate, CRDs, `NodeReport`, supervisors of operator and webhook, kernel log,
//! metrics, reports, watchdog. If one of them ends unasked, the process exits: a half-dead agent would look alive.

pub(crate) mod cluster;
mod credentials;
mod definitions;
mod drift;
mod gate;
mod k3d_units;
mod k3s_log;
mod keeper;
mod kernel_log;
pub mod metrics;
mod node_labels;
mod phase;
mod renewal;
mod reporter;
mod stale_process;
mod status;
mod supervisor;
mod units;
mod watchdog;

use std::{fs, io, net::SocketAddr, os::unix::fs::DirBuilderExt as _, path::Path, time::Duration};

use anyhow::{Context as _, anyhow, bail};
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use weaver_diagnostics::k3s_upgrade::Role;
use weaver_host::{file_lock::lock_within, metrics_page, signals::Signals};

use self::{status::AgentStatus, supervisor::ChildProgram, units::Units, watchdog::KeeperHeartbeat};
use crate::{
    args::RunArgs,
    host::Host,
    host_root::HostRoot,
    node_report::Gate,
    preflight_gate::AGENT_LOCK,
    publish::{Publisher, announce::Announcer, html},
    systemctl::Systemctl,
};

/// How long a new agent waits for the lock: preflight holds it for a moment, to
/// see whether an agent runs.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// A directory that stays unusable until a user changes it: restarting the agent does not help.
#[derive(Debug, thiserror::Error)]
#[error("a restart of the agent does not help")]
pub struct NeedsHuman;

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// The runtime directory cannot be used (then a [`NeedsHuman`] is in the error
/// where time does not cure it), another agent uses it, or a task ended unexpectedly.
pub async fn run(args: RunArgs) -> anyhow::Result<()> {
    prepare(&args.runtime_dir)?;
    let _lock = lock(&args.runtime_dir)?;
    for name in [OPERATOR, WEBHOOK] {
        stale_process::stop(&args.runtime_dir, name).await?;
    }

    let mut signals = Signals::install().context("listening for the signals that end the agent")?;
    let stop = CancellationToken::new();
    let status = AgentStatus::new(args.runtime_dir.join("report.json"));
    let by_systemd = args.systemd;
    let host = Host::from(args.host.clone());
    // No task starts with k3s where the API server runs in a cluster of k3d.
    host.look_at_k3d().await;
    let kernel_log = args.systemd.then(kernel_log::SharedLog::new).transpose()?;
    let mut tasks = start(host, args, kernel_log, &status, &stop);
    if !by_systemd {
        // Not every process is started by systemd: without its socket this does nothing.
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    }
    let outcome = tokio::select! {
        _ = signals.next() => Ok(()),
        Some(ended) = tasks.join_next() => match ended.context("a task was lost") {
            Ok(Ok(())) => Err(anyhow!("a task ended unexpectedly")),
            Ok(Err(error)) | Err(error) => Err(error),
        },
    };
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    info!("stopping");
    stop.cancel();
    tokio::select! {
        () = async { while tasks.join_next().await.is_some() {} } => {}
        // Dropping the tasks kills the children.
        _ = signals.next() => warn!("second signal: not waiting for child processes"),
    }
    drop(tasks);
    // The units of systemd continue without the agent: the last report still holds.
    if !by_systemd {
        status.set_gate(Gate::Shut, "the agent has stopped".to_owned());
        if let Err(failure) = status.write() {
            error!("{failure:#}");
        }
    }
    outcome
}

/// Starts every task, each of which runs until `stop`.
fn start(
    host: Host,
    args: RunArgs,
    kernel_log: Option<kernel_log::SharedLog>,
    status: &AgentStatus,
    stop: &CancellationToken,
) -> JoinSet<anyhow::Result<()>> {
    let (status, stop) = (|| status.clone(), || stop.clone());
    let (open, opened) = watch::channel(false);
    let (serve, served) = watch::channel(false);
    let (show, shown) = watch::channel(None);
    let mut tasks = JoinSet::new();
    let heartbeat = KeeperHeartbeat::new();
    if let Some(address) = args.metrics.0 {
        tasks.spawn(serve_metrics(address, status(), stop()));
    }
    if args.systemd {
        tasks.spawn(status::publish_on_change(status(), publisher(&args, host.clone()), stop()));
        let state_file = host.root.real(html::STATE_FILE);
        tasks.spawn(watchdog::tell(heartbeat.clone(), keeper::longest_silence(&args), state_file, stop()));
    } else {
        tasks.spawn(status::write_on_change(status(), stop()));
    }
    if let Some(program) = operator(&args, status()) {
        tasks.spawn(supervisor::supervise(program, opened, stop()));
    }
    if args.webhook.is_some() {
        tasks.spawn(webhook(args.clone(), shown, status(), stop()));
    }
    if let Some(log) = &kernel_log {
        tasks.spawn(kernel_log::follow(host.root.clone(), log.clone(), status(), stop()));
    }
    let role = host.role();
    let systemctl = args.systemd.then(|| Systemctl::new(args.systemctl.clone()));
    tasks.spawn(reporter::keep(host.clone(), status(), systemctl.clone(), stop()));
    match role {
        Role::Agent => status().joins(),
        Role::Server => {
            tasks.spawn(definitions::keep(host.clone(), args.clone(), status(), serve, stop()));
        }
    }
    let units = systemctl.map(|systemctl| {
        let drop_ins = HostRoot::new(args.host.root.clone()).real(k3d_units::DIRECTORY);
        Units::new(systemctl, args.runtime_dir.clone(), drop_ins, role)
    });
    tasks.spawn(keeper::keep(host, args, status(), open, show, served, units, kernel_log, heartbeat, stop()));
    tasks
}

async fn serve_metrics(
    address: SocketAddr,
    status: AgentStatus,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let report = status.subscribe();
    let remedy = "set WEAVER_AGENT_METRICS (--metrics) to another one, or to `none`";
    let page = metrics_page::page(move || status.counts.text(&report.borrow()));
    tokio::select! {
        () = metrics_page::serve(address, remedy, page) => Ok(()),
        () = stop.cancelled() => Ok(()),
    }
}

fn publisher(args: &RunArgs, host: Host) -> Publisher {
    let root = HostRoot::new(args.host.root.clone());
    let state_dir = root.real(&args.state_dir);
    let publisher = Publisher::new(&root, args.runtime_dir.clone(), args.host.boot_dir.clone(), &state_dir);
    publisher.announcing(Announcer::new(host, args.announce))
}

/// Names of the children.
const OPERATOR: &str = "operator";
const WEBHOOK: &str = "webhook";

fn operator(args: &RunArgs, status: AgentStatus) -> Option<ChildProgram> {
    Some(ChildProgram {
        name: OPERATOR,
        path: args.operator.clone()?,
        arguments: vec![
            "run".into(),
            "--kubeconfig".into(),
            credentials::kubeconfig_path(&args.runtime_dir).into(),
        ],
        runtime_dir: args.runtime_dir.clone(),
        show: Box::new(move |pid| status.set_operator(pid)),
    })
}

/// Keeps the webhook running at the address at which the API server calls it: never gated, for stored objects must stay
/// readable, and started again elsewhere when a cluster of k3d is created with another network.
async fn webhook(
    args: RunArgs,
    mut address: watch::Receiver<Option<SocketAddr>>,
    status: AgentStatus,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    loop {
        let known = tokio::select! {
            known = address.wait_for(Option::is_some) => *known.context("the keeper is gone")?,
            () = stop.cancelled() => return Ok(()),
        };
        let (Some(listen), Some(path)) = (known, args.webhook.clone()) else { return Ok(()) };
        let status = status.clone();
        let program = ChildProgram {
            name: WEBHOOK,
            path,
            arguments: vec![
                "webhook".into(),
                "--listen".into(),
                listen.to_string().into(),
                "--certificates".into(),
                args.certificates.clone().into(),
            ],
            runtime_dir: args.runtime_dir.clone(),
            show: Box::new(move |pid| status.set_webhook(pid)),
        };
        let moved = stop.child_token();
        let running = supervisor::supervise(program, watch::channel(true).1, moved.clone());
        tokio::pin!(running);
        tokio::select! {
            ended = &mut running => return ended,
            other = address.wait_for(|now| *now != known) => {
                other.context("the keeper is gone")?;
                moved.cancel();
            }
        }
        running.await?;
    }
}

fn prepare(directory: &Path) -> anyhow::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let made = fs::DirBuilder::new().recursive(true).mode(0o750).create(directory);
    let Err(error) = made else { return Ok(()) };
    let stays = matches!(
        error.kind(),
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied
    );
    let what =
        format!("cannot make the runtime directory {}; name another --runtime-dir", directory.display());
    let error = anyhow::Error::from(error).context(what);
    Err(if stays { error.context(NeedsHuman) } else { error })
}

/// Two agents on one directory would start two operators.
fn lock(directory: &Path) -> anyhow::Result<fs::File> {
    let path = directory.join(AGENT_LOCK);
    let file = fs::File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    match lock_within(&file, LOCK_PATIENCE) {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => bail!(
            "another weaver-node-agent uses {}: stop it, or name another --runtime-dir",
            directory.display()
        ),
        Err(fs::TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

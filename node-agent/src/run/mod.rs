//! `run`: keeps checking, opens the gate once, keeps the operator's credentials
//! fresh, starts the operator; beside the gate, keeps the definitions of our
//! kinds installed and their conversion working.
//!
//! Tasks under one cancellation token: the gate keeper, the keeper of the
//! definitions, the supervisors of operator and webhook, the writer of
//! `report.json`. The end of any of them that was not asked for ends the
//! process: a half-dead agent would look alive.

mod cluster;
mod credentials;
mod definitions;
mod gate;
mod keeper;
mod leftover;
mod manifests;
mod renewal;
mod status;
mod supervisor;

use std::{fs, os::unix::fs::DirBuilderExt as _, path::Path};

use anyhow::{Context as _, anyhow, bail};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use self::{status::Status, supervisor::Program};
use crate::args::RunArgs;

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// The runtime directory cannot be used, another agent uses it, or a task ended
/// by itself.
pub async fn run(args: RunArgs) -> anyhow::Result<()> {
    prepare(&args.runtime_dir)?;
    let _lock = lock(&args.runtime_dir)?;
    for name in [OPERATOR, WEBHOOK] {
        leftover::stop(&args.runtime_dir, name).await?;
    }

    let mut signals = Signals::listen()?;
    let stop = CancellationToken::new();
    let status = Status::new(args.runtime_dir.join("report.json"));
    let (open, opened) = watch::channel(false);
    let (serve, served) = watch::channel(false);
    let mut tasks = JoinSet::new();
    tasks.spawn(status::write_on_change(status.clone(), stop.clone()));
    if let Some(program) = operator(&args, &status) {
        tasks.spawn(supervisor::supervise(program, opened, stop.clone()));
    }
    if let Some(program) = webhook(&args, &status) {
        // Never gated: what is stored must stay readable.
        tasks.spawn(supervisor::supervise(program, watch::channel(true).1, stop.clone()));
    }
    tasks.spawn(definitions::keep(args.clone(), status.clone(), serve, stop.clone()));
    tasks.spawn(keeper::keep(args, status.clone(), open, served, stop.clone()));

    // Not every process is started by systemd: without its socket this does nothing.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    let outcome = tokio::select! {
        () = signals.next() => Ok(()),
        Some(ended) = tasks.join_next() => match ended.context("a task was lost") {
            Ok(Ok(())) => Err(anyhow!("a task ended by itself")),
            Ok(Err(error)) | Err(error) => Err(error),
        },
    };
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
    info!("stopping");
    stop.cancel();
    tokio::select! {
        () = async { while tasks.join_next().await.is_some() {} } => {}
        // Dropping the tasks kills the children.
        () = signals.next() => warn!("a second signal: not waiting for the children"),
    }
    drop(tasks);
    status.set_gate(gate::Gate::Shut, "the agent has stopped".to_owned());
    if let Err(failure) = status.write() {
        error!("{failure:#}");
    }
    outcome
}

/// Names of the children.
const OPERATOR: &str = "operator";
const WEBHOOK: &str = "webhook";

fn operator(args: &RunArgs, status: &Status) -> Option<Program> {
    let status = status.clone();
    Some(Program {
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

fn webhook(args: &RunArgs, status: &Status) -> Option<Program> {
    let status = status.clone();
    Some(Program {
        name: WEBHOOK,
        path: args.webhook.clone()?,
        arguments: vec![
            "webhook".into(),
            "--listen".into(),
            args.webhook_address.to_string().into(),
            "--certificates".into(),
            args.certificates.clone().into(),
        ],
        runtime_dir: args.runtime_dir.clone(),
        show: Box::new(move |pid| status.set_webhook(pid)),
    })
}

/// What asks the agent to stop.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("listening for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("listening for SIGINT")?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

fn prepare(directory: &Path) -> anyhow::Result<()> {
    if !directory.is_dir() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o750)
            .create(directory)
            .with_context(|| format!("cannot make the runtime directory {}", directory.display()))?;
    }
    Ok(())
}

/// Two agents on one directory would start two operators.
fn lock(directory: &Path) -> anyhow::Result<fs::File> {
    let path = directory.join("agent.lock");
    let file = fs::File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            bail!(
                "another weaver-node-agent uses {}: stop it, or name another --runtime-dir",
                directory.display()
            )
        }
        Err(fs::TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

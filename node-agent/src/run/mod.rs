//! `run`: keeps checking, opens the gate once, keeps the operator's credentials
//! fresh, starts the operator.
//!
//! Three tasks under one cancellation token: the gate keeper, the operator's
//! supervisor, the writer of `report.json`. The end of any of them that was not
//! asked for ends the process: a half-dead agent would look alive.

mod cluster;
mod credentials;
mod durable_file;
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

use crate::args::RunArgs;

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// The runtime directory cannot be used, another agent uses it, or a task ended
/// by itself.
pub async fn run(args: RunArgs) -> anyhow::Result<()> {
    prepare(&args.runtime_dir)?;
    let _lock = lock(&args.runtime_dir)?;
    leftover::stop(&args.runtime_dir).await?;

    let mut signals = Signals::listen()?;
    let stop = CancellationToken::new();
    let status = status::Status::new(args.runtime_dir.join("report.json"));
    let (open, opened) = watch::channel(false);
    let mut tasks = JoinSet::new();
    tasks.spawn(status::write_on_change(status.clone(), stop.clone()));
    if let Some(program) = &args.operator {
        let operator = supervisor::Operator {
            program: program.clone(),
            runtime_dir: args.runtime_dir.clone(),
            status: status.clone(),
        };
        tasks.spawn(supervisor::supervise(operator, opened, stop.clone()));
    }
    tasks.spawn(keeper::keep(args, status.clone(), open, stop.clone()));

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
        // Dropping the tasks kills the operator.
        () = signals.next() => warn!("a second signal: not waiting for the operator"),
    }
    drop(tasks);
    status.set_gate(gate::Gate::Shut, "the agent has stopped".to_owned());
    if let Err(failure) = status.write() {
        error!("{failure:#}");
    }
    outcome
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

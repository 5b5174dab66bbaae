//! Starts the operator when the gate opens, starts it again when it ends by
//! itself, ends it with the agent.

use std::{path::PathBuf, process::Stdio, time::Duration};

use anyhow::Context as _;
use nix::sys::signal::Signal;
use tokio::{
    process::{Child, Command},
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::{credentials, leftover, status::Status};

/// The first pause before a restart, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// An operator that ran this long failed for a new reason.
const STEADY: Duration = Duration::from_mins(1);

/// What to run.
pub struct Operator {
    /// The program.
    pub program: PathBuf,
    /// The directory with its credentials.
    pub runtime_dir: PathBuf,
    /// Where its process number is shown.
    pub status: Status,
}

/// Waits for the gate, then keeps the operator running until `stop`.
pub async fn supervise(
    operator: Operator,
    mut gate: watch::Receiver<bool>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    tokio::select! {
        opened = gate.wait_for(|open| *open) => { opened.context("the gate keeper is gone")?; }
        () = stop.cancelled() => return Ok(()),
    }
    let mut pause = BACKOFF.0;
    loop {
        let started = Instant::now();
        match operator.start() {
            Ok(child) => {
                if operator.attend(child, &stop).await {
                    return Ok(());
                }
            }
            Err(failure) => error!("{failure:#}"),
        }
        pause = next_pause(pause, started.elapsed());
        tokio::select! {
            () = sleep(pause) => {}
            () = stop.cancelled() => return Ok(()),
        }
        pause = (pause * 2).min(BACKOFF.1);
    }
}

fn next_pause(pause: Duration, ran: Duration) -> Duration {
    if ran >= STEADY { BACKOFF.0 } else { pause }
}

impl Operator {
    fn start(&self) -> anyhow::Result<Child> {
        let kubeconfig = credentials::kubeconfig_path(&self.runtime_dir);
        let child = Command::new(&self.program)
            .arg("run")
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            // Its readiness is not ours to announce.
            .env_remove("NOTIFY_SOCKET")
            .env_remove("WATCHDOG_USEC")
            .stdin(Stdio::null())
            // A Ctrl-C on the terminal is for the agent, which ends it in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| {
                format!("cannot start the operator {}: check --operator", self.program.display())
            })?;
        if let Some(pid) = child.id() {
            info!(pid, "started the operator {}", self.program.display());
            if let Err(failure) = leftover::note(&self.runtime_dir, pid) {
                warn!("{failure:#}");
            }
            self.status.set_operator(Some(pid));
        }
        Ok(child)
    }

    /// Returns `true` when it was ended because of `stop`.
    async fn attend(&self, mut child: Child, stop: &CancellationToken) -> bool {
        let stopped = tokio::select! {
            ended = child.wait() => {
                match ended {
                    Ok(how) => warn!("the operator ended by itself ({how}), starting it again"),
                    Err(failure) => error!("lost the operator: {failure}"),
                }
                false
            }
            () = stop.cancelled() => {
                end(&mut child).await;
                true
            }
        };
        leftover::forget(&self.runtime_dir);
        self.status.set_operator(None);
        stopped
    }
}

async fn end(child: &mut Child) {
    let Some(pid) = child.id() else { return };
    if let Err(failure) = leftover::send(pid, Signal::SIGTERM) {
        warn!("{failure:#}");
    }
    if timeout(leftover::PATIENCE, child.wait()).await.is_err() {
        warn!(pid, "the operator did not end within {} s, killing it", leftover::PATIENCE.as_secs());
        if let Err(failure) = child.kill().await {
            error!("cannot kill the operator: {failure}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_operator_resets_the_pause() {
        let long = Duration::from_secs(16);
        assert_eq!(next_pause(long, Duration::from_secs(5)), long);
        assert_eq!(next_pause(long, STEADY), BACKOFF.0);
    }
}

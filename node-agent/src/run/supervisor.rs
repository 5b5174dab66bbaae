//! Keeps a child running: starts it when it may run, starts it again when it
//! ends by itself, ends it with the agent.

use std::{ffi::OsString, path::PathBuf, process::Stdio, time::Duration};

use anyhow::Context as _;
use nix::sys::signal::Signal;
use tokio::{
    process::{Child, Command},
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};
use weaver_host::backoff::Backoff;

use super::stale_process;

/// The first pause before a restart, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// A child that ran this long failed for a new reason.
const STEADY: Duration = Duration::from_mins(1);

pub struct ChildProgram {
    /// Its name in the log, in the report and in its pid file.
    pub name: &'static str,
    pub path: PathBuf,
    pub arguments: Vec<OsString>,
    /// The directory of its pid file.
    pub runtime_dir: PathBuf,
    /// Called with the process number, or `None` when there is no process.
    pub show: Box<dyn Fn(Option<u32>) + Send + Sync>,
}

/// Waits until the program may run, then keeps it running until `stop`.
pub async fn supervise(
    program: ChildProgram,
    mut may_run: watch::Receiver<bool>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    tokio::select! {
        allowed = may_run.wait_for(|may| *may) => { allowed.context("the gate keeper is gone")?; }
        () = stop.cancelled() => return Ok(()),
    }
    let mut backoff = Backoff::new(BACKOFF.0);
    loop {
        let started = Instant::now();
        match program.start() {
            Ok(child) => {
                if program.attend(child, &stop).await {
                    return Ok(());
                }
            }
            Err(failure) => error!("{failure:#}"),
        }
        tokio::select! {
            () = sleep(pause(&mut backoff, started.elapsed())) => {}
            () = stop.cancelled() => return Ok(()),
        }
    }
}

fn pause(backoff: &mut Backoff, ran: Duration) -> Duration {
    if ran >= STEADY {
        backoff.reset();
    }
    backoff.next(BACKOFF.1)
}

impl ChildProgram {
    fn start(&self) -> anyhow::Result<Child> {
        let (name, path) = (self.name, self.path.display());
        let child = Command::new(&self.path)
            .args(&self.arguments)
            // Its readiness is not ours to announce.
            .env_remove("NOTIFY_SOCKET")
            .env_remove("WATCHDOG_USEC")
            .stdin(Stdio::null())
            // A Ctrl-C on the terminal is for the agent, which ends it in order.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start the {name} {path}: check --{name}"))?;
        if let Some(pid) = child.id() {
            info!(pid, "started the {name} {path}");
            if let Err(failure) = stale_process::note(&self.runtime_dir, name, pid) {
                warn!("{failure:#}");
            }
            (self.show)(Some(pid));
        }
        Ok(child)
    }

    /// Returns `true` when it was ended because of `stop`.
    async fn attend(&self, mut child: Child, stop: &CancellationToken) -> bool {
        let name = self.name;
        let stopped = tokio::select! {
            ended = child.wait() => {
                match ended {
                    Ok(how) => warn!("the {name} exited ({how}), restarting it"),
                    Err(failure) => error!("cannot wait for the {name}: {failure}"),
                }
                false
            }
            () = stop.cancelled() => {
                end(name, &mut child).await;
                true
            }
        };
        stale_process::forget(&self.runtime_dir, name);
        (self.show)(None);
        stopped
    }
}

async fn end(name: &str, child: &mut Child) {
    let Some(pid) = child.id() else { return };
    if let Err(failure) = stale_process::send(pid, Signal::SIGTERM) {
        warn!("{failure:#}");
    }
    if timeout(stale_process::PATIENCE, child.wait()).await.is_err() {
        warn!(pid, "the {name} did not exit within {} s, killing it", stale_process::PATIENCE.as_secs());
        if let Err(failure) = child.kill().await {
            error!("cannot kill the {name}: {failure}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_child_resets_the_pause() {
        let mut backoff = Backoff::new(BACKOFF.0);
        let pauses =
            [5, 5, 5, 5, 5, 5, 60].map(|ran| pause(&mut backoff, Duration::from_secs(ran)).as_secs());
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 1]);
    }
}

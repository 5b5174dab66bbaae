//! A child that outlived its agent.
//!
//! A killed agent cannot stop its children. The next one does before it starts another: two operators on one account
//! would work against each other, and two webhooks cannot have one port. The process is identified by its number and
//! its start time, so that a reused number is never mistaken for it.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use procfs_core::{FromRead as _, process::Stat};
use tracing::{info, warn};

use weaver_host::durable_file;

/// How long a child may take to end by itself.
pub const PATIENCE: Duration = Duration::from_secs(10);

fn pid_file(runtime_dir: &Path, name: &str) -> PathBuf {
    runtime_dir.join(name).with_extension("pid")
}

/// Records a running child.
pub fn note(runtime_dir: &Path, name: &str, pid: u32) -> anyhow::Result<()> {
    let text = format!("{pid} {}\n", start_time(pid).unwrap_or(0));
    Ok(durable_file::replace(&pid_file(runtime_dir, name), text.as_bytes(), 0o640)?)
}

/// Forgets it, once it has ended.
pub fn forget(runtime_dir: &Path, name: &str) {
    let path = pid_file(runtime_dir, name);
    if let Err(error) = durable_file::if_there(fs::remove_file(&path)) {
        warn!("cannot remove {}: {error}", path.display());
    }
}

/// Ends a child that a former agent left running.
pub async fn stop(runtime_dir: &Path, name: &str) -> anyhow::Result<()> {
    let path = pid_file(runtime_dir, name);
    let Ok(text) = fs::read_to_string(&path) else { return Ok(()) };
    if let Some((pid, started)) = parse(&text)
        && is_same(pid, started)
    {
        info!(pid, "stopping the {name} that an earlier agent left running");
        end(pid, started)
            .await
            .with_context(|| format!("cannot end the {name} noted in {}", path.display()))?;
    }
    forget(runtime_dir, name);
    Ok(())
}

async fn end(pid: u32, started: u64) -> anyhow::Result<()> {
    for (signal, patience) in [(Signal::SIGTERM, PATIENCE), (Signal::SIGKILL, Duration::from_secs(2))] {
        send(pid, signal)?;
        let since = Instant::now();
        while since.elapsed() < patience {
            if !is_same(pid, started) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    bail!("process {pid} does not exit")
}

/// Sends a signal; a process that has ended is fine.
pub fn send(pid: u32, signal: Signal) -> anyhow::Result<()> {
    let number = i32::try_from(pid).context("a process number out of range")?;
    match kill(Pid::from_raw(number), signal) {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(error) => Err(error).with_context(|| format!("cannot send {signal} to process {pid}")),
    }
}

fn parse(text: &str) -> Option<(u32, u64)> {
    let (pid, started) = text.trim().split_once(' ')?;
    let (pid, started) = (pid.parse().ok()?, started.parse().ok()?);
    (pid > 1 && started > 0).then_some((pid, started))
}

/// Whether this very process runs; one that only waits to be collected does not.
fn is_same(pid: u32, started: u64) -> bool {
    start_time(pid) == Some(started)
}

/// When a process started, in the kernel's ticks; `None` where none runs.
fn start_time(pid: u32) -> Option<u64> {
    let stat = Stat::from_file(format!("/proc/{pid}/stat")).ok()?;
    (!matches!(stat.state, 'Z' | 'X')).then_some(stat.starttime)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[tokio::test]
    async fn a_left_child_is_ended_and_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
        note(dir.path(), "operator", child.id()).unwrap();
        stop(dir.path(), "operator").await.unwrap();
        assert!(!child.wait().unwrap().success(), "it was ended by a signal");
        assert!(!pid_file(dir.path(), "operator").exists());
    }

    #[tokio::test]
    async fn a_number_that_is_used_again_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let own = std::process::id();
        let started = start_time(own).unwrap();
        fs::write(pid_file(dir.path(), "operator"), format!("{own} {}", started + 1)).unwrap();
        stop(dir.path(), "operator").await.unwrap();
        assert_eq!(start_time(own), Some(started));
    }

    #[test]
    fn nonsense_names_no_process() {
        for text in ["", "x", "12", "1 5", "0 5", "-4 5", "12 0", "a b"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
        assert_eq!(parse("12 5\n"), Some((12, 5)));
    }
}

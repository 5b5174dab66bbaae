//! The node agent: a check of this machine and of an API server, and an agent that has nothing to do.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use tokio::time::{Instant, sleep};
use weaver_devstack::server::Server;
use weaver_tests::memory::ProcessMemory;

use crate::figures::{Budget, Figure};
use crate::operator::PATIENCE;
use crate::processor;

/// The agent's pauses have grown to their longest by then.
const SETTLED: Duration = Duration::from_mins(1);

/// Where an agent is to look.
pub struct AgentPaths {
    pub program: PathBuf,
    /// A directory for what it writes.
    pub dir: PathBuf,
    /// Where the webhook answers.
    pub webhook: String,
    /// The directory of the webhook's certificates.
    pub certificates: PathBuf,
}

/// A check, next to a start of the same program that does nothing.
pub fn checks(server: &Server, paths: &AgentPaths, rounds: usize) -> Result<Vec<Figure>> {
    let check = command(server, paths, "check");
    let (mut took, mut floor, mut peak) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds * 4 {
        took.push(timed(&check)?);
        floor.push(timed(&[paths.program.clone().into(), "--version".into()])?);
        peak.push(processor::peak_of(&check)?);
    }
    Ok(vec![
        Figure::new("node agent: a check (floor: a start that does nothing)", "ms", took)
            .compared_to(floor)
            .within(Budget::AtMost(50.0)),
        Figure::new("node agent: a check's memory at its peak", "MiB", peak).within(Budget::AtMost(15.0)),
    ])
}

/// An agent whose gate is open and around which nothing changes.
pub async fn rest(server: &Server, paths: &AgentPaths, length: Duration) -> Result<Vec<Figure>> {
    let mut agent = Agent::start(server, paths)?;
    agent.open().await?;
    sleep(SETTLED).await;
    let pid = agent.child.id();
    let (cpu, written) = (processor::time(pid)?, processor::written(pid)?);
    sleep(length).await;
    let share = (processor::time(pid)? - cpu) / (length.as_secs_f64() * 1000.0) * 100.0;
    let written = processor::written(pid)? - written;
    let memory = ProcessMemory::of(pid);
    let what = format!("node agent at rest for {} s", length.as_secs());
    Ok(vec![
        Figure::new(format!("{what}: of a processor"), "%", vec![share]).within(Budget::AtMost(0.1)),
        Figure::new(format!("{what}: memory"), "MiB", vec![memory.now]).within(Budget::AtMost(15.0)),
        Figure::new(format!("{what}: memory at its peak"), "MiB", vec![memory.peak]),
        Figure::new(format!("{what}: bytes to disks"), "", vec![written]).within(Budget::AtMost(0.0)),
    ])
}

fn command(server: &Server, paths: &AgentPaths, verb: &str) -> Vec<OsString> {
    let pairs: [(&str, OsString); 5] = [
        ("--k3s-config", server.config_path().into()),
        ("--k3s-data-dir", server.data_dir().into()),
        ("--k3s-unit", paths.dir.join("no-unit").into()),
        ("--admin-kubeconfig", server.kubeconfig().into()),
        ("--api-address", format!("127.0.0.1:{}", server.port()).into()),
    ];
    let flags = pairs.into_iter().flat_map(|(flag, value)| [flag.into(), value]);
    [paths.program.clone().into(), verb.into()].into_iter().chain(flags).collect()
}

/// Milliseconds from its start to its end.
fn timed(command: &[OsString]) -> Result<f64> {
    let (program, arguments) = command.split_first().context("no program")?;
    let begun = Instant::now();
    let mut program = Command::new(program);
    let ended = program.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    // Known bad is a verdict too: this machine may lack something that k3s needs.
    if !matches!(ended.code(), Some(0 | 10 | 11)) {
        bail!("{command:?}: {ended}");
    }
    Ok(begun.elapsed().as_secs_f64() * 1000.0)
}

/// A running agent; killed when dropped.
struct Agent {
    child: Child,
    report: PathBuf,
}

impl Agent {
    fn start(server: &Server, paths: &AgentPaths) -> Result<Self> {
        let runtime = paths.dir.join("agent");
        let command = command(server, paths, "run");
        let log = File::create(paths.dir.join("agent.log")).context("the agent's log")?;
        let child = Command::new(&command[0])
            .args(&command[1..])
            .arg("--runtime-dir")
            .arg(&runtime)
            .arg("--certificates")
            .arg(&paths.certificates)
            .args(["--webhook-address", &paths.webhook])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("starting the agent")?;
        Ok(Self { child, report: runtime.join("report.json") })
    }

    async fn open(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let report = fs::read(&self.report).ok().and_then(|text| serde_json::from_slice(&text).ok());
            let report: serde_json::Value = report.unwrap_or_default();
            if report["gate"] == "open" && report["definitions"]["installed"] == true {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("the gate does not open: {report:#}");
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to be done about a failure here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

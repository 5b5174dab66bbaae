//! The operator under measure: a process of its own, looked at from outside.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tokio::time::{Instant, sleep};
use weaver_tests::memory::ProcessMemory;
use weaver_tests::metrics::ReportedMetrics;

use crate::figures::count;
use crate::processor;

/// No request for so long: the work is done. A reconciliation that waits for its rate limit sends one sooner.
const QUIET: Duration = Duration::from_secs(1);
/// Between two looks at its metrics, each of which costs it some time.
const LOOK: Duration = Duration::from_millis(20);
/// Longest wait for anything.
pub const PATIENCE: Duration = Duration::from_mins(10);

/// A running operator; killed when dropped.
pub struct MeasuredOperator {
    child: Child,
    log: PathBuf,
    server_port: u16,
    begun: Instant,
}

impl MeasuredOperator {
    /// Starts `program` with its defaults and these further flags; its log lies next to the kubeconfig.
    pub fn start(program: &Path, kubeconfig: &Path, server_port: u16, flags: &[&str]) -> Result<Self> {
        let log = kubeconfig.with_extension("log");
        let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let child = Command::new(program)
            .args(["run", "--metrics", "127.0.0.1:0", "--kubeconfig"])
            .arg(kubeconfig)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        Ok(Self { child, log, server_port, begun: Instant::now() })
    }

    /// When it was started.
    pub fn begun(&self) -> Instant {
        self.begun
    }

    pub async fn metrics(&self) -> ReportedMetrics {
        ReportedMetrics::scrape(&self.log).await
    }

    /// Waits until `done`, and returns when.
    pub async fn until(&self, what: &str, done: impl Fn(&ReportedMetrics) -> bool) -> Result<Instant> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let metrics = self.metrics().await;
            if done(&metrics) {
                return Ok(Instant::now());
            }
            if Instant::now() > deadline {
                bail!("not within {PATIENCE:?}: {what}; last seen:\n{}", metrics.0);
            }
            sleep(LOOK).await;
        }
    }

    /// Waits until this many resources are ready and it asks for nothing more.
    pub async fn settled(&self, resources: usize) -> Result<ReportedMetrics> {
        let ready = u64::try_from(resources)?;
        let are_ready = |metrics: &ReportedMetrics| {
            metrics.value(r#"weaver_resources{ready="true"}"#) == ready
                && metrics.value("weaver_reconciliations_waiting") == 0
        };
        self.until(&format!("{resources} resources are ready"), are_ready).await?;
        self.quiet().await
    }

    /// Waits until it asks for nothing more; watches that end and begin again do not count.
    pub async fn quiet(&self) -> Result<ReportedMetrics> {
        let asked = |metrics: &ReportedMetrics| calls(metrics.requests()).values().sum::<u64>();
        let deadline = Instant::now() + PATIENCE;
        let (mut last, mut since) = (self.metrics().await, Instant::now());
        loop {
            sleep(QUIET / 10).await;
            let now = self.metrics().await;
            if asked(&now) != asked(&last) {
                since = Instant::now();
            }
            last = now;
            if since.elapsed() > QUIET {
                return Ok(last);
            }
            ensure!(Instant::now() < deadline, "it does not come to rest within {PATIENCE:?}:\n{}", last.0);
        }
    }

    pub fn memory(&self) -> ProcessMemory {
        ProcessMemory::of(self.child.id())
    }

    /// Processor time of its threads in milliseconds.
    pub fn cpu(&self) -> Result<f64> {
        processor::time(self.child.id())
    }

    /// Its connections to the API server.
    pub fn connections(&self) -> Result<u64> {
        let dir = format!("/proc/{}/fd", self.child.id());
        let mut own = Vec::new();
        for entry in fs::read_dir(&dir).with_context(|| dir.clone())? {
            // One that is closed meanwhile cannot be read.
            if let Ok(target) = fs::read_link(entry?.path()) {
                let target = target.to_string_lossy().into_owned();
                own.extend(
                    target.strip_prefix("socket:[").map(|inode| inode.trim_end_matches(']').to_owned()),
                );
            }
        }
        let (port, established) = (format!(":{:04X}", self.server_port), "01");
        let table = fs::read_to_string("/proc/net/tcp").context("/proc/net/tcp")?;
        let of_ours = table.lines().filter(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            matches!(fields[..], [_, _, remote, state, _, _, _, _, _, inode, ..]
                if remote.ends_with(&port) && state == established && own.iter().any(|own| own == inode))
        });
        Ok(u64::try_from(of_ours.count())?)
    }
}

impl Drop for MeasuredOperator {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to be done about a failure here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Requests that are no watches.
pub fn calls(mut requests: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    requests.remove("watch");
    requests
}

/// Requests between two readings, by method, watches counted separately.
pub fn between(before: &ReportedMetrics, after: &ReportedMetrics) -> BTreeMap<String, u64> {
    let before = before.requests();
    let mut calls = calls(after.requests());
    for (method, count) in &mut calls {
        *count -= before.get(method).copied().unwrap_or_default();
    }
    calls.retain(|_, count| *count > 0);
    calls
}

/// How many requests of these methods.
pub fn of(asked: &BTreeMap<String, u64>, methods: &[&str]) -> f64 {
    count(methods.iter().filter_map(|method| asked.get(*method)).sum())
}

pub fn total(asked: &BTreeMap<String, u64>) -> f64 {
    count(asked.values().sum())
}

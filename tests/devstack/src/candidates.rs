//! Operators next to the one that the node agent runs: `make up REPLICAS=2` shows a leader and a candidate that waits.
//!
//! They use the operator's own kubeconfig, which the agent renews. Failure: one that ends, or that is not on
//! the list of candidates in time, is named with the last lines of its log.

use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::kubectl::Kubectl;
use crate::launch::{Launch, Lifetime};
use crate::layout::Layout;
use crate::logs;
use crate::process::{self, Process};
use crate::programs::BuiltPrograms;

/// Their names; as many as there may be.
const NAMES: [&str; 4] = ["candidate-1", "candidate-2", "candidate-3", "candidate-4"];

/// Most operators of a stack, the agent's own included.
pub const MOST: i64 = 5;

/// A candidate looks at the lease each ten seconds.
const LISTED: Duration = Duration::from_secs(40);

/// Sees to it that `count` of them run, and that each is on the list of candidates or is the leader.
///
/// # Errors
/// When one cannot be started, ends, or is not listed in time.
pub fn ensure(
    layout: &Layout,
    programs: &BuiltPrograms,
    kubectl: &Kubectl,
    count: usize,
) -> Result<Vec<Process>> {
    ensure!(count <= NAMES.len(), "at most {MOST} operators, the agent's own included");
    let mut all = Vec::new();
    for (index, name) in NAMES.into_iter().enumerate() {
        let running = Process::from_file(&layout.pid_file(name))?;
        match (running, index < count) {
            (Some(process), true) => all.push(process),
            (Some(process), false) => process::end(&[process], process::GRACE)?,
            (None, true) => all.push(start(layout, programs, name)?),
            (None, false) => {}
        }
    }
    for (process, name) in all.iter().zip(NAMES) {
        wait_until_listed(layout, kubectl, *process, name)?;
    }
    Ok(all)
}

/// Those that run.
///
/// # Errors
/// When a pid file cannot be read.
pub fn running(layout: &Layout) -> Result<Vec<(&'static str, Process)>> {
    let all = NAMES.into_iter().map(|name| Ok((name, Process::from_file(&layout.pid_file(name))?)));
    let all: Vec<_> = all.collect::<Result<_>>()?;
    Ok(all.into_iter().filter_map(|(name, process)| Some((name, process?))).collect())
}

/// What `weaver status` says.
///
/// # Errors
/// When it is not built, or fails.
pub fn status_text(layout: &Layout, programs: &BuiltPrograms) -> Result<String> {
    let mut command = Command::new(programs.weaver()?);
    command.arg("status").env("KUBECONFIG", layout.admin_kubeconfig());
    let output = command.output().context("cannot run weaver status")?;
    ensure!(output.status.success(), "weaver status: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn start(layout: &Layout, programs: &BuiltPrograms, name: &'static str) -> Result<Process> {
    let kubeconfig = layout.runtime().join("operator.kubeconfig");
    fs::metadata(&kubeconfig)
        .with_context(|| format!("the node agent has not written {}", kubeconfig.display()))?;
    let started = Launch {
        layout,
        name,
        program: &programs.operator()?,
        arguments: ["run", "--metrics", "127.0.0.1:0", "--kubeconfig"]
            .map(Into::into)
            .into_iter()
            .chain([kubeconfig.into()])
            .collect(),
        environment: Vec::new(),
        log: logs::start(&layout.log(name))?,
        lifetime: Lifetime::Detached,
        private_etc: None,
    }
    .start()?;
    Ok(started.process)
}

fn wait_until_listed(layout: &Layout, kubectl: &Kubectl, process: Process, name: &str) -> Result<()> {
    let begun = Instant::now();
    loop {
        // There is none before one of them is the leader.
        let lease = kubectl.json(&["-n", "config-weaver", "get", "lease", "weaver-operator"]);
        if lease.is_ok_and(|lease| is_named(&lease, process.pid)) {
            return Ok(());
        }
        let tail = || logs::tail(&layout.log(name), 15);
        if !process.is_alive() {
            bail!("{name} ended; {}", tail());
        }
        if begun.elapsed() >= LISTED {
            bail!("{name} is not on the list of candidates after {} s; {}", LISTED.as_secs(), tail());
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Is the process the holder of the lease, or on its list? Their names have the pid as the last but one part.
fn is_named(lease: &Value, pid: i32) -> bool {
    let of_pid = |name: &str| name.split('_').nth_back(1) == Some(pid.to_string().as_str());
    let listed = lease["metadata"]["annotations"]["weaver.example.com/candidates"].as_str();
    let listed: Value = listed.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut candidates =
        listed.as_array().into_iter().flatten().filter_map(|candidate| candidate["holder"].as_str());
    lease["spec"]["holderIdentity"].as_str().is_some_and(of_pid) || candidates.any(of_pid)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_process_is_found_as_leader_and_as_candidate() {
        let list = json!([{"holder": "raspi_a_b_1_20_99", "priority": 0, "at": ""}]).to_string();
        let lease = json!({
            "metadata": {"annotations": {"weaver.example.com/candidates": list}},
            "spec": {"holderIdentity": "raspi_a_b_1_10_98"},
        });
        assert!(is_named(&lease, 10) && is_named(&lease, 20));
        assert!(!is_named(&lease, 98) && !is_named(&lease, 1) && !is_named(&json!({}), 10));
    }
}

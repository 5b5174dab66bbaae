//! `preflight --gate`: what systemd runs before k3s.
//!
//! In this order: removes an old block of k3s; waits for the clock; with `--offline-start`, prepares a host
//! without a network for k3s; checks the host; blocks k3s if a check failed; publishes the report. Any other
//! failure on the way, a crash of this program included, leaves k3s free to start: only a failed check blocks
//! it.
//!
//! If an agent is running (k3s was restarted by hand, say), the agent publishes: it knows more.

use std::{
    fs::File,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use jiff::Timestamp;
use sd_notify::NotifyState;
use tokio::task::spawn_blocking;
use tracing::{error, info, warn};
use weaver_diagnostics::{finding::Finding, host::board::ClockSync};

use crate::{
    args::PreflightArgs, boot_config, checks, clock_wait, facts::network, host::Host, k3s_block,
    node_report::Report, offline_start, publish::Publisher,
};

/// The longest wait for the clock that the unit's own time allows for.
const USUAL_WAIT: Duration = Duration::from_secs(30);
/// Time that is requested from systemd in addition to the wait for the clock; a dying card is slow to read.
const JUDGING: Duration = Duration::from_mins(1);
/// Locked by a running agent, in the runtime directory.
pub const AGENT_LOCK: &str = "agent.lock";

/// Judges, blocks k3s or not, publishes; returns the findings.
///
/// # Errors
/// The host could not be judged, or the block not be written (what was found is
/// published all the same): k3s is then free to start. What could not be published is logged and no error.
pub async fn run(args: PreflightArgs) -> anyhow::Result<Vec<Finding>> {
    let host = Host::from(args.host);
    unblock(&args.runtime_dir);
    // Each restart of k3s brings us here again; once an agent runs, this boot's wait is over.
    let is_first = !agent_runs(&args.runtime_dir);
    let limit = Duration::from_secs(if is_first { args.clock_wait } else { 0 });
    if limit > USUAL_WAIT {
        let extension = u32::try_from((limit + JUDGING).as_micros()).unwrap_or(u32::MAX);
        // Without effect where systemd did not start us.
        let _ = sd_notify::notify(&[NotifyState::ExtendTimeoutUsec(extension)]);
    }
    let waited = clock_wait::wait(&host.root, limit).await;

    let no_start_offline = if args.offline_start {
        let in_vain = if let ClockSync::NoRoute(patience) = waited { patience } else { Duration::ZERO };
        let route_wait = Duration::from_secs(args.route_wait).saturating_sub(in_vain);
        settle_network(&host, args.ip, is_first.then_some(route_wait)).await
    } else {
        None
    };

    let judge = host.clone();
    let look = move || checks::preflight_after(&judge, no_start_offline.as_deref()).findings;
    let findings = judged(look).await?;
    let causes = k3s_block::causes(&findings);
    let mut blocked = Ok(());
    if !causes.is_empty() {
        blocked = k3s_block::write(&args.runtime_dir, &causes);
        if blocked.is_ok() {
            warn!("k3s is blocked: {}", sentence(&causes));
        } else {
            error!("k3s starts although it will fail: {}", sentence(&causes));
        }
    }

    let mut agent_only: Vec<_> = waited.judge().into_iter().collect();
    agent_only.extend(boot_config::read_report(&host.root, &args.state_dir.join("boot-config")));
    let is_blocked = !causes.is_empty() && blocked.is_ok();
    let mut report = report(&causes, is_blocked);
    report.set_findings(findings, agent_only);
    let findings = report.findings.clone();
    findings.iter().for_each(crate::report::log);
    let state_dir = host.root.real(&args.state_dir);
    let publisher = Publisher::new(&host.root, args.runtime_dir.clone(), host.boot_dir, &state_dir);
    let outcome = spawn_blocking(move || publish(publisher, &report, &args.runtime_dir)).await;
    if let Err(failure) = outcome.map_err(anyhow::Error::from).and_then(|outcome| outcome) {
        error!("cannot publish the report: {failure:#}");
    }
    blocked.context("k3s should be blocked, but could not be")?;
    Ok(findings)
}

/// Removes the block of an earlier check; where that fails, k3s stays blocked.
fn unblock(runtime_dir: &Path) {
    match k3s_block::remove(runtime_dir) {
        Ok(true) => info!("removed the block of k3s left by an earlier run"),
        Ok(false) => {}
        Err(failure) => {
            let path = k3s_block::path(runtime_dir);
            error!(
                "cannot remove {}: {failure}; remove it by hand, since k3s does not start while it exists",
                path.display()
            );
        }
    }
}

/// Waits for a default route, if this is the first check of a boot, or prepares the host to start without one; returns
/// why that could not be done.
async fn settle_network(host: &Host, ip: PathBuf, first_wait: Option<Duration>) -> Option<String> {
    if let Some(limit) = first_wait.filter(|_| offline_start::is_for(host)) {
        network::wait(&host.root, limit).await;
    }
    let host = host.clone();
    let settled = spawn_blocking(move || offline_start::settle(&host, &ip, first_wait.is_some())).await;
    let failure = settled.map_err(|error| error.to_string()).and_then(|settled| settled).err()?;
    error!("cannot prepare k3s for a start without a network: {failure}");
    Some(failure)
}

/// The findings of a check; one that panics is an error and no verdict.
async fn judged(look: impl FnOnce() -> Vec<Finding> + Send + 'static) -> anyhow::Result<Vec<Finding>> {
    spawn_blocking(look).await.context("the host checks did not complete; k3s is not blocked")
}

fn publish(mut publisher: Publisher, report: &Report, runtime_dir: &Path) -> anyhow::Result<()> {
    if agent_runs(runtime_dir) {
        info!("an agent is running and publishes its own report");
        return Ok(());
    }
    if let Some(fault) = publisher.publish(report, Timestamp::now())?.fault() {
        warn!("the report could not be written to the boot partition: {fault}");
    }
    Ok(())
}

fn agent_runs(runtime_dir: &Path) -> bool {
    let held = |file: File| {
        file.try_lock_shared().is_err_and(|error| io::Error::from(error).kind() == io::ErrorKind::WouldBlock)
    };
    File::open(runtime_dir.join(AGENT_LOCK)).is_ok_and(held)
}

/// The report before the agent has made its first.
fn report(causes: &[Finding], is_blocked: bool) -> Report {
    let reason = match (causes.is_empty(), is_blocked) {
        (true, _) => "no check failed; k3s may start, and the agent then verifies its names".to_owned(),
        (false, true) => format!("k3s is blocked: {}", sentence(causes)),
        (false, false) => format!("k3s starts although it will fail: {}", sentence(causes)),
    };
    Report { reason, k3s_blocked: Some(is_blocked), ..Report::unchecked() }
}

fn sentence(causes: &[Finding]) -> String {
    let sentences: Vec<_> = causes.iter().map(|f| format!("{}: {}", f.code.id(), f.message)).collect();
    sentences.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use weaver_diagnostics::finding::Code;

    #[test]
    fn the_report_says_whether_k3s_is_held_back() {
        let bad = Finding::new(Code::MemoryTooSmall, "451 MB");
        let cause = std::slice::from_ref(&bad);
        for (causes, is_blocked, want) in [
            (cause, true, "k3s is blocked: N-12: 451 MB"),
            (cause, false, "k3s starts although it will fail: N-12"),
            // A failure of boot-config is no cause.
            (&[][..], false, "k3s may start"),
        ] {
            let report = report(causes, is_blocked);
            assert_eq!(report.k3s_blocked, Some(is_blocked));
            assert!(report.reason.contains(want), "{}", report.reason);
        }
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_no_verdict() {
        let error = judged(|| panic!("a fault of ours")).await.unwrap_err();
        let shown = format!("{error:#}");
        assert!(shown.contains("not blocked") && shown.contains("a fault of ours"), "{shown}");
        assert!(judged(Vec::new).await.unwrap().is_empty());
    }

    #[test]
    fn a_running_agent_is_known_by_its_lock() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!agent_runs(dir.path()));
        let file = File::create(dir.path().join(AGENT_LOCK)).unwrap();
        assert!(!agent_runs(dir.path()), "a file that a former agent left");
        file.lock().unwrap();
        assert!(agent_runs(dir.path()));
    }
}

//! The servers and load balancers of k3d on this machine, by the container engine: which of them do not run, and what
//! their logs contain.
//!
//! Only reads: nothing is started. Without an engine, or without a container of k3d, nothing is reported.

use weaver_diagnostics::finding::{Code, Finding, Place, Remedy, Severity};
use weaver_diagnostics::k3d::engine::EngineProgram;
use weaver_diagnostics::k3d::verdict;
use weaver_diagnostics::recognise::Recogniser;
use weaver_host::docker::{Engine, EngineError};

use super::node::as_root;
use super::seen::{LocatedFinding, Location};

/// Lines of a log.
const TAIL: u32 = 50;

/// What is wrong with the containers of k3d; `is_bad`: something does not work, so it matters if they cannot be seen.
pub async fn look(engine: Result<Option<Engine>, EngineError>, is_bad: bool) -> Vec<LocatedFinding> {
    let findings = match asked(engine, is_bad).await {
        Ok(findings) => findings,
        Err(EngineError { socket, why, .. }) if is_bad => {
            let other = match EngineProgram::at(&socket) {
                EngineProgram::Docker => "as a member of the group docker",
                EngineProgram::Podman | EngineProgram::PodmanOfRoot => "as the user of podman",
            };
            let remedy = Remedy::new(format!("run `weaver doctor` as root, or {other}")).command(as_root());
            // There may be no k3d at all.
            vec![verdict::unread(&socket, &why).milder(Severity::Unknown).remedy(remedy)]
        }
        Err(_) => Vec::new(),
    };
    findings.into_iter().map(|finding| LocatedFinding { location: Location::Node, finding }).collect()
}

async fn asked(
    engine: Result<Option<Engine>, EngineError>,
    is_bad: bool,
) -> Result<Vec<Finding>, EngineError> {
    let Some(engine) = engine? else { return Ok(Vec::new()) };
    let mut findings = Vec::new();
    for cluster in &engine.k3d_clusters().await? {
        for node in cluster.nodes() {
            let Some(finding) = verdict::node(node).and_then(|finding| worth_it(finding, is_bad)) else {
                continue;
            };
            findings.push(finding);
            findings.extend(recognised(&node.name, &engine.log(&node.name, TAIL).await));
        }
    }
    Ok(findings)
}

/// A server that was stopped, or needed several attempts to start, is reported only where something does not work.
fn worth_it(finding: Finding, is_bad: bool) -> Option<Finding> {
    match finding.code {
        // `k3d cluster stop` leaves them so.
        Code::K3dClusterStopped => is_bad.then(|| finding.milder(Severity::Warn)),
        _ => (is_bad || finding.severity() == Severity::Fail).then_some(finding),
    }
}

/// Each code once, by its last line.
fn recognised(container: &str, log: &[Vec<u8>]) -> Vec<Finding> {
    let Ok(recogniser) = Recogniser::new() else { return Vec::new() };
    let mut found: Vec<Finding> = Vec::new();
    for (number, line) in (1..).zip(log) {
        let place = || Place::line(format!("log of {container}, the last {TAIL} lines"), number);
        if let Some(finding) = recogniser.judge(line, place) {
            found.retain(|known| known.code != finding.code);
            found.push(finding);
        }
    }
    found
}

#[cfg(test)]
#[cfg(unix)]
#[path = "containers_tests.rs"]
mod tests;

//! The report where the API server takes long: that it is slow, and whether the node is overloaded, and by what.
//!
//! Guarantee: none of it is a failure. An API server that never answers is reported elsewhere.

use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::error::Elapsed;
use weaver_diagnostics::finding::{Code, Finding, Severity};
use weaver_diagnostics::host::load::{self, HostLoad};
use weaver_diagnostics::serving::HandshakeOutcome;

use crate::{facts, host_root::HostRoot, probe::Probed};

/// How busy this machine is; unknown where reading fails.
pub(crate) async fn load(root: &HostRoot) -> HostLoad {
    let root = root.clone();
    spawn_blocking(move || facts::load::read(&root)).await.unwrap_or_default()
}

/// Whether something was only not done in time.
pub(crate) fn is_late(failure: &anyhow::Error) -> bool {
    failure.chain().any(<dyn std::error::Error>::is::<Elapsed>)
}

/// A finding on the handshakes with `endpoint`, of which one `took` long: slow, if there was an answer in the end.
pub(crate) fn of_handshakes(endpoint: &str, probed: &Probed, took: Duration) -> Option<Finding> {
    let is_answered =
        probed.seen.iter().any(|(_, seen)| !matches!(seen.outcome, HandshakeOutcome::Unreachable(_)));
    is_answered.then(|| load::slow(endpoint, endpoint, &format!("a TLS handshake took {} s", took.as_secs())))
}

/// Whether a round found something late, so that it must report the node's load.
pub(crate) fn is_excused(findings: &[Finding]) -> bool {
    let excused = [Code::K3sNotAnswering, Code::OperatorNotStarted];
    findings.iter().any(|finding| {
        finding.code == Code::ApiServerSlow
            || excused.contains(&finding.code) && finding.severity() == Severity::Warn
    })
}

//! What the agent of this machine says: of host and names by a check of now, of its gate by its last report.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;
use weaver_diagnostics::finding::{Code, Finding, Place, Remedy, Severity};

use super::{Seen, Side};

/// The parts of it that matter here.
#[derive(Deserialize)]
struct Report {
    gate: String,
    reason: String,
    findings: Vec<Finding>,
    definitions: Definitions,
}

#[derive(Deserialize)]
struct Definitions {
    installed: bool,
    reason: String,
}

/// The report at `named`, or at `usual` where there is one.
pub fn report(named: Option<&Path>, usual: &Path) -> Vec<Seen> {
    let path = named.unwrap_or(usual);
    let unknown = |why: &str, remedy: &str| {
        let message = format!("the agent's report {} cannot be read: {why}", path.display());
        let finding = Finding::new(Severity::Unknown, Code::MayNotLook, message);
        vec![Seen { side: Side::Node, finding: finding.remedy(Remedy::new("as root").command(remedy)) }]
    };
    let text = match std::fs::read(path) {
        // Most machines have no agent.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => return Vec::new(),
        Err(error) => return unknown(&error.to_string(), "sudo weaver doctor"),
        Ok(text) => text,
    };
    match serde_json::from_slice::<Report>(&text) {
        Ok(report) => told(report, check(), path),
        Err(error) => unknown(&format!("{error}; is it of another version?"), "sudo weaver-node-agent check"),
    }
}

/// A check of now; the report is as old as the last change.
fn check() -> Option<Vec<Finding>> {
    #[derive(Deserialize)]
    struct Check {
        findings: Vec<Finding>,
    }
    let mut agent = Command::new("weaver-node-agent");
    let output =
        agent.args(["check", "-o", "json", "--probe-timeout", "2"]).stdin(Stdio::null()).output().ok()?;
    Some(serde_json::from_slice::<Check>(&output.stdout).ok()?.findings)
}

fn told(report: Report, now: Option<Vec<Finding>>, path: &Path) -> Vec<Seen> {
    let mut findings = now.unwrap_or(report.findings);
    let place = || Place::file(path.display().to_string());
    let has_failed = findings.iter().any(|finding| finding.severity == Severity::Fail);
    if report.gate != "open" && !has_failed {
        let message = format!("the agent has not started the operator: {}", report.reason);
        findings.push(
            Finding::new(Severity::Fail, Code::OperatorNotStarted, message).saw(place(), "gate shut").remedy(
                Remedy::new("see what the agent says").command("journalctl -u weaver-node-agent -n 30"),
            ),
        );
    }
    if !report.definitions.installed {
        let message = format!("the agent could not install our kinds: {}", report.definitions.reason);
        findings.push(
            Finding::new(Severity::Fail, Code::DefinitionDiffers, message)
                .saw(place(), "definitions not installed")
                .remedy(
                    Remedy::new("see what the agent says").command("journalctl -u weaver-node-agent -n 30"),
                ),
        );
    }
    findings.into_iter().map(|finding| Seen { side: Side::Node, finding }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(json: &str) -> Vec<(Code, Severity)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        std::fs::write(&path, json).unwrap();
        report(Some(&path), &path).iter().map(|seen| (seen.finding.code, seen.finding.severity)).collect()
    }

    #[test]
    fn what_an_agent_says_is_told() {
        use {Code::*, Severity::*};
        let finding = r#"{"severity":"fail","code":"T-02","name":"x","message":"m","evidence":[]}"#;
        for (json, want) in [
            (
                r#"{"gate":"open","reason":"","findings":[],"definitions":{"installed":true,"reason":""}}"#,
                vec![],
            ),
            (
                r#"{"gate":"shut","reason":"r","findings":[],"definitions":{"installed":false,"reason":"d"}}"#,
                vec![(OperatorNotStarted, Fail), (DefinitionDiffers, Fail)],
            ),
            (
                &format!(
                    r#"{{"gate":"shut","reason":"r","findings":[{finding}],"definitions":{{"installed":true,"reason":""}}}}"#
                ),
                vec![(NameNotServed, Fail)],
            ),
            ("{", vec![(MayNotLook, Unknown)]),
        ] {
            assert_eq!(codes(json), want, "{json}");
        }
        assert!(report(None, Path::new("/nowhere")).is_empty());
        assert_eq!(report(Some(Path::new("/nowhere")), Path::new("/")).len(), 1);
    }
}

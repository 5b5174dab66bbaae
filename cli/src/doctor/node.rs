//! The state of this machine's agent: host and names by a check now, the gate by its last report.

use std::fs::TryLockError;
use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize;
use weaver_diagnostics::finding::{Code, Finding, Place, Remedy, Severity};
use weaver_diagnostics::finding_text::quoted;
use weaver_diagnostics::reported_findings::ReportedFindings;

use super::reports;
use super::seen::{LocatedFinding, Location};
use crate::{bounded_file, connection};

/// The parts of it that matter here.
#[derive(Deserialize)]
struct AgentReport {
    gate: String,
    reason: String,
    /// On such a node, its agent opens no gate and installs nothing.
    #[serde(default)]
    joins: bool,
    findings: ReportedFindings,
    /// Codes of what a check now cannot find out.
    #[serde(default)]
    agent_only: Vec<String>,
    definitions: Definitions,
}

#[derive(Deserialize)]
struct Definitions {
    installed: bool,
    /// The API server was too slow to answer.
    #[serde(default)]
    unanswered: bool,
    reason: String,
}

/// Most bytes that are read of a report.
const LARGEST: u64 = 4 << 20;

/// Characters of a reason that are shown.
const LONGEST: usize = 400;

/// The lock that an agent holds next to its report.
const LOCK: &str = "agent.lock";

/// Findings that were only true while an agent ran.
const OF_ITS_LIFE: [Code; 2] = [Code::K3sNotAnswering, Code::OperatorNotStarted];

/// What a check found, or why that cannot be read.
type CheckAnswer = Result<ReportedFindings, String>;

/// This command once more, with the rights of root.
pub fn as_root() -> String {
    format!("sudo weaver doctor{}", connection::flags())
}

/// The report at `named`, or at `usual` where there is one, brought up to date by `check` where its agent runs here.
pub fn report(
    named: Option<&Path>,
    usual: &Path,
    check: impl FnOnce() -> Option<CheckAnswer>,
) -> Vec<LocatedFinding> {
    let path = named.unwrap_or(usual);
    let unknown = |why: &str, remedy: &str| {
        let message = format!("the agent's report {} cannot be read: {why}", path.display());
        let finding = Finding::new(Code::RightsMissingForCheck, message);
        vec![LocatedFinding {
            location: Location::Node,
            finding: finding.remedy(Remedy::new("run this as root").command(remedy.to_owned())),
        }]
    };
    let text = match bounded_file::read(path, LARGEST) {
        // Most machines have no agent.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => return Vec::new(),
        Err(error) => return unknown(&error.to_string(), &as_root()),
        Ok(text) => text,
    };
    match serde_json::from_slice::<AgentReport>(&text) {
        Ok(report) => {
            if is_of_this_machine(named, path) {
                return of_report(report, check(), is_held(&path.with_file_name(LOCK)), path);
            }
            // The report was copied from another machine, whose owner controls its content.
            let place = Place::file(path.display().to_string());
            let ReportedFindings { known, unknown } = report.findings;
            let known = known.iter().filter_map(|finding| {
                let seen = finding.evidence.iter().map(|evidence| evidence.saw.as_str());
                let said = std::iter::once(finding.message.as_str()).chain(seen);
                reports::reported("of this report", &place, finding.code, finding.severity(), said)
            });
            let findings = ReportedFindings { known: known.collect(), unknown };
            of_report(AgentReport { findings, ..report }, None, false, path)
        }
        Err(error) => unknown(&format!("{error}; is it of another version?"), "sudo weaver-node-agent check"),
    }
}

/// Is the report that of an agent of this machine? A file that the user named may come from another one, with a lock
/// file next to it; only a running agent holds that lock.
fn is_of_this_machine(named: Option<&Path>, path: &Path) -> bool {
    let lock = path.with_file_name(LOCK);
    if named.is_some() { is_held(&lock) } else { lock.exists() }
}

/// The name of the node in the cluster that the report at `named`, or at `usual`, is about; `None` where it is of
/// another machine, whose owner controls its content.
pub fn name(named: Option<&Path>, usual: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Named {
        node: Option<String>,
    }
    let path = named.unwrap_or(usual);
    let text = bounded_file::read(path, LARGEST).ok().filter(|_| is_of_this_machine(named, path))?;
    serde_json::from_slice::<Named>(&text).ok()?.node
}

/// A check now, where an agent is installed; the report is as old as the last change.
pub fn check() -> Option<CheckAnswer> {
    let mut agent = Command::new("weaver-node-agent");
    let output =
        agent.args(["check", "-o", "json", "--probe-timeout", "2"]).stdin(Stdio::null()).output().ok()?;
    Some(answer(&output.stdout).map_err(|why| format!("{why}, {}", output.status)))
}

fn answer(output: &[u8]) -> CheckAnswer {
    #[derive(Deserialize)]
    struct CheckOutput {
        findings: ReportedFindings,
    }
    let output = serde_json::from_slice::<CheckOutput>(output);
    output.map(|output| output.findings).map_err(|error| error.to_string())
}

/// Whether an agent runs: its lock ends with it, and the file does not.
fn is_held(lock: &Path) -> bool {
    std::fs::File::open(lock)
        .is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Whether a finding reports slowness.
fn is_slow(finding: &Finding) -> bool {
    matches!(finding.code, Code::ApiServerSlow | Code::NodeOverloaded) && finding.severity() == Severity::Warn
}

fn its_log() -> Remedy {
    Remedy::new("read the agent's log").command("journalctl -u weaver-node-agent -n 30")
}

/// Findings that only another version knows.
fn not_shown(count: usize) -> Finding {
    let message = format!("the agent reports {count} findings that this version of weaver does not know");
    let remedy = Remedy::new("use the same version of weaver as the agent, or let the agent show them");
    Finding::new(Code::NodeReportNotShown, message).remedy(remedy.command("sudo weaver-node-agent check"))
}

fn no_check(why: &str) -> Finding {
    let message = format!(
        "the output of weaver-node-agent check cannot be read, so the agent's last report is shown: {why}"
    );
    let remedy =
        Remedy::new("use the same version of weaver as the agent, or let the agent show its findings");
    let finding = Finding::new(Code::NodeReportNotShown, message).milder(Severity::Unknown);
    finding.remedy(remedy.command("sudo weaver-node-agent check"))
}

fn not_running(place: Place) -> Finding {
    let message = "the node agent is not running: nothing is checked, and what is stopped is not started";
    Finding::new(Code::OperatorNotStarted, message)
        // What it started may run all the same.
        .milder(Severity::Warn)
        .saw(place, "no agent holds the lock")
        .remedy(Remedy::new("start weaver-node-agent").command("sudo systemctl start weaver-node-agent"))
}

/// A check now replaces what it judges; what only an agent knows stays.
fn up_to_date(
    reported: ReportedFindings,
    agent_only: &[String],
    mut now: ReportedFindings,
    lives: bool,
) -> ReportedFindings {
    let stays = |code: &str| {
        let is_of_its_life = OF_ITS_LIFE.iter().any(|of_its_life| of_its_life.id() == code);
        agent_only.iter().any(|only| only == code) && (lives || !is_of_its_life)
    };
    now.known.extend(reported.known.into_iter().filter(|finding| stays(finding.code.id())));
    now.unknown.extend(reported.unknown.into_iter().filter(|finding| stays(&finding.code)));
    now
}

fn of_report(report: AgentReport, now: Option<CheckAnswer>, lives: bool, path: &Path) -> Vec<LocatedFinding> {
    let AgentReport { gate, reason, joins, findings: reported, agent_only, definitions } = report;
    let place = || Place::file(path.display().to_string());
    // A check that has finished has found something, if only that all is well.
    let is_new = lives && reported.known.is_empty() && reported.unknown.is_empty();
    let is_checked = now.is_some();
    let (holding, unread) = match now {
        None => (reported, None),
        Some(Ok(now)) => (up_to_date(reported, &agent_only, now, lives), None),
        Some(Err(why)) => (reported, Some(no_check(&why))),
    };
    let mut findings = holding.with_unknown(&place(), not_shown);
    findings.extend(unread);
    findings.extend((is_checked && !lives).then(|| not_running(place())));
    let has_failed = findings.iter().any(|finding| finding.severity() == Severity::Fail);
    if gate != "open" && !has_failed && !joins {
        let message = format!("the agent has not started the operator: {}", quoted(&reason, LONGEST));
        let finding = Finding::new(Code::OperatorNotStarted, message).saw(place(), "gate shut");
        let is_slow = findings.iter().any(is_slow);
        // On a busy node, and after a start, it takes a while.
        let finding = if is_slow || is_new { finding.milder(Severity::Warn) } else { finding };
        let wait = || Remedy::new("wait for its first check, which takes seconds").command(as_root());
        findings.push(finding.remedy(if is_new { wait() } else { its_log() }));
    }
    if definitions.unanswered && !definitions.installed && !joins {
        let why = quoted(&definitions.reason, LONGEST);
        let message =
            format!("the API server is too slow to tell the agent whether the CRDs are installed: {why}");
        findings.push(
            Finding::new(Code::DefinitionDiffers, message)
                // Nothing is known to be wrong with them.
                .milder(Severity::Warn)
                .saw(place(), "definitions unanswered")
                .remedy(Remedy::new("wait: the agent keeps retrying").command("uptime")),
        );
    } else if !definitions.installed && !joins && !is_new {
        let message =
            format!("the agent could not install the CRDs: {}", quoted(&definitions.reason, LONGEST));
        findings.push(
            Finding::new(Code::DefinitionDiffers, message)
                .saw(place(), "definitions not installed")
                .remedy(its_log()),
        );
    }
    findings.into_iter().map(|finding| LocatedFinding { location: Location::Node, finding }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(json: &str) -> Vec<(Code, Severity)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        std::fs::write(&path, json).unwrap();
        report(Some(&path), &path, || panic!("no agent runs there"))
            .iter()
            .map(|seen| (seen.finding.code, seen.finding.severity()))
            .collect()
    }

    #[test]
    fn what_an_agent_says_is_reported() {
        use {Code::*, Severity::*};
        let finding = r#"{"severity":"fail","code":"T-02","name":"x","message":"m","evidence":[]}"#;
        let slow = r#"{"severity":"warn","code":"F-14","name":"x","message":"m","evidence":[]}"#;
        let late = (ApiServerSlow, Warn);
        let all_late = vec![late, (OperatorNotStarted, Warn), (DefinitionDiffers, Warn)];
        for (gate, joins, found, installed, unanswered, want) in [
            ("open", false, "", true, false, vec![]),
            ("shut", false, "", false, false, vec![(OperatorNotStarted, Fail), (DefinitionDiffers, Fail)]),
            ("shut", true, "", false, false, vec![]),
            ("shut", false, finding, true, false, vec![(NameNotServed, Fail)]),
            ("shut", false, "", false, true, vec![(OperatorNotStarted, Fail), (DefinitionDiffers, Warn)]),
            ("open", false, "", true, true, vec![]),
            // Slow, and something is wrong besides.
            ("open", false, slow, false, false, vec![late, (DefinitionDiffers, Fail)]),
            ("shut", false, slow, false, true, all_late),
        ] {
            let json = format!(
                r#"{{"gate":"{gate}","reason":"r","joins":{joins},"findings":[{found}],
                   "definitions":{{"installed":{installed},"unanswered":{unanswered},"reason":"d"}}}}"#
            );
            assert_eq!(codes(&json), want, "{json}");
        }
        assert_eq!(codes("{"), [(RightsMissingForCheck, Unknown)]);
        assert!(report(None, Path::new("/nowhere"), || None).is_empty());
        assert_eq!(report(Some(Path::new("/nowhere")), Path::new("/"), || None).len(), 1);
    }

    #[test]
    fn a_check_of_now_replaces_what_it_judges_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        let of = |code: &str| {
            format!(r#"{{"severity":"warn","code":"{code}","name":"x","message":"m","evidence":[]}}"#)
        };
        let json = format!(
            r#"{{"gate":"open","reason":"","findings":[{},{},{},{}],"agent_only":["B-09","F-04","H-02"],"definitions":{{"installed":true,"reason":""}}}}"#,
            of("B-09"),
            of("H-02"),
            of("T-06"),
            of("F-04")
        );
        std::fs::write(&path, json).unwrap();
        std::fs::write(dir.path().join(LOCK), "").unwrap();
        let stale = || Finding::new(Code::NameStale, "m");
        let now = || Some(Ok(ReportedFindings { known: vec![stale()], unknown: Vec::new() }));
        let codes = || -> Vec<_> { report(None, &path, now).iter().map(|seen| seen.finding.code).collect() };
        assert_eq!(
            codes(),
            [Code::NameStale, Code::UserDataFault, Code::UnderVoltage, Code::OperatorNotStarted],
            "no one runs"
        );
        // A copied file may have a lock file next to it that no process holds.
        let brought = report(Some(&path), Path::new("/nowhere"), now);
        assert!(brought.iter().all(|seen| seen.finding.message.contains("of this report")), "{brought:?}");
        assert_eq!(name(Some(&path), Path::new("/nowhere")), None);
        let agent = std::fs::File::open(dir.path().join(LOCK)).unwrap();
        agent.lock().unwrap();
        assert_eq!(
            codes(),
            [Code::NameStale, Code::UserDataFault, Code::UnderVoltage, Code::K3sNotAnswering]
        );

        let new = r#"{"gate":"shut","reason":"no check has finished yet","findings":[],"definitions":{"installed":false,"reason":"not checked yet"}}"#;
        std::fs::write(&path, new).unwrap();
        let seen = report(None, &path, now);
        let seen: Vec<_> = seen.iter().map(|seen| (seen.finding.code, seen.finding.severity())).collect();
        assert_eq!(seen, [(Code::NameStale, Severity::Warn), (Code::OperatorNotStarted, Severity::Warn)]);
    }

    #[test]
    fn an_agent_of_another_version_has_the_rest_of_its_report_and_of_its_check_shown() {
        use {Code::*, Severity::*};
        let of = |severity: &str, code: &str| {
            format!(r#"{{"severity":"{severity}","code":"{code}","message":"m {code}","since":1}}"#)
        };
        let json = format!(
            r#"{{"gate":"open","reason":"","findings":[{},{},{},{}],"agent_only":["Z-99"],"newer":{{}},"definitions":{{"installed":true,"reason":"","newer":1}}}}"#,
            of("fail", "T-02"),
            of("warn", "Z-99"),
            of("ok", "Z-98"),
            of("grave", "F-14")
        );
        let (fails, slow) = ((NameNotServed, Fail), (ApiServerSlow, Warn));
        assert_eq!(codes(&json), [fails, slow, (NodeReportNotShown, Warn)], "copied from elsewhere");

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("report.json");
        std::fs::write(&path, json).unwrap();
        let agent = std::fs::File::create(dir.path().join(LOCK)).unwrap();
        agent.lock().unwrap();
        let seen = |output: &str| -> Vec<_> {
            let seen = report(None, &path, || Some(answer(output.as_bytes())));
            seen.into_iter().map(|seen| seen.finding).collect()
        };
        let judged = |findings: &[Finding]| -> Vec<_> {
            findings.iter().map(|finding| (finding.code, finding.severity())).collect()
        };
        let now = format!(r#"{{"exitCode":0,"findings":[{},{}]}}"#, of("warn", "Z-97"), of("warn", "T-03"));
        let found = seen(&now);
        assert_eq!(judged(&found), [(NameStale, Warn), (NodeReportNotShown, Warn)]);
        let quotes: Vec<_> = found[1].evidence.iter().map(|evidence| evidence.saw.as_str()).collect();
        assert_eq!(
            quotes,
            [r#""Z-97: m Z-97""#, r#""Z-99: m Z-99""#],
            "of the check, and of the agent alone"
        );

        let unread = (NodeReportNotShown, Unknown);
        assert_eq!(judged(&seen("")), [fails, slow, (NodeReportNotShown, Warn), unread], "no JSON");
    }
}

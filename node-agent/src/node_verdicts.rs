//! The content of a `NodeReport`, from what was found. Pure.
//!
//! Guarantees: the same findings give the same status, whatever the time; measurements, such as the free space, are
//! shown and are no news by themselves; what could not be checked is `Unknown`, never healthy. An owner's override lets
//! the next step start and fixes nothing: its condition stays `False`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use weaver_api::conditions::{
    CLOCK_SYNCHRONISED, MEMORY_CGROUP_ENABLED, NODE_ORDER, POWER_HEALTHY, SERVING_NAMES_COVERED,
    STORAGE_HEALTHY, Truth, Verdict, bounded, fold,
};
use weaver_api::v1beta1::{self as node_report, NodeReportStatus};
use weaver_diagnostics::finding::{Code, Finding, Remedy, Severity};

use crate::{
    boot_steps,
    facts::node::{NodeFacts, ServingSeen},
    findings::leaves_names_open,
    publish::page::evidence_counts,
    rounding::rounded,
};

/// Bytes of a message, of a remedy, and of one line of evidence.
const MESSAGE: usize = 4096;
const SEEN: usize = 256;
/// The most entries of evidence that are shown.
const MOST_SEEN: usize = 16;
/// The most codes that the definition accepts; there are more, and no node has so many faults at once.
const MOST_CODES: usize = 128;

/// How a condition follows from findings.
struct ConditionRule {
    condition: &'static str,
    /// Known bad, whatever else is found.
    bad: &'static [Code],
    open: &'static [Code],
    /// Known good, where nothing is bad or open.
    good: &'static [Code],
}

const RULES: [ConditionRule; 5] = [
    ConditionRule {
        condition: MEMORY_CGROUP_ENABLED,
        bad: &[
            Code::MemoryCgroupAbsent,
            Code::CgroupParameterOnIgnoredLine,
            Code::MemoryCgroupDisabled,
            Code::RebootNeeded,
            Code::CgroupParameterInStub,
        ],
        open: &[Code::MemoryCgroupUnknown],
        good: &[Code::MemoryCgroupOk, Code::MemoryCgroupLostAtBoot, Code::BootFileUnreadable],
    },
    ConditionRule {
        condition: SERVING_NAMES_COVERED,
        bad: &[Code::NameNotServed, Code::NameInvalid, Code::CertificateDates, Code::CertificateUntrusted],
        open: &[
            Code::ServingNamesUnknown,
            Code::K3sConfigInvalid,
            Code::K3sConfigWrongType,
            Code::K3sFileUnreadable,
        ],
        good: &[Code::ServingNamesOk],
    },
    ConditionRule {
        condition: CLOCK_SYNCHRONISED,
        bad: &[Code::ClockBeforeFloor],
        open: &[Code::ClockNotSynchronised],
        good: &[],
    },
    ConditionRule {
        condition: STORAGE_HEALTHY,
        bad: &[Code::CardFailing, Code::DiskPressure, Code::CardTooSmall, Code::BootPartitionUnwritable],
        open: &[],
        good: &[],
    },
    ConditionRule { condition: POWER_HEALTHY, bad: &[Code::UnderVoltage], open: &[], good: &[] },
];

/// The status for these findings, after `before`.
pub fn status(
    before: &NodeReportStatus,
    facts: &NodeFacts,
    k3s_version: Option<String>,
    findings: &[Finding],
    now: &Time,
) -> NodeReportStatus {
    let verdicts: Vec<_> = RULES.iter().map(|rule| rule.judge(facts, findings)).collect();
    let system = facts.system.as_ref().map(|measured| rounded(before.system.as_ref(), measured));
    NodeReportStatus {
        board: facts.board.clone(),
        os: facts.os.clone(),
        kernel: facts.kernel.clone(),
        k3s_version,
        agent_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        boot_medium: facts.boot_medium.map(str::to_owned),
        serving: match &facts.serving {
            ServingSeen::Nothing => before.serving.clone(),
            ServingSeen::Certificate(seen) => Some(seen.clone()),
            ServingSeen::Elsewhere => None,
        },
        boot: boot_steps::kept(before, system.as_ref(), &facts.boot),
        system,
        conditions: fold(&NODE_ORDER, &before.conditions, &verdicts, None, now),
        findings: by_code(findings),
    }
}

/// Whether both have the same content, except for measurements.
pub fn says_the_same(one: &NodeReportStatus, other: &NodeReportStatus) -> bool {
    let plain = |status: &NodeReportStatus| {
        let status = status.clone();
        NodeReportStatus { findings: essence(status.findings), ..status }
    };
    plain(one) == plain(other)
}

/// The same of findings as they are found.
pub fn are_the_same(one: &[Finding], other: &[Finding]) -> bool {
    essence(by_code(one)) == essence(by_code(other))
}

/// Without measurements.
fn essence(mut findings: Vec<node_report::Finding>) -> Vec<node_report::Finding> {
    let counts = |finding: &node_report::Finding| Code::of_id(&finding.code).is_some_and(evidence_counts);
    let besides = findings.iter_mut().filter(|finding| !counts(finding));
    besides.for_each(|finding| finding.evidence.clear());
    findings
}

/// A summary for a scheduler: `fail` or `warn` as the worst that was found; `unknown` where the memory controller or
/// the names could not be judged; else `ok`. What no kernel reports, such as the power of a Pi on Debian's, is no lack
/// of health.
pub fn health(findings: &[Finding], conditions: &[Condition]) -> Severity {
    let worst = findings.iter().map(Finding::severity).max();
    let is_open = [MEMORY_CGROUP_ENABLED, SERVING_NAMES_COVERED].iter().any(|kind| {
        !conditions.iter().any(|condition| condition.type_ == *kind && condition.status != "Unknown")
    });
    match worst {
        Some(bad @ (Severity::Warn | Severity::Fail)) => bad,
        _ if is_open => Severity::Unknown,
        _ => Severity::Ok,
    }
}

impl ConditionRule {
    fn judge(&self, facts: &NodeFacts, findings: &[Finding]) -> Verdict {
        let first = |codes: &[Code], is: fn(Severity) -> bool| {
            findings.iter().find(|finding| codes.contains(&finding.code) && is(finding.severity()))
        };
        let is_bad = |severity| matches!(severity, Severity::Warn | Severity::Fail);
        let verdict = |truth, finding: &Finding| {
            Verdict::new(self.condition, truth, finding.code.reason(), bounded(&finding.message, MESSAGE))
        };
        if let Some(finding) = first(self.bad, is_bad) {
            return verdict(Truth::False, finding);
        }
        let is_open = |finding: &&Finding| {
            // One of k3s' settings may be about anything: whether it concerns the names is said elsewhere.
            let is_of_k3s = finding.code.id().starts_with("F-");
            self.open.contains(&finding.code) && (!is_of_k3s || leaves_names_open(finding))
        };
        let unknown = findings.iter().find(is_open).or_else(|| first(self.bad, |s| s == Severity::Unknown));
        if let Some(finding) = unknown {
            return verdict(Truth::Unknown, finding);
        }
        if let Some(finding) = first(self.good, |_| true) {
            return verdict(Truth::True, finding);
        }
        let looked = match self.condition {
            CLOCK_SYNCHRONISED => facts.clock_is_set,
            STORAGE_HEALTHY => facts.storage_is_seen,
            POWER_HEALTHY => facts.power_is_seen,
            _ => false,
        };
        if looked {
            Verdict::new(self.condition, Truth::True, "NothingFound", "no problem was found")
        } else {
            Verdict::new(self.condition, Truth::Unknown, "NotSeen", "nothing on this node reports it")
        }
    }
}

/// One entry a code, the worst first of those that share one.
fn by_code(findings: &[Finding]) -> Vec<node_report::Finding> {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| (finding.code.id(), std::cmp::Reverse(finding.severity())));
    let mut shared: Vec<&[&Finding]> = sorted.chunk_by(|one, next| one.code == next.code).collect();
    if shared.len() > MOST_CODES {
        shared.sort_by_key(|shared| std::cmp::Reverse(shared.first().map(|finding| finding.severity())));
        shared.truncate(MOST_CODES);
        shared.sort_by_key(|shared| shared.first().map(|finding| finding.code.id()));
    }
    shared.into_iter().filter_map(entry).collect()
}

fn entry(shared: &[&Finding]) -> Option<node_report::Finding> {
    let joined = |lines: Vec<String>| {
        let mut said: Vec<String> = Vec::new();
        for line in lines.into_iter().filter(|line| !line.is_empty()) {
            if !said.contains(&line) {
                said.push(line);
            }
        }
        bounded(&said.join("\n"), MESSAGE)
    };
    let evidence = shared.iter().flat_map(|finding| &finding.evidence).take(MOST_SEEN);
    Some(node_report::Finding {
        code: shared.first()?.code.id().to_owned(),
        severity: severity(shared.first()?.severity()),
        message: joined(shared.iter().map(|finding| finding.message.clone()).collect()),
        evidence: evidence.map(|seen| bounded(&seen.to_string(), SEEN)).collect(),
        remedy: joined(shared.iter().filter_map(|finding| finding.remedy.as_ref()).map(to_type).collect()),
    })
}

fn to_type(remedy: &Remedy) -> String {
    let commands = remedy.commands.iter().map(|command| format!("\n$ {command}"));
    let diff = remedy.diff.iter().map(|diff| format!("\n{diff}"));
    std::iter::once(remedy.explain.clone()).chain(commands).chain(diff).collect()
}

const fn severity(severity: Severity) -> node_report::Severity {
    match severity {
        Severity::Ok => node_report::Severity::Ok,
        Severity::Unknown => node_report::Severity::Unknown,
        Severity::Warn => node_report::Severity::Warn,
        Severity::Fail => node_report::Severity::Fail,
    }
}

/// Codes that cannot be judged while another is present.
const HIDDEN: [(&[Code], Code); 2] = [
    (
        &[Code::NameNotServed, Code::NameStale, Code::CertificateDates, Code::CertificateUntrusted],
        Code::ServingNamesUnknown,
    ),
    (
        &[
            Code::MemoryCgroupAbsent,
            Code::CgroupParameterOnIgnoredLine,
            Code::MemoryCgroupDisabled,
            Code::RebootNeeded,
            Code::CgroupParameterInStub,
            Code::MemoryCgroupLostAtBoot,
        ],
        Code::MemoryCgroupUnknown,
    ),
];

/// What is new between two states of the findings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictChange {
    /// The reason of an event.
    pub reason: &'static str,
    /// Whether it is something bad; else something bad has gone.
    pub is_bad: bool,
    /// A sentence that begins with the code.
    pub note: String,
}

/// The codes that are bad in a report, with the severity that is in it.
pub fn severities(findings: &[node_report::Finding]) -> BTreeMap<String, node_report::Severity> {
    findings.iter().filter(|finding| is_bad(finding)).map(|f| (f.code.clone(), f.severity)).collect()
}

/// What has turned bad since it was last reported, and what is known to be gone; `known` is updated. What could not be
/// checked is neither. A code that this version does not know came from another version and is dropped.
pub fn news(
    known: &mut BTreeMap<String, node_report::Severity>,
    now: &[node_report::Finding],
) -> Vec<VerdictChange> {
    let mut news = Vec::new();
    for finding in now.iter().filter(|finding| is_bad(finding)) {
        let Some(code) = Code::of_id(&finding.code) else { continue };
        if known.insert(finding.code.clone(), finding.severity) != Some(finding.severity) {
            let note = format!("{}: {}", code.id(), finding.message);
            news.push(VerdictChange { reason: code.reason(), is_bad: true, note });
        }
    }
    known.retain(|id, _| {
        let Some(code) = Code::of_id(id) else { return false };
        let stays = now.iter().any(|finding| {
            let is_open = HIDDEN.iter().any(|(codes, by)| codes.contains(&code) && by.id() == finding.code);
            is_open || finding.code == *id && finding.severity != node_report::Severity::Ok
        });
        if !stays {
            let note = format!("{code}: resolved");
            news.push(VerdictChange { reason: code.reason(), is_bad: false, note });
        }
        stays
    });
    news
}

const fn is_bad(finding: &node_report::Finding) -> bool {
    use node_report::Severity::{Fail, Other, Warn};
    matches!(finding.severity, Warn | Fail | Other)
}

#[cfg(test)]
#[path = "node_verdicts_tests.rs"]
mod tests;

//! The node's report, `report.json`: what preflight and the agent both fill in
//! and publish.

use schemars::JsonSchema;
use serde::Serialize;
use weaver_diagnostics::finding::{Code, Finding};

/// What the node agent last found, and what runs because of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Report {
    /// The node's name in the cluster, once the cluster has a report of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Whether the operator may run.
    pub gate: Gate,
    /// Why the gate is open or shut, as a sentence.
    pub reason: String,
    /// The node joins a server: its gate never opens, and our kinds are not its to install.
    pub joins: bool,
    /// Its server has accepted it: its kubelet runs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub joined: bool,
    /// The last check's findings.
    pub findings: Vec<Finding>,
    /// Codes of those findings that `weaver-node-agent check` does not make: of this boot's `weaver.toml`, the kernel's
    /// log, the units and the cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub agent_only: Vec<Code>,
    /// The operator, where this agent runs it.
    pub operator: Option<ChildReport>,
    /// The conversion webhook, where this agent runs it.
    pub webhook: Option<ChildReport>,
    /// Whether the definitions of our kinds are installed and converted.
    pub definitions: Definitions,
    /// Whether k3s is blocked; absent if this agent does not start k3s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub k3s_blocked: Option<bool>,
    /// Whether the boot partition shows the same; absent if this agent does not write it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card: Option<CardStatus>,
}

/// The state of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// The operator may run.
    Open,
    /// The operator may not run.
    Shut,
}

impl Gate {
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Shut => "shut",
        }
    }
}

/// The definitions of our kinds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Definitions {
    /// They are as this agent wants them, and the webhook answers.
    pub installed: bool,
    /// The API server was too slow to answer at the last look: `installed` is what was seen before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unanswered: bool,
    /// Why not, and what to do.
    pub reason: String,
}

impl Definitions {
    /// The next state after a read, from the state `before`.
    pub fn after(before: &Self, look: Result<(), Unseen>) -> Self {
        match look {
            Ok(()) => Self { installed: true, unanswered: false, reason: String::new() },
            Err(Unseen::Late(reason)) => Self { installed: before.installed, unanswered: true, reason },
            Err(Unseen::Failed(reason)) => Self { installed: false, unanswered: false, reason },
        }
    }
}

/// Why a read of the definitions did not find them as expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unseen {
    /// The API server takes long, which is no fault of the definitions.
    Late(String),
    Failed(String),
}

/// A program that this agent has started and that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChildReport {
    pub pid: u32,
}

/// What the boot partition shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Card")]
pub struct CardStatus {
    /// What this report says.
    pub current: bool,
    /// Why not, and what to do.
    pub reason: String,
}

impl Report {
    /// Sets what a check found, and what only this agent knows.
    pub fn set_findings(&mut self, mut findings: Vec<Finding>, agent_only: Vec<Finding>) {
        self.agent_only = agent_only.iter().map(|finding| finding.code).collect();
        self.agent_only.sort_unstable();
        self.agent_only.dedup();
        findings.extend(agent_only);
        self.findings = findings;
    }

    /// A gate that is shut because nothing was checked yet.
    pub fn unchecked() -> Self {
        Self {
            node: None,
            gate: Gate::Shut,
            reason: "no check has finished yet".to_owned(),
            joins: false,
            joined: false,
            findings: Vec::new(),
            agent_only: Vec::new(),
            operator: None,
            webhook: None,
            definitions: Definitions {
                installed: false,
                unanswered: false,
                reason: "not checked yet".to_owned(),
            },
            k3s_blocked: None,
            card: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_leaves_the_definitions_as_they_were_seen() {
        let (late, failed) = (|| Err(Unseen::Late("l".into())), || Err(Unseen::Failed("f".into())));
        let new = Report::unchecked().definitions;
        let seen = Definitions::after(&new, Ok(()));
        for (before, look, want) in [
            (&new, Ok(()), (true, false, "")),
            (&new, late(), (false, true, "l")),
            (&new, failed(), (false, false, "f")),
            (&seen, late(), (true, true, "l")),
            (&seen, failed(), (false, false, "f")),
            (&Definitions::after(&seen, late()), late(), (true, true, "l")),
            (&Definitions::after(&seen, late()), failed(), (false, false, "f")),
            (&Definitions::after(&seen, late()), Ok(()), (true, false, "")),
            // Not known again before it was seen again.
            (&Definitions::after(&seen, failed()), late(), (false, true, "l")),
        ] {
            let after = Definitions::after(before, look.clone());
            assert_eq!((after.installed, after.unanswered, &*after.reason), want, "{before:?} {look:?}");
        }
        assert!(!serde_json::to_string(&seen).unwrap().contains("unanswered"), "as it was before");
    }
}

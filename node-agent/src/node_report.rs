//! The node's report, `report.json`: what preflight and the agent both fill in
//! and publish.

use schemars::JsonSchema;
use serde::Serialize;
use weaver_diagnostics::finding::Finding;

/// The report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Report {
    /// The node's name in the cluster, once the cluster has a report of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Whether the operator may run.
    pub gate: Gate,
    /// Why.
    pub reason: String,
    /// The node joins a server: its gate never opens, and our kinds are not its to install.
    pub joins: bool,
    /// The last check's findings.
    pub findings: Vec<Finding>,
    /// The operator, where this agent runs it.
    pub operator: Option<ChildReport>,
    /// The conversion webhook, where this agent runs it.
    pub webhook: Option<ChildReport>,
    /// Whether the definitions of our kinds are installed and converted.
    pub definitions: Definitions,
    /// Whether k3s is kept from being started; absent where that is not this agent's to say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub k3s_blocked: Option<bool>,
    /// Whether the boot partition shows the same; absent where it is not ours to write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card: Option<Card>,
}

/// The state of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Gate {
    /// The operator may run.
    Open,
    /// It may not.
    Shut,
}

impl Gate {
    /// In a word.
    #[must_use]
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
    /// Why not, and what to do.
    pub reason: String,
}

/// A running child.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChildReport {
    /// Its process.
    pub pid: u32,
}

/// What the boot partition shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Card {
    /// What this report says.
    pub current: bool,
    /// Why not, and what to do.
    pub reason: String,
}

impl Report {
    /// A gate that is shut because nothing was checked yet.
    #[must_use]
    pub fn unchecked() -> Self {
        Self {
            node: None,
            gate: Gate::Shut,
            reason: "no check has finished yet".to_owned(),
            joins: false,
            findings: Vec::new(),
            operator: None,
            webhook: None,
            definitions: Definitions { installed: false, reason: "not checked yet".to_owned() },
            k3s_blocked: None,
            card: None,
        }
    }
}

//! A finding, and the machine or party that it belongs to.

use serde::Serialize;
use weaver_diagnostics::finding::{Finding, Severity};

/// Where a finding was made, and so who is responsible for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Location {
    /// This machine: kubeconfig, names.
    Here,
    /// Between the two: nothing answers.
    Network,
    /// The machine that k3s runs on.
    Node,
    /// What runs in the cluster.
    Cluster,
}

impl Location {
    /// Who is responsible, as the end of a sentence.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Here => "on this machine",
            Self::Network => "between this machine and the server",
            Self::Node => "on the machine that k3s runs on",
            Self::Cluster => "in the cluster",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct LocatedFinding {
    pub location: Location,
    #[serde(flatten)]
    pub finding: Finding,
}

impl LocatedFinding {
    /// Is something known to be wrong?
    pub fn is_bad(&self) -> bool {
        self.finding.severity() == Severity::Fail
    }
}

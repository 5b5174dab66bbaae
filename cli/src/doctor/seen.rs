//! A finding, and whose it is.

use serde::Serialize;
use weaver_diagnostics::finding::{Finding, Severity};

/// Where a thing was seen, and so whose it is.
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
    /// Whose it is, as a sentence ends with it.
    pub fn place(self) -> &'static str {
        match self {
            Self::Here => "on this machine",
            Self::Network => "between this machine and the server",
            Self::Node => "on the machine that k3s runs on",
            Self::Cluster => "in the cluster",
        }
    }
}

/// A finding and where it was seen.
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

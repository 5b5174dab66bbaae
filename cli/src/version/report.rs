//! The versions of all parts, as they are printed. Pure.

use serde::Serialize;
use weaver_diagnostics::version_gap::{PartVersion, ReleaseAge, VersionGap, older_than, parse};

use super::published::FoundRelease;
use crate::status::Known;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionReport {
    pub weaver: &'static str,
    /// The release at the configured address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<Known<PublishedRelease>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Known<ClusterVersions>>,
    pub too_far_behind: Vec<VersionGap>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PublishedRelease {
    #[serde(flatten)]
    pub found: FoundRelease,
    /// Compared with this program.
    pub is: ReleaseAge,
    pub older_parts: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterVersions {
    pub kubernetes: String,
    pub definitions: Vec<DefinitionVersions>,
    #[serde(flatten)]
    pub programs: ProgramVersions,
}

/// The programs that the cluster knows of.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgramVersions {
    /// The one that leads.
    pub operator: Known<Option<OperatorVersion>>,
    /// Where the definitions name a Service. A tag proves no version: it is compared with nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Known<Vec<WebhookVersion>>>,
    pub nodes: Known<Vec<NodeVersions>>,
    /// There are more nodes than are shown.
    pub more_nodes: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorVersion {
    pub holder: String,
    /// Not of one before 0.2.
    pub version: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WebhookVersion {
    pub deployment: String,
    pub version: Known<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DefinitionVersions {
    pub name: String,
    /// Served ones, of which the first is the stored one; `None` where the definition is not installed.
    pub versions: Known<Option<Vec<String>>>,
    /// From the one of this program.
    pub differs: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeVersions {
    pub name: String,
    /// Not of one before 0.2.
    pub agent: Known<Option<String>>,
    pub k3s: Option<String>,
}

impl ProgramVersions {
    /// Those whose version is known.
    pub fn parts(&self) -> Vec<PartVersion> {
        let operator = match &self.operator {
            Known::Is(Some(OperatorVersion { version: Some(version), .. })) => {
                PartVersion::new("operator", version)
            }
            _ => None,
        };
        let nodes = match &self.nodes {
            Known::Is(nodes) => nodes.as_slice(),
            Known::Unknown { .. } => &[],
        };
        let agents = nodes.iter().filter_map(|node| match &node.agent {
            Known::Is(Some(version)) => PartVersion::new(format!("agent on {}", node.name), version),
            _ => None,
        });
        operator.into_iter().chain(agents).collect()
    }
}

/// This program and those of the cluster.
pub fn all_parts(weaver: &str, programs: Option<&ProgramVersions>) -> Vec<PartVersion> {
    let of_cluster = programs.map(ProgramVersions::parts).unwrap_or_default();
    PartVersion::new("weaver", weaver).into_iter().chain(of_cluster).collect()
}

impl PublishedRelease {
    /// `None` where one of the two is no version, which is checked before.
    pub fn of(found: FoundRelease, weaver: &str, parts: &[PartVersion]) -> Option<Self> {
        let (release, own) = (parse(&found.version)?, parse(weaver)?);
        Some(Self { found, is: ReleaseAge::of(&release, &own), older_parts: older_than(&release, parts) })
    }
}

//! `weaver doctor`: what is wrong, on which machine, and what to type.
//!
//! Follows the path of kubectl, from the kubeconfig on this machine over the network to the cluster, and stops at the
//! first failure, which is the cause. On the agent's machine it also shows the agent's last report, and for the other
//! nodes what their agents report in the cluster. It changes nothing: the closest to a write is a dry run that converts
//! one object.

mod ask;
mod cluster;
mod containers;
mod node;
mod pods;
mod policies;
mod reports;
mod resources;
pub mod seen;
mod show;
mod versions;
mod way;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use weaver_diagnostics::catalogue;
use weaver_diagnostics::exit_code;
use weaver_diagnostics::finding::{Code, Severity};
use weaver_diagnostics::kubeconfig_export::K3S_KUBECONFIG;
use weaver_host::docker::Engine;
use weaver_host::platform::CAN_BE_NODE;

use crate::stdout::print;
pub use reports::of_node;
use seen::LocatedFinding;

/// The agent's report on a Pi.
const REPORT: &str = "/run/weaver/report.json";

#[derive(Args)]
pub struct Doctor {
    /// Report of the node agent on this machine [default: /run/weaver/report.json, if it exists]
    #[arg(long, value_name = "FILE", env = "WEAVER_REPORT")]
    report: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: FindingsOutput,
    /// Explain this code instead of checking (repeatable)
    #[arg(long, value_name = "CODE", value_parser = crate::explain::code)]
    explain: Vec<Code>,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum FindingsOutput {
    /// Human-readable text
    Text,
    /// One JSON document
    Json,
}

pub async fn run(options: &Doctor) -> anyhow::Result<ExitCode> {
    if !options.explain.is_empty() {
        for code in &options.explain {
            print(&format!("{}\n", catalogue::text(*code)))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let seen = look(options.report.as_deref(), None).await;
    match options.output {
        FindingsOutput::Text => show::text(&seen)?,
        FindingsOutput::Json => print(&show::json(&seen)?).map(|_| ())?,
    }
    Ok(exit_code::of(&seen.into_iter().map(|seen| seen.finding).collect::<Vec<_>>()).into())
}

/// Everything, as JSON.
pub async fn report() -> anyhow::Result<String> {
    show::json(&look(named_report().as_deref(), None).await)
}

/// The file that the environment names for the report of this machine's agent.
pub fn named_report() -> Option<PathBuf> {
    std::env::var_os("WEAVER_REPORT").map(PathBuf::from)
}

/// Whether the machine that k3s runs on is known to be busy, by its agent.
fn is_overloaded(seen: &[LocatedFinding]) -> bool {
    seen.iter().any(|LocatedFinding { finding, .. }| {
        finding.code == Code::NodeOverloaded && finding.severity() == Severity::Warn
    })
}

/// Checks everything along the path of kubectl; the report of this machine's agent is in `report`, else in its usual
/// file. Of the tenants' resources, only those in `namespace`, if one is given.
pub async fn look(report: Option<&Path>, namespace: Option<&str>) -> Vec<LocatedFinding> {
    let may_be_here = report.is_some() || CAN_BE_NODE;
    let mut seen =
        if may_be_here { node::report(report, Path::new(REPORT), node::check) } else { Vec::new() };
    let is_node = CAN_BE_NODE && (!seen.is_empty() || Path::new(K3S_KUBECONFIG).exists());
    let way = way::look(is_node, is_overloaded(&seen)).await;
    seen.extend(way.seen);
    if let Some(client) = &way.client {
        seen.extend(cluster::look(client, namespace).await);
    }
    let is_bad = seen.iter().any(LocatedFinding::is_bad);
    seen.extend(containers::look(Engine::of_user(), is_bad).await);
    // Last, so that no node determines which finding is the first, or what else is checked.
    if let Some(client) = &way.client {
        let name = may_be_here.then(|| node::name(report, Path::new(REPORT))).flatten();
        seen.extend(reports::look(client, name).await);
    }
    seen
}

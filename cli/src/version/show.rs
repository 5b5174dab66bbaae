//! The versions of all parts as text. Pure.

use weaver_diagnostics::finding_text::clean;
use weaver_diagnostics::version_gap::ReleaseAge;
use weaver_host::table::table;

use super::report::{
    ClusterVersions, DefinitionVersions, NodeVersions, OperatorVersion, ProgramVersions, PublishedRelease,
    VersionReport, WebhookVersion,
};
use crate::connection;
use crate::status::{Known, named};

const NO_VERSION: &str = "before 0.2, or not known";

/// A line for each part, then what to do.
pub fn text(VersionReport { weaver, release, cluster, too_far_behind }: &VersionReport) -> String {
    let mut rows = vec![("weaver".to_owned(), (*weaver).to_owned())];
    rows.extend(release.as_ref().map(|release| ("release".to_owned(), release.said(published))));
    match cluster {
        None => {}
        Some(Known::Unknown { unknown }) => {
            rows.push(("cluster".to_owned(), format!("not reached: {unknown}")));
        }
        Some(Known::Is(cluster)) => rows.extend(of_cluster(cluster)),
    }
    let rows: Vec<Vec<String>> = rows.iter().map(|(what, value)| vec![clean(what), clean(value)]).collect();
    let update = match release {
        Some(Known::Is(release)) => to_update(release),
        _ => Vec::new(),
    };
    let gaps = too_far_behind
        .iter()
        .map(|gap| format!("{gap}; that these work together is not promised: update {}", gap.part));
    let notes: String = update.into_iter().chain(gaps).map(|line| clean(&line) + "\n").collect();
    let table = table(&rows, "  ");
    if notes.is_empty() { table } else { format!("{table}\n{notes}") }
}

fn published(PublishedRelease { found, is, .. }: &PublishedRelease) -> String {
    let age = match is {
        ReleaseAge::Newer => "newer than this weaver",
        ReleaseAge::Same => "the same as this weaver",
        ReleaseAge::Older => "older than this weaver",
    };
    let proof = match &found.signed_by {
        Some(key) => format!("signed by the key {key}"),
        None => "signature not checked, pass --key".to_owned(),
    };
    format!("{}, {age} ({proof}), at {}", found.version, found.address)
}

fn to_update(PublishedRelease { found, older_parts, .. }: &PublishedRelease) -> Vec<String> {
    if older_parts.is_empty() {
        return Vec::new();
    }
    vec![
        format!("older than {}: {}", found.version, older_parts.join(", ")),
        format!(
            "to update: on a node `sudo weaver node update`; elsewhere download it from {} and check it with `weaver verify`",
            found.address
        ),
    ]
}

fn of_cluster(cluster: &ClusterVersions) -> Vec<(String, String)> {
    let ClusterVersions { kubernetes, definitions, programs } = cluster;
    let ProgramVersions { operator, webhook, nodes, more_nodes } = programs;
    let mut rows = Vec::new();
    let mut add = |what: &str, value: String| rows.push((what.to_owned(), value));
    add("kubernetes", kubernetes.clone());
    add("operator", operator.said(|operator| operator.as_ref().map_or_else(|| "no leader".to_owned(), led)));
    match webhook {
        None => {}
        Some(Known::Unknown { unknown }) => add("webhook", format!("unknown: {unknown}")),
        Some(Known::Is(all)) => {
            for one in all {
                add("webhook", converting(one));
            }
        }
    }
    if definitions.iter().all(|definition| matches!(definition.versions, Known::Is(None))) {
        add("CRDs", "not installed".to_owned());
    } else {
        for definition in definitions {
            add(&definition.name, defined(definition));
        }
    }
    match nodes {
        Known::Unknown { unknown } => add("nodes", format!("unknown: {unknown}")),
        Known::Is(all) if all.is_empty() => add("nodes", "no agent has reported".to_owned()),
        Known::Is(all) => {
            for node in all {
                add(&format!("node {}", node.name), on_node(node));
            }
        }
    }
    if *more_nodes {
        add("more nodes", format!("not shown: kubectl get nodereports{}", connection::flags()));
    }
    rows
}

fn defined(DefinitionVersions { name: _, versions, differs }: &DefinitionVersions) -> String {
    let installed = |versions: &Option<Vec<String>>| match versions {
        None => "not installed".to_owned(),
        Some(versions) => {
            let stored = |(number, version): (usize, &String)| {
                if number == 0 { format!("{version} (stored)") } else { version.clone() }
            };
            let versions: Vec<String> = versions.iter().enumerate().map(stored).collect();
            let diff = || format!("; not as in this weaver, see `weaver crd diff{}`", connection::flags());
            versions.join(", ") + &differs.then(diff).unwrap_or_default()
        }
    };
    versions.said(installed)
}

fn on_node(NodeVersions { name: _, agent, k3s }: &NodeVersions) -> String {
    let agent = agent.said(|agent| agent.as_deref().unwrap_or(NO_VERSION).to_owned());
    format!("agent {agent}, k3s {}", k3s.as_deref().unwrap_or("not known"))
}

fn led(OperatorVersion { holder, version }: &OperatorVersion) -> String {
    format!("{}, on {}", version.as_deref().unwrap_or(NO_VERSION), named(holder))
}

fn converting(WebhookVersion { deployment, version }: &WebhookVersion) -> String {
    version.said(|tag| format!("{tag}, by the image of the Deployment {deployment}"))
}

#[cfg(test)]
mod tests;

//! `weaver version`: the version of each part, as the cluster shows them. Asks the API server and nothing else.
//!
//! It does not report newer versions: that would need an address outside of the cluster.

use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams};
use kube::core::DeserializeGuard;
use kube::{Client, ResourceExt as _};
use serde::Serialize;
use weaver_api::lease::LeaseRecord;
use weaver_api::v1beta1::NodeReport;
use weaver_diagnostics::finding_text::{clean, clean_json};
use weaver_host::table::table;

use crate::connection;
use crate::status::{Known, StatusFormat, lease, named};
use crate::stdout::print;

/// A cluster that does not answer in time counts as not reachable.
const PATIENCE: Duration = Duration::from_secs(15);
/// Nodes that are shown.
const MOST: u32 = 500;

#[derive(Args)]
pub struct VersionOptions {
    /// Print the version of this program only, and ask no cluster
    #[arg(long)]
    client: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: StatusFormat,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionReport {
    weaver: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<Known<ClusterVersions>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterVersions {
    kubernetes: String,
    operator: Known<Option<OperatorVersion>>,
    definitions: Known<Vec<DefinitionVersions>>,
    nodes: Known<Vec<NodeVersions>>,
}

#[derive(Debug, Serialize)]
struct OperatorVersion {
    holder: String,
    /// Not of one before 0.2.
    version: Option<String>,
}

#[derive(Debug, Serialize)]
struct DefinitionVersions {
    name: String,
    /// Served ones; the first is the stored one.
    versions: Vec<String>,
}

#[derive(Debug, Serialize)]
struct NodeVersions {
    name: String,
    agent: Option<String>,
    k3s: Option<String>,
}

pub async fn run(options: &VersionOptions) -> anyhow::Result<()> {
    let cluster = if options.client { None } else { Some(reached().await.into()) };
    let versions = VersionReport { weaver: env!("CARGO_PKG_VERSION"), cluster };
    let text = match options.output {
        StatusFormat::Table => shown(&versions),
        StatusFormat::Json => {
            clean_json(&serde_json::to_string_pretty(&versions).context("writing the versions as JSON")?)
                + "\n"
        }
    };
    print(&text)?;
    Ok(())
}

async fn reached() -> anyhow::Result<ClusterVersions> {
    let client = connection::client().await?;
    let server = tokio::time::timeout(PATIENCE, client.apiserver_version()).await;
    let server = server.context("no answer within 15 s")?.context("asking the API server")?;
    let asked = async || {
        let lease = lease(&client).await.map(|lease| {
            let LeaseRecord { holder, program_version: version, .. } = LeaseRecord::of(&lease?);
            Some(OperatorVersion { holder: holder?, version })
        });
        (lease, definitions(&client).await, nodes(&client).await)
    };
    let (operator, definitions, nodes) =
        tokio::time::timeout(PATIENCE, asked()).await.context("no answer within 15 s")?;
    Ok(ClusterVersions {
        kubernetes: server.git_version,
        operator: operator.into(),
        definitions: definitions.into(),
        nodes: nodes.into(),
    })
}

async fn definitions(client: &Client) -> anyhow::Result<Vec<DefinitionVersions>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut found = Vec::new();
    for built_in in weaver_api::crds::all() {
        let name = built_in.name_any();
        let installed = api.get_opt(&name).await.with_context(|| format!("reading {name}"))?;
        found.extend(installed.map(|installed| definition(&installed)));
    }
    Ok(found)
}

fn definition(installed: &CustomResourceDefinition) -> DefinitionVersions {
    let mut served: Vec<_> = installed.spec.versions.iter().filter(|version| version.served).collect();
    served.sort_by_key(|version| !version.storage);
    let versions = served.into_iter().map(|version| version.name.clone()).collect();
    DefinitionVersions { name: installed.spec.names.plural.clone(), versions }
}

async fn nodes(client: &Client) -> anyhow::Result<Vec<NodeVersions>> {
    let api: Api<DeserializeGuard<NodeReport>> = Api::all(client.clone());
    let reports = api.list(&ListParams::default().limit(MOST)).await.context("listing NodeReports")?;
    Ok(reports.iter().map(node).collect())
}

/// A report that is not understood comes from an agent whose version is not known.
fn node(report: &DeserializeGuard<NodeReport>) -> NodeVersions {
    let status = report.0.as_ref().ok().and_then(|report| report.status.as_ref());
    NodeVersions {
        name: report.name_any(),
        agent: status.and_then(|status| status.agent_version.clone()),
        k3s: status.and_then(|status| status.k3s_version.clone()),
    }
}

fn shown(VersionReport { weaver, cluster }: &VersionReport) -> String {
    let mut rows = vec![("weaver".to_owned(), (*weaver).to_owned())];
    let mut add = |what: &str, value: String| rows.push((what.to_owned(), value));
    match cluster {
        None => {}
        Some(Known::Unknown { unknown }) => add("cluster", format!("not reached: {unknown}")),
        Some(Known::Is(ClusterVersions { kubernetes, operator, definitions, nodes })) => {
            add("kubernetes", kubernetes.clone());
            add(
                "operator",
                operator.said(|operator| operator.as_ref().map_or_else(|| "no leader".to_owned(), led)),
            );
            match definitions {
                Known::Unknown { unknown } => add("CRDs", format!("unknown: {unknown}")),
                Known::Is(all) if all.is_empty() => add("CRDs", "not installed".to_owned()),
                Known::Is(all) => {
                    for DefinitionVersions { name, versions } in all {
                        let stored = |(number, version)| {
                            if number == 0 { format!("{version} (stored)") } else { String::clone(version) }
                        };
                        let versions: Vec<String> = versions.iter().enumerate().map(stored).collect();
                        add(name, versions.join(", "));
                    }
                }
            }
            match nodes {
                Known::Unknown { unknown } => add("nodes", format!("unknown: {unknown}")),
                Known::Is(all) => {
                    for NodeVersions { name, agent, k3s } in all {
                        let agent = agent.as_deref().unwrap_or("before 0.2, or not known");
                        let k3s = k3s.as_ref().map_or_else(String::new, |k3s| format!(", k3s {k3s}"));
                        add(&format!("node {name}"), format!("agent {agent}{k3s}"));
                    }
                }
            }
        }
    }
    let rows: Vec<Vec<String>> = rows.iter().map(|(what, value)| vec![clean(what), clean(value)]).collect();
    table(&rows, "  ")
}

fn led(OperatorVersion { holder, version }: &OperatorVersion) -> String {
    let version = version.as_deref().unwrap_or("before 0.2, or not known");
    format!("{version}, on {}", named(holder))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use weaver_diagnostics::finding_text::is_unprintable;

    use super::*;

    fn cluster() -> ClusterVersions {
        ClusterVersions {
            kubernetes: "v1.36.4+k3s1".into(),
            operator: Known::Is(Some(OperatorVersion {
                holder: "raspi_a_b_4026531836_812_99".into(),
                version: Some("0.2.0".into()),
            })),
            definitions: Known::Is(vec![DefinitionVersions {
                name: "configmapsyncs".into(),
                versions: vec!["v1beta1".into(), "v1alpha1".into()],
            }]),
            nodes: Known::Is(vec![
                NodeVersions {
                    name: "raspi".into(),
                    agent: Some("0.2.0".into()),
                    k3s: Some("v1.36.4+k3s1".into()),
                },
                NodeVersions { name: "old".into(), agent: None, k3s: None },
            ]),
        }
    }

    fn text(cluster: Option<Known<ClusterVersions>>) -> String {
        shown(&VersionReport { weaver: "0.2.0-rc.1", cluster })
    }

    #[test]
    fn each_part_has_its_line() {
        assert_eq!(
            text(Some(Known::Is(cluster()))),
            "weaver          0.2.0-rc.1\n\
             kubernetes      v1.36.4+k3s1\n\
             operator        0.2.0, on raspi, process 812\n\
             configmapsyncs  v1beta1 (stored), v1alpha1\n\
             node raspi      agent 0.2.0, k3s v1.36.4+k3s1\n\
             node old        agent before 0.2, or not known\n"
        );
        assert_eq!(text(None), "weaver  0.2.0-rc.1\n");
    }

    #[test]
    fn what_is_not_there_or_may_not_be_seen_is_said() {
        let unknown = |why: &str| why.to_owned();
        let none =
            ClusterVersions { operator: Known::Is(None), definitions: Known::Is(Vec::new()), ..cluster() };
        let none = text(Some(Known::Is(none)));
        assert!(none.contains("operator    no leader\nCRDs        not installed\n"), "{none}");
        let forbidden = ClusterVersions {
            operator: Known::Unknown { unknown: unknown("leases is forbidden") },
            definitions: Known::Unknown { unknown: unknown("crds is forbidden") },
            nodes: Known::Unknown { unknown: unknown("nodereports is forbidden") },
            ..cluster()
        };
        let forbidden = text(Some(Known::Is(forbidden)));
        for line in
            ["operator    unknown: leases", "CRDs        unknown: crds", "nodes       unknown: nodereports"]
        {
            assert!(forbidden.contains(line), "{forbidden}");
        }
        let lost = text(Some(Known::Unknown { unknown: unknown("no answer within 15 s") }));
        assert_eq!(lost, "weaver   0.2.0-rc.1\ncluster  not reached: no answer within 15 s\n");
    }

    #[test]
    fn served_versions_are_listed_the_stored_one_first() {
        let crd = json!({"spec": {
            "group": "g", "scope": "Namespaced", "names": {"kind": "T", "plural": "ts"},
            "versions": [
                {"name": "v1alpha1", "served": true, "storage": false},
                {"name": "v0", "served": false, "storage": false},
                {"name": "v1beta1", "served": true, "storage": true},
            ],
        }});
        let DefinitionVersions { name, versions } = definition(&serde_json::from_value(crd).unwrap());
        assert_eq!((name.as_str(), versions.join(" ")), ("ts", "v1beta1 v1alpha1".to_owned()));
    }

    proptest! {
        #[test]
        fn no_one_forges_a_line(text in "[\u{1b}\u{7}\r\n\u{9b}\u{202e}\u{2028}a-z_]{0,30}") {
            let node = NodeVersions { name: text.clone(), agent: Some(text.clone()), k3s: Some(text.clone()) };
            let operator = OperatorVersion { holder: text.clone(), version: Some(text.clone()) };
            let cluster = ClusterVersions {
                kubernetes: text,
                operator: Known::Is(Some(operator)),
                nodes: Known::Is(vec![node]),
                ..cluster()
            };
            let shown = shown(&VersionReport { weaver: "0", cluster: Some(Known::Is(cluster)) });
            prop_assert!(!shown.contains(|c| c != '\n' && is_unprintable(c)), "{shown:?}");
            prop_assert_eq!(shown.lines().count(), 5);
        }
    }
}

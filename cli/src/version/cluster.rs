//! Reads the versions of what runs in the cluster. A part that cannot be read hides no other.

use std::time::Duration;

use anyhow::Context as _;
use futures::future::join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams};
use kube::core::DeserializeGuard;
use kube::{Client, ResourceExt as _};
use tokio::time::timeout;
use weaver_api::lease::LeaseRecord;
use weaver_api::v1beta1::NodeReport;
use weaver_client::Objects;
use weaver_installer::Service;

use super::report::{ClusterVersions, DefinitionVersions, NodeVersions, OperatorVersion, ProgramVersions};
use super::webhook;
use crate::crd_diff;
use crate::status::{Known, lease};

/// A part that does not answer in time counts as unknown.
const PATIENCE: Duration = Duration::from_secs(15);
/// Nodes that are shown.
const MOST: usize = 500;

/// All that the API server shows; what it does not show is unknown, with the reason.
pub async fn read(client: &Client) -> anyhow::Result<ClusterVersions> {
    let server = async { client.apiserver_version().await.context("asking the API server") };
    let kubernetes = in_time(server).await?.git_version;
    let definitions = weaver_api::crds::all().into_iter().map(|built_in| definition(client, built_in));
    let (definitions, mut programs) = tokio::join!(join_all(definitions), programs(client));
    let (definitions, services): (Vec<_>, Vec<_>) = definitions.into_iter().unzip();
    // An installation names the same one in all.
    if let Some(Service { namespace, .. }) = services.into_iter().flatten().next() {
        programs.webhook = Some(in_time(webhook::read(client, &namespace)).await.into());
    }
    Ok(ClusterVersions { kubernetes, definitions, programs })
}

/// The operator that leads, and the agents that have reported; the definitions say where the webhook is.
pub async fn programs(client: &Client) -> ProgramVersions {
    let (lease, nodes) = tokio::join!(in_time(lease(client)), in_time(nodes(client)));
    let operator = lease.map(|lease| {
        let LeaseRecord { holder, program_version: version, .. } = LeaseRecord::of(&lease?);
        Some(OperatorVersion { holder: holder?, version })
    });
    let more_nodes = nodes.as_ref().is_ok_and(|(_, are_more)| *are_more);
    let nodes = nodes.map(|(nodes, _)| nodes).into();
    ProgramVersions { operator: operator.into(), webhook: None, nodes, more_nodes }
}

async fn in_time<T>(asking: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    timeout(PATIENCE, asking).await.with_context(|| format!("no answer within {} s", PATIENCE.as_secs()))?
}

/// Of one definition; and the Service by which it has objects converted, if it names one.
async fn definition(
    client: &Client,
    built_in: CustomResourceDefinition,
) -> (DefinitionVersions, Option<Service>) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = built_in.name_any();
    let plural = built_in.spec.names.plural.clone();
    let reading = async { api.get_opt(&name).await.with_context(|| format!("reading {name}")) };
    let installed = in_time(reading).await;
    let service = installed.as_ref().ok().and_then(|found| crd_diff::own_webhook(found.as_ref()).service);
    let judged = installed.and_then(|installed| judge(installed.as_ref(), built_in));
    let differs = judged.as_ref().is_ok_and(|(_, differs)| *differs);
    let versions = judged.map(|(versions, _)| versions).into();
    (DefinitionVersions { name: plural, versions, differs }, service)
}

/// The served versions, the stored one first; and whether it differs from the one of this program.
fn judge(
    installed: Option<&CustomResourceDefinition>,
    built_in: CustomResourceDefinition,
) -> anyhow::Result<(Option<Vec<String>>, bool)> {
    let Some(installed) = installed else { return Ok((None, true)) };
    let mut served: Vec<_> = installed.spec.versions.iter().filter(|version| version.served).collect();
    served.sort_by_key(|version| !version.storage);
    let versions = served.into_iter().map(|version| version.name.clone()).collect();
    let diff = crd_diff::between(Some(installed), built_in, crd_diff::own_webhook(Some(installed)))?;
    Ok((Some(versions), !diff.is_empty()))
}

/// The nodes that have a report, and whether there are more than these.
async fn nodes(client: &Client) -> anyhow::Result<(Vec<NodeVersions>, bool)> {
    let reports: Objects<DeserializeGuard<NodeReport>> = Objects::new(Api::all(client.clone()), "weaver");
    let mut pages = reports.pages(ListParams::default());
    let (mut nodes, mut are_more) = (Vec::new(), false);
    while let Some(page) = pages.next_page().await? {
        if page.is_first {
            nodes.clear();
        }
        nodes.extend(page.items.iter().map(node));
        are_more = nodes.len() > MOST || nodes.len() == MOST && !page.is_last;
        if are_more {
            nodes.truncate(MOST);
            break;
        }
    }
    Ok((nodes, are_more))
}

fn node(report: &DeserializeGuard<NodeReport>) -> NodeVersions {
    let name = report.name_any();
    let unknown = |unknown: String| Known::Unknown { unknown };
    let (agent, k3s) = match &report.0 {
        Err(error) => (unknown(format!("its report is not understood: {}", error.error)), None),
        Ok(NodeReport { status: None, .. }) => (unknown("its report is empty".to_owned()), None),
        Ok(NodeReport { status: Some(status), .. }) => {
            (Known::Is(status.agent_version.clone()), status.k3s_version.clone())
        }
    };
    NodeVersions { name, agent, k3s }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use weaver_api::webhook::URL;
    use weaver_installer::Webhook;
    use weaver_installer::plan::complete;

    use super::*;

    #[test]
    fn served_versions_are_listed_the_stored_one_first() {
        let built_in = || weaver_api::crds::all().remove(0);
        let mut crd = serde_json::to_value(built_in()).unwrap();
        crd["spec"]["versions"].as_array_mut().unwrap().reverse();
        let judged = |crd: &Value| judge(Some(&serde_json::from_value(crd.clone()).unwrap()), built_in());
        let both = || Some(vec!["v1beta1".to_owned(), "v1alpha1".to_owned()]);
        assert_eq!(judged(&crd).unwrap().0, both());
        crd["spec"]["versions"][0]["served"] = json!(false);
        assert_eq!(judged(&crd).unwrap(), (Some(vec!["v1beta1".to_owned()]), true));
        let webhook = Webhook { url: URL.into(), service: None, ca_bundle: "0123456789".into() };
        let own = complete(built_in(), &webhook);
        assert_eq!(judge(Some(&own), built_in()).unwrap(), (both(), false));
        assert_eq!(judge(None, built_in()).unwrap(), (None, true));
    }

    #[test]
    fn a_report_that_says_no_version_says_why() {
        let said = |report: Value| {
            let whole = json!({"apiVersion": "weaver.example.com/v1beta1", "kind": "NodeReport",
                "metadata": {"name": "raspi"}, "status": report});
            let NodeVersions { name, agent, k3s } = node(&serde_json::from_value(whole).unwrap());
            assert_eq!(name, "raspi");
            (agent.said(|agent| format!("{agent:?}")), k3s)
        };
        assert_eq!(said(Value::Null), ("unknown: its report is empty".to_owned(), None));
        let (agent, _) = said(json!({"findings": 7}));
        assert!(agent.starts_with("unknown: its report is not understood: "), "{agent}");
    }
}

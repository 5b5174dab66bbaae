//! The kinds themselves, which are deleted last: deleting a definition deletes each object of it, so first there must
//! be none.

use std::ops::ControlFlow;

use anyhow::{Context as _, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ListParams};
use tokio::time::Instant;
use weaver_api::crds::STORED;
use weaver_api::v1beta1::NodeReport;
use weaver_client::pages::each_page;

use super::installed_object::InstalledObject;
use crate::resource::kind::Kind;
use crate::resource::store::Store;

/// Those that are installed. One without our stored version belongs to someone else, such as the upstream operator.
pub async fn installed(client: &Client) -> anyhow::Result<Vec<InstalledObject>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut parts = Vec::new();
    for name in weaver_api::crds::all().iter().map(kube::ResourceExt::name_any) {
        let found =
            api.get_opt(&name).await.with_context(|| format!("reading CustomResourceDefinition {name}"))?;
        parts.extend(found.filter(is_ours).map(|crd| InstalledObject::of(&crd)));
    }
    Ok(parts)
}

fn is_ours(crd: &CustomResourceDefinition) -> bool {
    crd.spec.versions.iter().any(|version| version.name == STORED)
}

/// Deletes every `NodeReport`, then each definition that has no objects left.
pub async fn remove(
    client: &Client,
    reports: &[InstalledObject],
    definitions: &[InstalledObject],
    deadline: Instant,
) -> anyhow::Result<()> {
    for report in reports {
        report.delete(client).await?;
    }
    for definition in definitions {
        let left = objects(client, definition).await?;
        ensure!(
            left == 0,
            "{definition} stays, since {left} objects of it were created meanwhile: run this again"
        );
        definition.delete(client).await?;
    }
    for definition in definitions {
        definition.is_gone_by(client, deadline).await?;
    }
    Ok(())
}

/// How many objects of it there are.
async fn objects(client: &Client, definition: &InstalledObject) -> anyhow::Result<usize> {
    let kind = Kind::ALL.into_iter().find(|kind| definition.is_of(&kind.resource()));
    match kind {
        Some(kind) => Ok(Store::all(kind, client).list(ListParams::default()).await?.len()),
        None => Ok(reports(client).await?.len()),
    }
}

/// The reports of the node agents.
pub async fn reports(client: &Client) -> anyhow::Result<Vec<InstalledObject>> {
    let api: Api<NodeReport> = Api::all(client.clone());
    let mut reports = Vec::new();
    let listed = each_page(&api, "", |page| {
        reports.extend(page.iter().map(InstalledObject::named::<NodeReport>));
        ControlFlow::Continue(())
    });
    listed.await.context("listing NodeReports")?;
    Ok(reports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_without_our_version_is_not_ours() {
        let mut crd = weaver_api::crds::all().remove(0);
        assert!(is_ours(&crd));
        crd.spec.versions.retain(|version| version.name != STORED);
        assert!(!is_ours(&crd));
    }
}

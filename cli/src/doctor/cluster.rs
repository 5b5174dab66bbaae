//! What runs in the cluster: our kinds, their conversion, our admission policies, the operator.
//!
//! With the rights of the user; what these do not show is reported as unknown.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::ResourceAttributes;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::time::timeout;
use weaver_api::{OPERATOR_ACCOUNT, OPERATOR_NAMESPACE, v1alpha1};
use weaver_diagnostics::finding::{Code, Finding, Place, Severity};
use weaver_tenant::Account;

use super::ask::{PATIENCE, asked, asked_for};
use super::seen::{LocatedFinding, Location};
use super::{pods, policies, resources, versions};
use crate::{connection, crd_diff, review};

/// For one that a webhook answers: the API server itself waits 30 s for it.
const CONVERTING: Duration = Duration::from_secs(40);
pub async fn look(client: &Client, namespace: Option<&str>) -> Vec<LocatedFinding> {
    let mut findings = definitions(client).await;
    if findings.is_empty() {
        findings.push(conversion(client).await);
    }
    if findings.iter().all(|finding| finding.severity() != Severity::Fail) {
        findings.extend(resources::look(client, namespace).await);
    }
    findings.extend(policies::look(client).await);
    findings.extend(minting(client).await);
    findings.extend(pods::look(client).await);
    findings.extend(versions::look(client).await);
    findings
        .into_iter()
        .map(|finding| LocatedFinding { location: Location::Cluster, finding: typed_here(finding) })
        .collect()
}

/// With commands for the cluster that was checked.
fn typed_here(mut finding: Finding) -> Finding {
    for command in finding.remedy.iter_mut().flat_map(|remedy| &mut remedy.commands) {
        if let Some(typed) = connection::typed(command) {
            *command = typed.into();
        }
    }
    finding
}

/// What is wrong with the definitions of our kinds.
async fn definitions(client: &Client) -> Vec<Finding> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut findings = Vec::new();
    for built_in in weaver_api::crds::all() {
        let name = built_in.name_any();
        let installed = match asked(&format!("looking for {name}"), api.get_opt(&name)).await {
            Ok(installed) => installed,
            Err(finding) => return vec![*finding],
        };
        let webhook = crd_diff::own_webhook(installed.as_ref());
        let place = Place::file(name.clone());
        match crd_diff::between(installed.as_ref(), built_in, webhook) {
            Ok(diff) if diff.is_empty() => {}
            Ok(_) if installed.is_none() => {
                let message = format!("{name} is not installed: Config Weaver does not work in this cluster");
                findings.push(Finding::new(Code::DefinitionDiffers, message).saw(place, "missing"));
            }
            Ok(diff) => {
                let message = format!("{name} differs from that of this version");
                let lines = diff.lines().filter(|line| line.starts_with(['+', '-'])).count();
                // It may be the older one of the two, and still be right.
                let finding = Finding::new(Code::DefinitionDiffers, message).milder(Severity::Warn);
                findings.push(finding.saw(place, format!("{lines} lines differ")));
            }
            Err(error) => {
                findings.push(Finding::new(Code::DefinitionDiffers, format!("{name}: {error:#}")));
            }
        }
    }
    findings
}

/// Has one object converted without storing it.
async fn conversion(client: &Client) -> Finding {
    let old = ApiResource::erase::<v1alpha1::ConfigMapSync>(&());
    // The context's own may not be there.
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &old);
    // Without an account, so that no right to name one is needed.
    let spec = json!({"serviceAccount": {}, "testNum": 1});
    let object = DynamicObject::new("weaver-doctor", &old).data(json!({"spec": spec}));
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let what = "converting an object (dry run)";
    match asked_for(CONVERTING, what, api.create(&params, &object)).await {
        Ok(_) => {
            let message = "the CRDs are installed, and an object was converted";
            Finding::new(Code::KindsOk, message)
        }
        Err(finding) => *finding,
    }
}

/// Whether the operator may act as everybody.
async fn minting(client: &Client) -> Option<Finding> {
    let operator = Account { namespace: OPERATOR_NAMESPACE.into(), name: OPERATOR_ACCOUNT.into() };
    let what = ResourceAttributes {
        verb: Some("create".into()),
        resource: Some("serviceaccounts".into()),
        subresource: Some("token".into()),
        ..ResourceAttributes::default()
    };
    match timeout(PATIENCE, review::allowed(client, &operator, what)).await {
        Ok(Ok(true)) => Some(Finding::new(
            Code::MintingTooWide,
            "the operator may mint tokens of every ServiceAccount in the cluster, not only of those that \
             tenants allowed",
        )),
        // A user who may not ask about others has nothing to fix here either.
        _ => None,
    }
}

//! Writes the definitions: all existing ones are read and judged first, and if one cannot be replaced then
//! none is.
//!
//! The order: API server ready, the admission policies, the definitions judged, the rights of nodes, webhook answers,
//! definitions with conversion and CA in one write each, accepted by the API server, and at last the proof that the API
//! server itself reaches the webhook. The policies wait for nothing else: without them any account could be named in a
//! resource, were our kinds served before them, the webhook dead or a definition refused. A definition with a
//! webhook that does not answer would break every request at the other version. Where nothing differs, nothing
//! is written.
//!
//! A webhook behind a Service is not asked first: it is not reachable from a laptop, and the API server uses no
//! definition before it is written. There the proof at the end is all; until it succeeds, v1alpha1 fails and says why.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, PostParams};
use kube::core::DynamicObject;
use kube::{Client, ResourceExt as _};
use weaver_client::call::{CallError, call, lookup};

use super::ca::{leave_ca_to, take_ca_over};
use super::conversion::converts;
use super::migrate::stored_resource;
use super::plan::{DefinitionPlan, DefinitionRefusal, complete, plan};
use super::report::{InstallError, InstallOutcome, InstallReport, InstallStep, Installed, failed};
use super::served::{ConversionProof, accepted, proved, ready};
use super::webhook::Webhook;
use super::write::{MANAGER, ROUNDS};
use super::{accounts, deletions, nodes};

/// When the webhook is asked, and the API server made to ask it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Prove {
    /// Each time: for a user who wants to know.
    Always,
    /// Only where a definition is written: for a loop.
    OnChange,
    /// Not at all: where the webhook starts only when this is done.
    Never,
}

#[derive(Clone, Debug)]
pub struct InstallOptions {
    /// When to prove that conversion works.
    pub prove: Prove,
    /// The Certificate of cert-manager, as `NAMESPACE/NAME`, whose CA cert-manager writes into the definitions, instead
    /// of the webhook's `ca_bundle`.
    pub ca_from: Option<String>,
    /// How long each step may take: the API server's readiness, the webhook's answer, acceptance, the proof.
    pub patience: Duration,
}

/// Brings all definitions, the admission policies and the rights of nodes into the API server and reports to `steps`
/// what was done.
///
/// # Errors
/// The first step that failed. What was written before stays; running it again continues from there.
pub async fn install(
    client: &Client,
    webhook: &Webhook,
    options: &InstallOptions,
    mut steps: impl FnMut(InstallStep<'_>),
) -> Result<InstallReport, InstallError> {
    ready(client, options.patience).await?;
    steps(InstallStep::Ready);
    let mut admission = policies(client, &mut steps).await?;
    let mut plans = allowed(client, webhook, options).await?;
    for installed in nodes::install(client).await? {
        steps(InstallStep::Installed(&installed));
        admission.push(installed);
    }
    let prove = match options.prove {
        Prove::Always => true,
        Prove::OnChange => plans.iter().any(|(_, plan, _)| !matches!(plan, DefinitionPlan::Keep)),
        Prove::Never => false,
    };
    if prove && webhook.service.is_none() {
        converts(webhook, options.patience).await?;
        steps(InstallStep::Answers(&webhook.url));
    }
    let mut done = BTreeMap::new();
    for round in 1.. {
        let Err(contested) = write(client, plans, &mut done).await? else { break };
        if round == ROUNDS {
            return Err(InstallError::Contested(format!("crd/{contested}")));
        }
        plans = allowed(client, webhook, options).await?;
    }
    for installed in done.values() {
        steps(InstallStep::Installed(installed));
    }
    for name in done.keys() {
        accepted(client, name, options.patience).await?;
    }
    steps(InstallStep::Accepted);
    let mut report =
        InstallReport { definitions: done.into_values().collect(), admission, ..InstallReport::default() };
    if prove {
        match proved(client, options.patience).await? {
            ConversionProof::Converts => {
                steps(InstallStep::Proved);
                report.proved = true;
            }
            ConversionProof::NotProvable(message) => {
                steps(InstallStep::NotProvable(&message));
                report.not_provable = Some(message);
            }
        }
    }
    Ok(report)
}

/// Puts all admission policies into the API server. One that fails keeps none of the others from it.
async fn policies(
    client: &Client,
    steps: &mut impl FnMut(InstallStep<'_>),
) -> Result<Vec<Installed>, InstallError> {
    let mut all = Ok(Vec::new());
    for guard in [accounts::built_in()?, deletions::built_in()?, nodes::built_in()?] {
        let done = Box::pin(guard.install(client)).await;
        done.iter().flatten().for_each(|installed| steps(InstallStep::Installed(installed)));
        all = match (all, done) {
            (Ok(all), Ok(done)) => Ok([all, done].concat()),
            (Err(first), _) | (Ok(_), Err(first)) => Err(first),
        };
    }
    all
}

/// Name, plan, and the whole definition as it should be.
type Planned = (String, DefinitionPlan, CustomResourceDefinition);

async fn read(
    client: &Client,
    webhook: &Webhook,
    options: &InstallOptions,
) -> Result<Vec<Planned>, InstallError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut plans = Vec::new();
    for definition in weaver_api::crds::all() {
        let mut desired = complete(definition, webhook);
        let name = desired.name_any();
        let installed = lookup(api.get(&name)).await.map_err(failed(format!("reading {name}")))?;
        match (&options.ca_from, &installed) {
            (Some(certificate), _) => leave_ca_to(certificate, &mut desired, installed.as_ref()),
            (None, Some(installed)) => take_ca_over(&mut desired, installed, Timestamp::now()),
            (None, None) => {}
        }
        let mut plan = plan(installed.as_ref(), &desired);
        if let (DefinitionPlan::Refuse(refusals), Some(installed)) = (&mut plan, &installed) {
            for refusal in refusals {
                if let DefinitionRefusal::Scope { objects, .. } = refusal {
                    *objects = count(client, installed).await;
                }
            }
        }
        plans.push((name, plan, desired));
    }
    Ok(plans)
}

/// The same, where nothing is refused.
async fn allowed(
    client: &Client,
    webhook: &Webhook,
    options: &InstallOptions,
) -> Result<Vec<Planned>, InstallError> {
    let plans = read(client, webhook, options).await?;
    let refused = plans.iter().flat_map(|(name, plan, _)| match plan {
        DefinitionPlan::Refuse(refusals) => {
            refusals.iter().map(|refusal| (name.clone(), refusal.clone())).collect()
        }
        _ => Vec::new(),
    });
    let refused: Vec<_> = refused.collect();
    if refused.is_empty() { Ok(plans) } else { Err(InstallError::Refused(refused)) }
}

/// Stored objects of an installed definition, if they can be listed at the version at which they are written.
async fn count(client: &Client, installed: &CustomResourceDefinition) -> Option<usize> {
    let resource = stored_resource(installed)?;
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let first = call(api.list_metadata(&ListParams::default().limit(1))).await.ok()?;
    let more = first.metadata.remaining_item_count.and_then(|more| usize::try_from(more).ok());
    Some(first.items.len() + more.unwrap_or_default())
}

/// Carries the plans out and notes what was done; the inner error is the name of a definition that someone
/// else has changed meanwhile.
async fn write(
    client: &Client,
    plans: Vec<Planned>,
    done: &mut BTreeMap<String, Installed>,
) -> Result<Result<(), String>, InstallError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PostParams { dry_run: false, field_manager: Some(MANAGER.into()) };
    for (name, plan, desired) in plans {
        let (outcome, warnings, written) = match plan {
            DefinitionPlan::Keep | DefinitionPlan::Refuse(_) => (InstallOutcome::Unchanged, Vec::new(), None),
            DefinitionPlan::Create => {
                (InstallOutcome::Created, Vec::new(), Some(call(api.create(&params, &desired)).await))
            }
            DefinitionPlan::Replace { reasons, warnings, with } => {
                let written = call(api.replace(&name, &params, &with)).await;
                (InstallOutcome::Replaced(reasons), warnings, Some(written))
            }
        };
        match written {
            None | Some(Ok(_)) => {}
            // Created, changed or deleted since it was read.
            Some(Err(CallError::Conflict(_) | CallError::NotFound(_))) => return Ok(Err(name)),
            Some(Err(error)) => return Err(failed(format!("writing {name}"))(error)),
        }
        // In a later round, what an earlier one did is unchanged.
        if outcome != InstallOutcome::Unchanged || !done.contains_key(&name) {
            done.insert(name.clone(), Installed { name, outcome, warnings });
        }
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests;

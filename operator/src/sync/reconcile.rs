//! What kube's controller calls: a visit and its report, or the clean-up of a deleted resource.
//!
//! The operator's own identity is used here and only for the resource itself: its finalizer and its status. A
//! failed visit is repeated with back-off while the status says why.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::controller::Action;
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tracing::{info, warn};
use weaver_api::conditions;
use weaver_api::marks::FINALIZER;
use weaver_api::v1alpha1::ConfigMapSync;

use super::outcome::Visit;
use super::state::{States, SyncState};
use super::visit::visit;
use super::{backoff, cleanup};
use crate::args::Options;
use crate::tenant::Tenants;
use crate::tenant::call::{CallError, call};
use crate::watch::{Guarded, Namespaces, SyncRef, WatchSet};

/// All that a visit needs; built in one place ([`crate::run`]).
pub struct Context {
    /// The operator's own identity: our kinds and nothing else.
    pub client: Client,
    /// Everybody else's.
    pub tenants: Tenants,
    /// Their watches.
    pub watches: WatchSet,
    /// Which namespaces there are.
    pub namespaces: Namespaces,
    /// What is remembered between visits.
    pub states: States,
    /// Flags.
    pub options: Options,
}

/// Why a visit did not end well. What a tenant should know is in the status instead.
#[derive(Debug, thiserror::Error)]
pub enum VisitError {
    /// The operator's own patch of the resource's status failed.
    #[error("writing the status: {0}")]
    Status(#[source] CallError),
    /// The operator's own patch of the resource's finalizers failed.
    #[error("writing the finalizers: {0}")]
    Finalizer(#[source] CallError),
    /// Copies of a deleted resource could not be removed yet.
    #[error("copies are left: {0}")]
    CleanupPending(String),
}

/// Visits one resource.
///
/// # Errors
/// If the operator's own identity fails, or a clean-up has to be repeated.
pub async fn reconcile(guarded: Arc<Guarded>, context: Arc<Context>) -> Result<Action, VisitError> {
    let reference = SyncRef::of(&*guarded);
    let sync = match &guarded.0 {
        Ok(sync) => sync,
        Err(invalid) => {
            warn!(sync = %reference, error = %invalid, "skipped a resource that cannot be understood");
            return Ok(Action::await_change());
        }
    };
    context.namespaces.synced().await;
    let api: Api<Guarded> = Api::namespaced(context.client.clone(), &reference.namespace);
    let uid = sync.uid().unwrap_or_default();
    let entry = context.states.entry(&uid, &reference);
    let mut state = entry.state.lock().await;

    if sync.metadata.deletion_timestamp.is_some() {
        if is_claimed(sync) {
            cleanup::cleanup(&context, &mut state, sync).await.map_err(VisitError::CleanupPending)?;
            set_claim(&api, sync, false).await?;
        }
        context.states.forget(&uid);
        return Ok(Action::await_change());
    }

    if state.generation != sync.metadata.generation {
        state.generation = sync.metadata.generation;
        entry.forgive();
    }
    let visit = visit(&context, &entry, &mut state, sync, is_claimed(sync)).await;
    if visit.wants_claim() {
        set_claim(&api, sync, true).await?;
        // The patch is an event, and the visit that follows writes.
        return Ok(Action::requeue(context.options.retry));
    }
    report(&api, &mut state, sync, &visit).await?;
    Ok(Action::requeue(if visit.wants_retry() {
        backoff::pause(entry.failed(), context.options.retry, fastrand::f64())
    } else {
        entry.forgive();
        backoff::resync(context.options.resync, fastrand::f64())
    }))
}

/// Does the resource carry our finalizer? It is set right before the first write and not earlier, so that one
/// that never had a copy can be deleted without us.
fn is_claimed(sync: &ConfigMapSync) -> bool {
    sync.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
}

/// Adds or removes our finalizer, on exactly the state that was judged.
async fn set_claim(api: &Api<Guarded>, sync: &ConfigMapSync, claim: bool) -> Result<(), VisitError> {
    let mut finalizers: Vec<&str> = sync.finalizers().iter().map(String::as_str).collect();
    finalizers.retain(|finalizer| *finalizer != FINALIZER);
    if claim {
        finalizers.push(FINALIZER);
    }
    let version = &sync.metadata.resource_version;
    let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}}));
    match call(api.patch(&sync.name_any(), &PatchParams::default(), &patch)).await {
        // Not there any more: so it is deleted, and nothing holds it.
        Ok(_) | Err(CallError::NotFound(_)) => Ok(()),
        Err(error) => Err(VisitError::Finalizer(error)),
    }
}

/// Writes the status if it differs. A merge patch, which leaves fields alone that are not ours to set.
async fn report(
    api: &Api<Guarded>,
    state: &mut SyncState,
    sync: &ConfigMapSync,
    visit: &Visit,
) -> Result<(), VisitError> {
    let existing = match &state.reported {
        Some((judged, written)) if *judged == sync.metadata.resource_version => written.as_slice(),
        _ => sync.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default(),
    };
    let conditions =
        conditions::fold(existing, &visit.verdicts(), sync.metadata.generation, &Time(Timestamp::now()));
    if conditions == existing {
        return Ok(());
    }
    if let Some(ready) = conditions.iter().find(|condition| condition.type_ == conditions::READY) {
        info!(sync = %SyncRef::of(sync), ready = %ready.status, reason = %ready.reason, "visited");
    }
    let patch = Patch::Merge(json!({"status": {"conditions": conditions}}));
    match call(api.patch_status(&sync.name_any(), &PatchParams::default(), &patch)).await {
        // Where it is not found it was deleted meanwhile: nobody is left to tell.
        Ok(_) | Err(CallError::NotFound(_)) => {
            state.reported = Some((sync.metadata.resource_version.clone(), conditions));
            Ok(())
        }
        Err(error) => Err(VisitError::Status(error)),
    }
}

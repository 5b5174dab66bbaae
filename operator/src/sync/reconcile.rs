//! What kube's controller calls: a visit and its report, or the clean-up of a deleted resource.
//!
//! The operator's own identity is used here and only for the resource itself: its finalizers and its status. Both
//! are merge patches at v1beta1: they change what they name and nothing else. A failed visit is repeated with
//! back-off while the status says why.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::Api;
use kube::runtime::controller::Action;
use kube::{Resource as _, ResourceExt as _};
use tokio::time::Instant;
use tracing::{error, info, warn};
use weaver_api::conditions::bounded;
use weaver_api::convert::carried_faults;
use weaver_api::marks::SYNC_NOW_ANNOTATION;
use weaver_api::v1beta1::{ConfigMapSync, ConfigMapSyncStatus};

use super::claim::{self, Claim};
use super::cleanup;
use super::context::Context;
use super::events;
use super::outcome::Visit;
use super::state::SyncState;
use super::status::{patch, status};
use super::visit::visit;
use crate::code;
use crate::controller::backoff;
use crate::controller::not_understood::{self, NotUnderstood};
use crate::controller::pause::Pause;
use crate::controller::report::{self, LONGEST_ERROR};
use crate::controller::verdicts::listed;
use crate::controller::visit::in_turn;
use crate::metrics::End;
use crate::watch::{Guarded, ResourceRef};
use weaver_client::call::CallError;

/// Why a visit did not end well. What a tenant should know is in the status instead.
#[derive(Debug, thiserror::Error)]
pub enum VisitError {
    /// The operator's own patch of the resource's status failed.
    #[error("writing the status: {0}")]
    Status(#[source] CallError),
    /// The operator's own patch of the resource's finalizers failed.
    #[error("writing the finalizers: {0}")]
    Finalizer(#[source] CallError),
    /// The resource does not parse and could not be looked at again.
    #[error("reading the resource: {0}")]
    Reading(#[source] CallError),
    /// Copies of a deleted resource could not be removed yet.
    #[error("copies are left: {0}")]
    CleanupPending(String),
}

impl VisitError {
    fn kind(&self) -> &'static str {
        match self {
            Self::Status(failure) | Self::Finalizer(failure) | Self::Reading(failure) => failure.kind(),
            Self::CleanupPending(_) => "clean-up",
        }
    }
}

/// Visits one resource, when there is room.
///
/// # Errors
/// If the operator's own identity fails, or a clean-up has to be repeated.
pub async fn reconcile(guarded: Arc<Guarded>, context: Arc<Context>) -> Result<Action, VisitError> {
    context.namespaces.synced().await;
    let tenant = guarded.namespace().unwrap_or_default();
    in_turn(&context.lanes, &context.metrics, &tenant, Box::pin(visit_once(&guarded, &context))).await
}

/// Called for the operator's own failures and for clean-ups that wait; what a tenant can cure is in the status.
#[expect(clippy::needless_pass_by_value, reason = "the signature is kube's")]
pub fn retry_later(sync: Arc<Guarded>, failure: &VisitError, context: Arc<Context>) -> Action {
    let reference = ResourceRef::of(&*sync);
    let entry = context.states.entry(&sync.uid().unwrap_or_default(), &reference);
    let pause = backoff::pause(entry.failed(), context.options.retry, fastrand::f64());
    if let Some(left_out) = entry.logs(failure.kind()) {
        error!(
            code = code::VISIT_FAILED, sync = %reference, error = %bounded(&failure.to_string(), LONGEST_ERROR),
            retry_in_s = pause.as_secs(), left_out, "visit failed"
        );
    }
    Action::requeue(pause)
}

async fn visit_once(guarded: &Guarded, context: &Context) -> Result<(Action, End), VisitError> {
    let (reference, meta) = (ResourceRef::of(guarded), guarded.meta());
    let api: Api<Guarded> = Api::namespaced(context.client.clone(), &reference.namespace);
    let uid = guarded.uid().unwrap_or_default();
    let entry = context.states.entry(&uid, &reference);
    let mut state = entry.state.lock().await;

    let paused = Pause::of(meta, &context.namespaces);
    if meta.deletion_timestamp.is_some() && !paused.as_ref().is_some_and(|pause| pause.all) {
        if claim::is_taken(meta) || claim::is_upgrading(meta) {
            if state.deleting_since.is_none() {
                // Or its second try would come as late as that of a visit which has failed for hours.
                entry.forgive();
            }
            cleanup::cleanup(context, &mut state, guarded).await.map_err(VisitError::CleanupPending)?;
            let released = match &guarded.0 {
                Ok(_) => claim::set(&api, meta, Claim::Release).await,
                Err(_) => claim::release_not_understood(&api, meta).await,
            };
            released.map_err(VisitError::Finalizer)?;
        }
        context.states.forget(&uid);
        return Ok((Action::await_change(), End::Settled));
    }

    // Whoever has the rights given back gets the whole patience, counted from the end of a pause.
    state.deleting_since = None;
    if state.generation != meta.generation {
        state.generation = meta.generation;
        entry.forgive();
    }
    let sync_now = meta.annotations.as_ref().and_then(|all| all.get(SYNC_NOW_ANNOTATION)).cloned();
    if state.sync_now != sync_now {
        state.sync_now = sync_now;
        entry.forgive();
        state.look_afresh();
    }
    if let Err(wait) = state.pace.allows(Instant::now()) {
        return Ok((Action::requeue(wait), End::Retry));
    }
    let (visit, before) = match &guarded.0 {
        Ok(sync) if let Some(pause) = &paused => {
            (Visit::Paused(pause.words("sync", &reference)), sync.status.clone().unwrap_or_default())
        }
        Ok(sync) => {
            if state.upgraded.is_none()
                && claim::pin_upstreams_source(&api, sync).await.map_err(VisitError::Finalizer)?
            {
                // The patch is an event, and the visit that follows takes over.
                return Ok((Action::requeue(context.options.retry), End::Retry));
            }
            let visit = visit(context, &entry, &mut state, sync, claim::is_taken(meta)).await;
            (visit, sync.status.clone().unwrap_or_default())
        }
        Err(_) => match not_understood::look::<ConfigMapSync>(&context.client, &reference).await {
            Ok(Some(odd)) => not_understood(&mut state, &reference, meta, odd),
            // Its deletion, or its repair, is an event of its own.
            Ok(None) => return Ok((Action::await_change(), End::Settled)),
            Err(error) => return Err(VisitError::Reading(error)),
        },
    };
    // The visit may have taken minutes.
    let paused_meanwhile = paused.is_none() && Pause::of_all(&context.namespaces).is_some();
    if paused_meanwhile || matches!(visit, Visit::Outdated) {
        return Ok((Action::requeue(Duration::ZERO), End::Retry));
    }
    if visit.wants_claim() {
        claim::set(&api, meta, Claim::Take).await.map_err(VisitError::Finalizer)?;
        // The patch is an event, and the visit that follows writes.
        return Ok((Action::requeue(context.options.retry), End::Retry));
    }
    if claim::is_upgrading(meta) && visit.ends_upgrade() {
        let judged = meta.resource_version.clone().unwrap_or_default();
        match &state.upgraded {
            None => {
                claim::set(&api, meta, Claim::EndUpgrade).await.map_err(VisitError::Finalizer)?;
                state.upgraded = Some(judged);
                info!(code = code::TAKEN_OVER, sync = %reference, "taken over from the upstream operator");
                // The patch is an event, and the visit that follows reports.
                return Ok((Action::requeue(context.options.retry), End::Retry));
            }
            // From a cache that has not seen the patch yet.
            Some(before) if *before == judged => {
                return Ok((Action::requeue(context.options.retry), End::Retry));
            }
            Some(_) => {
                warn!(
                    code = code::UPSTREAM_RUNS, sync = %reference,
                    "the upstream operator's finalizer is back: is that operator still running? end it"
                );
            }
        }
    }
    report(context, &api, &mut state, meta, &visit, before).await?;
    if visit.wants_retry() {
        let pause = backoff::pause(entry.failed(), context.options.retry, fastrand::f64());
        return Ok((Action::requeue(pause), End::Retry));
    }
    entry.forgive();
    let pause = backoff::resync(visit.resync(&context.options), fastrand::f64());
    Ok((Action::requeue(pause), End::Settled))
}

/// A status without what is meant for people only.
fn without_words(status: &ConfigMapSyncStatus) -> ConfigMapSyncStatus {
    let mut bare = status.clone();
    bare.conditions.iter_mut().for_each(|condition| condition.message.clear());
    bare.targets.iter_mut().for_each(|target| target.message.clear());
    bare
}

/// Logged once per change, and reported as any other visit.
fn not_understood(
    state: &mut SyncState,
    sync: &ResourceRef,
    meta: &ObjectMeta,
    odd: NotUnderstood<ConfigMapSyncStatus>,
) -> (Visit, ConfigMapSyncStatus) {
    let now = Some((meta.generation, odd.words.clone()));
    if state.not_understood != now {
        warn!(
            code = code::NOT_UNDERSTOOD, %sync, words = %listed(&odd.words),
            "a resource cannot be understood and is left alone"
        );
        state.not_understood = now;
    }
    (Visit::NotUnderstood(odd.words), odd.status)
}

/// Writes the status if it differs from what was `read`, and from what was written since.
async fn report(
    context: &Context,
    api: &Api<Guarded>,
    state: &mut SyncState,
    meta: &ObjectMeta,
    visit: &Visit,
    read: ConfigMapSyncStatus,
) -> Result<(), VisitError> {
    let before = state.reported.before(meta.resource_version.as_deref(), read);
    let status = status(&before, visit, &carried_faults(meta), meta.generation, &Time(Timestamp::now()));
    events::tell_of(&context.events, meta, visit, &before, &status).await;
    let (fails, pause) = (visit.wants_retry(), context.options.retry);
    if !state.reported.is_due(&before, &status, fails, without_words, pause) {
        return Ok(());
    }
    let understood = !matches!(visit, Visit::NotUnderstood(_));
    report::write(api, meta, &status.conditions, &patch(&status), understood)
        .await
        .map_err(VisitError::Status)?;
    state.reported.wrote(meta.resource_version.clone(), status);
    Ok(())
}

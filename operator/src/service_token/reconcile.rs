//! What kube's controller calls: a visit and its report.
//!
//! The operator's own identity is used here for the resource's status, for looking up accounts and for minting; the Secret
//! is the writer's business. There is no finalizer: the Secret is owned by its resource, and the API server's own garbage
//! collection removes it. While a resource is being deleted nothing is written for it.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::Api;
use kube::runtime::controller::Action;
use kube::runtime::events::EventType;
use kube::{Resource as _, ResourceExt as _};
use tokio::time::Instant;
use tracing::error;
use weaver_api::conditions::bounded;
use weaver_api::convert::carried_token_faults;
use weaver_api::v1beta1::{ServiceToken, ServiceTokenStatus};

use super::context::{Context, Guarded, TokenState};
use super::outcome::{Visit, Work};
use super::plan::Why;
use super::status::{patch, status};
use super::visit::visit;
use crate::code;
use crate::controller::backoff;
use crate::controller::events::{MINTED, event, reference, turned};
use crate::controller::not_understood::{self, NotUnderstood};
use crate::controller::pause::Pause;
use crate::controller::report::{self, LONGEST_ERROR};
use crate::controller::verdicts::listed;
use crate::controller::visit::in_turn;
use crate::metrics::End;
use crate::watch::ResourceRef;
use weaver_client::call::CallError;

/// Why a visit did not end well. What a tenant should know is in the status instead.
#[derive(Debug, thiserror::Error)]
pub enum VisitError {
    /// The operator's own patch of the resource's status failed.
    #[error("writing the status: {0}")]
    Status(#[source] CallError),
    /// The resource does not parse and could not be looked at again.
    #[error("reading the resource: {0}")]
    Reading(#[source] CallError),
}

impl VisitError {
    fn kind(&self) -> &'static str {
        match self {
            Self::Status(failure) | Self::Reading(failure) => failure.kind(),
        }
    }
}

/// Visits one resource, when there is room.
///
/// # Errors
/// If the operator's own identity fails.
pub async fn reconcile(guarded: Arc<Guarded>, context: Arc<Context>) -> Result<Action, VisitError> {
    context.namespaces.synced().await;
    let tenant = guarded.namespace().unwrap_or_default();
    in_turn(&context.lanes, &context.metrics, &tenant, Box::pin(visit_once(&guarded, &context))).await
}

/// Called for the operator's own failures.
#[expect(clippy::needless_pass_by_value, reason = "the signature is kube's")]
pub fn retry_later(guarded: Arc<Guarded>, failure: &VisitError, context: Arc<Context>) -> Action {
    let reference = ResourceRef::of(&*guarded);
    let entry = context.states.entry(&guarded.uid().unwrap_or_default(), &reference);
    let pause = backoff::pause(entry.failed(), context.options.retry, fastrand::f64());
    if let Some(left_out) = entry.logs(failure.kind()) {
        error!(
            code = code::VISIT_FAILED, token = %reference, error = %bounded(&failure.to_string(), LONGEST_ERROR),
            retry_in_s = pause.as_secs(), left_out, "visit failed"
        );
    }
    Action::requeue(pause)
}

async fn visit_once(guarded: &Guarded, context: &Context) -> Result<(Action, End), VisitError> {
    let (reference, meta) = (ResourceRef::of(guarded), guarded.meta());
    let uid = guarded.uid().unwrap_or_default();
    if meta.deletion_timestamp.is_some() {
        context.states.forget(&uid);
        return Ok((Action::await_change(), End::Settled));
    }
    let entry = context.states.entry(&uid, &reference);
    let mut state = entry.state.lock().await;
    if state.generation != meta.generation {
        state.generation = meta.generation;
        entry.forgive();
    }
    if let Err(wait) = state.pace.allows(Instant::now()) {
        return Ok((Action::requeue(wait), End::Retry));
    }
    let paused = Pause::of(meta, &context.namespaces).map(|pause| pause.words("token", &reference));
    let (visit, before) = match &guarded.0 {
        Ok(resource) => {
            let visit = match paused {
                Some(words) => Some(Visit::Paused(words)),
                None => visit(context, &entry, &mut state, resource).await,
            };
            // Its deletion is an event of its own.
            let Some(visit) = visit else { return Ok((Action::await_change(), End::Settled)) };
            (visit, resource.status.clone().unwrap_or_default())
        }
        Err(_) => match not_understood::look::<ServiceToken>(&context.client, &reference).await {
            Ok(Some(NotUnderstood { words, status })) => (Visit::NotUnderstood(words), status),
            // Its deletion, or its repair, is an event of its own.
            Ok(None) => return Ok((Action::await_change(), End::Settled)),
            Err(error) => return Err(VisitError::Reading(error)),
        },
    };
    if let Visit::Worked(work) = &visit {
        context.metrics.issued(&work.minted);
        if work.sent {
            state.pace.spend();
        }
    }
    report(context, &mut state, meta, &visit, before).await?;
    if visit.wants_retry() {
        let pause = backoff::pause(entry.failed(), context.options.retry, fastrand::f64());
        // One key in trouble does not let the others expire.
        let pause = visit.due().map_or(pause, |due| pause.min(due));
        return Ok((Action::requeue(pause), End::Retry));
    }
    entry.forgive();
    Ok((Action::requeue(backoff::resync(visit.pause(&context.options), fastrand::f64())), End::Settled))
}

/// Writes the status if it differs from what was `read`, and from what was written since.
async fn report(
    context: &Context,
    state: &mut TokenState,
    meta: &ObjectMeta,
    visit: &Visit,
    read: ServiceTokenStatus,
) -> Result<(), VisitError> {
    let before = state.reported.before(meta.resource_version.as_deref(), read);
    let now = Time(context.clock.now());
    let status = status(&before, visit, &carried_token_faults(meta), meta.generation, &now);
    let about = reference::<ServiceToken>(meta);
    let told = turned(&before.conditions, &status.conditions, "Mint");
    let worked = if let Visit::Worked(work) = visit { minted_anew(work) } else { None };
    for event in told.into_iter().chain(worked) {
        context.events.tell(&event, &about).await;
    }
    let (fails, pause) = (visit.wants_retry(), context.options.retry);
    if !state.reported.is_due(&before, &status, fails, without_words, pause) {
        return Ok(());
    }
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let api: Api<Guarded> = Api::namespaced(context.client.clone(), namespace);
    let understood = !matches!(visit, Visit::NotUnderstood(_));
    report::write(&api, meta, &status.conditions, &patch(&status), understood)
        .await
        .map_err(VisitError::Status)?;
    state.reported.wrote(meta.resource_version.clone(), status);
    Ok(())
}

/// A status without what is meant for people only.
fn without_words(status: &ServiceTokenStatus) -> ServiceTokenStatus {
    let mut bare = status.clone();
    bare.conditions.iter_mut().for_each(|condition| condition.message.clear());
    bare.tokens.iter_mut().for_each(|token| token.message.clear());
    bare
}

/// Tokens were minted though none was due: whoever holds the old ones may want to know.
fn minted_anew(work: &Work) -> Option<kube::runtime::events::Event> {
    let of_note = work.minted.iter().filter(|(_, why)| *why != Why::Due);
    let said: Vec<String> = of_note.map(|(key, why)| format!("{key}: {why}")).collect();
    (!said.is_empty()).then(|| event(EventType::Normal, MINTED, "Mint", &listed(&said)))
}

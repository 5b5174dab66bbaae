//! One reconcile, from the queue to the written status: what is the same for each kind.
//!
//! kube's controller calls [`reconcile`] for a resource that has changed or is due, and [`error_policy`] where that
//! failed. What differs between kinds is in their [`Reconcile`]. The operator's own identity is used here only for the
//! status of the resource: a merge patch, which changes what it names and nothing else. A reconcile that failed
//! is repeated with back-off while the status says why.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Api;
use kube::core::object::HasStatus;
use kube::runtime::controller::Action;
use kube::{Resource as _, ResourceExt as _};
use tokio::time::Instant;
use tracing::{error, warn};
use weaver_api::conditions::bounded;
use weaver_client::call::{CallError, lookup};

use super::kept::{is_whole, keep_what_is_read};
use super::kind::{Common, Context, Failure, Guarded, Reconcile, ReconcileMemory as _, ReconcileStep};
use super::outcome::{Reconciled, TenantWork};
use super::parse_failed::{self, ParseFailed};
use super::pause::Pause;
use super::report::{self, LONGEST_ERROR, ReportedStatus as _, readiness};
use super::state::StateEntry;
use super::verdicts::listed;
use crate::log_code;
use crate::metrics::ReconcileResult;
use crate::watch::ResourceRef;
use weaver_host::backoff;

/// Reconciles one resource, if the concurrency limits allow it, and counts how that ended. If not, it is woken when they
/// do.
///
/// # Errors
/// If the operator's own identity fails, or a clean-up has to be repeated.
pub async fn reconcile<K: Reconcile>(
    resource: Arc<Guarded<K>>,
    context: Arc<Context<K>>,
) -> Result<Action, Failure> {
    context.namespaces.synced().await;
    let reference = ResourceRef::of(&*resource);
    let (waits, later) = (context.clone(), reference.clone());
    let Some(_permit) = context.permits.enter((K::NOUN, reference), move || waits.watches.wake(later)) else {
        return Ok(Action::await_change());
    };
    let begun = Instant::now();
    let done = whole(&resource, &context).await;
    let (action, end) = match done {
        Ok(ReconcileStep::Done(resync)) => (Ok(Action::requeue(resync)), ReconcileResult::Settled),
        Ok(ReconcileStep::AwaitChange) => (Ok(Action::await_change()), ReconcileResult::Settled),
        Ok(ReconcileStep::Again(pause)) => (Ok(Action::requeue(pause)), ReconcileResult::Retry),
        Err(failure) => (Err(failure), ReconcileResult::Failed),
    };
    context.metrics.reconciled(end, begun.elapsed());
    action
}

/// When a reconcile that failed is repeated. For the operator's own failures and for clean-ups that wait; what
/// a tenant can cure is in the status.
#[expect(clippy::needless_pass_by_value, reason = "the signature is kube's")]
pub fn error_policy<K: Reconcile>(
    resource: Arc<Guarded<K>>,
    failure: &Failure,
    context: Arc<Context<K>>,
) -> Action {
    let reference = ResourceRef::of(&*resource);
    let entry = context.states.entry(&resource.uid().unwrap_or_default(), &reference);
    let pause = backoff::pause(entry.failed(), context.options.retry, fastrand::f64());
    if let Some(left_out) = entry.logs(failure.kind()) {
        error!(
            code = log_code::RECONCILIATION_FAILED, kind = K::NOUN, resource = %reference,
            error = %bounded(&failure.to_string(), LONGEST_ERROR), retry_in_s = pause.as_secs(), left_out,
            "reconciliation failed"
        );
    }
    Action::requeue(pause)
}

/// Reconciles all of the resource: one of which only the name is kept is read first.
async fn whole<K: Reconcile>(
    guarded: &Guarded<K>,
    context: &Context<K>,
) -> Result<ReconcileStep<Duration>, Failure> {
    let read;
    let guarded = if is_whole(guarded) {
        guarded
    } else {
        let ResourceRef { namespace, name } = ResourceRef::of(guarded);
        let api: Api<Guarded<K>> = Api::namespaced(context.client.clone(), &namespace);
        let Some(mut found) = lookup(api.get(&name)).await.map_err(Failure::Reading)? else {
            // kube forgets one that is gone. Else it is the kind that is not served now.
            return Ok(ReconcileStep::Again(context.options.retry));
        };
        keep_what_is_read(found.meta_mut(), K::is_read);
        read = found;
        &read
    };
    Box::pin(once(guarded, context)).await
}

/// `Done` with the time after which the resource is compared again.
async fn once<K: Reconcile>(
    guarded: &Guarded<K>,
    context: &Context<K>,
) -> Result<ReconcileStep<Duration>, Failure> {
    let (reference, meta) = (ResourceRef::of(guarded), guarded.meta());
    let uid = guarded.uid().unwrap_or_default();
    let entry = context.states.entry(&uid, &reference);
    let mut memory = entry.state.lock().await;
    let memory = &mut *memory;

    let paused = Pause::of(meta, &context.namespaces);
    if meta.deletion_timestamp.is_some() && K::is_final(paused.as_ref()) {
        K::finalize(context, &entry, memory, guarded).await?;
        context.states.forget(&uid);
        return Ok(ReconcileStep::AwaitChange);
    }
    if memory.common().generation != meta.generation {
        memory.common().generation = meta.generation;
        entry.reset_failures();
    }
    K::begin(&entry, memory, meta);
    if let Err(wait) = memory.common().rate_limit.allows(Instant::now()) {
        return Ok(ReconcileStep::Again(wait));
    }
    let (acted, before) = match &guarded.0 {
        Ok(resource) => {
            let acted = match &paused {
                Some(pause) => ReconcileStep::Done(Reconciled::Paused(pause.message(K::NOUN, &reference))),
                None => K::act(context, &entry, memory, resource).await?,
            };
            (acted, HasStatus::status(resource).cloned().unwrap_or_default())
        }
        Err(_) => match parse_failed::look::<K>(&context.client, &reference).await {
            Ok(Some(odd)) => {
                let (faults, status) = noted::<K>(memory.common(), &reference, meta, odd);
                (ReconcileStep::Done(Reconciled::ParseFailed(faults)), status)
            }
            // Its deletion, or its repair, is an event of its own.
            Ok(None) => (ReconcileStep::AwaitChange, K::Status::default()),
            Err(error) => return Err(Failure::Reading(error)),
        },
    };
    let concluded = match acted {
        ReconcileStep::Done(outcome) => K::conclude(context, memory, meta, paused.as_ref(), outcome).await?,
        ended => ended,
    };
    let outcome = match concluded {
        ReconcileStep::Done(outcome) => outcome,
        ReconcileStep::AwaitChange => return Ok(ReconcileStep::AwaitChange),
        ReconcileStep::Again(pause) => return Ok(ReconcileStep::Again(pause)),
    };
    report((context, &entry), memory.common(), meta, &outcome, before).await?;
    if outcome.wants_retry() {
        let pause = backoff::pause(entry.failed(), context.options.retry, fastrand::f64());
        return Ok(ReconcileStep::Again(
            outcome.work().and_then(TenantWork::retry_within).map_or(pause, |due| pause.min(due)),
        ));
    }
    entry.reset_failures();
    Ok(ReconcileStep::Done(backoff::resync(outcome.resync(&context.options), fastrand::f64())))
}

/// Logged once per change, and reported as any other outcome.
fn noted<K: Reconcile>(
    memory: &mut Common<K::Status>,
    resource: &ResourceRef,
    meta: &ObjectMeta,
    odd: ParseFailed<K::Status>,
) -> (Vec<String>, K::Status) {
    let now = Some((meta.generation, odd.faults.clone()));
    if memory.parse_failed != now {
        warn!(
            code = log_code::PARSE_FAILED, kind = K::NOUN, %resource, faults = %listed(&odd.faults),
            "a resource cannot be parsed and is left as it is"
        );
        memory.parse_failed = now;
    }
    (odd.faults, odd.status)
}

/// Writes the status if it differs from what was `read`, and from what was written since.
async fn report<K: Reconcile>(
    (context, entry): (&Context<K>, &StateEntry<K::Memory>),
    memory: &mut Common<K::Status>,
    meta: &ObjectMeta,
    outcome: &Reconciled<K::Work>,
    read: K::Status,
) -> Result<(), Failure> {
    let before = memory.reported.before(meta.resource_version.as_deref(), read);
    let status = <K as Reconcile>::status(context, &before, outcome, meta);
    entry.reports(readiness(status.conditions()));
    K::announce(context, meta, outcome, &before, &status).await;
    let pause = outcome.wants_retry().then_some(context.options.retry);
    if !memory.reported.is_due(&before, &status, pause) {
        return Ok(());
    }
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let api: Api<Guarded<K>> = Api::namespaced(context.client.clone(), namespace);
    context.writes(meta, &status);
    match report::write(&api, meta, status.conditions(), &status.patch()).await {
        Ok(()) => {}
        // The API server may refuse every write of such an object. Until it is changed, once is enough.
        Err(CallError::Rejected(refusal)) if !outcome.is_understood() => {
            warn!(
                code = log_code::PARSE_FAILED, name = meta.name.as_deref().unwrap_or_default(), error = %refusal.message,
                "the status of a resource that cannot be parsed was refused"
            );
        }
        Err(error) => return Err(Failure::Status(error)),
    }
    memory.reported.wrote(meta.resource_version.clone(), status);
    Ok(())
}

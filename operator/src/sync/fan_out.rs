//! One copy to many targets, as the tenant.
//!
//! Bounded, each target for itself, and ended in the middle when what is being written is outdated. What
//! became of the targets is remembered, for the next reconciliation to begin with. Of a resource with several
//! sources each has its own.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, stream};
use kube::api::Api;
use tokio::time::Instant;
use weaver_api::kind::ObjectKind;

use super::Context;
use super::backoff;
use super::declared::Declares;
use super::execute::{self, CopyChange, Mode, TargetState};
use super::listed;
use super::progress::FanOutProgress;
use super::state::{ResumeAt, SyncState};
use super::watches::SyncWatches;
use crate::metrics::CopyWrite;
use crate::watch::Consent;
use weaver_copies::copy::DesiredCopy;
use weaver_copies::object::{Object, ObjectKey};
use weaver_copies::plan::{CopyStep, SeenCopy, Takes, by_metadata};
use weaver_tenant::TenantClient;

/// Writes in flight at once, per reconciliation.
pub(super) const CONCURRENCY: usize = 16;
/// Bytes of content in them, but for a single copy that is larger.
const IN_FLIGHT: usize = 4 << 20;

/// What to do at every target.
#[derive(Clone, Copy)]
pub struct CopyJob<'a> {
    pub tenant: &'a TenantClient,
    /// Name of the source.
    pub source: &'a str,
    pub source_namespace: &'a str,
    /// The copy that each should have.
    pub copy: &'a DesiredCopy,
    /// What may become ours.
    pub takes: Takes<'a>,
    /// Whether it writes.
    pub mode: Mode,
}

/// What became of each target, and whether that is all: not, if the job was `outdated` before its end, which is asked
/// before each target with the number of those that were begun.
///
/// Every target that is served is tried, whatever the operator itself knows of its namespace: what the status says must
/// come from answers that the tenant received.
pub async fn fan_out<K: Declares>(
    context: &Context<K>,
    state: &mut SyncState,
    sync: &K,
    job: CopyJob<'_>,
    desired: &BTreeSet<String>,
    outdated: impl Fn(&SyncWatches, usize) -> bool,
) -> (BTreeMap<String, TargetState>, bool) {
    let now = Instant::now();
    let resume_at = state.resume_at.take().filter(|at| at.source == job.source);
    let order = in_order(desired, resume_at.as_ref().map(|at| at.namespace.as_str()));
    verify(context, state, job, &order).await;
    let tries = stream::iter(order.clone())
        .enumerate()
        .map(|(begun, namespace)| {
            let key = job.copy.object_key(&namespace);
            let known = state.verified.get(&key);
            let seen = state.watches.see(&key);
            let step = by_metadata(job.copy, &seen, known);
            let is_read = step == CopyStep::Inspect && job.copy.kind.is_of_config_map_sync();
            let shown = seen.version().filter(|_| is_read).map(str::to_owned);
            let served = context.namespaces.serves(&namespace);
            let tenant = &job.tenant.account.namespace;
            let consent = context.namespaces.consent(&namespace, tenant, job.source_namespace);
            let is_let_in = !matches!(consent, Consent::NotOffered | Consent::Refused);
            let skipped = state.backoffs.backed_off(&key, &job.copy.digest, now);
            let ends = outdated(&state.watches, begun);
            async move {
                let outcome = match (step, known, skipped) {
                    _ if ends => None,
                    _ if !served => Some(TargetState::NotServed),
                    (CopyStep::Keep, Some(known), _) if is_let_in => {
                        Some(TargetState::Synced(known.clone(), None))
                    }
                    // Before consent, which would cost a request where the namespace exists, and none where not.
                    (_, _, Some(stands)) => Some(stands.clone()),
                    _ if consent == Consent::NotOffered => {
                        Some(refused(job, &namespace, TargetState::NotOffered).await)
                    }
                    _ if consent == Consent::Refused => {
                        Some(refused(job, &namespace, TargetState::NotAccepted).await)
                    }
                    _ if consent != Consent::Given => Some(not_known(job, &namespace, consent).await),
                    (step, ..) => Some(target(job, &namespace, (step, shown), job.mode).await),
                };
                (namespace, outcome)
            }
        })
        .buffer_unordered(concurrency(job.copy.kind, job.copy.size()));
    let done = FanOutProgress::of(context, &mut state.common, sync, order.len()).collect(tries).await;

    let mut outcomes = BTreeMap::new();
    let ended = Instant::now();
    let share = backoff::share(&job.tenant.account.namespace);
    for (namespace, outcome) in done {
        let Some(outcome) = outcome else { continue };
        let key = job.copy.object_key(&namespace);
        let is_skipped = state.backoffs.backed_off(&key, &job.copy.digest, now).is_some();
        if !is_skipped || !outcome.backs_off() {
            let longest = context.options.retry;
            state.backoffs.note(&key, &outcome, &job.copy.digest, ended, longest, &share);
        }
        remember(state, key, &outcome);
        outcomes.insert(namespace, outcome);
    }
    for change in outcomes.values().filter_map(written) {
        context.metrics.wrote(change);
    }
    let next = order.into_iter().find(|namespace| !outcomes.contains_key(namespace));
    state.resume_at = next.map(|namespace| ResumeAt { source: job.source.to_owned(), namespace });
    let is_whole = state.resume_at.is_none();
    (outcomes, is_whole)
}

/// Learns which copies are in sync, where nothing is known of many, as after a start. One list does for all of them
/// where the account watches those of all namespaces.
async fn verify<K: Declares>(
    context: &Context<K>,
    state: &mut SyncState,
    job: CopyJob<'_>,
    order: &[String],
) {
    let is_of_all = state.watches.are_everywhere() && job.copy.kind.is_of_config_map_sync();
    if order.len() < listed::MANY || !is_of_all {
        return;
    }
    let now = Instant::now();
    let unread = |namespace: &String| {
        let key = job.copy.object_key(namespace);
        let tenant = &job.tenant.account.namespace;
        if state.verified.contains_key(&key)
            || state.backoffs.backed_off(&key, &job.copy.digest, now).is_some()
            || !context.namespaces.serves(namespace)
            || context.namespaces.consent(namespace, tenant, job.source_namespace) != Consent::Given
        {
            return None;
        }
        let seen = state.watches.see(&key);
        let is_read = by_metadata(job.copy, &seen, None) == CopyStep::Inspect;
        let version = seen.version().filter(|_| is_read)?.to_owned();
        Some((key, version))
    };
    let shown = order.iter().filter_map(unread).collect();
    let copies: Api<Object> = job.tenant.all(&job.copy.kind);
    state.verified.extend(listed::in_sync(&copies, job.copy, &shown).await);
}

/// Of other kinds each object may be read whole, and few may be at once ([`execute::whole`]): one resource takes a
/// quarter of them. Of copies of a megabyte, each of which is held until it is written, there are four.
fn concurrency(kind: ObjectKind, size: usize) -> usize {
    let most = if kind.is_of_config_map_sync() { CONCURRENCY } else { CONCURRENCY / 2 };
    (IN_FLIGHT / size.max(1)).clamp(1, most)
}

/// What is known of the copy `key` from now on.
fn remember(state: &mut SyncState, key: ObjectKey, outcome: &TargetState) {
    match outcome {
        TargetState::Synced(verified, _) => drop(state.verified.insert(key, verified.clone())),
        // Not ours, or not there: there is nothing of ours to remember or to remove.
        TargetState::Conflict(_) | TargetState::NamespaceMissing => drop(state.verified.remove(&key)),
        // Its own watch reported the deletion, as it does where a whole namespace is deleted.
        TargetState::Forbidden(_) | TargetState::NamespaceTerminating
            if state.watches.see(&key) == SeenCopy::Nothing =>
        {
            state.verified.remove(&key);
        }
        // It may well be there still, in the state that was known.
        _ => {}
    }
}

/// The change of a target, as it is counted.
pub(super) fn written(outcome: &TargetState) -> Option<CopyWrite> {
    let TargetState::Synced(_, change) = outcome else { return None };
    change.as_ref().map(|change| match change {
        CopyChange::Create => CopyWrite::Created,
        CopyChange::Update(_) => CopyWrite::Updated,
        CopyChange::Replace => CopyWrite::Replaced,
    })
}

/// Begins where the pass before was cut off: else the last of many targets, or sources, would get nothing for as long
/// as a source keeps changing.
pub(super) fn in_order(desired: &BTreeSet<String>, resume_at: Option<&str>) -> Vec<String> {
    let begins = resume_at.unwrap_or_default();
    let (first, last): (Vec<&String>, Vec<&String>) =
        desired.iter().partition(|name| name.as_str() >= begins);
    first.into_iter().chain(last).cloned().collect()
}

async fn target(
    job: CopyJob<'_>,
    namespace: &str,
    step: (CopyStep, Option<String>),
    mode: Mode,
) -> TargetState {
    execute::target(job.tenant, job.copy, job.takes, namespace, step, mode).await
}

/// A namespace that lets in no copies from the tenant's, or to which the source's lets none out. Only accounts with a
/// right there learn that it exists, or is named in an annotation; all others get the API server's own answer.
async fn refused(job: CopyJob<'_>, namespace: &str, why: TargetState) -> TargetState {
    use TargetState::{Failed, Forbidden, NamespaceTerminating};
    match target(job, namespace, (CopyStep::Inspect, None), Mode::Look).await {
        refused @ (Forbidden(_) | NamespaceTerminating | Failed(_)) => refused,
        _ => why,
    }
}

/// A namespace of which the operator does not know whether it lets in copies. Nothing is stored there: the API
/// server judges the write, and the tenant gets its answer. Where it has nothing against it, the event that is
/// still to come causes the next reconciliation.
async fn not_known(job: CopyJob<'_>, namespace: &str, consent: Consent) -> TargetState {
    match target(job, namespace, (CopyStep::Inspect, None), Mode::Try).await {
        TargetState::Planned(_) if consent == Consent::Going => TargetState::NamespaceTerminating,
        TargetState::Planned(_) if consent == Consent::SourceUnknown => {
            TargetState::Failed("the source's namespace has just been created, or is being deleted".into())
        }
        TargetState::Planned(CopyChange::Create) => TargetState::NamespaceMissing,
        TargetState::Planned(_) => TargetState::Failed("the namespace has just been created".into()),
        answer => answer,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_large_copies_few_are_in_flight() {
        for (bytes, most) in [(0, 16), (100 << 10, 16), (1_000_000, 4), (3 << 20, 1), (64 << 20, 1)] {
            assert_eq!(concurrency(ObjectKind::SECRET, bytes), most, "{bytes}");
        }
    }

    #[test]
    fn a_fan_out_that_was_cut_off_continues_where_it_was() {
        let all: BTreeSet<String> = ["a", "b", "c", "d"].map(Into::into).into();
        assert_eq!(in_order(&all, None), ["a", "b", "c", "d"]);
        assert_eq!(in_order(&all, Some("c")), ["c", "d", "a", "b"]);
        // It is no target any more.
        assert_eq!(in_order(&all, Some("bb")), ["c", "d", "a", "b"]);
        assert_eq!(in_order(&all, Some("x")), ["a", "b", "c", "d"]);
    }
}

//! What a kind that asks for copies brings to the frame of a reconcile ([`crate::controller::frame`]): the clean-up of
//! a deleted one, its finalizers, and the end of an upgrade from the upstream operator.
//!
//! The operator's own identity is used here for the finalizers only.

use std::borrow::Cow;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Resource as _;
use kube::api::Api;
use serde_json::Value;
use tracing::{info, warn};
use weaver_api::convert::round_trip_faults;
use weaver_api::ownership::SYNC_NOW_ANNOTATION;
use weaver_api::v1beta1::ConfigMapSyncStatus;

use super::declared::{Declares, message_of_kind};
use super::finalizer;
use super::kinds::SyncServices;
use super::outcome::{SyncOutcome, SyncWork};
use super::state::SyncState;
use super::status::patch;
use super::work::work;
use super::{cleanup, events};
use crate::controller::kept::is_read_of_sync;
use crate::controller::kind::{Common, Context, Failure, Guarded, Reconcile, ReconcileMemory, ReconcileStep};
use crate::controller::pause::Pause;
use crate::controller::report::ReportedStatus;
use crate::controller::state::StateEntry;
use crate::log_code;
use crate::watch::ResourceRef;
use weaver_copies::finalizers::{FinalizerChange, is_taken, is_upgrading};

impl<K: Declares> Reconcile for K {
    type Memory = SyncState;
    type Own = SyncServices;
    type Work = SyncWork;

    const NOUN: &'static str = K::WORD;

    fn is_read(key: &str) -> bool {
        is_read_of_sync(key)
    }

    fn is_final(paused: Option<&Pause>) -> bool {
        !paused.is_some_and(|pause| pause.all)
    }

    async fn finalize(
        context: &Context<Self>,
        entry: &StateEntry<SyncState>,
        state: &mut SyncState,
        guarded: &Guarded<K>,
    ) -> Result<(), Failure> {
        let meta = guarded.meta();
        if !is_taken(meta) && !is_upgrading(meta) {
            return Ok(());
        }
        if state.deleting_since.is_none() {
            // Or its second try would come as late as that of a reconcile which has failed for hours.
            entry.reset_failures();
        }
        cleanup::cleanup(context, state, guarded).await.map_err(Failure::CleanupPending)?;
        let api = api(context, meta);
        let released = match &guarded.0 {
            Ok(_) => finalizer::set(&api, meta, FinalizerChange::Release).await,
            Err(_) => finalizer::release_not_understood(&api, meta).await,
        };
        released.map_err(Failure::Finalizer)
    }

    fn begin(entry: &StateEntry<SyncState>, state: &mut SyncState, meta: &ObjectMeta) {
        // A clean-up for which the rights are given back gets the whole patience, counted from the end of a pause.
        state.deleting_since = None;
        let sync_now = meta.annotations.as_ref().and_then(|all| all.get(SYNC_NOW_ANNOTATION)).cloned();
        if state.sync_now != sync_now {
            state.sync_now = sync_now;
            entry.reset_failures();
            state.look_afresh();
        }
    }

    async fn act(
        context: &Context<Self>,
        entry: &StateEntry<SyncState>,
        state: &mut SyncState,
        sync: &Self,
    ) -> Result<ReconcileStep<SyncOutcome>, Failure> {
        let api = api(context, sync.meta());
        if state.upgraded.is_none()
            && finalizer::pin_upstreams_source(&api, sync).await.map_err(Failure::Finalizer)?
        {
            // The patch is an event, and the reconcile that follows takes over.
            return Ok(ReconcileStep::Again(context.options.retry));
        }
        // Outdated in the middle of the work.
        Ok(work(context, entry, state, sync)
            .await
            .map_or(ReconcileStep::Again(Duration::ZERO), ReconcileStep::Done))
    }

    async fn conclude(
        context: &Context<Self>,
        state: &mut SyncState,
        meta: &ObjectMeta,
        paused: Option<&Pause>,
        outcome: SyncOutcome,
    ) -> Result<ReconcileStep<SyncOutcome>, Failure> {
        // It may have taken minutes.
        if paused.is_none() && Pause::of_all(&context.namespaces).is_some() {
            return Ok(ReconcileStep::Again(Duration::ZERO));
        }
        if outcome.wants_finalizer() {
            finalizer::set(&api(context, meta), meta, FinalizerChange::Take)
                .await
                .map_err(Failure::Finalizer)?;
            // The patch is an event, and the reconcile that follows writes.
            return Ok(ReconcileStep::Again(context.options.retry));
        }
        if is_upgrading(meta) && outcome.ends_upgrade() && end_upgrade(context, state, meta).await? {
            return Ok(ReconcileStep::Again(context.options.retry));
        }
        Ok(ReconcileStep::Done(outcome))
    }

    fn status(
        _: &Context<Self>,
        before: &ConfigMapSyncStatus,
        outcome: &SyncOutcome,
        meta: &ObjectMeta,
    ) -> ConfigMapSyncStatus {
        let now = Time(Timestamp::now());
        let mut status =
            super::status::status(before, outcome, &round_trip_faults(meta), meta.generation, &now);
        let conditions = status.conditions.iter_mut().map(|condition| &mut condition.message);
        let sources = status.sources.iter_mut().map(|source| &mut source.message);
        let targets = status.targets.iter_mut().map(|target| &mut target.message);
        for message in conditions.chain(sources).chain(targets) {
            if let Cow::Owned(words) = message_of_kind::<K>(message) {
                *message = words;
            }
        }
        status
    }

    async fn announce(
        context: &Context<Self>,
        meta: &ObjectMeta,
        outcome: &SyncOutcome,
        before: &ConfigMapSyncStatus,
        now: &ConfigMapSyncStatus,
    ) {
        events::tell_of::<K>(&context.events, meta, outcome, before, now).await;
    }
}

fn api<K: Declares>(context: &Context<K>, meta: &ObjectMeta) -> Api<Guarded<K>> {
    Api::namespaced(context.client.clone(), meta.namespace.as_deref().unwrap_or_default())
}

/// Takes the upstream operator's finalizer away. `false` where that was done before, and it is back.
async fn end_upgrade<K: Declares>(
    context: &Context<K>,
    state: &mut SyncState,
    meta: &ObjectMeta,
) -> Result<bool, Failure> {
    let reference = ResourceRef::of_meta(meta);
    let judged = meta.resource_version.clone().unwrap_or_default();
    match &state.upgraded {
        None => {
            let api = api(context, meta);
            finalizer::set(&api, meta, FinalizerChange::EndUpgrade).await.map_err(Failure::Finalizer)?;
            state.upgraded = Some(judged);
            info!(code = log_code::TAKEN_OVER, sync = %reference, "taken over from the upstream operator");
            // The patch is an event, and the reconcile that follows reports.
            Ok(true)
        }
        // From a cache that has not seen the patch yet.
        Some(before) if *before == judged => Ok(true),
        Some(_) => {
            warn!(
                code = log_code::UPSTREAM_RUNS, sync = %reference,
                "the upstream operator's finalizer is back: stop that operator if it is still running"
            );
            Ok(false)
        }
    }
}

impl ReconcileMemory<ConfigMapSyncStatus> for SyncState {
    fn common(&mut self) -> &mut Common<ConfigMapSyncStatus> {
        &mut self.common
    }
}

impl ReportedStatus for ConfigMapSyncStatus {
    fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    fn without_messages(&self) -> Self {
        let mut bare = self.clone();
        bare.conditions.iter_mut().for_each(|condition| condition.message.clear());
        bare.sources.iter_mut().for_each(|source| source.message.clear());
        bare.targets.iter_mut().for_each(|target| target.message.clear());
        bare
    }

    fn patch(&self) -> Value {
        patch(self)
    }
}

//! One visit of a `ConfigMapSync`, as its tenant: look at everything, plan, act, say what came of it.
//!
//! Level-triggered: a visit never asks why it was called. Failures of one target do not touch the others.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use futures::{StreamExt as _, stream};
use kube::ResourceExt as _;
use tracing::info;
use weaver_api::convert;
use weaver_api::marks::Owner;
use weaver_api::v1beta1::{ConfigMapSync, ConflictPolicy, Source, SourceDeletionPolicy, SourceKind};
use weaver_api::validate::{ValidSync, validate};

use super::content::Content;
use super::copy::{Desired, source_reference};
use super::execute::{self, Kept, Mode, Removal, TargetState};
use super::leftovers;
use super::metadata::Metadata;
use super::outcome::{SourceState, Visit, Work};
use super::plan::{Seen, Step, TakeOver, Takes, by_metadata};
use super::reconcile::Context;
use super::state::{Entry, SyncState};
use super::unsupported::unsupported;
use crate::tenant::call::{CallError, lookup};
use crate::tenant::object::Place;
use crate::tenant::rights::{EXPLAINED, Right, for_source, for_target, missing};
use crate::tenant::{Account, TenantClient};
use crate::watch::{Interest, SyncRef, WatchKey, WatchState, What};

/// Type of a Secret that is a token of one account, made and kept by the API server's controllers.
const ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";

/// Writes in flight at once, per visit.
const CONCURRENCY: usize = 16;

/// Identity of `sync` as its copies carry it.
#[must_use]
pub fn owner(sync: &ConfigMapSync) -> Owner {
    Owner {
        namespace: sync.namespace().unwrap_or_default(),
        name: sync.name_any(),
        uid: sync.uid().unwrap_or_default(),
    }
}

/// Visits `sync` once; looks only, unless it is `held` by our finalizer.
pub async fn visit(
    context: &Context,
    entry: &Entry,
    state: &mut SyncState,
    sync: &ConfigMapSync,
    held: bool,
) -> Visit {
    if let Some(fault) = convert::lost(&sync.metadata) {
        return Visit::InvalidSpec(vec![fault]);
    }
    let spec = match validate(sync.desired()) {
        Ok(spec) => spec,
        Err(faults) => return Visit::InvalidSpec(faults),
    };
    if spec.suspend {
        state.watches.clear();
        return Visit::Suspended;
    }
    let not_done = unsupported(&spec);
    if !not_done.is_empty() {
        return Visit::NotSupported(not_done);
    }
    let account = Account { namespace: sync.namespace().unwrap_or_default(), name: spec.account.clone() };
    entry.uses(&account);
    let tenant = match context.tenants.client(&account).await {
        Ok(tenant) => tenant,
        Err(error) => return Visit::NoToken(error),
    };

    let mode = match (spec.dry_run, held) {
        (true, _) => Mode::Try,
        (false, true) => Mode::Write,
        (false, false) => Mode::Look,
    };
    join_watches(context, state, &entry.sync, &tenant, &spec);
    let refused = refused_watches(&state.watches).await;
    let Read { source, absent_keys, desired } = read_source(&tenant, &spec, &owner(sync)).await;
    let targets = match &desired {
        Some(desired) => {
            let takes = Takes {
                upstreams: TakeOver::of(&spec, &sync.metadata),
                unmarked: spec.conflict_policy == ConflictPolicy::Adopt,
            };
            sync_targets(state, &tenant, &spec, desired, takes, mode).await
        }
        None => BTreeMap::new(),
    };
    let search_failed = search(context, state, &tenant, sync).await;
    let Swept { leftovers, removals } = match mode {
        Mode::Look => Swept::default(),
        mode => remove_leftovers(state, &tenant, &spec, sync, &source, mode).await,
    };
    // Somebody took our finalizer away: then the copies would outlive the resource.
    let unheld = mode == Mode::Look
        && (!(state.leftovers.is_empty() && state.verified.is_empty())
            || targets.values().any(|target| matches!(target, TargetState::Synced(_))));

    let (needed, unexplained) = needed_rights(&spec, &source, &targets, &leftovers, &refused);
    let missing = if needed.is_empty() {
        Ok(BTreeSet::new())
    } else {
        missing(&tenant, needed).await.map_err(|error| error.to_string())
    };
    Visit::Worked(Box::new(Work {
        account,
        spec,
        source,
        absent_keys,
        targets,
        leftovers,
        removals,
        search_failed,
        missing,
        unexplained,
        unheld,
    }))
}

/// Opens the watches this spec needs, keeps those it has, leaves the others.
fn join_watches(
    context: &Context,
    state: &mut SyncState,
    sync: &SyncRef,
    tenant: &TenantClient,
    spec: &ValidSync,
) {
    let key = |namespace: &str, what| watch_key(tenant, spec, namespace, what);
    let source = key(&spec.source_namespace, What::Object(spec.source_name.clone()));
    // In one that is not there a watch would be refused, or see nothing, until long after it has appeared.
    let targets = spec.targets.iter().filter(|target| context.namespaces.is_active(target));
    let wanted = std::iter::once(source).chain(targets.map(|target| key(target, What::Copies)));
    state.watches = wanted
        .map(|key| {
            let interest = state.watches.remove(&key);
            (key.clone(), interest.unwrap_or_else(|| context.watches.join(key, tenant, sync)))
        })
        .collect();
}

fn watch_key(tenant: &TenantClient, spec: &ValidSync, namespace: &str, what: What) -> WatchKey {
    WatchKey {
        account: tenant.account.clone(),
        uid: tenant.uid.clone(),
        kind: spec.source_kind,
        namespace: namespace.to_owned(),
        what,
    }
}

/// Waits for the watches, each and all no longer than [`crate::watch`] allows; tells which are refused.
async fn refused_watches(watches: &BTreeMap<WatchKey, Interest>) -> Vec<WatchKey> {
    let states =
        join_all(watches.iter().map(|(key, interest)| async move { (key, interest.settled().await) })).await;
    states
        .into_iter()
        .filter(|(_, state)| *state == WatchState::Refused)
        .map(|(key, _)| key.clone())
        .collect()
}

/// What was read of the source, and what its copies are to be.
struct Read {
    source: SourceState,
    absent_keys: Vec<String>,
    desired: Option<Desired>,
}

async fn read_source(tenant: &TenantClient, spec: &ValidSync, owner: &Owner) -> Read {
    let nothing = |source| Read { source, absent_keys: Vec::new(), desired: None };
    let place = Place {
        kind: spec.source_kind,
        namespace: spec.source_namespace.clone(),
        name: spec.source_name.clone(),
    };
    match lookup(tenant.objects(place.kind, &place.namespace).get(&place.name)).await {
        Ok(Some(source)) if source.type_.as_deref() == Some(ACCOUNT_TOKEN) => {
            nothing(SourceState::AccountToken)
        }
        Ok(Some(source)) => {
            let content = Content::of(&source);
            let absent_keys = content.absent(&spec.keys);
            match content.chosen(&spec.keys) {
                Ok(content) => {
                    let reference = source_reference(&place);
                    let metadata = Metadata::new(owner, &reference, &source.metadata, spec);
                    let desired = Desired::new(owner.clone(), place.kind, &spec.copy_name, metadata, content);
                    Read { source: SourceState::Found, absent_keys, desired: Some(desired) }
                }
                Err(clash) => Read { source: SourceState::Clash(clash), absent_keys, desired: None },
            }
        }
        Ok(None) => nothing(SourceState::Missing),
        Err(CallError::Forbidden(status)) => nothing(SourceState::Forbidden(status.message)),
        Err(error) => nothing(SourceState::Failed(error.to_string())),
    }
}

/// Every target is tried, whatever the operator itself knows of its namespace: what the status says must come
/// from answers that the tenant received.
async fn sync_targets(
    state: &mut SyncState,
    tenant: &TenantClient,
    spec: &ValidSync,
    desired: &Desired,
    takes: Takes<'_>,
    mode: Mode,
) -> BTreeMap<String, TargetState> {
    let (watches, known) = (&state.watches, &state.verified);
    let outcomes: BTreeMap<String, TargetState> = stream::iter(spec.targets.clone())
        .map(|namespace| {
            let interest = watches.get(&watch_key(tenant, spec, &namespace, What::Copies));
            let seen = interest.map_or(Seen::Unknown, |interest| interest.see(&desired.name));
            let known = known.get(&desired.place(&namespace));
            let step = by_metadata(desired, &seen, known);
            async move {
                let outcome = match (step, known) {
                    (Step::Keep, Some(known)) => TargetState::Synced(known.clone()),
                    (step, _) => execute::target(tenant, desired, takes, &namespace, step, mode).await,
                };
                (namespace, outcome)
            }
        })
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await;
    for (namespace, outcome) in &outcomes {
        let place = desired.place(namespace);
        match outcome {
            TargetState::Synced(verified) => drop(state.verified.insert(place, verified.clone())),
            // Not ours, or not there: there is nothing of ours to remember or to remove.
            TargetState::Conflict(_) | TargetState::NamespaceMissing => drop(state.verified.remove(&place)),
            // It may well be there still, in the state that was known.
            _ => {}
        }
    }
    outcomes
}

/// Looks, once per account, for copies of an earlier life; tells why it failed.
async fn search(
    context: &Context,
    state: &mut SyncState,
    tenant: &TenantClient,
    sync: &ConfigMapSync,
) -> Option<String> {
    if state.searched.as_ref() == Some(&tenant.uid) {
        return None;
    }
    match leftovers::find(tenant, &owner(sync), &context.namespaces.active()).await {
        Ok(found) => {
            state.leftovers.extend(found);
            state.searched = Some(tenant.uid.clone());
            None
        }
        Err(error) => Some(error.to_string()),
    }
}

/// What became of copies that are not wanted any more.
#[derive(Default)]
struct Swept {
    /// They could not be removed.
    leftovers: BTreeMap<Place, Kept>,
    /// They would be, were it not a dry run.
    removals: BTreeSet<Place>,
}

/// Removes copies that this resource does not want any more: those it has made in this life of the operator,
/// those the watches show, and those that were found.
async fn remove_leftovers(
    state: &mut SyncState,
    tenant: &TenantClient,
    spec: &ValidSync,
    sync: &ConfigMapSync,
    source: &SourceState,
    mode: Mode,
) -> Swept {
    let owner = owner(sync);
    let none_wanted =
        *source == SourceState::Missing && spec.source_deletion_policy == SourceDeletionPolicy::Delete;
    let copies = state.watches.iter().filter(|(key, _)| key.what == What::Copies);
    state.leftovers.extend(copies.flat_map(|(key, interest)| {
        let ours = interest.all().into_iter().filter(|meta| Owner::of(meta).as_ref() == Some(&owner));
        ours.filter_map(|meta| {
            Some(Place { kind: key.kind, namespace: key.namespace.clone(), name: meta.name.clone()? })
        })
    }));
    let wanted = |place: &Place| {
        !none_wanted
            && place.kind == spec.source_kind
            && spec.targets.contains(&place.namespace)
            && place.name == spec.copy_name
    };
    state.leftovers.extend(state.verified.keys().cloned());
    state.leftovers.retain(|place| !wanted(place));

    let source = Source {
        kind: spec.source_kind,
        namespace: Some(spec.source_namespace.clone()),
        name: Some(spec.source_name.clone()),
    };
    let mut swept = Swept::default();
    for place in std::mem::take(&mut state.leftovers) {
        match execute::remove(tenant, &owner, &source, &place, mode).await {
            Ok(Removal::Nothing | Removal::UpstreamStays) => {}
            Ok(Removal::Removed) if mode == Mode::Try => drop(swept.removals.insert(place)),
            Ok(Removal::Removed) => {
                info!(sync = %SyncRef::of(sync), %place, "removed a copy that is not wanted any more");
            }
            Err(error) => drop(swept.leftovers.insert(place, error)),
        }
    }
    state.leftovers = swept.leftovers.keys().chain(&swept.removals).cloned().collect();
    state.verified.retain(|place, _| wanted(place));
    swept
}

/// The rights to ask about: where something was refused, all that is needed there; and how many places with a
/// refusal are not asked about, because they are too many.
fn needed_rights(
    spec: &ValidSync,
    source: &SourceState,
    targets: &BTreeMap<String, TargetState>,
    leftovers: &BTreeMap<Place, Kept>,
    refused: &[WatchKey],
) -> (Vec<Right>, usize) {
    let mut needed = Vec::new();
    let source_refused = refused.iter().any(|key| key.what != What::Copies);
    if source_refused || matches!(source, SourceState::Forbidden(_)) {
        needed.extend(for_source(spec.source_kind, &spec.source_namespace, &spec.source_name));
    }
    let watches = refused.iter().filter(|key| key.what == What::Copies).map(|key| (key.kind, &key.namespace));
    let writes = targets.iter().filter(|(_, state)| matches!(state, TargetState::Forbidden(_)));
    let writes = writes.map(|(namespace, _)| (spec.source_kind, namespace));
    let removals = leftovers.iter().filter(|(_, kept)| matches!(kept, Kept::Forbidden(_)));
    let removals = removals.map(|(place, _)| (place.kind, &place.namespace));
    let targets: BTreeSet<(SourceKind, &String)> = watches.chain(writes).chain(removals).collect();
    needed.extend(targets.iter().take(EXPLAINED).flat_map(|(kind, namespace)| for_target(*kind, namespace)));
    (needed, targets.len().saturating_sub(EXPLAINED))
}

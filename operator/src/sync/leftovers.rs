//! Copies that are not wanted any more: found and removed as the tenant.
//!
//! Found by label, so that what a namespace dropped from the list during our downtime still holds is found; of both
//! kinds, because the source may have been of the other one then. Only where the account may list: what it may not
//! list it could not have been given a copy to find in, and an audit log full of refusals would look like an attack.
//! Searched once per resource and account after a start, and when a resource is deleted; in between, memory and the
//! watches know.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::ListParams;
use tracing::info;
use weaver_api::marks::{Owner, SYNC_UID_LABEL};
use weaver_api::v1beta1::{Source, SourceKind};
use weaver_api::validate::ValidSync;

use super::execute::{self, Kept, Mode, Removal};
use super::reconcile::Context;
use super::state::SyncState;
use crate::metrics::Written;
use crate::tenant::TenantClient;
use crate::tenant::call::{CallError, call};
use crate::tenant::object::Place;

/// Requests in flight at once.
const CONCURRENCY: usize = 16;

/// Every object that carries the label of `owner`, in `namespaces`.
///
/// # Errors
/// If a question or a list fails for another reason than a missing right; then nothing may be concluded.
pub async fn find(
    tenant: &TenantClient,
    owner: &Owner,
    namespaces: &[String],
) -> Result<BTreeSet<Place>, CallError> {
    let mut found = BTreeSet::new();
    for kind in SourceKind::ALL {
        found.extend(find_kind(tenant, owner, kind, namespaces).await?);
    }
    Ok(found)
}

async fn find_kind(
    tenant: &TenantClient,
    owner: &Owner,
    kind: SourceKind,
    namespaces: &[String],
) -> Result<Vec<Place>, CallError> {
    let params = ListParams::default().labels(&format!("{SYNC_UID_LABEL}={}", owner.uid));
    let objects: Vec<_> = if tenant.reach.is_everywhere(tenant, kind).await? {
        vec![tenant.all_metas(kind)]
    } else {
        let listable = tenant.reach.listable(tenant, kind, namespaces.to_vec()).await?;
        listable.iter().map(|namespace| tenant.metas(kind, namespace)).collect()
    };
    let lists: Vec<_> = stream::iter(objects)
        .map(|objects| {
            let params = &params;
            async move {
                match call(objects.list_metadata(params)).await {
                    Ok(list) => Ok(list.items),
                    // The namespace went, or the right did, since we asked.
                    Err(CallError::Forbidden(_) | CallError::NotFound(_)) => Ok(Vec::new()),
                    Err(error) => Err(error),
                }
            }
        })
        .buffer_unordered(CONCURRENCY)
        .try_collect()
        .await?;
    Ok(lists.into_iter().flatten().filter_map(|object| Place::of(kind, &object.metadata)).collect())
}

/// Looks, once per account, for copies of an earlier life; tells why it failed.
pub async fn search(
    context: &Context,
    state: &mut SyncState,
    tenant: &TenantClient,
    owner: &Owner,
) -> Option<String> {
    if state.searched.as_ref() == Some(&tenant.uid) {
        return None;
    }
    match find(tenant, owner, &context.namespaces.active(|_, _| true)).await {
        Ok(found) => {
            state.leftovers.extend(found);
            state.searched = Some(tenant.uid.clone());
            None
        }
        Err(error) => Some(error.to_string()),
    }
}

/// Removes what stands at these places if it is a copy of `owner`, and tells of each what became of it.
pub async fn remove(
    tenant: &TenantClient,
    owner: &Owner,
    source: &Source,
    places: BTreeSet<Place>,
    mode: Mode,
) -> Vec<(Place, Result<Removal, Kept>)> {
    stream::iter(places)
        .map(|place| async move {
            let removal = execute::remove(tenant, owner, source, &place, mode).await;
            (place, removal)
        })
        .buffer_unordered(CONCURRENCY)
        .collect()
        .await
}

/// What became of copies that are not wanted any more.
#[derive(Default)]
pub struct Swept {
    /// They could not be removed.
    pub leftovers: BTreeMap<Place, Kept>,
    /// They would be, were it not a dry run.
    pub removals: BTreeSet<Place>,
}

/// Removes copies that are not `wanted` any more: those that were made in this life of the operator, those that the
/// watches show, and those that were found.
pub async fn sweep(
    context: &Context,
    state: &mut SyncState,
    tenant: &TenantClient,
    spec: &ValidSync,
    owner: &Owner,
    wanted: impl Fn(&Place) -> bool,
    mode: Mode,
) -> Swept {
    state.leftovers.extend(state.watches.copies_of(owner));
    state.leftovers.extend(state.verified.keys().cloned());
    state.leftovers.retain(|place| !wanted(place));

    let source = &Source {
        kind: spec.source_kind,
        namespace: Some(spec.source_namespace.clone()),
        name: Some(spec.source_name.clone()),
    };
    let mut swept = Swept::default();
    let places = std::mem::take(&mut state.leftovers);
    for (place, removal) in remove(tenant, owner, source, places, mode).await {
        match removal {
            Ok(Removal::Nothing | Removal::UpstreamStays) => {}
            Ok(Removal::Removed) if mode == Mode::Try => drop(swept.removals.insert(place)),
            Ok(Removal::Removed) => {
                context.metrics.wrote(Written::Removed);
                info!(%owner, %place, "removed a copy that is not wanted any more");
            }
            Err(error) => drop(swept.leftovers.insert(place, error)),
        }
    }
    state.leftovers = swept.leftovers.keys().chain(&swept.removals).cloned().collect();
    state.verified.retain(|place, _| wanted(place));
    swept
}

//! Finds copies that are not wanted any more, as the tenant.
//!
//! By label, so that what a namespace dropped from the list during our downtime still holds is found; of both kinds,
//! because the source may have been of the other one then. Where the
//! account may list is asked first: what it may not list it could not have been given a copy to find in, and an
//! audit log full of refusals would look like an attack. Done once per resource and account after a start, and
//! when a resource is deleted; in between, memory knows.

use std::collections::BTreeSet;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use weaver_api::marks::{Owner, SYNC_UID_LABEL};
use weaver_api::v1beta1::SourceKind;

use crate::tenant::TenantClient;
use crate::tenant::call::{CallError, call};
use crate::tenant::object::Place;
use crate::tenant::rights::{Right, missing};

/// Lists in flight at once.
const CONCURRENCY: usize = 8;

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
) -> Result<BTreeSet<Place>, CallError> {
    let params = ListParams::default().labels(&format!("{SYNC_UID_LABEL}={}", owner.uid));
    let places = |metas: Vec<ObjectMeta>| metas.into_iter().filter_map(|meta| place(kind, meta)).collect();
    if missing(tenant, vec![list_in(kind, "")]).await?.is_empty() {
        let all = call(tenant.all_metas(kind).list_metadata(&params)).await?;
        return Ok(places(all.items.into_iter().map(|copy| copy.metadata).collect()));
    }
    let questions = namespaces.iter().map(|namespace| list_in(kind, namespace)).collect();
    let refused = missing(tenant, questions).await?;
    let allowed: Vec<String> =
        namespaces.iter().filter(|name| !refused.contains(&list_in(kind, name))).cloned().collect();
    let lists: Vec<_> = stream::iter(allowed)
        .map(|namespace| {
            let (params, copies) = (&params, tenant.metas(kind, &namespace));
            async move {
                match call(copies.list_metadata(params)).await {
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
    Ok(places(lists.into_iter().flatten().map(|copy| copy.metadata).collect()))
}

/// The right to list objects of a kind in a namespace; in all, where it is empty.
fn list_in(kind: SourceKind, namespace: &str) -> Right {
    Right { kind, namespace: namespace.into(), object: None, verb: "list" }
}

fn place(kind: SourceKind, meta: ObjectMeta) -> Option<Place> {
    Some(Place { kind, namespace: meta.namespace?, name: meta.name? })
}

//! Finds copies that are not wanted any more, as the tenant.
//!
//! By label, so that what a namespace dropped from the list during our downtime still holds is found. Where the
//! account may list is asked first: what it may not list it could not have been given a copy to find in, and an
//! audit log full of refusals would look like an attack. Done once per resource and account after a start, and
//! when a resource is deleted; in between, memory knows.

use std::collections::BTreeSet;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use weaver_api::marks::{Owner, SYNC_UID_LABEL};

use super::state::Place;
use crate::tenant::TenantClient;
use crate::tenant::call::{CallError, call};
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
    namespaces: Vec<String>,
) -> Result<BTreeSet<Place>, CallError> {
    let params = ListParams::default().labels(&format!("{SYNC_UID_LABEL}={}", owner.uid));
    if missing(tenant, vec![list_in("")]).await?.is_empty() {
        let all = call(tenant.all_config_map_metas().list_metadata(&params)).await?;
        return Ok(all.items.into_iter().filter_map(|copy| place(copy.metadata)).collect());
    }
    let refused = missing(tenant, namespaces.iter().map(|namespace| list_in(namespace)).collect()).await?;
    let allowed: Vec<String> =
        namespaces.into_iter().filter(|namespace| !refused.contains(&list_in(namespace))).collect();
    let lists: Vec<_> = stream::iter(allowed)
        .map(|namespace| {
            let (params, copies) = (&params, tenant.config_map_metas(&namespace));
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
    Ok(lists.into_iter().flatten().filter_map(|copy| place(copy.metadata)).collect())
}

/// The right to list `ConfigMap`s in a namespace; in all, where it is empty.
fn list_in(namespace: &str) -> Right {
    Right { namespace: namespace.into(), object: None, verb: "list" }
}

fn place(meta: ObjectMeta) -> Option<Place> {
    Some((meta.namespace?, meta.name?))
}

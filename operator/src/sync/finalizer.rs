//! The finalizers of a sync: ours, and the upstream operator's, which an upgrade leaves behind.
//!
//! They are written as the operator, by a merge patch with the resourceVersion of the state that was
//! judged: a list is replaced whole, and someone else may have changed it since. Others' finalizers stay.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use weaver_api::ownership::UPSTREAM_SOURCE_ANNOTATION;
use weaver_client::call::{CallError, call};

use super::declared::Declares;
use crate::controller::kind::Guarded;
use weaver_copies::finalizers::{FinalizerChange, after, is_upgrading};

fn is_pinned(meta: &ObjectMeta) -> bool {
    meta.annotations.iter().flatten().any(|(key, _)| key == UPSTREAM_SOURCE_ANNOTATION)
}

/// Changes the finalizers of exactly the state `meta`.
///
/// # Errors
/// If the patch fails, also because the object is not in that state any more.
pub async fn set<K: Declares>(
    api: &Api<Guarded<K>>,
    meta: &ObjectMeta,
    change: FinalizerChange,
) -> Result<(), CallError> {
    write(api, meta, &json!({"metadata": metadata(meta, change)})).await
}

/// Notes the source of a resource that upstream has left behind, before anything is taken over: its ownership labels
/// count only while the source is that one. `false` where there is nothing to note.
///
/// # Errors
/// As [`set`].
pub async fn pin_upstreams_source<K: Declares>(api: &Api<Guarded<K>>, sync: &K) -> Result<bool, CallError> {
    let meta = sync.meta();
    let source = sync.asked().and_then(|spec| spec.source.clone()).unwrap_or_default();
    let (true, false, Some(namespace), Some(name)) =
        (is_upgrading(meta), is_pinned(meta), source.namespace, source.name)
    else {
        return Ok(false);
    };
    let annotations = json!({UPSTREAM_SOURCE_ANNOTATION: format!("{namespace}/{name}")});
    let patch = json!({"metadata": {"resourceVersion": meta.resource_version, "annotations": annotations}});
    write(api, meta, &patch).await.map(|()| true)
}

/// Releases a deleted object that cannot be understood.
///
/// Where a list is a word, the API server cannot evaluate the rules on it, and then refuses every write of the
/// object, also one that changes nothing but finalizers. So that the deletion does not hang forever, what it
/// refuses is removed with the finalizers: that spec is of no use any more.
///
/// # Errors
/// As [`set`].
pub async fn release_not_understood<K: Declares>(
    api: &Api<Guarded<K>>,
    meta: &ObjectMeta,
) -> Result<(), CallError> {
    match set(api, meta, FinalizerChange::Release).await {
        Err(CallError::Rejected(_)) => {
            write(api, meta, &json!({"metadata": metadata(meta, FinalizerChange::Release), "spec": null}))
                .await
        }
        done => done,
    }
}

fn metadata(meta: &ObjectMeta, change: FinalizerChange) -> Value {
    let finalizers = after(meta.finalizers.as_deref().unwrap_or_default(), change);
    let mut changed = json!({"resourceVersion": meta.resource_version, "finalizers": finalizers});
    if is_pinned(meta) && change != FinalizerChange::Take {
        changed["annotations"] = json!({UPSTREAM_SOURCE_ANNOTATION: null});
    }
    changed
}

async fn write<K: Declares>(
    api: &Api<Guarded<K>>,
    meta: &ObjectMeta,
    patch: &Value,
) -> Result<(), CallError> {
    let name = meta.name.as_deref().unwrap_or_default();
    match call(api.patch(name, &PatchParams::default(), &Patch::Merge(patch))).await {
        // Not there any more: so it is deleted, without any finalizer.
        Ok(_) | Err(CallError::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

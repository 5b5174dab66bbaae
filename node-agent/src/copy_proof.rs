//! Proves that the operator does its work: a ConfigMap is copied with a tenant's rights, read back and removed again,
//! in two namespaces that are made for it.
//!
//! Guarantee: whatever the result, the resource is gone, without an operator too, and the namespaces are being deleted;
//! a proof that is interrupted leaves them to the next. Failure: what did not happen in time, with the operator's own
//! status of the resource.

use std::time::Duration;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::time::{Instant, sleep};
use weaver_api::OPERATOR_NAMESPACE;
use weaver_api::ownership::PAUSED_ANNOTATION;
use weaver_api::v1beta1::ConfigMapSync;

use crate::run::cluster::{MANAGER, apply, deadline};

const OBJECTS: &str = include_str!("copy_proof.yaml");
/// The namespace of the source, and that of the copy.
const NAMESPACES: [&str; 2] = ["weaver-proof", "weaver-proof-copy"];
/// The name of the ConfigMap, its copy and the resource.
const NAME: &str = "proof";
const MANAGED_BY: &str = "app.kubernetes.io/managed-by";
const POLL: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopySeen {
    /// The copy, and that it was removed.
    Copied,
    /// The cluster is paused: nothing is copied on purpose.
    Paused,
}

/// Has the operator make a copy within `wait`, and remove it within the same time again.
///
/// # Errors
/// It does not; or a namespace of that name belongs to someone else.
pub async fn prove(client: &Client, wait: Duration) -> anyhow::Result<CopySeen> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let own = deadline("the operator's namespace", namespaces.get_metadata_opt(OPERATOR_NAMESPACE)).await?;
    let annotations = own.and_then(|own| own.metadata.annotations).unwrap_or_default();
    if annotations.contains_key(PAUSED_ANNOTATION) {
        return Ok(CopySeen::Paused);
    }
    for name in NAMESPACES {
        let found = deadline(&format!("the namespace {name}"), namespaces.get_metadata_opt(name)).await?;
        let labels = found.map(|found| found.metadata.labels.unwrap_or_default());
        if labels.is_some_and(|labels| labels.get(MANAGED_BY).is_none_or(|manager| manager != MANAGER)) {
            bail!("the namespace {name} exists and is not the node agent's: rename or delete it");
        }
    }
    let copied = copied(client, wait).await;
    let removed = removed(client, wait).await;
    for name in NAMESPACES {
        // The remains of an earlier one are deleted before the next proof.
        let _ = deadline(name, namespaces.delete(name, &DeleteParams::background())).await;
    }
    copied.and(removed).map(|()| CopySeen::Copied)
}

async fn copied(client: &Client, wait: Duration) -> anyhow::Result<()> {
    let until = Instant::now() + wait;
    let copies: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACES[1]);
    let value = Timestamp::now().to_string();
    let mut applied = apply_all(client, &value).await;
    loop {
        let copy = deadline("the copy", copies.get_opt(NAME)).await.ok().flatten();
        let seen = copy.and_then(|copy| copy.data?.remove("at"));
        if seen.is_some_and(|seen| seen == value) {
            return Ok(());
        }
        if Instant::now() >= until {
            applied.context("the objects for a copy could not be made")?;
            let said = said(client).await;
            bail!("the operator has copied nothing within {} s: {said}", wait.as_secs());
        }
        sleep(POLL).await;
        // An API server may have just started, or the namespace of the last proof still be deleted.
        if applied.is_err() {
            applied = apply_all(client, &value).await;
        }
    }
}

async fn apply_all(client: &Client, value: &str) -> anyhow::Result<()> {
    for mut object in objects()? {
        if object.types.as_ref().is_some_and(|types| types.kind == "ConfigMap") {
            object.data["data"] = json!({ "at": value });
        }
        let applied = apply(client, &object).await?;
        // Of the last proof: it can be changed, and will be gone.
        if applied.metadata.deletion_timestamp.is_some() {
            bail!("{} is still being deleted", applied.name_any());
        }
    }
    Ok(())
}

fn objects() -> anyhow::Result<Vec<DynamicObject>> {
    serde_saphyr::from_multiple(OBJECTS).context("a built-in manifest")
}

/// The operator's status of the resource.
async fn said(client: &Client) -> String {
    let syncs: Api<ConfigMapSync> = Api::namespaced(client.clone(), NAMESPACES[0]);
    let sync = match deadline("the ConfigMapSync", syncs.get(NAME)).await {
        Ok(sync) => sync,
        Err(error) => return format!("{error:#}"),
    };
    let conditions = sync.status.map(|status| status.conditions).unwrap_or_default();
    let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready");
    ready.map_or_else(|| "it has not reconciled it".to_owned(), |ready| ready.message)
}

/// Deletes the resource; where no operator removes its finalizer in time, that is done here.
async fn removed(client: &Client, wait: Duration) -> anyhow::Result<()> {
    let syncs: Api<ConfigMapSync> = Api::namespaced(client.clone(), NAMESPACES[0]);
    if deadline("the ConfigMapSync", syncs.delete(NAME, &DeleteParams::default())).await.is_err() {
        // It was not made; a namespace that is being deleted deletes it too.
        return Ok(());
    }
    let until = Instant::now() + wait;
    loop {
        if deadline("the ConfigMapSync", syncs.get_metadata_opt(NAME))
            .await
            .is_ok_and(|found| found.is_none())
        {
            return Ok(());
        }
        if Instant::now() >= until {
            let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
            deadline("the ConfigMapSync", syncs.patch_metadata(NAME, &PatchParams::default(), &free)).await?;
            bail!("the operator has not removed its copy within {} s", wait.as_secs());
        }
        sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_objects_are_in_its_namespaces() {
        for object in objects().unwrap() {
            let (name, namespace) = (object.metadata.name.unwrap(), object.metadata.namespace);
            let namespace = namespace.unwrap_or(name);
            assert!(NAMESPACES.contains(&namespace.as_str()), "{namespace}");
        }
    }
}

//! The floor: a bare client that does the same writes, as many at once, and nothing else.
//!
//! It acts as the same account, writes objects of the same size, and knows beforehand all that the operator must find
//! out: what it takes is what the API server and the machine take.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::Value;

/// Namespace and name of an object.
pub type NamespacedName = (String, String);

/// The label of its objects, as long as that of copies.
pub const LABEL: &str = "bench.example.com/floors";
/// Name of its objects.
pub const NAME: &str = "floor";
/// As many as the operator has for one resource; of copies of a megabyte that has four, for its memory.
const IN_FLIGHT: usize = 16;

pub struct Floor {
    client: Client,
    written: BTreeMap<String, ObjectMeta>,
}

impl Floor {
    /// It acts by `client`.
    pub fn new(client: Client) -> Self {
        Self { client, written: BTreeMap::new() }
    }

    /// Where it writes in `namespaces`.
    pub fn keys(namespaces: &[String]) -> impl Iterator<Item = NamespacedName> + '_ {
        namespaces.iter().map(|namespace| (namespace.clone(), NAME.to_owned()))
    }

    /// Writes `data` everywhere: creates what it has not written yet, else replaces it as it was last seen.
    pub async fn write(&mut self, namespaces: &[String], data: &BTreeMap<String, String>) -> Result<()> {
        let jobs = namespaces.iter().map(|namespace| {
            let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
            let known = self.written.get(namespace).cloned();
            let object = ConfigMap {
                metadata: known.clone().unwrap_or_else(|| fresh(namespace)),
                data: Some(data.clone()),
                ..ConfigMap::default()
            };
            async move {
                let params = PostParams::default();
                let written = match known {
                    Some(_) => api.replace(NAME, &params, &object).await,
                    None => api.create(&params, &object).await,
                };
                anyhow::Ok((namespace, written.context("the floor's write")?.metadata))
            }
        });
        let jobs: Vec<_> = jobs.collect();
        let done: Vec<_> = stream::iter(jobs).buffer_unordered(IN_FLIGHT).try_collect().await?;
        for (namespace, metadata) in done {
            self.saw(namespace, metadata);
        }
        Ok(())
    }

    /// Learns what its object is in `namespace`.
    pub fn saw(&mut self, namespace: &str, mut metadata: ObjectMeta) {
        metadata.managed_fields = None;
        self.written.insert(namespace.to_owned(), metadata);
    }

    /// Forgets what it wrote in `namespace`, where someone has deleted it.
    pub fn forget(&mut self, namespace: &str) {
        self.written.remove(namespace);
    }

    /// Reads these objects, as many at once, as someone must who starts and knows nothing.
    pub async fn read(&self, keys: impl IntoIterator<Item = NamespacedName>) -> Result<()> {
        let reads = keys.into_iter().map(|(namespace, name)| {
            let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &namespace);
            async move { api.get(&name).await.map(drop).context("the floor's read") }
        });
        let reads: Vec<_> = reads.collect();
        stream::iter(reads).buffer_unordered(IN_FLIGHT).try_collect().await
    }
}

/// Metadata as long as a copy's.
fn fresh(namespace: &str) -> ObjectMeta {
    let pair = |name: &str, value: &str| (format!("bench.example.com/{name}"), value.to_owned());
    let uid = "00000000-0000-0000-0000-000000000000";
    ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: Some(NAME.to_owned()),
        labels: Some([(LABEL.to_owned(), uid.to_owned())].into()),
        annotations: Some(
            [
                pair("sync", &format!("{namespace}/sync/{uid}")),
                pair("source", &format!("ConfigMap/{namespace}/settings")),
            ]
            .into(),
        ),
        ..ObjectMeta::default()
    }
}

/// Someone deletes an object.
pub async fn delete(client: &Client, (namespace, name): &NamespacedName) -> Result<()> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    api.delete(name, &DeleteParams::default()).await.context("deleting a copy")?;
    Ok(())
}

/// Someone changes an object by a merge patch.
pub async fn patch(client: &Client, (namespace, name): &NamespacedName, patch: &Value) -> Result<ObjectMeta> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    Ok(patched.context("changing a copy")?.metadata)
}

//! One object of an installation: found by its name, deleted by the uid that was seen.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Preconditions};
use kube::{Client, Resource};
use tokio::time::{Instant, sleep};
use weaver_host::progress::Progress;

use crate::stdout::say;

/// How often it is checked.
pub const LOOK: Duration = Duration::from_millis(500);

/// Is the object not there any more?
pub fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}

pub struct InstalledObject {
    resource: ApiResource,
    namespace: Option<String>,
    pub name: String,
    uid: Option<String>,
}

impl fmt::Display for InstalledObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namespace = self.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        write!(f, "{} {namespace}{}", self.resource.kind, self.name)
    }
}

impl InstalledObject {
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        Self::named::<K>(object.meta())
    }

    pub fn named<K: Resource<DynamicType = ()>>(meta: &ObjectMeta) -> Self {
        Self {
            resource: ApiResource::erase::<K>(&()),
            namespace: meta.namespace.clone(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone(),
        }
    }

    /// The object of that name, if there is one.
    pub async fn find<K: Resource<DynamicType = ()>>(
        client: &Client,
        namespace: Option<&str>,
        name: &str,
    ) -> anyhow::Result<Option<Self>> {
        let part = Self {
            resource: ApiResource::erase::<K>(&()),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            uid: None,
        };
        let found = part.api(client).get_metadata_opt(name).await;
        let found = found.with_context(|| format!("reading {part}"))?;
        Ok(found.map(|found| Self { uid: found.metadata.uid, ..part }))
    }

    /// Is it the definition of this kind?
    pub fn is_of(&self, kind: &ApiResource) -> bool {
        self.name == format!("{}.{}", kind.plural, kind.group)
    }

    fn api(&self, client: &Client) -> Api<DynamicObject> {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }

    /// Deletes it; one that is already gone is a success. An object that was created again under its name since stays.
    pub async fn delete(&self, client: &Client) -> anyhow::Result<()> {
        let preconditions = Some(Preconditions { uid: self.uid.clone(), resource_version: None });
        let params = DeleteParams { preconditions, ..DeleteParams::default() };
        match self.api(client).delete(&self.name, &params).await {
            Err(error) if !is_gone(&error) => Err(error).with_context(|| format!("deleting {self}")),
            _ => {
                say(format_args!("{self} deleted"));
                Ok(())
            }
        }
    }

    /// Waits until it is gone, where parts of it are deleted first.
    pub async fn is_gone_by(&self, client: &Client, deadline: Instant) -> anyhow::Result<()> {
        let _progress = Progress::waiting(&format!("waiting until {self} is gone"));
        loop {
            let found = self.api(client).get_metadata_opt(&self.name).await;
            let found = found.with_context(|| format!("reading {self}"))?;
            let Some(found) = found.filter(|found| found.metadata.uid == self.uid) else { return Ok(()) };
            ensure!(
                Instant::now() < deadline,
                "{self} is being deleted but still exists (finalizers: {}): `kubectl describe` shows what \
                 holds it; then run this again",
                found.metadata.finalizers.unwrap_or_default().join(", ")
            );
            sleep(LOOK).await;
        }
    }
}

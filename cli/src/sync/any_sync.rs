//! A ConfigMapSync or ResourceSync that was read: its request, in the one form in which it is compared.

use anyhow::{Context as _, ensure};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIResource, Condition, ObjectMeta};
use kube::Client;
use kube::api::Api;
use weaver_api::kind::ObjectKind;
use weaver_api::ownership::Owner;
use weaver_api::v1beta1::{ConfigMapSync, ConfigMapSyncSpec, ResourceSync, ResourceSyncSpec, Source};
use weaver_api::validate::{KindName, SpecFault, ValidSync, validate, validate_resource};
use weaver_copies::kinds::{Treatment, treatment};
use weaver_copies::sources::SpecSource;

use crate::connection;
use crate::resource::kind::Kind;

/// What is requested, and by which account.
pub struct AnySync {
    pub kind: Kind,
    pub meta: ObjectMeta,
    pub conditions: Vec<Condition>,
    pub source: SpecSource,
    /// Or which rules it breaks.
    pub spec: Result<ValidSync, Vec<String>>,
}

impl AnySync {
    pub fn of_sync(sync: &ConfigMapSync) -> Self {
        let source = sync.desired().and_then(|spec| spec.source.clone()).unwrap_or_default();
        Self {
            kind: Kind::ConfigMapSync,
            meta: sync.metadata.clone(),
            conditions: sync.status.clone().unwrap_or_default().conditions,
            source: SpecSource::from(&source),
            spec: validate(sync.desired()).map_err(messages),
        }
    }

    /// From a ResourceSync, whose kind is looked up at the API server.
    pub async fn of_resource(client: &Client, sync: &ResourceSync) -> Self {
        let spec = valid_resource(client, sync.desired()).await;
        let asked = sync.desired().cloned().map(ConfigMapSyncSpec::from);
        let source: Source = asked.and_then(|spec| spec.source).unwrap_or_default();
        let kind = spec.as_ref().map_or(ObjectKind::served("", "", "", ""), |spec| spec.source_kind);
        Self {
            kind: Kind::ResourceSync,
            meta: sync.metadata.clone(),
            conditions: sync.status.clone().unwrap_or_default().conditions,
            source: SpecSource::of(kind, &source),
            spec,
        }
    }

    /// Those of this name: there may be one of each kind.
    pub async fn find(client: &Client, namespace: &str, name: &str) -> anyhow::Result<Vec<Self>> {
        let syncs: Api<ConfigMapSync> = Api::namespaced(client.clone(), namespace);
        let sync =
            syncs.get_opt(name).await.with_context(|| format!("reading ConfigMapSync {namespace}/{name}"))?;
        let resources: Api<ResourceSync> = Api::namespaced(client.clone(), namespace);
        // An older definition may be all that the cluster has, or the rights of the user end there.
        let resource = resources.get_opt(name).await;
        let mut found: Vec<Self> = sync.iter().map(Self::of_sync).collect();
        match resource {
            Ok(Some(resource)) => found.push(Self::of_resource(client, &resource).await),
            Ok(None) => {}
            Err(_) if !found.is_empty() => {}
            Err(error) => {
                return Err(error).with_context(|| format!("reading ResourceSync {namespace}/{name}"));
            }
        }
        ensure!(!found.is_empty(), "there is no ConfigMapSync or ResourceSync {namespace}/{name}");
        Ok(found)
    }

    pub fn owner(&self) -> Owner {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let ObjectMeta { namespace, name, uid, .. } = &self.meta;
        Owner { namespace: part(namespace), name: part(name), uid: part(uid) }
    }
}

fn messages(faults: Vec<SpecFault>) -> Vec<String> {
    faults.into_iter().map(|fault| fault.to_string()).collect()
}

/// The spec of a ResourceSync, where it follows the rules and the API server serves its kind.
///
/// # Errors
/// Why it is not carried out.
pub async fn valid_resource(
    client: &Client,
    spec: Option<&ResourceSyncSpec>,
) -> Result<ValidSync, Vec<String>> {
    let valid = validate_resource(spec).map_err(messages)?;
    let kind = served(client, &valid.kind).await.map_err(|why| vec![why])?;
    Ok(valid.of(kind))
}

/// The kind of this name, where it is namespaced and may be copied.
///
/// # Errors
/// Why it is not copied, or that the API server does not say.
pub async fn served(client: &Client, name: &KindName) -> Result<ObjectKind, String> {
    let KindName { group, version, kind } = name;
    if let Treatment::Never(why) = treatment(group, kind) {
        return Err(format!("spec.source.kind: a {kind} {why}"));
    }
    let api_version = name.api_version();
    let list = if group.is_empty() {
        client.list_core_api_resources(&api_version).await
    } else {
        client.list_api_group_resources(&api_version).await
    };
    let found: Vec<APIResource> = match list {
        Ok(list) => list.resources,
        Err(kube::Error::Api(status)) if status.is_not_found() => Vec::new(),
        Err(error) => return Err(format!("which kinds the API server serves is not known: {error}")),
    };
    let is_it = |resource: &&APIResource| resource.kind == *kind && !resource.name.contains('/');
    match found.iter().find(is_it) {
        Some(resource) if resource.namespaced => Ok(ObjectKind::served(group, version, kind, &resource.name)),
        Some(_) => {
            Err(format!("spec.source.kind: {kind} is cluster-scoped, so there is no namespace to copy it to"))
        }
        None => Err(format!(
            "spec.source.apiVersion: the API server serves no {kind} of {api_version}: `kubectl api-resources{}` lists what \
             it serves",
            connection::flags()
        )),
    }
}

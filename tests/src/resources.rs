//! A tenant's `ResourceSync`s, and objects of any kind.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};
use weaver_api::v1beta1::ResourceSync;

use crate::tenant::{ACCOUNT, TARGET};
use crate::world::{World, eventually};

/// Objects of this kind in a namespace.
pub fn objects(
    world: &World,
    version: &str,
    kind: &str,
    plural: &str,
    namespace: &str,
) -> Api<DynamicObject> {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let kind = GroupVersionKind::gvk(group, version, kind);
    let kind = ApiResource::from_gvk_with_plural(&kind, plural);
    Api::namespaced_with(world.client.clone(), namespace, &kind)
}

/// The `ResourceSync`s of a namespace.
pub fn syncs(world: &World, team: &str) -> Api<ResourceSync> {
    Api::namespaced(world.client.clone(), team)
}

/// Copies the object `name` of this kind from the tenant's namespace to `targets`.
pub fn spec(team: &str, version: &str, kind: &str, name: &str, targets: &[&str]) -> Value {
    json!({
        "serviceAccount": {"name": ACCOUNT},
        "source": {"apiVersion": version, "kind": kind, "namespace": team, "name": name},
        "targets": {"namespaces": targets},
    })
}

/// Creates or changes a `ResourceSync`.
pub async fn sync(world: &World, team: &str, name: &str, spec: Value) {
    let object = json!({
        "apiVersion": "weaver.example.com/v1beta1", "kind": "ResourceSync",
        "metadata": {"name": name, "namespace": team}, "spec": spec,
    });
    let params = PatchParams::apply("a-person").force();
    syncs(world, team).patch(name, &params, &Patch::Apply(&object)).await.unwrap();
}

/// Waits until a condition of it is so, judged on its current generation.
pub async fn condition(
    world: &World,
    team: &str,
    name: &str,
    kind: &str,
    status: &str,
    reason: &str,
) -> Condition {
    let syncs = syncs(world, team);
    eventually(&format!("ResourceSync {team}/{name} has {kind}={status} ({reason})"), || async {
        let sync = syncs.get(name).await.unwrap();
        let conditions = sync.status.unwrap_or_default().conditions;
        let found = conditions.iter().find(|condition| {
            (condition.type_.as_str(), condition.status.as_str(), condition.reason.as_str())
                == (kind, status, reason)
                && condition.observed_generation == sync.metadata.generation
        });
        found.cloned().ok_or(conditions)
    })
    .await
}

/// Deletes it and waits until it is gone.
pub async fn delete(world: &World, team: &str, name: &str) {
    let syncs = syncs(world, team);
    syncs.delete(name, &DeleteParams::default()).await.unwrap();
    eventually(&format!("ResourceSync {team}/{name} is gone"), || async {
        syncs.get_opt(name).await.unwrap().map_or(Ok(()), |sync| Err(sync.metadata.finalizers))
    })
    .await;
}

/// Waits until the object has this value at this pointer.
pub async fn shows(
    objects: &Api<DynamicObject>,
    name: &str,
    pointer: &str,
    expected: &Value,
) -> DynamicObject {
    eventually(&format!("{name} has {expected} at {pointer}"), || async {
        let found = objects.get_opt(name).await.unwrap();
        let value = json!(found).pointer(pointer).cloned().unwrap_or_default();
        match found {
            Some(found) if value == *expected => Ok(found),
            _ => Err(value),
        }
    })
    .await
}

/// Grants the tenant all that copies of `plural` need, in these namespaces.
pub async fn grant(world: &World, team: &str, namespaces: &[&str], group: &str, plural: &str) {
    let rules = json!([{"apiGroups": [group], "resources": [plural], "verbs": TARGET}]);
    for namespace in namespaces {
        world.grant_rules(team, namespace, &format!("copies-{plural}"), rules.clone()).await;
    }
}

/// Makes a definition of a kind with any fields, served at these versions; one that is there stays.
pub async fn define(world: &World, group: &str, kind: &str, plural: &str, versions: &[&str]) {
    let any = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(
            |(index, version)| json!({"name": version, "served": true, "storage": index == 0, "schema": any}),
        )
        .collect();
    let definition = serde_json::from_value(json!({
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "versions": versions,
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")}},
    }))
    .unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    match definitions.create(&PostParams::default(), &definition).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        made => drop(made.unwrap()),
    }
    let of_kind = |version: &str| {
        let kind = GroupVersionKind::gvk(group, version, kind);
        Api::<DynamicObject>::all_with(
            world.client.clone(),
            &ApiResource::from_gvk_with_plural(&kind, plural),
        )
    };
    let version = definition.spec.versions[0].name.clone();
    eventually(&format!("{kind} is served"), || async {
        of_kind(&version).list(&ListParams::default()).await
    })
    .await;
}

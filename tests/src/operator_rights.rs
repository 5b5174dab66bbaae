//! Takes rights of the operator's own account away.

use k8s_openapi::api::rbac::v1::{ClusterRole, Role};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::rbac::{RbacRight, granted};
use crate::world::{World, eventually};

/// Grants the operator all of them but `missing`, and waits until the API server applies it.
pub async fn grant_all_but(world: &World, missing: Option<&RbacRight>) {
    let rights = granted();
    let rules = |of_cluster: bool| -> Value {
        let held = rights.iter().filter(|right| Some(*right) != missing);
        held.filter(|right| right.namespace.is_none() == of_cluster).map(RbacRight::rule).collect()
    };
    let (name, namespace) = (weaver_api::OPERATOR_ACCOUNT, weaver_api::OPERATOR_NAMESPACE);
    let params = PatchParams::default();
    let client: &Client = &world.client;
    let cluster: Api<ClusterRole> = Api::all(client.clone());
    cluster.patch(name, &params, &Patch::Merge(json!({"rules": rules(true)}))).await.unwrap();
    let local: Api<Role> = Api::namespaced(client.clone(), namespace);
    local.patch(name, &params, &Patch::Merge(json!({"rules": rules(false)}))).await.unwrap();
    for right in &rights {
        let (wanted, what) = (Some(right) != missing, right.attributes(namespace));
        eventually(&format!("{right:?} is allowed: {wanted}"), || async {
            if world.may(namespace, name, &what).await == wanted { Ok(()) } else { Err(()) }
        })
        .await;
    }
}

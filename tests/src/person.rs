//! A person with a token of their own, who reaches the API server through a proxy.
//!
//! The administrator of the tests has a client certificate, which a plain HTTP proxy cannot hand on.

use std::path::{Path, PathBuf};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::Config;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::proxy::{Hooks, Proxy};
use crate::world::{World, given};

/// Starts a proxy to the shared server.
pub async fn proxy(hooks: Hooks) -> Proxy {
    let kubeconfig = Kubeconfig::read_from(given("WEAVER_TEST_KUBECONFIG")).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Proxy::start(&config, hooks).await
}

/// Writes the kubeconfig of somebody who may do everything in `namespace`, and comes through the proxy.
pub async fn kubeconfig(world: &World, namespace: &str, proxy: &Proxy, directory: &Path) -> PathBuf {
    let accounts: Api<ServiceAccount> = Api::namespaced(world.client.clone(), namespace);
    let mut account = ServiceAccount::default();
    account.metadata.generate_name = Some("person-".into());
    let account = accounts.create(&PostParams::default(), &account).await.unwrap();
    let name = account.metadata.name.unwrap();
    let binding: RoleBinding = serde_json::from_value(json!({
        "metadata": {"name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    }))
    .unwrap();
    let bindings: Api<RoleBinding> = Api::namespaced(world.client.clone(), namespace);
    bindings.create(&PostParams::default(), &binding).await.unwrap();
    let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
    let issued = accounts.create_token_request(&name, &PostParams::default(), &request).await.unwrap();
    let path = directory.join(format!("{name}.kubeconfig"));
    let kubeconfig: Value = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": format!("http://{}", proxy.address)}}],
        "users": [{"name": "a", "user": {"token": issued.status.unwrap().token}}],
    });
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}

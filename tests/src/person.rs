//! Users other than the administrator: one with a token of their own, who connects to the API server through a proxy,
//! since a plain HTTP proxy cannot pass on the administrator's client certificate; and one with a name and a group,
//! whom the administrator impersonates.

use std::path::{Path, PathBuf};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::proxy::{Hooks, Proxy};
use crate::world::{World, given};

/// Someone whom the cluster knows by name and by one group.
pub struct ClusterUser {
    /// The name, which no other user has.
    pub name: String,
    /// The group, with no other member.
    pub group: String,
    pub client: Client,
}

impl ClusterUser {
    /// Someone on the shared server who may do everything with objects of our kinds in `namespace`, and nothing else.
    pub async fn new(world: &World, namespace: &str, name: &str) -> Self {
        Self::by(&given("WEAVER_TEST_KUBECONFIG"), world, namespace, name).await
    }

    /// The same on the server of this administrator's kubeconfig.
    pub async fn by(administrator: &Path, world: &World, namespace: &str, name: &str) -> Self {
        let kubeconfig = Kubeconfig::read_from(administrator).unwrap();
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let (name, group) = (world.name(name), world.name(&format!("{name}s")));
        config.auth_info.impersonate = Some(name.clone());
        config.auth_info.impersonate_groups = Some(vec![group.clone()]);
        let person = Self { name, group, client: Client::try_from(config).unwrap() };
        let ours = json!([{"apiGroups": [weaver_api::GROUP], "resources": ["configmapsyncs", "resourcesyncs", "servicetokens"],
                           "verbs": ["*"]}]);
        person.granted(world, namespace, "ours", ours).await;
        person
    }

    /// Grants these rules in `namespace`, by a Role of this name.
    pub async fn granted(&self, world: &World, namespace: &str, role: &str, rules: Value) {
        world.apply_role(namespace, &format!("{}-{role}", self.name), rules, self.subjects("User")).await;
    }

    /// Grants the right to impersonate these accounts; replaces what was granted before.
    pub async fn may_impersonate(&self, world: &World, namespace: &str, accounts: &[&str]) {
        self.granted(world, namespace, "impersonate", impersonate(accounts)).await;
    }

    /// The same for everybody of the user's group.
    pub async fn group_may_impersonate(&self, world: &World, namespace: &str, accounts: &[&str]) {
        world.apply_role(namespace, &self.group, impersonate(accounts), self.subjects("Group")).await;
    }

    /// Binds this `ClusterRole` in `namespace`.
    pub async fn has_cluster_role(&self, world: &World, namespace: &str, role: &str) {
        let binding = json!({
            "metadata": {"name": format!("{}-{role}", self.name)}, "subjects": self.subjects("User"),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        });
        let bindings: Api<RoleBinding> = Api::namespaced(world.client.clone(), namespace);
        bindings.create(&PostParams::default(), &serde_json::from_value(binding).unwrap()).await.unwrap();
    }

    fn subjects(&self, kind: &str) -> Value {
        let name = if kind == "Group" { &self.group } else { &self.name };
        json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}])
    }
}

fn impersonate(accounts: &[&str]) -> Value {
    json!([{"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": accounts,
            "verbs": ["impersonate"]}])
}

/// What the policy on accounts says against a request; what else became of it is the error.
///
/// # Errors
/// It was not refused, or by someone else.
pub fn refusal<T>(answer: kube::Result<T>) -> Result<String, String> {
    refusal_by("weaver-accounts", answer)
}

/// The same of the policy of this name.
///
/// # Errors
/// As [`refusal`].
pub fn refusal_by<T>(policy: &str, answer: kube::Result<T>) -> Result<String, String> {
    let named = format!("ValidatingAdmissionPolicy '{policy}'");
    match answer {
        Err(kube::Error::Api(status)) if status.code == 403 && status.message.contains(&named) => {
            Ok(status.message.clone())
        }
        Err(error) => Err(error.to_string()),
        Ok(_) => Err("it was done".into()),
    }
}

/// Starts a proxy to the shared server.
pub async fn proxy(hooks: Hooks) -> Proxy {
    let kubeconfig = Kubeconfig::read_from(given("WEAVER_TEST_KUBECONFIG")).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Proxy::start(&config, hooks).await
}

/// Writes the kubeconfig of someone who may do everything in `namespace`, and comes through the proxy.
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
        "clusters": [{"name": "a", "cluster": proxy.cluster()}],
        "users": [{"name": "a", "user": {"token": issued.status.unwrap().token}}],
    });
    std::fs::write(&path, kubeconfig.to_string()).unwrap();
    path
}

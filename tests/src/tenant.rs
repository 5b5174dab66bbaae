//! A tenant: a namespace with an account that the operator may act as, and grants as their owners write them.

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

pub use crate::audit::ACCOUNT;
use crate::world::World;

const GROUP: &str = "rbac.authorization.k8s.io";

/// What a target grants: upstream's own role plus `watch`.
pub const TARGET: [&str; 6] = ["get", "list", "watch", "create", "update", "delete"];

impl World {
    /// A tenant namespace with an account, mintable, that may read `settings` of its own namespace.
    pub async fn tenant(&self) -> String {
        self.tenant_called("team").await
    }

    /// The same in a namespace of another name, for a second tenant.
    pub async fn tenant_called(&self, short: &str) -> String {
        let team = self.namespace(short).await;
        self.account(&team).await;
        self.allow_minting(&team).await;
        self.grant_source(&team, &team, "settings").await;
        team
    }

    /// A target namespace that grants the tenant what it needs.
    pub async fn target(&self, team: &str, short: &str) -> String {
        let namespace = self.namespace(short).await;
        self.grant(team, &namespace, &TARGET).await;
        namespace
    }

    /// The usual start: a tenant whose `settings` (`a: 1`) its ConfigMapSync `sync` has copied to `foo`. Returns
    /// the two namespaces.
    pub async fn synced(&self) -> (String, String) {
        let team = self.tenant().await;
        let foo = self.target(&team, "foo").await;
        self.config_map(&team, "settings", &[("a", "1")]).await;
        self.sync(&team, "sync", self.spec(&team, &[&foo])).await;
        self.holds(&foo, "settings", &[("a", "1")]).await;
        self.condition(&team, "sync", "Ready", "True", "Synced").await;
        (team, foo)
    }

    /// A tenant with every right, as whose account the operator may not act: its ConfigMapSync `sync` says so. Returns
    /// the two namespaces, and what it says.
    pub async fn without_minting(&self) -> (String, String, Condition) {
        let team = self.namespace("team").await;
        self.account(&team).await;
        self.grant_source(&team, &team, "settings").await;
        let foo = self.target(&team, "foo").await;
        self.config_map(&team, "settings", &[("a", "1")]).await;
        self.sync(&team, "sync", self.spec(&team, &[&foo])).await;
        let authorized = self.condition(&team, "sync", "Authorized", "False", "MintingForbidden").await;
        (team, foo, authorized)
    }

    /// The usual spec: `settings` of the tenant's namespace to `targets`.
    pub fn spec(&self, team: &str, targets: &[&str]) -> Value {
        json!({
            "serviceAccount": {"name": ACCOUNT},
            "source": {"name": "settings", "namespace": team},
            "targets": {"namespaces": targets},
        })
    }

    /// The same at v1alpha1.
    pub fn old_spec(&self, team: &str, targets: &[&str]) -> Value {
        json!({
            "serviceAccount": {"name": ACCOUNT},
            "source": {"name": "settings", "namespace": team},
            "syncToNamespaces": targets,
        })
    }

    /// Creates the tenant's account.
    pub async fn account(&self, team: &str) {
        let mut account = ServiceAccount::default();
        account.metadata.name = Some(ACCOUNT.into());
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), team);
        accounts.create(&PostParams::default(), &account).await.unwrap();
        self.is_tenant(team);
    }

    /// The operator acts as accounts of this namespace, however they were made.
    pub fn is_tenant(&self, team: &str) {
        self.tenants.lock().unwrap().push(team.to_owned());
    }

    /// Deletes the tenant's account.
    pub async fn delete_account(&self, team: &str) {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), team);
        accounts.delete(ACCOUNT, &DeleteParams::default()).await.unwrap();
    }

    /// Lets the operator act as the tenant's account.
    pub async fn allow_minting(&self, team: &str) {
        let (role, binding) = weaver_api::minting::grant(team, ACCOUNT);
        let (role, binding) = (json!(role), json!(binding));
        self.apply_role(team, "mint", role["rules"].clone(), binding["subjects"].clone()).await;
    }

    /// Grants the tenant `get, list, watch` on one `ConfigMap`.
    pub async fn grant_source(&self, team: &str, namespace: &str, name: &str) {
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name],
                            "verbs": ["get", "list", "watch"]}]);
        self.apply_role(namespace, &format!("source-{name}"), rules, subjects(team)).await;
    }

    /// Grants the tenant `verbs` on all `ConfigMap`s of `namespace`; replaces what was granted before.
    pub async fn grant(&self, team: &str, namespace: &str, verbs: &[&str]) {
        self.grant_as(team, namespace, "target", verbs).await;
    }

    /// The same by a Role of another name, for a second tenant.
    pub async fn grant_as(&self, team: &str, namespace: &str, role: &str, verbs: &[&str]) {
        self.grant_rules(team, namespace, role, rules("configmaps", verbs)).await;
    }

    /// Grants the tenant what these `rules` of a Role say; replaces what was granted before.
    pub async fn grant_rules(&self, team: &str, namespace: &str, role: &str, rules: Value) {
        self.apply_role(namespace, role, rules, subjects(team)).await;
    }

    /// Grants `verbs` on all `ConfigMap`s of `namespace` to these subjects.
    pub async fn grant_to(&self, namespace: &str, subjects: Value, verbs: &[&str]) {
        let rules = rules("configmaps", verbs);
        self.apply_role(namespace, "target", rules, subjects).await;
    }

    /// Grants the tenant `verbs` on all `Secret`s of `namespace`; replaces what was granted before.
    pub async fn grant_secrets(&self, team: &str, namespace: &str, verbs: &[&str]) {
        let rules = rules("secrets", verbs);
        self.apply_role(namespace, "secrets", rules, subjects(team)).await;
    }

    /// Grants the tenant `verbs` on all `ConfigMap`s of all namespaces, until the world ends or it is taken back.
    pub async fn grant_everywhere(&self, team: &str, verbs: &[&str]) {
        let name = format!("{team}-everywhere");
        let role = json!({"metadata": {"name": name}, "rules": rules("configmaps", verbs)});
        let binding = json!({
            "metadata": {"name": name}, "subjects": subjects(team),
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        });
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        let bindings: Api<ClusterRoleBinding> = Api::all(self.client.clone());
        let params = PostParams::default();
        roles.create(&params, &serde_json::from_value(role).unwrap()).await.unwrap();
        bindings.create(&params, &serde_json::from_value(binding).unwrap()).await.unwrap();
        self.cluster_roles.lock().unwrap().push(name);
    }

    /// Takes back what [`World::grant_everywhere`] gave.
    pub async fn revoke_everywhere(&self) {
        let names = std::mem::take(&mut *self.cluster_roles.lock().unwrap());
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        let bindings: Api<ClusterRoleBinding> = Api::all(self.client.clone());
        for name in names {
            bindings.delete(&name, &DeleteParams::default()).await.unwrap();
            roles.delete(&name, &DeleteParams::default()).await.unwrap();
        }
    }

    /// Names of the `RoleBinding`s in `namespace` that `weaver` makes to grant copies. It makes them at once,
    /// long before the operator could write a copy by them.
    pub async fn granted(&self, namespace: &str) -> Vec<String> {
        let bindings: Api<RoleBinding> = Api::namespaced(self.client.clone(), namespace);
        let found = bindings.list(&ListParams::default()).await.unwrap();
        let names = found.items.into_iter().filter_map(|binding| binding.metadata.name);
        names.filter(|name| name.starts_with("weaver:")).collect()
    }

    /// Takes back what [`World::grant`] gave.
    pub async fn revoke(&self, namespace: &str) {
        let bindings: Api<RoleBinding> = Api::namespaced(self.client.clone(), namespace);
        bindings.delete("target", &DeleteParams::default()).await.unwrap();
    }

    /// The same as [`may`], of this world's server.
    pub async fn may(&self, namespace: &str, account: &str, what: &Value) -> bool {
        may(&self.client, namespace, account, what).await
    }

    /// Applies every document of `yaml`, as a user does with what a message printed.
    pub async fn apply_printed(&self, yaml: &str) {
        for document in yaml.split("\n---\n").map(str::trim).filter(|document| !document.is_empty()) {
            let object: Value = serde_saphyr::from_str(document).unwrap();
            let namespace = object["metadata"]["namespace"].as_str().unwrap();
            let name = object["metadata"]["name"].as_str().unwrap();
            match object["kind"].as_str().unwrap() {
                "Role" => self.apply::<Role>(namespace, name, &object).await,
                "RoleBinding" => self.apply::<RoleBinding>(namespace, name, &object).await,
                other => panic!("a message printed a {other}"),
            }
        }
    }

    pub async fn apply_role(&self, namespace: &str, name: &str, rules: Value, subjects: Value) {
        let metadata = json!({"name": name, "namespace": namespace});
        let role = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Role", "metadata": metadata, "rules": rules});
        let binding = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "RoleBinding", "metadata": metadata, "subjects": subjects,
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": name},
        });
        self.apply::<Role>(namespace, name, &role).await;
        self.apply::<RoleBinding>(namespace, name, &binding).await;
    }

    async fn apply<K>(&self, namespace: &str, name: &str, object: &Value)
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        api.patch(name, &PatchParams::apply("a-person").force(), &Patch::Apply(object)).await.unwrap();
    }
}

fn rules(resource: &str, verbs: &[&str]) -> Value {
    json!([{"apiGroups": [""], "resources": [resource], "verbs": verbs}])
}

pub(crate) fn subjects(team: &str) -> Value {
    json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": team}])
}

/// Does the API server allow that account `what`, given as a review's `resourceAttributes`?
pub async fn may(client: &Client, namespace: &str, account: &str, what: &Value) -> bool {
    let review: SubjectAccessReview = serde_json::from_value(json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
        "spec": {
            "user": format!("system:serviceaccount:{namespace}:{account}"),
            "groups": ["system:serviceaccounts", "system:authenticated"],
            "resourceAttributes": what,
        },
    }))
    .unwrap();
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap().allowed
}

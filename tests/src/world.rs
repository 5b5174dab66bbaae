//! A world of one test: its namespaces, and what it sees in them as the cluster's administrator.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use futures::{StreamExt as _, stream};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use weaver_api::v1alpha1;
use weaver_api::v1beta1::ConfigMapSync;

use crate::audit::{self, Audit};
pub use crate::poll::{SOON, eventually, eventually_within, given};

/// Label of a world's namespaces.
const WORLD: &str = "tests.weaver.example.com/world";

pub struct World {
    pub client: Client,
    prefix: String,
    namespaces: Mutex<Vec<String>>,
    pub(crate) tenants: Mutex<Vec<String>>,
    pub(crate) cluster_roles: Mutex<Vec<String>>,
    /// What the API server saw since this world began.
    pub audit: Audit,
    programs: Vec<(PathBuf, u64)>,
    /// Is the server that of other tests too?
    is_shared: bool,
}

/// What a world's promises are checked against at its end.
pub struct Logs {
    pub audit: Audit,
    /// Logs of the operator and anyone who starts it, each with the byte from which it is looked at.
    pub programs: Vec<(PathBuf, u64)>,
}

/// Runs `weaver` as the administrator of the shared server: did it end well, and what it said.
pub fn weaver(arguments: &[&str]) -> (bool, String) {
    let done = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver"))
        .args(arguments)
        .env("KUBECONFIG", given("WEAVER_TEST_KUBECONFIG"))
        .output()
        .unwrap();
    let said = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8(said).unwrap())
}

/// A client for a kubeconfig, with the process' TLS provider installed.
pub async fn client_of(kubeconfig: &Path) -> Client {
    // A second test of one process finds it installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("the kubeconfig is readable");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

impl World {
    /// A world on the shared stack; `name` is that of the test.
    pub async fn new(name: &str) -> Self {
        let programs = ["WEAVER_TEST_OPERATOR_LOG", "WEAVER_TEST_AGENT_LOG"].map(given);
        let logs = Logs {
            audit: Audit::from_now(given("WEAVER_TEST_AUDIT_LOG")),
            programs: programs.into_iter().map(|log| (log.clone(), audit::length(&log))).collect(),
        };
        let world = Self::on(client_of(&given("WEAVER_TEST_KUBECONFIG")).await, name, logs);
        Self { is_shared: true, ..world }
    }

    /// A world on a server of the test's own.
    pub fn on(client: Client, name: &str, logs: Logs) -> Self {
        let unique = RandomState::new().hash_one(name) >> 32;
        let short: String = name.chars().take(30).collect();
        Self {
            client,
            prefix: format!("{short}-{unique:08x}"),
            namespaces: Mutex::default(),
            tenants: Mutex::default(),
            cluster_roles: Mutex::default(),
            audit: logs.audit,
            programs: logs.programs,
            is_shared: false,
        }
    }

    /// The full name of a namespace of this world, which need not exist.
    pub fn name(&self, short: &str) -> String {
        format!("{}-{short}", self.prefix)
    }

    /// Creates a namespace of this world, which [`World::selector`] selects.
    pub async fn namespace(&self, short: &str) -> String {
        let name = self.name(short);
        let labels = [(WORLD.to_owned(), self.prefix.clone())].into();
        let namespace = Namespace {
            metadata: ObjectMeta { name: Some(name.clone()), labels: Some(labels), ..ObjectMeta::default() },
            ..Namespace::default()
        };
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        self.namespaces.lock().unwrap().push(name.clone());
        name
    }

    /// Creates that many, in order of their names.
    pub async fn namespaces(&self, short: &str, count: usize) -> Vec<String> {
        let made =
            (0..count).map(|number| async move { self.namespace(&format!("{short}-{number:04}")).await });
        let made: Vec<_> = made.collect();
        stream::iter(made).buffered(16).collect().await
    }

    /// A selector of all namespaces of this world, and of no other.
    pub fn selector(&self) -> Value {
        serde_json::json!({"matchLabels": {WORLD: self.prefix}})
    }

    /// Changes labels or annotations of a namespace, by a merge patch of its metadata.
    pub async fn mark_namespace(&self, name: &str, metadata: Value) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let patch = serde_json::json!({"metadata": metadata});
        namespaces.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// The `ConfigMap`s of a namespace.
    pub fn config_maps(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The `Secret`s of a namespace.
    pub fn secrets(&self, namespace: &str) -> Api<Secret> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The `ConfigMapSync`s of a namespace.
    pub fn syncs(&self, namespace: &str) -> Api<ConfigMapSync> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The same at the deprecated version.
    pub fn old_syncs(&self, namespace: &str) -> Api<v1alpha1::ConfigMapSync> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Creates or changes a `ConfigMap` as its owner would: with `kubectl apply`'s means.
    pub async fn config_map(&self, namespace: &str, name: &str, data: &[(&str, &str)]) -> ConfigMap {
        let map = ConfigMap {
            metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
            data: Some(data_of(data)),
            ..ConfigMap::default()
        };
        let params = PatchParams::apply("a-person").force();
        self.config_maps(namespace).patch(name, &params, &Patch::Apply(&map)).await.unwrap()
    }

    /// Creates a `Secret` of this type.
    pub async fn secret(&self, namespace: &str, name: &str, kind: &str, data: &[(&str, &[u8])]) -> Secret {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), ByteString(value.to_vec())));
        let secret = Secret {
            metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
            type_: Some(kind.into()),
            data: Some(data.collect()),
            ..Secret::default()
        };
        self.secrets(namespace).create(&PostParams::default(), &secret).await.unwrap()
    }

    /// Waits until `namespace` has a `Secret` with type and data of this one.
    pub async fn holds_secret(&self, namespace: &str, name: &str, like: &Secret) {
        let secrets = self.secrets(namespace);
        eventually(&format!("{namespace}/{name} holds a Secret of type {:?}", like.type_), || async {
            let found = secrets.get_opt(name).await.unwrap();
            let equal =
                found.as_ref().is_some_and(|found| found.type_ == like.type_ && found.data == like.data);
            if equal { Ok(()) } else { Err(found.map(|found| found.type_)) }
        })
        .await;
    }

    /// Creates or changes a `ConfigMapSync` from its spec.
    pub async fn sync(&self, namespace: &str, name: &str, spec: Value) -> ConfigMapSync {
        let object = serde_json::json!({
            "apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync",
            "metadata": {"name": name, "namespace": namespace}, "spec": spec,
        });
        let params = PatchParams::apply("a-person").force();
        self.syncs(namespace).patch(name, &params, &Patch::Apply(&object)).await.unwrap()
    }

    /// The same as users of the upstream operator write it: at v1alpha1, which refuses next to nothing.
    pub async fn old_sync(&self, namespace: &str, name: &str, spec: Value) -> v1alpha1::ConfigMapSync {
        let object = serde_json::json!({
            "apiVersion": "weaver.example.com/v1alpha1", "kind": "ConfigMapSync",
            "metadata": {"name": name, "namespace": namespace}, "spec": spec,
        });
        let params = PatchParams::apply("a-person").force();
        self.old_syncs(namespace).patch(name, &params, &Patch::Apply(&object)).await.unwrap()
    }

    /// Waits until `namespace` has a `ConfigMap` with exactly this data.
    pub async fn holds(&self, namespace: &str, name: &str, data: &[(&str, &str)]) -> ConfigMap {
        let maps = self.config_maps(namespace);
        eventually(&format!("{namespace}/{name} holds {data:?}"), || async {
            match maps.get_opt(name).await.unwrap() {
                Some(found) if found.data == Some(data_of(data)) => Ok(found),
                other => Err(other.map(|found| found.data)),
            }
        })
        .await
    }

    /// Waits until `namespace` has no such `ConfigMap`.
    pub async fn lacks(&self, namespace: &str, name: &str) {
        let maps = self.config_maps(namespace);
        eventually(&format!("{namespace}/{name} is gone"), || async {
            maps.get_opt(name).await.unwrap().map_or(Ok(()), Err)
        })
        .await;
    }

    /// Waits until the condition `kind` of a sync is `status` for `reason`, judged on its current generation.
    pub async fn condition(
        &self,
        namespace: &str,
        name: &str,
        kind: &str,
        status: &str,
        reason: &str,
    ) -> Condition {
        let syncs = self.syncs(namespace);
        eventually(&format!("{namespace}/{name} has {kind}={status} ({reason})"), || async {
            let sync = syncs.get(name).await.unwrap();
            let conditions = sync.status.unwrap_or_default().conditions;
            let found = conditions.iter().find(|condition| {
                condition.type_ == kind
                    && condition.status == status
                    && condition.reason == reason
                    && condition.observed_generation == sync.metadata.generation
            });
            found.cloned().ok_or(conditions)
        })
        .await
    }

    /// Deletes a sync and waits until it is gone.
    pub async fn delete_sync(&self, namespace: &str, name: &str) {
        let syncs = self.syncs(namespace);
        syncs.delete(name, &DeleteParams::default()).await.unwrap();
        eventually(&format!("ConfigMapSync {namespace}/{name} is gone"), || async {
            syncs.get_opt(name).await.unwrap().map_or(Ok(()), |sync| Err(sync.metadata.finalizers))
        })
        .await;
    }

    /// Ends the test: what the audit log and the programs' logs must say of every world is checked here, then
    /// the namespaces are deleted, which takes a hundred requests each. A server of the test's own ends with it.
    pub async fn finish(self) {
        let names = self.namespaces.lock().unwrap().clone();
        let tenants = self.tenants.lock().unwrap().clone();
        audit::check(&self.audit, &names, &tenants).await;
        for (log, start) in &self.programs {
            audit::holds_no_token(log, *start);
        }
        if !self.is_shared {
            return;
        }
        self.revoke_everywhere().await;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        for name in &names {
            // Some tests have deleted theirs already.
            let _ = namespaces.delete(name, &DeleteParams::default()).await;
        }
    }
}

fn data_of(data: &[(&str, &str)]) -> BTreeMap<String, String> {
    data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

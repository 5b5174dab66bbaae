//! What is measured on: an API server of its own, a thousand namespaces, tenants, and the operator's credentials.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, stream};
use kube::config::KubeConfigOptions;
use kube::{Client, Config};
use serde_json::{Value, json};
use weaver_devstack::server::{ServerBinary, ServerOptions};
use weaver_tests::own::Own;
use weaver_tests::tenant::{ACCOUNT, TARGET};
use weaver_tests::world::World;

use crate::operator::Operator;

/// Things done at once while preparing.
const AT_ONCE: usize = 16;

/// The bed.
pub struct Bed {
    own: Own,
    program: PathBuf,
    kubeconfig: PathBuf,
    /// The administrator's view.
    pub world: World,
    /// The administrator.
    pub client: Client,
    /// Namespaces to copy into.
    pub pool: Vec<String>,
    /// A tenant whose account may write `ConfigMap`s in all namespaces.
    pub team: String,
}

impl Bed {
    /// Starts the server and makes `size` namespaces and the tenant.
    pub async fn start(source: &Path, bin_dir: &Path, size: usize) -> Result<Self> {
        let binary = ServerBinary::choose(source)?;
        eprintln!("API server: {}", binary.version()?);
        let own = Own::start_with(&binary, bin_dir, |options: ServerOptions| options).await;
        own.install().await.context("installing our kinds")?;
        own.apply("deploy/rbac/operator.yaml");
        let client = own.client.clone();
        let world = World::on(client.clone(), "bench", own.logs());
        let kubeconfig = own.dir().join("operator.kubeconfig");
        let url = format!("https://127.0.0.1:{}", own.server.port());
        let text = json!(own.operator_kubeconfig(&url).await).to_string();
        std::fs::write(&kubeconfig, text).context("writing the operator's kubeconfig")?;

        eprintln!("making {size} namespaces");
        let pool = world.namespaces("pool", size).await;
        let team = world.tenant().await;
        world.grant_everywhere(&team, &TARGET).await;
        Ok(Self { own, program: bin_dir.join("weaver-operator"), kubeconfig, world, client, pool, team })
    }

    /// Starts an operator with its defaults and these flags.
    pub fn operator(&self, flags: &[&str]) -> Result<Operator> {
        Operator::start(&self.program, &self.kubeconfig, self.own.server.port(), flags)
    }

    /// A client that acts as the tenant's account.
    pub async fn as_tenant(&self) -> Result<Client> {
        let kubeconfig = self.own.kubeconfig_of(&self.team, ACCOUNT).await;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        config.default_retry = false;
        Client::try_from(config).context("a client for the tenant's account")
    }

    /// Makes `name` in the tenant's namespace: a source of 1 KiB, and a resource that copies it to `targets`.
    pub async fn sync(&self, name: &str, targets: &Value) {
        self.write_source(name, "first").await;
        self.world.sync(&self.team, name, spec(&self.team, name, targets)).await;
    }

    /// Writes the source `name`.
    pub async fn write_source(&self, name: &str, value: &str) {
        self.world.config_map(&self.team, name, &[("settings", &padded(value))]).await;
    }

    /// Deletes these resources, and waits until their copies are gone with them.
    pub async fn delete(&self, resources: &[(String, String)]) {
        let deleted = resources.iter().map(|(namespace, name)| self.world.delete_sync(namespace, name));
        let deleted: Vec<_> = deleted.collect();
        stream::iter(deleted).buffer_unordered(AT_ONCE).collect::<()>().await;
    }

    /// `count` resources of the one tenant, each with copies in `targets` namespaces of the pool.
    pub async fn of_one_tenant(&self, count: usize, targets: usize) -> Vec<(String, String)> {
        let names: Vec<String> = (0..count).map(|number| format!("load-{number:04}")).collect();
        let made = names.iter().enumerate().map(|(number, name)| async move {
            let from = number * targets % self.pool.len();
            self.sync(name, &json!({"namespaces": &self.pool[from..from + targets]})).await;
        });
        let made: Vec<_> = made.collect();
        stream::iter(made).buffer_unordered(AT_ONCE).collect::<()>().await;
        names.into_iter().map(|name| (self.team.clone(), name)).collect()
    }

    /// `count` tenants, each with a resource that copies to ten namespaces, in which a Role of their own lets them.
    pub async fn of_many_tenants(&self, count: usize) -> Vec<(String, String)> {
        let made = (0..count).map(|number| async move {
            let (world, targets) = (&self.world, &self.pool[number * 10..number * 10 + 10]);
            let team = world.namespace(&format!("team-{number:03}")).await;
            world.account(&team).await;
            world.allow_minting(&team).await;
            world.grant_source(&team, &team, "settings").await;
            for target in targets {
                world.grant(&team, target, &TARGET).await;
            }
            world.config_map(&team, "settings", &[("settings", &padded("first"))]).await;
            world.sync(&team, "load", spec(&team, "settings", &json!({"namespaces": targets}))).await;
            (team, "load".to_owned())
        });
        let made: Vec<_> = made.collect();
        stream::iter(made).buffer_unordered(AT_ONCE).collect().await
    }

    /// `count` `ConfigMap`s of 16 KiB that are nobody's concern.
    pub async fn ballast(&self, count: usize) {
        let (namespace, value) = (self.world.namespace("ballast").await, "x".repeat(16 * 1_024));
        let made = (0..count).map(|number| {
            let (namespace, value, world) = (&namespace, &value, &self.world);
            async move { world.config_map(namespace, &format!("ballast-{number}"), &[("a", value)]).await }
        });
        let made: Vec<_> = made.collect();
        stream::iter(made).buffer_unordered(AT_ONCE).map(drop).collect::<()>().await;
    }
}

/// The spec of a resource that copies `source` of `team`.
pub fn spec(team: &str, source: &str, targets: &Value) -> Value {
    json!({
        "serviceAccount": {"name": ACCOUNT},
        "source": {"name": source, "namespace": team},
        "targets": targets,
    })
}

/// 1 KiB that begins with `value`.
pub fn padded(value: &str) -> String {
    format!("{value:.<1024}")
}

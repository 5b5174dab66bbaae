//! What is measured on: an API server of its own, a thousand namespaces, tenants, and the operator's credentials.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, stream};
use kube::config::KubeConfigOptions;
use kube::{Client, Config};
use serde_json::{Value, json};
use weaver_devstack::server::{Server, ServerBinary, ServerOptions};
use weaver_tests::own::OwnServer;
use weaver_tests::tenant::{ACCOUNT, TARGET};
use weaver_tests::world::World;

use crate::agent::AgentPaths;
use crate::operator::MeasuredOperator;

/// Things done at once while preparing.
const AT_ONCE: usize = 16;
/// As many namespaces as a spec may name; more are asked for by a pattern of all.
const NAMED: usize = 1_000;
/// Bytes of a source, where nothing else is said.
pub const SMALL: usize = 1_024;
/// The source that each of many tenants has.
const OF_OTHERS: &str = "settings";

pub struct Bed {
    own: OwnServer,
    program: PathBuf,
    kubeconfig: PathBuf,
    pub world: World,
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
        let own = OwnServer::start_with(&binary, bin_dir, |options: ServerOptions| {
            options.tls_sans(["bench.example"])
        })
        .await;
        own.install().await.context("installing our kinds")?;
        own.apply("deploy/rbac/operator.yaml").await;
        let world = World::on(own.client.clone(), "bench", own.logs());
        let kubeconfig = own.dir().join("operator.kubeconfig");
        let way = own.cluster_at(([127, 0, 0, 1], own.server.port()).into());
        let text = json!(own.operator_kubeconfig(way).await).to_string();
        std::fs::write(&kubeconfig, text).context("writing the operator's kubeconfig")?;

        eprintln!("making {size} namespaces");
        let pool = world.namespaces("pool", size).await;
        let team = world.tenant().await;
        world.grant_everywhere(&team, &TARGET).await;
        Ok(Self { own, program: bin_dir.join("weaver-operator"), kubeconfig, world, pool, team })
    }

    pub fn server(&self) -> &Server {
        &self.own.server
    }

    /// Where an agent is to look.
    pub fn agent_paths(&self) -> AgentPaths {
        let url = self.own.webhook.address().url;
        let webhook = url.trim_start_matches("https://").trim_end_matches("/convert");
        AgentPaths {
            program: self.program.with_file_name("weaver-node-agent"),
            dir: self.own.dir().to_owned(),
            webhook: webhook.to_owned(),
            certificates: self.own.dir().join("webhook"),
        }
    }

    /// Starts an operator with its defaults and these flags.
    pub fn operator(&self, flags: &[&str]) -> Result<MeasuredOperator> {
        MeasuredOperator::start(&self.program, &self.kubeconfig, self.own.server.port(), flags)
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
        self.sync_of(name, targets, SMALL).await;
    }

    /// The same, with a source of so many bytes.
    pub async fn sync_of(&self, name: &str, targets: &Value, bytes: usize) {
        self.write_source(name, &padded("first", bytes)).await;
        self.resource(&self.team, name, name, targets).await;
    }

    /// Makes the resource `name` of `team`, which copies `source` to `targets`.
    async fn resource(&self, team: &str, name: &str, source: &str, targets: &Value) {
        let mut spec = self.world.spec(team, &[]);
        spec["source"]["name"] = json!(source);
        spec["targets"] = targets.clone();
        self.world.sync(team, name, spec).await;
    }

    /// The namespaces of the resource of this number, each with `size` of them, as often as the pool has them.
    pub fn targets(&self, number: usize, size: usize) -> &[String] {
        let from = number * size % self.pool.len();
        &self.pool[from..from + size]
    }

    /// The `targets` of a sync that copies to so many namespaces.
    pub fn first(&self, targets: usize) -> Value {
        if targets > NAMED {
            return json!({"patterns": [self.world.name("pool-*")]});
        }
        json!({"namespaces": self.pool[..targets]})
    }

    /// Writes the source `name`.
    pub async fn write_source(&self, name: &str, content: &str) {
        self.world.config_map(&self.team, name, &[("settings", content)]).await;
    }

    /// Writes several sources with 1 KiB that begins with `value`.
    pub async fn write_sources(&self, names: impl Iterator<Item = String>, value: &str) {
        let content = &padded(value, SMALL);
        at_once(names.map(|name| async move { self.write_source(&name, content).await })).await;
    }

    /// What the resource copies.
    pub fn source_of(&self, (namespace, name): &(String, String)) -> String {
        if *namespace == self.team { name.clone() } else { OF_OTHERS.to_owned() }
    }

    /// Deletes these resources, and waits until their copies are gone with them.
    pub async fn delete(&self, resources: &[(String, String)]) {
        at_once(resources.iter().map(|(namespace, name)| self.world.delete_sync(namespace, name))).await;
    }

    /// `count` resources of the one tenant, each with copies in `targets` namespaces of the pool.
    pub async fn of_one_tenant(&self, count: usize, targets: usize) -> Vec<(String, String)> {
        let made = (0..count).map(|number| async move {
            let name = format!("load-{number:04}");
            self.sync(&name, &json!({"namespaces": self.targets(number, targets)})).await;
            (self.team.clone(), name)
        });
        at_once(made).await
    }

    /// `count` tenants, each with a resource that copies to `targets` namespaces, in which a Role of their own lets them.
    pub async fn of_many_tenants(&self, count: usize, targets: usize) -> Vec<(String, String)> {
        let made = (0..count).map(|number| async move {
            let (world, targets) = (&self.world, self.targets(number, targets));
            let team = world.tenant_called(&format!("team-{count}-{number:04}")).await;
            for target in targets {
                world.grant(&team, target, &TARGET).await;
            }
            world.config_map(&team, OF_OTHERS, &[("settings", &padded("first", SMALL))]).await;
            self.resource(&team, "load", OF_OTHERS, &json!({"namespaces": targets})).await;
            (team, "load".to_owned())
        });
        at_once(made).await
    }

    /// `count` `ConfigMap`s of 16 KiB that no sync uses.
    pub async fn ballast(&self, count: usize) {
        let (namespace, value) = (self.world.namespace("ballast").await, "x".repeat(16 * 1_024));
        let made = (0..count).map(|number| {
            let (namespace, value, world) = (&namespace, &value, &self.world);
            async move {
                world.config_map(namespace, &format!("ballast-{number}"), &[("a", value)]).await;
            }
        });
        at_once(made).await;
    }
}

/// Does these, a few at once; what comes of them is in their order.
async fn at_once<T>(jobs: impl Iterator<Item: Future<Output = T>>) -> Vec<T> {
    // A stream that borrows the iterator's closure would not be Send.
    let jobs: Vec<_> = jobs.collect();
    stream::iter(jobs).buffered(AT_ONCE).collect().await
}

/// So many bytes that begin with `value`.
pub fn padded(value: &str, bytes: usize) -> String {
    format!("{value}{}", ".".repeat(bytes.saturating_sub(value.len())))
}

//! A server and an operator of a test's own, for what would disturb others.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use kube::config::{Cluster, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::metrics::{ReportedMetrics, health};
use crate::own::OwnServer;
use crate::proxy::{Hooks, Proxy};
use crate::tenant::may;
use crate::wire::Link;
use crate::world::{World, eventually};

/// A disposable server with our definitions and RBAC, and an operator that connects to it directly, through a proxy or
/// over a wire.
pub struct OwnOperator {
    /// Before the server, in whose directory its log is.
    pub operator: OperatorProcess,
    /// The server, not through the proxy.
    pub own: OwnServer,
    _proxy: Option<Proxy>,
}

/// Lines of its log that are shown where a test fails.
const SHOWN: usize = 60;

/// A running operator; killed when dropped.
pub struct OperatorProcess {
    child: Child,
    log: PathBuf,
    flags: Vec<String>,
}

impl OperatorProcess {
    /// Starts the server's program on the kubeconfig `name` of its directory, with seconds where a user has minutes.
    fn start(own: &OwnServer, name: &str, flags: Vec<String>) -> Self {
        let mut command = Command::new(own.programs.operator().unwrap());
        command
            .args(["run", "--metrics", "127.0.0.1:0"])
            .args(&flags)
            // A flag says otherwise.
            .envs([("WEAVER_RETRY", "2"), ("WEAVER_CLEANUP_PATIENCE", "5")])
            .arg("--kubeconfig")
            .arg(own.dir().join(format!("{name}.kubeconfig")));
        Self::begin(command, own.dir().join(format!("{name}.log")), flags)
    }

    /// Starts the server's program with these arguments and these variables, and no others, as a container would.
    pub fn contained(
        own: &OwnServer,
        name: &str,
        arguments: &[String],
        variables: &[(String, String)],
    ) -> Self {
        let mut command = Command::new(own.programs.operator().unwrap());
        command.args(arguments).env_clear().envs(variables.iter().cloned());
        Self::begin(command, own.dir().join(format!("{name}.log")), Vec::new())
    }

    /// The same, with the files that a kubelet mounts for an account; these lie in `account`. They are in their
    /// place in a mount namespace of this process only.
    pub fn in_a_pod(
        own: &OwnServer,
        name: &str,
        arguments: &[String],
        variables: &[(String, String)],
        account: &Path,
    ) -> Self {
        const MOUNTED: &str = "mount -t tmpfs none /var/run && mkdir -p /var/run/secrets/kubernetes.io && \
                               cp -r \"$0\" /var/run/secrets/kubernetes.io/serviceaccount && exec \"$@\"";
        let mut command = Command::new("unshare");
        command
            .args(["--map-root-user", "--mount", "sh", "-c", MOUNTED])
            .args([account, &own.programs.operator().unwrap()])
            .args(arguments)
            .env_clear()
            // As container runtimes have it for a user who has none: no kubeconfig is found there.
            .envs([("HOME", "/"), ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")])
            .envs(variables.iter().cloned());
        Self::begin(command, own.dir().join(format!("{name}.log")), Vec::new())
    }

    fn begin(mut command: Command, log: PathBuf, flags: Vec<String>) -> Self {
        let output = File::options().create(true).append(true).open(&log).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output).spawn().unwrap();
        Self { child, log, flags }
    }

    /// Ends it as a power cut would.
    pub fn kill(&mut self) {
        // It may have ended by itself; there is nothing to be done about a failure here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has ended by itself, or by a signal.
    pub async fn ends(&mut self) {
        eventually("the operator has ended", || {
            std::future::ready(if self.has_ended() { Ok(()) } else { Err(self.log()) })
        })
        .await;
    }

    /// Waits until it has ended by itself, with this status.
    pub async fn ends_with(&mut self, code: i32) {
        self.ends().await;
        let status = self.child.wait().unwrap();
        assert_eq!(status.code(), Some(code), "{}", self.log());
    }

    /// Is it not running any more?
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub async fn metrics(&self) -> ReportedMetrics {
        ReportedMetrics::scrape(&self.log).await
    }

    /// What it says of its health at this path, and whether that is good.
    pub async fn health(&self, path: &str) -> (bool, Value) {
        health(&self.log, path).await
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for OperatorProcess {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            // With the server, its directory is deleted.
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            eprintln!("the end of {}:", self.log.display());
            for line in log.lines().skip(log.lines().count().saturating_sub(SHOWN)) {
                eprintln!("{line}");
            }
        }
    }
}

impl OwnOperator {
    /// Starts everything, with these flags of the operator. A proxy that does nothing would take as much of a processor
    /// as the operator does.
    pub async fn direct(flags: &[&str]) -> Self {
        Self::direct_on(installed().await, flags).await
    }

    /// The same on a server where the definitions are installed already.
    pub async fn direct_on(own: OwnServer, flags: &[&str]) -> Self {
        Self::by(direct_way(&own), own, flags, None).await
    }

    /// Starts everything; each request of the operator passes `hook` first.
    pub async fn start<H: Into<Hooks>>(hook: impl FnOnce(Client) -> H) -> Self {
        Self::start_with(hook, &[]).await
    }

    /// The same with these flags of the operator.
    pub async fn start_with<H: Into<Hooks>>(hook: impl FnOnce(Client) -> H, flags: &[&str]) -> Self {
        Self::on(installed().await, hook, flags).await
    }

    /// An operator on a server where the definitions are installed already.
    pub async fn on<H: Into<Hooks>>(own: OwnServer, hook: impl FnOnce(Client) -> H, flags: &[&str]) -> Self {
        let config = Config::from_custom_kubeconfig(
            Kubeconfig::read_from(own.server.kubeconfig()).unwrap(),
            &KubeConfigOptions::default(),
        )
        .await
        .unwrap();
        let proxy = Proxy::start(&config, hook(own.client.clone()).into()).await;
        Self::by(proxy.cluster(), own, flags, Some(proxy)).await
    }

    /// Starts everything, with an operator that connects to the server, TLS included, over a wire.
    pub async fn behind_wire(flags: &[&str]) -> (Self, Link) {
        let own = installed().await;
        let wire = Link::start(own.server.port()).await;
        (Self::by(own.cluster_at(wire.address), own, flags, None).await, wire)
    }

    async fn by(way: Cluster, own: OwnServer, flags: &[&str], proxy: Option<Proxy>) -> Self {
        own.apply("deploy/rbac/operator.yaml").await;
        begins_with_its_rights(&own.client).await;
        let kubeconfig = json!(own.operator_kubeconfig(way).await).to_string();
        std::fs::write(own.dir().join("operator.kubeconfig"), kubeconfig).unwrap();
        let operator = OperatorProcess::start(&own, "operator", owned(flags));
        Self { operator, own, _proxy: proxy }
    }

    /// Starts the operator again after [`OperatorProcess::kill`].
    pub fn restart_operator(&mut self) {
        self.operator = OperatorProcess::start(&self.own, "operator", self.operator.flags.clone());
    }

    /// Starts another operator next to the first, which connects to the server directly, not through the proxy.
    pub async fn another_operator(&self, name: &str, flags: &[&str]) -> OperatorProcess {
        let kubeconfig = json!(self.own.operator_kubeconfig(direct_way(&self.own)).await).to_string();
        std::fs::write(self.own.dir().join(format!("{name}.kubeconfig")), kubeconfig).unwrap();
        OperatorProcess::start(&self.own, name, owned(flags))
    }

    /// A world on this server.
    pub fn world(&self, name: &str) -> World {
        World::on(self.own.client.clone(), name, self.own.logs())
    }
}

fn owned(flags: &[&str]) -> Vec<String> {
    flags.iter().map(|flag| (*flag).to_owned()).collect()
}

/// The way to the server through nothing.
fn direct_way(own: &OwnServer) -> Cluster {
    own.cluster_at(([127, 0, 0, 1], own.server.port()).into())
}

/// A server with our definitions.
async fn installed() -> OwnServer {
    let own = OwnServer::start().await;
    own.install().await.unwrap();
    own
}

/// Waits until the API server allows what the operator asks for first, a moment after it was granted: an operator that
/// may not list its kind ends, and here no one starts it again.
async fn begins_with_its_rights(client: &Client) {
    let (namespace, account) = (weaver_api::OPERATOR_NAMESPACE, weaver_api::OPERATOR_ACCOUNT);
    for what in [
        json!({"verb": "list", "group": weaver_api::GROUP, "resource": "configmapsyncs"}),
        json!({"verb": "create", "group": "coordination.k8s.io", "resource": "leases", "namespace": namespace}),
    ] {
        eventually(&format!("the operator is allowed {what}"), || async {
            if may(client, namespace, account, &what).await { Ok(()) } else { Err(()) }
        })
        .await;
    }
}

//! A server and an operator of a test's own, for what would disturb others.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::json;

use crate::own::Own;
use crate::proxy::{Hooks, Proxy};
use crate::world::{World, eventually, given};

/// A disposable server with our definitions and RBAC, and an operator that reaches it through a proxy.
pub struct Alone {
    /// The server, not through the proxy.
    pub own: Own,
    /// The operator.
    pub operator: Operator,
    _proxy: Proxy,
}

/// A running operator; killed when dropped.
pub struct Operator {
    child: Child,
    log: PathBuf,
    patience: &'static str,
}

impl Operator {
    /// Starts the built program on `operator.kubeconfig` of `dir`, with seconds where a user has minutes.
    fn start(dir: &Path, patience: &'static str) -> Self {
        let log = dir.join("operator.log");
        let output = File::options().create(true).append(true).open(&log).unwrap();
        let child = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver-operator"))
            .args(["run", "--metrics", "127.0.0.1:0", "--retry", "2", "--cleanup-patience", patience])
            .arg("--kubeconfig")
            .arg(dir.join("operator.kubeconfig"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .unwrap();
        Self { child, log, patience }
    }

    /// Ends it as a power cut would.
    pub fn kill(&mut self) {
        // It may have ended by itself; there is nothing to be done about a failure here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Is it not running any more?
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// What it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Alone {
    /// Starts everything; each request of the operator passes `hook` first.
    pub async fn start<H: Into<Hooks>>(hook: impl FnOnce(Client) -> H) -> Self {
        Self::start_with(hook, "5").await
    }

    /// The same with another patience, in seconds, for what is deleted and has lost its rights.
    pub async fn start_with<H: Into<Hooks>>(hook: impl FnOnce(Client) -> H, patience: &'static str) -> Self {
        let own = Own::start().await;
        own.install().await.unwrap();
        Self::on(own, hook, patience).await
    }

    /// An operator on a server where the definitions are installed already.
    pub async fn on<H: Into<Hooks>>(
        own: Own,
        hook: impl FnOnce(Client) -> H,
        patience: &'static str,
    ) -> Self {
        own.apply("deploy/rbac/operator.yaml");
        let config = Config::from_custom_kubeconfig(
            Kubeconfig::read_from(own.server.kubeconfig()).unwrap(),
            &KubeConfigOptions::default(),
        )
        .await
        .unwrap();
        let proxy = Proxy::start(&config, hook(own.client.clone()).into()).await;
        let kubeconfig = own.dir().join("operator.kubeconfig");
        std::fs::write(kubeconfig, operator_kubeconfig(&own.client, &proxy).await).unwrap();
        let operator = Operator::start(own.dir(), patience);
        Self { own, operator, _proxy: proxy }
    }

    /// Starts the operator again after [`Operator::kill`].
    pub fn restart_operator(&mut self) {
        self.operator = Operator::start(self.own.dir(), self.operator.patience);
    }

    /// A world on this server.
    #[must_use]
    pub fn world(&self, name: &str) -> World {
        World::on(self.own.client.clone(), name, self.own.logs())
    }
}

async fn operator_kubeconfig(client: &Client, proxy: &Proxy) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), weaver_api::OPERATOR_NAMESPACE);
    let request = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
    let params = PostParams::default();
    let answer = eventually("a token for the operator", || {
        accounts.create_token_request(weaver_api::OPERATOR_ACCOUNT, &params, &request)
    })
    .await;
    let token = answer.status.and_then(|status| status.token).unwrap();
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "operator",
        "clusters": [{"name": "proxy", "cluster": {"server": format!("http://{}", proxy.address)}}],
        "users": [{"name": "operator", "user": {"token": token}}],
        "contexts": [{"name": "operator", "context": {"cluster": "proxy", "user": "operator"}}],
    });
    config.to_string()
}

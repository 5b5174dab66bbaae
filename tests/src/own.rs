//! A server of a test's own with the conversion webhook next to it, as the installer finds them.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{AuthInfo, Cluster, Kubeconfig};
use kube::core::GroupVersionKind;
use serde_json::Value;
use tempfile::TempDir;
use weaver_devstack::programs::BuiltPrograms;
use weaver_devstack::server::{Server, ServerBinary, ServerOptions, ServerOrigin};
use weaver_devstack::{files, ports};
use weaver_installer::{self as installer, InstallError, certificates};

use crate::audit::Audit;
use crate::once::once;
use crate::world::{Logs, client_of, eventually, given};

/// How long the installer waits for each step.
const PATIENCE: Duration = Duration::from_secs(15);

/// Lifetime of the tokens that are made here; none is renewed.
const TOKEN_SECONDS: i64 = 12 * 3_600;

/// A disposable server and a webhook; nothing is installed.
pub struct OwnServer {
    pub client: Client,
    pub server: Server,
    pub webhook: OwnWebhook,
    /// What operators and pods are started of from now on, and whose manifests are applied.
    pub programs: BuiltPrograms,
    dir: TempDir,
}

/// The conversion webhook as a process of its own; killed when dropped.
pub struct OwnWebhook {
    child: Option<Child>,
    program: PathBuf,
    port: u16,
    certificates: PathBuf,
    log: PathBuf,
}

/// The programs and manifests of this checkout.
pub fn this_release() -> BuiltPrograms {
    of_checkout(&given("WEAVER_TEST_BIN_DIR"))
}

/// Those that `make test-skew PREVIOUS=DIR` names.
pub fn another_release() -> BuiltPrograms {
    let dir = given("WEAVER_TEST_PREVIOUS_DIR");
    BuiltPrograms::find(Some(&dir.join("bin")), &dir).unwrap()
}

fn of_checkout(bin_dir: &Path) -> BuiltPrograms {
    BuiltPrograms::find(Some(bin_dir), Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))).unwrap()
}

/// Gives a server the state of one that was started and stopped before: the first start of each would take half a
/// second of a processor more.
fn begin_as_started_once(binary: &ServerBinary, data: &Path) {
    let start = |stack: &Path| Server::start(binary, ServerOptions::new(stack)).unwrap().stop().unwrap();
    let stack = once("server", start);
    std::fs::create_dir_all(data).unwrap();
    let state = stack.join("data/server");
    assert!(Command::new("cp").arg("-a").args([state.as_path(), data]).status().unwrap().success());
}

impl OwnServer {
    /// Starts both, the server with its audit log.
    pub async fn start() -> Self {
        let binary = ServerBinary::from_environment().unwrap();
        let dir = tempfile::tempdir_in(files::scratch()).unwrap();
        if binary.origin == ServerOrigin::Testbed {
            begin_as_started_once(&binary, &dir.path().join("data"));
        }
        Self::start_in(dir, &binary, &given("WEAVER_TEST_BIN_DIR"), ServerOptions::audit).await
    }

    /// Starts this server for the first time, and the webhook of our programs in `bin_dir`.
    pub async fn start_with(
        binary: &ServerBinary,
        bin_dir: &Path,
        options: impl FnOnce(ServerOptions) -> ServerOptions,
    ) -> Self {
        let dir = tempfile::tempdir_in(files::scratch()).unwrap();
        Self::start_in(dir, binary, bin_dir, options).await
    }

    async fn start_in(
        dir: TempDir,
        binary: &ServerBinary,
        bin_dir: &Path,
        options: impl FnOnce(ServerOptions) -> ServerOptions,
    ) -> Self {
        let programs = of_checkout(bin_dir);
        let server = Server::start(binary, options(ServerOptions::new(dir.path()))).unwrap();
        let client = client_of(&server.kubeconfig()).await;
        let mut webhook = OwnWebhook {
            child: None,
            program: programs.operator().unwrap(),
            port: ports::disposable().unwrap(),
            certificates: dir.path().join("webhook"),
            log: dir.path().join("webhook.log"),
        };
        webhook.renew();
        webhook.start();
        Self { client, server, webhook, programs, dir }
    }

    /// A directory that is deleted with the server.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Where a world on this server is judged by; the operator's log lies next to the server's.
    pub fn logs(&self) -> Logs {
        Logs { audit: self.audit(), programs: vec![(self.dir.path().join("operator.log"), 0)] }
    }

    /// All that this server was asked.
    pub fn audit(&self) -> Audit {
        Audit::of(self.server.layout().audit_log())
    }

    /// Installs the definitions as `weaver crd install` does.
    ///
    /// # Errors
    /// What the installer says.
    pub async fn install(&self) -> Result<installer::InstallReport, InstallError> {
        self.install_within(PATIENCE).await
    }

    /// The same, where what is waited for does not come.
    ///
    /// # Errors
    /// What the installer says.
    pub async fn install_within(&self, patience: Duration) -> Result<installer::InstallReport, InstallError> {
        let options = installer::InstallOptions { prove: installer::Prove::Always, ca_from: None, patience };
        installer::install(&self.client, &self.webhook.address(), &options, |_| ()).await
    }

    /// A kubeconfig of this server with a token of the account.
    pub async fn kubeconfig_of(&self, namespace: &str, account: &str) -> Kubeconfig {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let spec =
            TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let params = PostParams::default();
        let answer = eventually(&format!("a token for {namespace}/{account}"), || {
            accounts.create_token_request(account, &params, &request)
        })
        .await;
        let token = answer.status.and_then(|status| status.token).unwrap();
        let mut kubeconfig = Kubeconfig::read_from(self.server.kubeconfig()).unwrap();
        for user in &mut kubeconfig.auth_infos {
            user.auth_info = Some(AuthInfo { token: Some(token.clone().into()), ..AuthInfo::default() });
        }
        kubeconfig
    }

    /// The way to the server that begins at this address.
    pub fn cluster_at(&self, address: SocketAddr) -> Cluster {
        let kubeconfig = Kubeconfig::read_from(self.server.kubeconfig()).unwrap();
        let cluster = kubeconfig.clusters.into_iter().find_map(|named| named.cluster).unwrap();
        Cluster { server: Some(format!("https://{address}")), ..cluster }
    }

    /// The kubeconfig of the operator's own account, with which it connects to the server this way.
    pub async fn operator_kubeconfig(&self, way: Cluster) -> Kubeconfig {
        let (namespace, account) = (weaver_api::OPERATOR_NAMESPACE, weaver_api::OPERATOR_ACCOUNT);
        let mut kubeconfig = self.kubeconfig_of(namespace, account).await;
        for named in &mut kubeconfig.clusters {
            named.cluster = Some(way.clone());
        }
        kubeconfig
    }

    /// Runs kubectl as the administrator; what it printed.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let output = Command::new(&self.server.binary().path)
            .arg("kubectl")
            .args(arguments)
            .env("KUBECONFIG", self.server.kubeconfig())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Applies a manifest of the release of [`OwnServer::programs`] as `kubectl apply --server-side` would, which takes
    /// twenty times as much of a processor to find out what a kind is called in a path.
    pub async fn apply(&self, manifest: &str) {
        let text = std::fs::read_to_string(self.programs.source().join(manifest)).unwrap();
        let params = PatchParams::apply("kubectl");
        for object in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            let kind = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
            let resource = ApiResource::from_gvk(&kind);
            let api: Api<DynamicObject> = match &object.metadata.namespace {
                Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
                None => Api::all_with(self.client.clone(), &resource),
            };
            let name = object.metadata.name.as_deref().unwrap();
            api.patch(name, &params, &Patch::Apply(&object)).await.unwrap();
        }
    }
}

impl OwnWebhook {
    /// Its address for the installer.
    pub fn address(&self) -> installer::Webhook {
        installer::Webhook {
            service: None,
            url: format!("https://127.0.0.1:{}/convert", self.port),
            ca_bundle: self.certify().ca_bundle,
        }
    }

    /// Makes the certificate where there is none, or renews it where that is due.
    fn certify(&self) -> certificates::Certificates {
        certificates::ensure(
            &self.certificates,
            &certificates::CertificateOptions::default(),
            Timestamp::now(),
        )
        .unwrap()
    }

    /// Makes a new certificate, whatever there is.
    pub fn renew(&self) {
        let _ = std::fs::remove_file(self.certificates.join("leaf.pem"));
        assert!(self.certify().changed);
    }

    pub fn start(&mut self) {
        let log = File::options().create(true).append(true).open(&self.log).unwrap();
        let child = Command::new(&self.program)
            .args(["webhook", "--listen", &format!("127.0.0.1:{}", self.port), "--certificates"])
            .arg(&self.certificates)
            .env("RUST_LOG", "weaver_operator=debug,weaver_host=debug")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it was started").id()
    }

    /// Starts that of these programs instead.
    pub fn replace(&mut self, programs: &BuiltPrograms) {
        self.kill();
        self.program = programs.operator().unwrap();
        self.start();
    }

    /// Ends it as a power cut would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself; there is nothing to be done about a failure here.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for OwnWebhook {
    fn drop(&mut self) {
        self.kill();
    }
}

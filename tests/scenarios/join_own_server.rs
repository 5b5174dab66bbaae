//! A node that joins a server: what its agent asks that server beforehand, and what it says in the cluster as
//! that node.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use k8s_openapi::api::core::v1::{Event, Node};
use kube::api::{Api, ListParams, ObjectMeta, PostParams};
use serde_json::Value;
use weaver_api::v1beta1::NodeReport;
use weaver_devstack::server::ServerOptions;
use weaver_tests::kubelet;
use weaver_tests::own::OwnServer;
use weaver_tests::world::{eventually, given};

/// What this node is called.
const NODE: &str = "worker";

/// A server with a certificate for `raspi.lan`, and the files of a node that joins it.
struct Scene {
    own: OwnServer,
    root: PathBuf,
}

impl Scene {
    async fn start() -> Self {
        let options = |options: ServerOptions| options.tls_sans(["raspi.lan", NODE]);
        let binary = weaver_devstack::server::ServerBinary::from_environment().unwrap();
        let own = OwnServer::start_with(&binary, &given("WEAVER_TEST_BIN_DIR"), options).await;
        let root = own.dir().join("node");
        let scene = Self { own, root };
        scene.file("etc/weaver/k3s-agent", "");
        scene.file("etc/hostname", NODE);
        scene
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// As boot-config writes it.
    fn joins(&self, server: &str, token: &str) {
        self.file(
            "etc/rancher/k3s/config.yaml.d/90-weaver.yaml",
            &format!("node-name: {NODE}\nserver: \"{server}\"\n"),
        );
        self.file("var/lib/weaver/k3s-agent.token", token);
    }

    /// The token as k3s shows it to who may read its disk: with the hash of the file that it serves as its CA.
    fn token(&self) -> String {
        let file = self.own.server.data_dir().join("server/tls/server-ca.crt");
        let output = Command::new("sha256sum").arg(file).output().unwrap();
        let hash = String::from_utf8(output.stdout).unwrap();
        format!("K10{}::server:hunter2", &hash[..64])
    }

    fn agent(&self, verb: &str) -> Command {
        let mut agent = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver-node-agent"));
        agent.arg(verb).arg("--root").arg(&self.root);
        agent
    }

    /// Codes and messages of what a check says about joining.
    fn check(&self) -> Vec<(String, String)> {
        let output = self.agent("check").args(["-o", "json"]).output().unwrap();
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(!said.to_string().contains("hunter2"), "{said:#}");
        let text = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
        let findings = said["findings"].as_array().unwrap().iter();
        let ours = findings.filter(|finding| text(finding, "code").starts_with('J'));
        ours.map(|finding| (text(finding, "code"), finding.to_string())).collect()
    }
}

#[tokio::test]
async fn a_node_asks_whether_the_server_is_that_of_its_token_and_would_have_it() {
    let scene = Scene::start().await;
    let (port, whole) = (scene.own.server.port(), scene.token());
    let other = format!("K10{}::server:hunter2", "0".repeat(64));
    let here = format!("https://localhost:{port}");
    for (server, token, want, says) in [
        // Its certificate is for `worker` too, which is what this node is called.
        (here.as_str(), whole.as_str(), "J-04", "a certificate for worker"),
        (&here, "hunter2", "J-04", "a certificate for worker"),
        (&here, &other, "J-02", "its CA has another hash"),
        (&format!("https://ip6-localhost.invalid:{port}"), &whole, "J-01", "k3s keeps trying"),
        ("https://127.0.0.1:1", &whole, "J-01", "refused"),
    ] {
        scene.joins(server, token);
        let said = scene.check();
        let [(code, message)] = said.as_slice() else { panic!("{server}: {said:?}") };
        assert!(code == want && message.contains(says), "{server}: {said:?}");
    }
}

/// Ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn log_of(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[tokio::test]
async fn its_agent_opens_no_gate_and_reports_with_the_kubelets_certificate() {
    let scene = Scene::start().await;
    scene.own.install().await.unwrap();
    let client = &scene.own.client;
    let metadata = ObjectMeta { name: Some(NODE.into()), ..ObjectMeta::default() };
    let nodes: Api<Node> = Api::all(client.clone());
    nodes.create(&PostParams::default(), &Node { metadata, ..Node::default() }).await.unwrap();
    scene.joins(&format!("https://localhost:{}", scene.own.server.port()), &scene.token());
    let kubeconfig = kubelet::kubeconfig(&scene.own.server, client, NODE).await;
    let kubeconfig = serde_saphyr::to_string(&kubeconfig).unwrap();
    scene.file("var/lib/rancher/k3s/agent/kubelet.kubeconfig", &kubeconfig);

    let log = scene.own.dir().join("agent.log");
    let output = fs::File::create(&log).unwrap();
    let mut agent = scene.agent("run");
    agent.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
    let _running = Running(agent.spawn().unwrap());

    let reports: Api<NodeReport> = Api::all(client.clone());
    // The status first, then the owner.
    let owners = eventually("the node has its report, and the report its node", || async {
        let found = reports.get_opt(NODE).await.unwrap().filter(|report| report.status.is_some());
        found.and_then(|report| report.metadata.owner_references).ok_or_else(|| log_of(&log))
    })
    .await;
    assert_eq!(owners[0].name, NODE);
    let events: Api<Event> = Api::namespaced(client.clone(), "default");
    let reported = ListParams::default().fields(&format!("involvedObject.name={NODE},reason=JoinNameTaken"));
    eventually("what its server showed is an event of the node", || async {
        let found = events.list(&reported).await.unwrap().items;
        if found.is_empty() { Err(log_of(&log)) } else { Ok(()) }
    })
    .await;

    let path = scene.root.join("run/weaver/report.json");
    let report: Value = serde_json::from_str(&log_of(&path)).unwrap();
    assert_eq!((&report["gate"], &report["joins"]), (&"shut".into(), &true.into()));
    assert!(report["reason"].as_str().unwrap().contains("joins a server"), "{report:#}");
    assert!(!log_of(&log).contains("hunter2") && !report.to_string().contains("hunter2"));
}

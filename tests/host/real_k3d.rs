//! The node agent and `weaver` at clusters of a real k3d, named by `make test K3D=DIR`.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use weaver_devstack::{files, ports};
use weaver_tests::agent::{Agent, finding};
use weaver_tests::k3d::RealK3d;
use weaver_tests::world::given;

/// The name of every cluster here.
const NAME: &str = "raspi.test";

struct Scene {
    k3d: RealK3d,
    dir: TempDir,
}

impl Scene {
    fn start() -> Self {
        Self { k3d: RealK3d::given(), dir: tempfile::tempdir_in(files::scratch()).unwrap() }
    }

    fn agent(&self, verb: &str, cluster: &str) -> Command {
        let mut agent = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver-node-agent"));
        agent.args([verb, "--cluster", cluster, "--docker-host", &self.k3d.docker_host()]);
        agent.args(["--probe-timeout", "5"]).stdin(Stdio::null());
        agent
    }

    fn check(&self, cluster: &str) -> (Option<i32>, Value) {
        let output = self.agent("check", cluster).args(["-o", "json"]).output().unwrap();
        let report = serde_json::from_slice(&output.stdout);
        let said = || String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), report.unwrap_or_else(|error| panic!("{error}: {}", said())))
    }

    fn run(&self, cluster: &str) -> Agent {
        let mut agent = self.agent("run", cluster);
        let bin = given("WEAVER_TEST_BIN_DIR");
        agent.arg("--operator").arg(bin.join("weaver-operator"));
        agent.arg("--webhook").arg(bin.join("weaver-operator"));
        agent.arg("--webhook-address").arg(format!("127.0.0.1:{}", ports::disposable().unwrap()));
        agent.arg("--certificates").arg(self.dir.path().join("webhook"));
        agent.args(["--recheck-seconds", "1"]);
        Agent::of(agent, self.dir.path())
    }

    /// What `weaver kubeconfig export` says, and its exit code.
    fn export(&self, name: &str, cluster: &str) -> (Option<i32>, String) {
        let mut weaver = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver"));
        weaver.args(["kubeconfig", "export", name, "--k3d", cluster]).stdin(Stdio::null());
        let output = weaver.env("DOCKER_HOST", self.k3d.docker_host()).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&said).into_owned())
    }
}

fn has(report: &Value, code: &str) -> bool {
    report["findings"].as_array().unwrap().iter().any(|finding| finding["code"] == code)
}

/// The gate, the webhook at the gateway of the cluster's network, the operator; two clusters of one name, one of them
/// deleted while it is proven again and again.
#[test]
#[ignore = "needs a real k3d: make test K3D=DIR"]
fn the_gate_opens_for_the_cluster_that_is_chosen() {
    let scene = Scene::start();
    let port = || ports::disposable().unwrap();
    let edge = scene.k3d.cluster(scene.dir.path(), "edge", NAME, port());
    let agent = scene.run(&edge.chosen());
    agent.open();

    let (code, said) = scene.export("other.test", &edge.name);
    assert!(code == Some(10) && said.contains("other.test is not served"), "{said}");
    let (code, said) = scene.export(NAME, &edge.name);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("https://{NAME}:{}", edge.port)), "at the published port");

    edge.k3d("stop");
    let report = agent.wait_for("report of a stopped cluster", |report| has(report, "D-04"));
    assert_eq!(finding(&report, "D-04")["remedy"]["commands"][0], format!("k3d cluster start {}", edge.name));
    edge.k3d("start");
    agent.wait_for("proof of the started cluster", |report| has(report, "T-00"));

    let lab = scene.k3d.cluster(scene.dir.path(), "lab", NAME, port());
    let (_, report) = scene.check("k3d");
    assert!(has(&report, "D-03"), "none is chosen: {report:#}");
    let (code, report) = scene.check(&lab.chosen());
    assert!(code == Some(0) && has(&report, "T-00") && has(&report, "D-07"), "{report:#}");
    std::thread::scope(|threads| {
        let deletion = threads.spawn(|| lab.k3d("delete"));
        loop {
            let is_deleted = deletion.is_finished();
            let (code, report) = scene.check(&lab.chosen());
            assert!(matches!(code, Some(0 | 10)), "{code:?}: {report:#}");
            if is_deleted {
                assert!(code == Some(10) && has(&report, "D-02"), "{code:?}: {report:#}");
                return;
            }
        }
    });

    let log = agent.log.clone();
    agent.stop();
    let log = fs::read_to_string(log).unwrap();
    assert!(!log.contains("k3d.cluster.token") && !log.contains("BEGIN"), "{log}");
}

//! The node agent where the API server runs in a cluster of k3d: found through a container engine, proven where that
//! publishes it. The engine is a double, the API servers are real.

mod own_server {
    use std::fs;
    use std::process::{Command, Stdio};

    use serde_json::Value;
    use tempfile::TempDir;
    use weaver_devstack::server::{Server, ServerBinary, ServerOptions};
    use weaver_devstack::{files, ports};
    use weaver_tests::agent::{Agent, finding, until};
    use weaver_tests::engine::{FakeEngine, Shown, TOKEN};
    use weaver_tests::world::given;

    struct Scene {
        dir: TempDir,
        engine: FakeEngine,
    }

    impl Scene {
        fn start() -> Self {
            let dir = tempfile::tempdir_in(files::scratch()).unwrap();
            let engine = FakeEngine::start(dir.path());
            Self { dir, engine }
        }

        fn server(&self, name: &str, names: &[&str]) -> Server {
            let options = ServerOptions::new(self.dir.path().join(name)).tls_sans(names.iter().copied());
            Server::start(&ServerBinary::from_environment().unwrap(), options).unwrap()
        }

        fn agent(&self, verb: &str) -> Command {
            let mut agent = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver-node-agent"));
            agent.env("WEAVER_CLUSTER", "k3d").args([
                verb,
                "--docker-host",
                &self.engine.url(),
                "--probe-timeout",
                "2",
            ]);
            agent
        }

        fn check(&self, flags: &[&str]) -> (Option<i32>, Value) {
            let output = self.agent("check").args(["-o", "json"]).args(flags).output().unwrap();
            (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
        }

        fn run(&self) -> Agent {
            let mut command = self.agent("run");
            let bin = given("WEAVER_TEST_BIN_DIR");
            command.arg("--operator").arg(bin.join("weaver-operator"));
            command.arg("--webhook").arg(bin.join("weaver-operator"));
            command.arg("--webhook-address").arg(format!("127.0.0.1:{}", ports::disposable().unwrap()));
            command.arg("--certificates").arg(self.dir.path().join("webhook"));
            command.args(["--recheck-seconds", "1"]);
            Agent::of(command, self.dir.path())
        }
    }

    fn has(report: &Value, code: &str) -> bool {
        report["findings"].as_array().unwrap().iter().any(|finding| finding["code"] == code)
    }

    #[test]
    fn the_gate_opens_and_the_operator_follows_a_cluster_that_is_created_again() {
        let scene = Scene::start();
        let agent = scene.run();
        agent.wait_for("report of no cluster", |report| has(report, "D-02"));
        let first = scene.server("first", &["raspi"]);
        scene.engine.show([Shown::of("edge", &first, &["raspi"])]);
        agent.open();
        let crd = first.kubectl().json(&["get", "crd", "configmapsyncs.weaver.example.com"]).unwrap();
        let url = crd["spec"]["conversion"]["webhook"]["clientConfig"]["url"].as_str().unwrap();
        assert!(url.starts_with("https://127.0.0.2:"), "{url}: the gateway of the cluster's network");
        until("a report of the node", || {
            let got = first.kubectl().run(&["get", "nodereport", "k3d-edge-server-0"]);
            (got.is_ok(), format!("{got:?}"))
        });

        scene.engine.show([Shown { state: "exited", ..Shown::of("edge", &first, &["raspi"]) }]);
        let report = agent.wait_for("report of a stopped cluster", |report| has(report, "D-04"));
        assert_eq!(report["gate"], "open", "what runs continues");
        assert_eq!(finding(&report, "D-04")["remedy"]["commands"][0], "k3d cluster start edge");

        scene.engine.show([]);
        agent.wait_for("report of a deleted cluster", |report| has(report, "D-02"));
        drop(first);
        let second = scene.server("second", &["raspi"]);
        scene.engine.show([Shown::of("edge", &second, &["raspi"])]);
        let port = second.port().to_string();
        until("credentials for the new cluster", || {
            let kubeconfig = fs::read_to_string(agent.file("operator.kubeconfig")).unwrap();
            (kubeconfig.contains(&format!("127.0.0.1:{port}")), "the old ones".to_owned())
        });
        until("a lease of the operator in it", || {
            let got = second.kubectl().run(&["-n", "config-weaver", "get", "lease", "weaver-operator"]);
            (got.is_ok(), format!("{got:?}"))
        });

        let (log, report) = (agent.log.clone(), agent.file("report.json"));
        agent.stop();
        for file in [log, report] {
            assert!(!fs::read_to_string(&file).unwrap_or_default().contains(TOKEN), "{}", file.display());
        }
    }

    #[test]
    fn a_name_that_the_cluster_was_not_created_with_gets_the_commands_of_k3d() {
        let scene = Scene::start();
        let server = scene.server("server", &["raspik3d"]);
        scene.engine.show([Shown::of("edge", &server, &["raspik3d"])]);
        let (code, report) = scene.check(&[]);
        assert_eq!(code, Some(0), "{report:#}");
        assert!(finding(&report, "T-00")["message"].as_str().unwrap().ends_with("proves: raspik3d"));

        let (code, report) = scene.check(&["--name", "raspi"]);
        assert_eq!(code, Some(10), "{report:#}");
        let commands = &finding(&report, "T-02")["remedy"]["commands"];
        let created = format!(
            "weaver k3d config edge --name raspik3d --name raspi --api-port {} > k3d.yaml",
            server.port()
        );
        assert_eq!(commands[0], created);
        assert!(!commands.to_string().contains("systemctl"), "{commands}");

        scene.engine.show([Shown { port: None, ..Shown::of("edge", &server, &["raspik3d"]) }]);
        let (code, report) = scene.check(&[]);
        assert_eq!((code, has(&report, "D-05")), (Some(10), true), "{report:#}");

        let other = Shown::of("lab", &server, &["raspik3d"]);
        scene.engine.show([Shown::of("edge", &server, &["raspik3d"]), other]);
        assert!(has(&scene.check(&[]).1, "D-03"), "none is chosen");
        let (_, report) = scene.check(&["--cluster", "k3d:edge"]);
        assert!(has(&report, "T-00") && has(&report, "D-07"), "{report:#}");
    }

    #[test]
    fn a_kubeconfig_is_exported_for_a_name_of_the_cluster() {
        let scene = Scene::start();
        let server = scene.server("server", &["raspi"]);
        scene.engine.show([Shown::of("edge", &server, &["raspi"])]);
        let file = scene.dir.path().join("raspi.yaml");
        let export = |name: &str, cluster: &str| {
            let mut weaver = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver"));
            weaver.args(["kubeconfig", "export", name, "--k3d", cluster, "--output"]).arg(&file);
            weaver.env("DOCKER_HOST", scene.engine.url()).stdin(Stdio::null());
            let output = weaver.output().unwrap();
            (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let (code, said) = export("box", "edge");
        assert_eq!(code, Some(10), "{said}");
        assert!(said.contains("box is not served"), "{said}");
        let (code, said) = export("raspi", "lab");
        assert!(code == Some(10) && said.contains("there is no cluster lab of k3d"), "{said}");
        let (code, said) = export("raspi", "edge");
        assert_eq!(code, Some(0), "{said}");
        let exported = fs::read_to_string(&file).unwrap();
        assert!(exported.contains(&format!("https://raspi:{}", server.port())), "at the published port");
    }
}

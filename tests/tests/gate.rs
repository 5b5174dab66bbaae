//! The gate on a real API server: shut until every configured name is proven,
//! open from then on.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a failed step of a test ends the test")]

mod own_server {
    use std::{
        fs::{self, File},
        path::{Path, PathBuf},
        process::{Child, Command, Output, Stdio},
        time::{Duration, Instant},
    };

    use serde_json::Value;
    use tempfile::TempDir;
    use weaver_devstack::{
        ports,
        server::{Server, ServerBinary, ServerOptions},
    };
    use weaver_tests::world::given;

    const PATIENCE: Duration = Duration::from_secs(90);

    /// A server that is asked to serve `box.example`.
    struct Scene {
        server: Server,
        webhook_port: u16,
        webhook: PathBuf,
        dir: TempDir,
    }

    impl Scene {
        fn start() -> Self {
            let dir = tempfile::tempdir_in("/tmp").unwrap();
            let options = ServerOptions::new(dir.path()).tls_sans(["box.example"]).audit();
            let server = Server::start(&ServerBinary::from_environment().unwrap(), options).unwrap();
            let webhook = given("WEAVER_TEST_BIN_DIR").join("weaver-operator");
            Self { server, webhook_port: ports::disposable().unwrap(), webhook, dir }
        }

        /// Asks for one more name; the running server does not know it yet.
        fn configure(&self, name: &str) {
            let mut drop_ins = self.server.config_path().into_os_string();
            drop_ins.push(".d");
            let drop_ins = PathBuf::from(drop_ins);
            fs::create_dir_all(&drop_ins).unwrap();
            fs::write(drop_ins.join("zz-gate.yaml"), format!("tls-san+: [{name}]\n")).unwrap();
        }

        fn agent(&self, verb: &str) -> Command {
            let mut agent = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver-node-agent"));
            agent.arg(verb);
            agent.arg("--k3s-config").arg(self.server.config_path());
            agent.arg("--k3s-data-dir").arg(self.server.data_dir());
            // A k3s that this machine may run besides is none of ours.
            agent.arg("--k3s-unit").arg(self.dir.path().join("no-unit"));
            agent.arg("--admin-kubeconfig").arg(self.server.kubeconfig());
            agent.arg("--api-address").arg(format!("127.0.0.1:{}", self.server.port()));
            agent
        }

        fn check(&self) -> (Option<i32>, Value) {
            let Output { status, stdout, .. } =
                self.agent("check").args(["-o", "json", "--probe-timeout", "2"]).output().unwrap();
            (status.code(), serde_json::from_slice(&stdout).unwrap())
        }

        fn run(&self, flags: &[&str]) -> Agent {
            let (runtime, log) = (self.dir.path().join("weaver"), self.dir.path().join("agent.log"));
            let output = File::options().create(true).append(true).open(&log).unwrap();
            let mut command = self.agent("run");
            command.arg("--runtime-dir").arg(&runtime);
            command.arg("--operator").arg(given("WEAVER_TEST_BIN_DIR").join("weaver-operator"));
            command.arg("--webhook").arg(&self.webhook);
            command.arg("--webhook-address").arg(format!("127.0.0.1:{}", self.webhook_port));
            command.arg("--certificates").arg(self.dir.path().join("webhook"));
            command.args(["--probe-timeout", "2", "--recheck-seconds", "1"]).args(flags);
            command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
            Agent { child: command.spawn().unwrap(), runtime, log }
        }

        fn whoami(&self, kubeconfig: &Path) -> String {
            self.kubectl_as(kubeconfig, &["auth", "whoami", "-o", "json"]).1
        }

        #[track_caller]
        fn kubectl(&self, arguments: &[&str]) -> String {
            let (done, words) = self.kubectl_as(&self.server.kubeconfig(), arguments);
            assert!(done, "{arguments:?}: {words}");
            words
        }

        /// Whether kubectl succeeded, and what it said.
        fn kubectl_as(&self, kubeconfig: &Path, arguments: &[&str]) -> (bool, String) {
            let output = Command::new(&self.server.binary().path)
                .arg("kubectl")
                .args(arguments)
                .arg("--kubeconfig")
                .arg(kubeconfig)
                .output()
                .unwrap();
            let done = output.status.success();
            (done, String::from_utf8(if done { output.stdout } else { output.stderr }).unwrap())
        }

        /// A manifest as upstream's users have it.
        fn apply_upstreams_sample(&self) {
            let path = self.dir.path().join("old.yaml");
            let text = "apiVersion: weaver.example.com/v1alpha1\nkind: ConfigMapSync\n\
                        metadata: {name: old, namespace: default}\nspec: {testNum: 5}\n";
            fs::write(&path, text).unwrap();
            self.kubectl(&["apply", "-f", path.to_str().unwrap()]);
        }
    }

    /// A running agent; it and its operator are ended with the test.
    struct Agent {
        child: Child,
        runtime: PathBuf,
        log: PathBuf,
    }

    impl Agent {
        #[track_caller]
        fn wait_for(&self, what: &str, says: impl Fn(&Value) -> bool) -> Value {
            let since = Instant::now();
            loop {
                let report = fs::read(self.runtime.join("report.json")).ok();
                let report: Option<Value> = report.and_then(|text| serde_json::from_slice(&text).ok());
                if let Some(report) = report.as_ref().filter(|report| says(report)) {
                    return report.clone();
                }
                let log = || fs::read_to_string(&self.log).unwrap_or_default();
                assert!(since.elapsed() < PATIENCE, "no {what}: {report:#?}\n{}", log());
                std::thread::park_timeout(Duration::from_millis(50));
            }
        }

        fn open(&self) -> u64 {
            let report =
                self.wait_for("open gate and operator", |r| r["gate"] == "open" && r["operator"].is_object());
            pid(&report)
        }

        fn file(&self, name: &str) -> PathBuf {
            self.runtime.join(name)
        }

        fn token(&self) -> String {
            fs::read_to_string(self.file("operator.token")).unwrap()
        }

        fn signal(&self, signal: &str) {
            kill(u64::from(self.child.id()), signal);
        }

        fn stop(mut self) {
            self.signal("TERM");
            assert_eq!(self.child.wait().unwrap().code(), Some(0));
        }
    }

    impl Drop for Agent {
        fn drop(&mut self) {
            if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
                self.signal("TERM");
                let _ = self.child.wait();
            }
        }
    }

    #[track_caller]
    fn eventually(what: &str, question: impl Fn() -> (bool, String)) {
        let since = Instant::now();
        loop {
            let (done, words) = question();
            if done {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "not in time: {what}; last seen: {words}");
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    fn pid(report: &Value) -> u64 {
        report["operator"]["pid"].as_u64().unwrap()
    }

    fn kill(pid: u64, signal: &str) {
        assert!(
            Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status().unwrap().success()
        );
    }

    /// A process that has ended and waits to be collected does not run.
    fn runs(pid: u64) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
    }

    fn finding<'a>(report: &'a Value, code: &str) -> &'a Value {
        let findings = report["findings"].as_array().unwrap();
        findings.iter().find(|f| f["code"] == code).unwrap_or_else(|| panic!("no {code}: {report:#}"))
    }

    #[test]
    fn an_unserved_name_keeps_the_gate_shut_until_a_restart_serves_it() {
        let mut scene = Scene::start();
        assert_eq!(scene.check().0, Some(0));
        scene.configure("bux.example");

        let (code, report) = scene.check();
        assert_eq!(code, Some(10), "{report:#}");
        let unserved = finding(&report, "T-02");
        let message = unserved["message"].as_str().unwrap();
        assert!(message.contains("bux.example is configured and not served"), "{message}");
        let served = message.split("valid for: ").nth(1).unwrap_or_default();
        for name in ["box.example", "localhost", "127.0.0.1"] {
            assert!(served.split(", ").any(|s| s == name), "{name} is served: {message}");
        }
        assert_eq!(unserved["remedy"]["commands"][0], "sudo weaver-node-agent repair names");
        assert!(unserved["remedy"]["explain"].as_str().unwrap().contains("box.example"), "the nearest name");

        let agent = scene.run(&[]);
        let report = agent.wait_for("reason", |r| r["reason"].as_str().is_some_and(|r| r.contains("T-02")));
        assert_eq!((&report["gate"], &report["operator"]), (&Value::from("shut"), &Value::Null));
        assert!(!agent.file("operator.token").exists() && !agent.file("operator.kubeconfig").exists());

        // The remedy, and nothing else: the agent is not restarted.
        scene.server.restart().unwrap();
        let operator = agent.open();
        assert!(runs(operator));
        let user = scene.whoami(&agent.file("operator.kubeconfig"));
        assert!(user.contains("system:serviceaccount:config-weaver:weaver-operator"), "{user}");
        assert_eq!(scene.check().0, Some(0));

        let (token, log) = (agent.token(), agent.log.clone());
        let report = fs::read_to_string(agent.file("report.json")).unwrap();
        agent.stop();
        assert!(!runs(operator), "the operator ends with its agent");
        let log = fs::read_to_string(log).unwrap();
        assert!(log.contains("the gate is shut: T-02") && log.contains("the gate is open"), "{log}");
        assert!(!log.contains(&token) && !report.contains(&token));
    }

    #[test]
    fn what_the_operator_needs_is_made_again_when_somebody_deletes_it() {
        let scene = Scene::start();
        let agent = scene.run(&["--token-seconds", "600", "--token-renew-seconds", "1"]);
        agent.open();
        scene.kubectl(&["delete", "serviceaccount", "weaver-operator", "-n", "config-weaver"]);

        let says = |report: &Value, text: &str| report["reason"].as_str().is_some_and(|r| r.contains(text));
        let report = agent.wait_for("failed renewal", |r| says(r, "could not be renewed"));
        assert_eq!(report["gate"], "open");
        let stale = agent.token();
        agent.wait_for("renewal", |r| !says(r, "could not be renewed"));
        assert_ne!(agent.token(), stale);
        assert!(scene.whoami(&agent.file("operator.kubeconfig")).contains("weaver-operator"));
        agent.stop();
    }

    #[test]
    fn a_gate_that_is_shut_does_not_stop_conversion() {
        let scene = Scene::start();
        scene.configure("bux.example");
        let agent = scene.run(&[]);
        let report = agent.wait_for("definitions", |r| r["definitions"]["installed"] == true);
        assert_eq!(report["gate"], "shut");
        scene.apply_upstreams_sample();
        let stored = scene.kubectl(&["get", "cms", "old", "-o", "jsonpath={.apiVersion} {.spec}"]);
        assert!(stored.starts_with("weaver.example.com/v1beta1 {\"conflictPolicy\":\"Refuse\""), "{stored}");
        let report =
            agent.wait_for("shut gate", |r| r["reason"].as_str().is_some_and(|r| r.contains("T-02")));
        assert_eq!((&report["gate"], &report["operator"]), (&Value::from("shut"), &Value::Null));
        agent.stop();
    }

    #[test]
    fn a_webhook_that_does_not_run_is_reported_and_keeps_no_operator_from_its_work() {
        let mut scene = Scene::start();
        let agent = scene.run(&[]);
        agent.open();
        agent.stop();
        scene.webhook = "/bin/false".into();
        fs::remove_file(scene.dir.path().join("weaver/report.json")).unwrap();
        let agent = scene.run(&[]);
        agent.open();
        let report = agent.wait_for("fault of the webhook", |r| {
            r["definitions"]["reason"].as_str().is_some_and(|reason| reason.contains("/convert"))
        });
        assert_eq!(report["definitions"]["installed"], false);
        agent.stop();
    }

    #[test]
    fn a_drifted_ca_bundle_and_a_deleted_definition_are_repaired() {
        let scene = Scene::start();
        let agent = scene.run(&[]);
        agent.open();
        scene.apply_upstreams_sample();
        let drift = r#"{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":null}}}}}"#;
        scene.kubectl(&["patch", "crd", "configmapsyncs.weaver.example.com", "--type=merge", "-p", drift]);
        let ask = |arguments: &[&str]| scene.kubectl_as(&scene.server.kubeconfig(), arguments);
        eventually("v1alpha1 is converted again", || {
            ask(&["get", "configmapsyncs.v1alpha1.weaver.example.com", "old", "-n", "default"])
        });
        scene.kubectl(&["delete", "crd", "nodereports.weaver.example.com"]);
        eventually("the kind is there again", || ask(&["get", "nodereports"]));
        agent.stop();
    }

    #[test]
    fn an_open_gate_stays_open_and_the_operator_is_looked_after() {
        let scene = Scene::start();
        let agent = scene.run(&["--token-seconds", "600", "--token-renew-seconds", "1"]);
        let operator = agent.open();

        // Renewal: another token, the same operator.
        let (first, since) = (agent.token(), Instant::now());
        while agent.token() == first {
            assert!(since.elapsed() < PATIENCE, "the token was not renewed");
            std::thread::park_timeout(Duration::from_millis(50));
        }
        assert!(scene.whoami(&agent.file("operator.kubeconfig")).contains("weaver-operator"));

        // A verdict that turns bad is reported and stops nothing.
        scene.configure("bux.example");
        let report = agent.wait_for("T-02", |r| r["reason"].as_str().is_some_and(|r| r.contains("T-02")));
        assert_eq!(report["gate"], "open");
        assert_eq!(pid(&report), operator);

        // An operator that ends is started again.
        kill(operator, "KILL");
        let report = agent.wait_for("another operator", |r| r["operator"].is_object() && pid(r) != operator);
        let second = pid(&report);
        let webhook = report["webhook"]["pid"].as_u64().unwrap();

        // A killed agent leaves it running; the next one ends it before it
        // would start another.
        agent.signal("KILL");
        drop(agent);
        assert!(runs(second) && runs(webhook));
        fs::remove_file(scene.dir.path().join("weaver/report.json")).unwrap();
        let agent = scene.run(&[]);
        agent.wait_for("a check", |r| r["reason"].as_str().is_some_and(|r| r.contains("T-02")));
        assert!(!runs(second) && !runs(webhook));
        agent.wait_for("definitions", |r| r["definitions"]["installed"] == true);
        agent.stop();
    }
}

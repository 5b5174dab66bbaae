//! `weaver-node-agent repair names` on a real API server: each step of the plan, and a name that gets out again.
//! The server is the test's own, and systemd is a double that stops and starts it.

mod own_server {
    use std::{
        fs,
        path::{Path, PathBuf},
        process::{Command, Stdio},
        sync::{Arc, Mutex},
        time::{Duration, Instant},
    };

    use serde_json::Value;
    use tempfile::TempDir;
    use weaver_devstack::{
        files,
        kubectl::Kubectl,
        server::{Server, ServerBinary, ServerOptions},
    };
    use weaver_tests::systemd::Systemd;
    use weaver_tests::world::given;

    struct Scene {
        /// Ends the server when it is dropped.
        _server: Arc<Mutex<Server>>,
        systemd: Systemd,
        port: u16,
        config: PathBuf,
        data_dir: PathBuf,
        kubeconfig: PathBuf,
        kubectl: Kubectl,
        program: PathBuf,
        dir: TempDir,
    }

    impl Scene {
        fn start(names: &[&str]) -> Self {
            Self::start_with(names, "")
        }

        /// With this drop-in from its first start on.
        fn start_with(names: &[&str], drop_in: &str) -> Self {
            let dir = tempfile::tempdir_in(files::scratch()).unwrap();
            let drop_ins = dir.path().join("k3s/config.yaml.d");
            fs::create_dir_all(&drop_ins).unwrap();
            fs::write(drop_ins.join("50.yaml"), drop_in).unwrap();
            let options = ServerOptions::new(dir.path()).tls_sans(names.iter().copied());
            let binary = ServerBinary::from_environment().unwrap();
            let server = Server::start(&binary, options).unwrap();
            let (port, config, data_dir) = (server.port(), server.config_path(), server.data_dir());
            let (kubeconfig, kubectl) = (server.kubeconfig(), server.kubectl());
            let server = Arc::new(Mutex::new(server));
            let systemd = Systemd::of(&server, dir.path());
            let program = binary.path;
            Self { _server: server, systemd, port, config, data_dir, kubeconfig, kubectl, program, dir }
        }

        fn drop_in(&self, name: &str, text: &str) {
            let directory = format!("{}.d", self.config.display());
            fs::create_dir_all(&directory).unwrap();
            fs::write(Path::new(&directory).join(name), text).unwrap();
        }

        fn agent(&self, verb: &[&str]) -> Command {
            let mut agent = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver-node-agent"));
            agent.args(verb);
            agent.arg("--k3s-config").arg(&self.config);
            agent.arg("--k3s-data-dir").arg(&self.data_dir);
            agent.arg("--k3s-unit").arg(self.dir.path().join("no-unit"));
            agent.arg("--admin-kubeconfig").arg(&self.kubeconfig);
            agent.arg("--api-address").arg(format!("127.0.0.1:{}", self.port));
            agent
        }

        /// The exit code and what was said.
        fn repair(&self, flags: &[&str]) -> (Option<i32>, String) {
            let mut agent = self.agent(&["repair", "names"]);
            // What becomes of a new name decides the next step, and k3s serves it a moment after it is ready:
            // 1.6 s where nothing else runs.
            agent.args(["--probe-timeout", "10"]);
            agent.arg("--k3s").arg(&self.program).arg("--systemctl").arg(self.systemd.systemctl());
            agent.arg("--state-dir").arg(self.dir.path().join("state")).args(flags);
            let output = agent.stdin(Stdio::null()).output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
            (output.status.code(), said)
        }

        /// What the agent says of the names: codes of findings that are not fine.
        fn codes(&self) -> Vec<String> {
            let findings = self.findings();
            let bad = findings.iter().filter(|f| f["severity"] != "ok").map(|f| f["code"].as_str().unwrap());
            bad.filter(|code| code.starts_with('T')).map(str::to_owned).collect()
        }

        fn findings(&self) -> Vec<Value> {
            let check = ["check", "-o", "json", "--probe-timeout", "3"];
            let output = self.agent(&check).output().unwrap();
            let mut report: Value = serde_json::from_slice(&output.stdout).unwrap();
            serde_json::from_value(report["findings"].take()).unwrap()
        }

        /// The code of TLS by which `weaver doctor` says why a laptop does not get there by this name.
        fn doctor_of_the_laptop(&self, name: &str) -> String {
            let kubeconfig = self.laptops_kubeconfig();
            let kubectl =
                ["kubectl", "config", "set-cluster", "default", "--tls-server-name", name, "--kubeconfig"];
            assert!(
                Command::new(&self.program).args(kubectl).arg(&kubeconfig).output().unwrap().status.success()
            );
            let mut doctor = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver"));
            doctor
                .args(["doctor", "-o", "json", "--kubeconfig"])
                .arg(&kubeconfig)
                .env_remove("WEAVER_REPORT")
                .env("DOCKER_HOST", "unix:///nonexistent");
            let report: Value = serde_json::from_slice(&doctor.output().unwrap().stdout).unwrap();
            let findings = report["findings"].as_array().unwrap().iter();
            let mut bad = findings.filter(|f| f["severity"] == "fail").map(|f| f["code"].as_str().unwrap());
            bad.find(|code| code.starts_with('T')).unwrap_or("fine").to_owned()
        }

        /// Whether a laptop gets an answer by this name, with the kubeconfig that it had before. Names are
        /// served a moment before the API server is ready; a certificate that is refused is an answer at once.
        fn laptop(&self, kubeconfig: &Path, name: &str) -> bool {
            let since = Instant::now();
            loop {
                let output = Command::new(&self.program)
                    .args(["kubectl", "get", "--raw", "/readyz", "--tls-server-name", name, "--kubeconfig"])
                    .arg(kubeconfig)
                    .output()
                    .unwrap();
                let refused = String::from_utf8_lossy(&output.stderr).contains("x509");
                if output.status.success() || refused || since.elapsed() > Duration::from_secs(30) {
                    return output.status.success();
                }
                std::thread::park_timeout(Duration::from_millis(200));
            }
        }

        fn laptops_kubeconfig(&self) -> PathBuf {
            let copy = self.dir.path().join("laptop.yaml");
            fs::copy(&self.kubeconfig, &copy).unwrap();
            copy
        }

        fn annotate(&self, annotation: &str) {
            let secret =
                ["-n", "kube-system", "annotate", "--overwrite", "secret", "k3s-serving", annotation];
            let since = Instant::now();
            // k3s makes it a moment after it is ready.
            while let Err(error) = self.kubectl.run(&secret) {
                assert!(since.elapsed() < Duration::from_secs(30), "{error:#}");
                std::thread::park_timeout(Duration::from_millis(100));
            }
        }
    }

    #[test]
    fn each_step_is_proven_and_the_last_one_is_reported() {
        let scene = Scene::start(&["pi.example"]);
        let laptop = scene.laptops_kubeconfig();
        let (code, said) = scene.repair(&[]);
        assert_eq!((code, scene.systemd.calls().as_str()), (Some(0), ""), "{said}");
        assert!(said.contains("served, nothing had to be done: pi.example"), "{said}");

        // Asked for and not served: a restart is enough.
        scene.drop_in("50.yaml", "tls-san+: [late.example]\n");
        assert_eq!(scene.codes(), ["T-02"]);
        let (code, said) = scene.repair(&["--dry-run"]);
        assert_eq!((code, scene.systemd.calls().as_str()), (Some(10), ""), "{said}");
        assert!(said.contains("would restart k3s") && said.ends_with("Nothing was changed.\n"), "{said}");
        let (code, said) = scene.repair(&[]);
        assert_eq!((code, scene.systemd.calls().as_str()), (Some(0), "stop start"), "{said}");
        assert!(said.contains("k3s was restarted.") && said.contains("served, after a restart: "), "{said}");
        assert!(scene.laptop(&laptop, "late.example") && scene.laptop(&laptop, "pi.example"));
        assert_eq!(scene.codes(), Vec::<String>::new());

        // Shadowed by a later file: a drop-in of our own, and a restart; taken back, it is shadowed again.
        scene.drop_in("60.yaml", "tls-san: [other.example]\n");
        let (code, said) = scene.repair(&["--dry-run"]);
        assert_eq!(code, Some(10), "{said}");
        assert!(said.contains("--- /dev/null\n") && said.contains("+- late.example\n"), "{said}");
        let (code, said) = scene.repair(&[]);
        assert_eq!(code, Some(0), "{said}");
        for name in ["pi.example", "late.example", "other.example"] {
            assert!(said.contains(name) && scene.laptop(&laptop, name), "{said}");
        }
        assert_eq!(scene.codes(), Vec::<String>::new());
        let mut undo = Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver-node-agent"));
        undo.args(["repair", "--undo", "--state-dir"]).arg(scene.dir.path().join("state"));
        assert!(undo.output().unwrap().status.success());
        assert_eq!(scene.codes(), ["T-06"]);
    }

    /// A name that the Secret claims and the certificate does not have: no restart adds it, only a new
    /// certificate does.
    #[test]
    fn the_last_step_is_a_new_certificate() {
        let scene = Scene::start(&["pi.example"]);
        let laptop = scene.laptops_kubeconfig();
        scene.annotate("listener.cattle.io/cn-late.example=late.example");
        scene.drop_in("50.yaml", "tls-san+: [late.example]\n");
        let (code, said) = scene.repair(&[]);
        assert_eq!((code, scene.systemd.calls().as_str()), (Some(0), "stop start stop start"), "{said}");
        assert!(said.contains("served, after its certificate was renewed: "), "{said}");
        for name in ["pi.example", "late.example"] {
            assert!(scene.laptop(&laptop, name), "{name}: {said}");
        }
        assert_eq!(scene.codes(), Vec::<String>::new());
    }

    /// Each combination of asked for, served and used has its verdict on either side, and its remedy.
    #[test]
    fn asked_served_and_used() {
        let scene = Scene::start_with(
            &["asked-served-used.test", "asked-served.test"],
            "tls-san+: [served-used.test, served.test]\n",
        );
        scene.drop_in("50.yaml", "tls-san+: [asked-used.test, asked.test]\n");

        let on_the_pi = |code: &str| {
            let finding = scene.findings().into_iter().filter(|finding| finding["code"] == code);
            finding.map(|finding| finding["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let not_served = on_the_pi("T-02");
        assert_eq!(not_served.len(), 2, "{not_served:?}");
        assert!(not_served[0].starts_with("asked-used.test is configured and not served"), "{not_served:?}");
        assert!(not_served[1].starts_with("asked.test is configured and not served"), "{not_served:?}");
        let stale = on_the_pi("T-03").join("\n");
        assert!(stale.contains("served-used.test") && stale.contains("served.test"), "{stale}");
        assert!(!stale.contains("asked-served"), "{stale}");

        let used = ["asked-served-used.test", "asked-used.test", "served-used.test", "used.test"];
        let on_the_laptop = || used.map(|name| scene.doctor_of_the_laptop(name));
        assert_eq!(on_the_laptop(), ["fine", "T-01", "fine", "T-01"]);

        // What is asked for and not served takes a restart.
        let (code, said) = scene.repair(&[]);
        assert_eq!((code, scene.systemd.calls().as_str()), (Some(0), "stop start"), "{said}");
        assert_eq!(on_the_laptop(), ["fine", "fine", "fine", "T-01"]);
        // The name that is only used must be configured.
        scene.drop_in("91-used.test.yaml", "tls-san+: [\"used.test\"]\n");
        assert_eq!(scene.repair(&[]).0, Some(0));
        assert_eq!(on_the_laptop(), ["fine"; 4]);
        // What is served and nothing else is taken out; and what is used will be missed.
        assert_eq!(scene.codes(), ["T-03"]);
        let (code, said) = scene.repair(&["--remove", "served.test", "--remove", "served-used.test"]);
        assert_eq!(code, Some(0), "{said}");
        assert_eq!(scene.codes(), Vec::<String>::new());
        assert_eq!(on_the_laptop(), ["fine", "fine", "T-01", "fine"]);
    }

    #[test]
    fn a_frozen_certificate_is_named_and_left_alone() {
        let scene = Scene::start(&["pi.example"]);
        scene.annotate("listener.cattle.io/static=true");
        scene.drop_in("50.yaml", "tls-san+: [late.example]\n");
        let (code, said) = scene.repair(&[]);
        assert_eq!(code, Some(10), "{said}");
        let remedy = "k3s kubectl -n kube-system annotate secret k3s-serving listener.cattle.io/static-";
        assert!(
            said.contains("late.example cannot be added to a frozen certificate") && said.contains(remedy),
            "{said}"
        );
        scene.annotate("listener.cattle.io/static-");
        let (code, said) = scene.repair(&[]);
        assert_eq!(code, Some(0), "{said}");
    }

    #[test]
    fn a_name_gets_out_and_what_laptops_have_continues_working() {
        let scene = Scene::start_with(&["pi.example"], "tls-san+: [old.example]\n");
        let laptop = scene.laptops_kubeconfig();
        for (name, want) in [("old.example", "remove it from "), ("kubernetes", "k3s adds itself")] {
            let (code, said) = scene.repair(&["--remove", name]);
            assert_eq!(code, Some(2), "{said}");
            assert!(said.contains(want), "{said}");
        }

        scene.drop_in("50.yaml", "");
        assert_eq!(scene.codes(), ["T-03"]);
        let (code, said) = scene.repair(&["--remove", "old.example", "--dry-run"]);
        assert_eq!((code, scene.systemd.calls().as_str()), (Some(10), ""), "{said}");
        let (code, said) = scene.repair(&["--remove", "old.example"]);
        assert_eq!(code, Some(0), "{said}");
        // A server on its way out may write the name back into its list: then it is taken out once more, three times
        // at most.
        let calls = scene.systemd.calls();
        assert!((1..=3).any(|times| calls == vec!["stop start"; times].join(" ")), "{calls}: {said}");
        assert!(said.contains("old.example is not in the certificate any more"), "{said}");
        assert_eq!(scene.codes(), Vec::<String>::new());
        assert!(scene.laptop(&laptop, "pi.example") && !scene.laptop(&laptop, "old.example"));
        let (code, said) = scene.repair(&["--remove", "old.example"]);
        assert_eq!((code, scene.systemd.calls().as_str()), (Some(0), ""), "{said}");
    }
}

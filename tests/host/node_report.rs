//! What the node agent says in the cluster: its `NodeReport`, its Node's labels, events, and metrics next to them.

mod own_server {
    use std::fs;

    use k8s_openapi::jiff::Timestamp;
    use serde_json::{Value, json};
    use weaver_devstack::ports;
    use weaver_tests::agent::{AgentScene, until};
    use weaver_tests::metrics::ReportedMetrics;
    use weaver_tests::world::given;

    /// What the server was started with: a real k3s keeps the name with which it registered.
    const NAME: &str = "devstack";

    /// The report as it is; nothing while there is none.
    fn report(scene: &AgentScene) -> Value {
        let kubeconfig = scene.server.kubeconfig();
        let (there, text) = scene.kubectl_as(&kubeconfig, &["get", "nodereport", NAME, "-o", "json"]);
        if there { serde_json::from_str(&text).unwrap() } else { Value::Null }
    }

    fn condition<'a>(report: &'a Value, kind: &str) -> &'a Value {
        let conditions = report["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        conditions.iter().find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
    }

    fn names_are(scene: &AgentScene, status: &str) -> (bool, String) {
        let report = report(scene);
        let names = condition(&report, "ServingNamesCovered");
        (names["status"] == status, report.to_string())
    }

    /// Reasons and types of the events about our Node.
    fn events(scene: &AgentScene) -> Vec<String> {
        let of = format!("involvedObject.kind=Node,involvedObject.name={NAME}");
        let line = "jsonpath={range .items[*]}{.type} {.reason}{\"\\n\"}{end}";
        let text = scene.kubectl(&["get", "events", "-n", "default", "--field-selector", &of, "-o", line]);
        text.lines().map(str::to_owned).collect()
    }

    /// The report has this name of the API server, and dates of its certificates that are to come.
    fn serves(report: &Value, name: &str, configured: bool, served: bool) {
        let serving = &report["status"]["serving"];
        for date in ["certificateExpires", "caExpires"] {
            let expires: Timestamp = serving[date].as_str().unwrap().parse().unwrap();
            assert!(expires > Timestamp::now(), "{serving:#}");
        }
        let name = json!({"name": name, "configured": configured, "served": served});
        assert!(serving["names"].as_array().unwrap().contains(&name), "{serving:#}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_fault_comes_and_goes_in_report_labels_events_and_metrics() {
        let scene = AgentScene::start();
        let manifest = scene.dir.path().join("node.json");
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": NAME } });
        fs::write(&manifest, node.to_string()).unwrap();
        scene.kubectl(&["create", "-f", manifest.to_str().unwrap()]);
        let address = format!("127.0.0.1:{}", ports::disposable().unwrap());
        let agent = scene.run(&["--metrics", &address]);
        agent.open();

        until("the names are covered", || names_are(&scene, "True"));
        until("the Node owns the report", || {
            let report = report(&scene);
            (report["metadata"]["ownerReferences"][0]["name"] == NAME, report.to_string())
        });
        let first = report(&scene);
        assert!(first["status"]["kernel"].as_str().unwrap().contains('.'), "{first:#}");
        assert!(first["status"]["k3sVersion"].as_str().unwrap().starts_with("v1."), "{first:#}");
        assert_eq!(first["status"]["conditions"].as_array().unwrap().len(), 5);
        serves(&first, "localhost", false, true);
        let shown = scene.kubectl(&["get", "nr", NAME, "--no-headers"]);
        assert!(shown.contains("True"), "{shown}");

        // On change only: rounds go by, and nothing is written.
        let version = first["metadata"]["resourceVersion"].clone();
        let rounds = ReportedMetrics::at(&address).await.value("weaver_node_checks_total");
        while ReportedMetrics::at(&address).await.value("weaver_node_checks_total") < rounds + 3 {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        assert_eq!(report(&scene)["metadata"]["resourceVersion"], version);

        scene.configure("bux.example");
        until("the report names the fault", || names_are(&scene, "False"));
        let bad = report(&scene);
        let names = condition(&bad, "ServingNamesCovered");
        assert_eq!(names["reason"], "NameNotServed");
        assert!(names["message"].as_str().unwrap().contains("bux.example"), "{names:#}");
        serves(&bad, "bux.example", true, false);
        assert_eq!(bad["status"]["serving"]["caExpires"], first["status"]["serving"]["caExpires"]);
        let findings = bad["status"]["findings"].as_array().unwrap();
        let finding = findings.iter().find(|finding| finding["code"] == "T-02").unwrap();
        assert!(finding["remedy"].as_str().unwrap().contains("\n$ sudo weaver-node-agent repair names"));
        let others = |report: &Value| {
            let conditions = report["status"]["conditions"].as_array().unwrap().clone();
            conditions.into_iter().filter(|c| c["type"] != "ServingNamesCovered").collect::<Vec<_>>()
        };
        assert_eq!(others(&first), others(&bad), "their transition times too");
        until("the Node is labelled", || {
            let label = "jsonpath={.metadata.labels.weaver\\.example\\.com/health}";
            let health = scene.kubectl(&["get", "node", NAME, "-o", label]);
            (health == "fail", health)
        });
        until("an event tells of it", || {
            let reported = events(&scene);
            (reported.contains(&"Warning NameNotServed".to_owned()), format!("{reported:?}"))
        });
        // A laptop, whose weaver has nothing but the kubeconfig.
        let doctor = std::process::Command::new(given("WEAVER_TEST_BIN_DIR").join("weaver"))
            .env("DOCKER_HOST", "unix:///nonexistent")
            .args(["doctor", "-o", "json", "--kubeconfig"])
            .arg(scene.server.kubeconfig())
            .output()
            .unwrap();
        let seen: Value = serde_json::from_slice(&doctor.stdout).unwrap();
        let mut seen =
            seen["findings"].as_array().unwrap().iter().filter(|finding| finding["code"] == "T-02");
        let seen = seen.next().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&doctor.stdout)));
        assert!(seen["message"].as_str().unwrap().contains(&format!("on the node {NAME}")), "{seen:#}");
        assert_eq!((&seen["location"], doctor.status.code()), (&Value::from("node"), Some(10)));
        let metrics = ReportedMetrics::at(&address).await;
        assert_eq!(metrics.value(r#"weaver_node_findings{code="T-02",severity="fail"}"#), 1);
        assert_eq!(metrics.value("weaver_node_gate_open"), 1, "it was proven before");
        assert!(metrics.value("weaver_node_operator_token_expiry_timestamp_seconds") > 1_700_000_000);

        let agent_report = agent.file("report.json");
        // An agent that is started again reports nothing twice.
        agent.stop();
        fs::remove_file(agent_report).unwrap();
        let agent = scene.run(&["--metrics", &address]);
        agent.wait_for("first check", |report| {
            report["reason"].as_str().is_some_and(|why| why.contains("T-02"))
        });
        let rounds = |at_least: u64| {
            let address = address.clone();
            async move {
                while ReportedMetrics::at(&address).await.value("weaver_node_checks_total") < at_least {
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                }
            }
        };
        rounds(4).await;
        scene.take_back();
        agent.open();
        until("the report says that it is gone", || names_are(&scene, "True"));
        until("an event tells that it is gone", || {
            let reported = events(&scene);
            (reported.contains(&"Normal NameNotServed".to_owned()), format!("{reported:?}"))
        });
        let events = events(&scene);
        let warnings = events.iter().filter(|event| *event == "Warning NameNotServed");
        assert_eq!(warnings.count(), 1, "{events:?}");
        let log = fs::read_to_string(&agent.log).unwrap();
        let token = agent.token();
        assert!(!report(&scene).to_string().contains(&token) && !log.contains(&token));
        agent.stop();
    }
}

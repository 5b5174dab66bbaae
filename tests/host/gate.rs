//! The gate on a real API server: shut until every configured name is proven,
//! open from then on.

mod own_server {
    use std::{
        fs,
        time::{Duration, Instant},
    };

    use serde_json::Value;
    use weaver_tests::agent::{AgentScene, PATIENCE, finding, pid, send, until};

    /// A process that has ended and waits to be collected does not run.
    fn runs(pid: u64) -> bool {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
    }

    #[test]
    fn an_unserved_name_keeps_the_gate_shut_until_a_restart_serves_it() {
        let mut scene = AgentScene::start();
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
        let why = unserved["evidence"].as_array().unwrap().last().unwrap()["saw"].as_str().unwrap();
        assert!(why.starts_with("changed after k3s was started"), "{why}");
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
    fn what_the_operator_needs_is_made_again_when_someone_deletes_it() {
        let scene = AgentScene::start();
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
        let scene = AgentScene::start();
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
        let mut scene = AgentScene::start();
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
        let scene = AgentScene::start();
        let agent = scene.run(&[]);
        agent.open();
        scene.apply_upstreams_sample();
        let drift = r#"{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":null}}}}}"#;
        scene.kubectl(&["patch", "crd", "configmapsyncs.weaver.example.com", "--type=merge", "-p", drift]);
        let ask = |arguments: &[&str]| scene.kubectl_as(&scene.server.kubeconfig(), arguments);
        until("v1alpha1 is converted again", || {
            ask(&["get", "configmapsyncs.v1alpha1.weaver.example.com", "old", "-n", "default"])
        });
        scene.kubectl(&["delete", "crd", "nodereports.weaver.example.com"]);
        until("the kind is there again", || ask(&["get", "nodereports"]));
        agent.stop();
    }

    #[test]
    fn an_open_gate_stays_open_and_the_operator_is_looked_after() {
        let scene = AgentScene::start();
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
        send(operator, "KILL");
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

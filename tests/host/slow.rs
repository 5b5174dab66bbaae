//! An API server that takes long: its answers are slow, and nothing is called broken.

mod own_server {
    use std::time::Duration;

    use serde_json::Value;
    use weaver_tests::agent::{AgentScene, finding};
    use weaver_tests::wire::Link;

    fn has(report: &Value, test: impl Fn(&Value) -> bool) -> bool {
        report["findings"].as_array().is_some_and(|findings| findings.iter().any(test))
    }

    fn is_slow(report: &Value) -> bool {
        has(report, |finding| finding["code"] == "F-14")
    }

    fn has_failed(report: &Value) -> bool {
        has(report, |finding| finding["severity"] == "fail")
    }

    /// The agent waits for its server in threads of its own, while those of the runtime carry the bytes.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_slow_api_server_is_a_warning_and_its_names_are_proven_all_the_same() {
        let mut scene = AgentScene::start();
        let wire = Link::start(scene.server.port()).await;
        scene.lead_through(wire.address);
        // Each piece of data: a handshake takes two of them, more than the agent waits at first.
        wire.slow_down(Duration::from_secs(3));
        let (code, report) = scene.check();
        assert_eq!(code, Some(0), "{report:#}");
        let slow = finding(&report, "F-14");
        assert_eq!(slow["severity"], "warn");
        assert!(slow["evidence"][0]["saw"].as_str().unwrap().starts_with("a TLS handshake took"), "{slow}");
        assert!(finding(&report, "T-00")["message"].as_str().unwrap().contains("box.example"));

        wire.slow_down(Duration::ZERO);
        let (code, report) = scene.check();
        assert_eq!(code, Some(0));
        assert!(!is_slow(&report), "{report:#}");

        let agent = scene.run(&[]);
        agent.open();
        agent.wait_for("definitions", |report| report["definitions"]["installed"] == true);
        // Longer than the agent waits for a request.
        wire.slow_down(Duration::from_secs(6));
        let report = agent.wait_for("a warning", |report| {
            assert!(!has_failed(report), "{report:#}");
            is_slow(report)
        });
        assert_eq!((&report["gate"], &report["definitions"]["installed"]), (&"open".into(), &true.into()));
        wire.slow_down(Duration::ZERO);
        let report = agent.wait_for("no warning", |report| {
            assert!(!has_failed(report), "{report:#}");
            !is_slow(report) && report["definitions"]["unanswered"].is_null()
        });
        assert_eq!(report["gate"], "open");
        agent.stop();
    }
}

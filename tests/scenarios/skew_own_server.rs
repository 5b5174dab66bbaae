//! Programs, webhook and definitions of two releases in one cluster.

use std::fs;
use std::sync::Arc;

use futures::FutureExt as _;
use http::Method;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use weaver_devstack::programs::BuiltPrograms;
use weaver_tests::agent::{AgentScene, until};
use weaver_tests::alone::OwnOperator;
use weaver_tests::audit;
use weaver_tests::cli::{ended, weaver_of, weaver_on};
use weaver_tests::own::OwnServer;
use weaver_tests::proxy::Hook;
use weaver_tests::releases::{another_release, change_to, server, stored, this_release};
use weaver_tests::resources;
use weaver_tests::sync_kinds::SyncedKind;
use weaver_tests::world::eventually;

/// The shortest lease.
const SHORT: [&str; 2] = ["--lease", "12"];

/// What both releases know works: syncs of both kinds are reconciled, and `weaver` of each creates, changes, shows,
/// explains and deletes.
async fn what_both_know_works(own: OwnServer) {
    let mut alone = OwnOperator::direct_on(own, &[]).await;
    let world = alone.world("skew");
    let team = world.tenant().await;
    let foo = world.target(&team, "foo").await;
    for of in SyncedKind::BOTH {
        of.grant(&world, &team, &[&team, &foo]).await;
        of.object(&world, &team, &[("a", "1")]).await;
        of.sync(&world, &team, of.spec(&world, &team, &[&foo])).await;
        of.holds(&world, &foo, &[("a", "1")]).await;
        of.object(&world, &team, &[("a", "2")]).await;
        of.holds(&world, &foo, &[("a", "2")]).await;
        of.condition(&world, &team, "Ready", "True", "Synced").await;
    }
    let bar = world.target(&team, "bar").await;
    world.old_sync(&team, "old", world.old_spec(&team, &[&bar])).await;
    world.holds(&bar, "settings", &[("a", "2")]).await;
    world.condition(&team, "old", "Ready", "True", "Synced").await;

    for (name, programs) in [("this", this_release()), ("another", another_release())] {
        let to = world.target(&team, name).await;
        let weaver = async |words: &[&str]| {
            let said = ended(weaver_of(&programs, &alone.own, words)).await;
            assert!(said.done, "{name}: {words:?}: {said:?}");
            said
        };
        let create = ["sync", "create", name, "-n", &team, "--account", "sync", "--source", "settings"];
        weaver(&[&create[..], &["--to", &to]].concat()).await;
        world.holds(&to, "settings", &[("a", "2")]).await;
        let patch = r#"{"spec": {"resyncSeconds": 610}}"#;
        weaver(&["sync", "edit", name, "-n", &team, "--patch", patch]).await;
        world.condition(&team, name, "Ready", "True", "Synced").await;
        let shown = weaver(&["sync", "get", name, "-n", &team, "-o", "json"]).await.json();
        let spec = &shown["spec"];
        assert_eq!((&spec["resyncSeconds"], &spec["targets"]["namespaces"]), (&json!(610), &json!([to])));
        weaver(&["sync", "explain", name, "-n", &team]).await;
        let status = weaver(&["status", "-o", "json"]).await.json();
        assert!(status["leader"]["holder"].is_string(), "{name}: {status:#}");
        assert_eq!(
            (&status["syncs"]["ready"], &status["resources"]["ready"]),
            (&json!(3), &json!(1)),
            "{name}"
        );
        let version = weaver(&["version", "-o", "json"]).await.json();
        assert!(version["cluster"]["operator"]["version"].is_string(), "{name}: {version:#}");
        weaver(&["sync", "delete", name, "-n", &team, "--wait"]).await;
        world.lacks(&to, "settings").await;
    }
    world.delete_sync(&team, "sync").await;
    resources::delete(&world, &team, "sync").await;
    for of in SyncedKind::BOTH {
        of.lacks(&world, &foo).await;
    }
    assert!(!alone.operator.has_ended(), "{}", alone.operator.log());
    world.finish().await;
}

#[tokio::test]
#[ignore = "needs programs of another release: make test-skew PREVIOUS=DIR"]
async fn an_operator_of_another_release_works_on_our_definitions() {
    what_both_know_works(server(&this_release(), &this_release(), &another_release()).await).await;
}

#[tokio::test]
#[ignore = "needs programs of another release: make test-skew PREVIOUS=DIR"]
async fn a_webhook_of_another_release_converts_for_our_definitions_and_operator() {
    what_both_know_works(server(&another_release(), &this_release(), &this_release()).await).await;
}

/// Both newer than the definitions, as in the middle of an upgrade.
#[tokio::test]
#[ignore = "needs programs of another release: make test-skew PREVIOUS=DIR"]
async fn our_webhook_and_operator_work_on_definitions_of_another_release_and_the_difference_is_named() {
    let own = server(&this_release(), &another_release(), &this_release()).await;
    let url = own.webhook.address().url;
    let diff = ended(weaver_on(&own, &["crd", "diff", "--webhook", &url])).await;
    let version = ended(weaver_on(&own, &["version", "-o", "json"])).await.json();
    let mut definitions = version["cluster"]["definitions"].as_array().unwrap().iter();
    assert!(diff.done == diff.out.is_empty() && diff.err.is_empty(), "{diff:?}");
    assert_eq!(diff.done, definitions.all(|one| one["differs"] == false), "{diff:?} {version:#}");
    what_both_know_works(own).await;
}

#[tokio::test]
#[ignore = "needs programs of another release: make test-skew PREVIOUS=DIR"]
async fn an_operator_of_another_release_and_ours_share_the_lease_whichever_leads() {
    for (first, second) in [(another_release(), this_release()), (this_release(), another_release())] {
        let own = server(&this_release(), &this_release(), &first).await;
        let mut alone = OwnOperator::direct_on(own, &SHORT).await;
        let world = alone.world("skew-lease");
        let (team, foo) = world.synced().await;
        alone.own.programs = second;
        let next = alone.another_operator("second", &SHORT).await;
        // In the name of a candidate.
        let pid = format!("_{}_", next.pid());
        let namespace = weaver_api::OPERATOR_NAMESPACE;
        eventually("the second one waits for the lease", || {
            let lease =
                alone.own.kubectl(&["-n", namespace, "get", "lease", "weaver-operator", "-o", "json"]);
            std::future::ready(if lease.contains(&pid) { Ok(()) } else { Err(lease) })
        })
        .await;
        world.config_map(&team, "settings", &[("a", "2")]).await;
        world.holds(&foo, "settings", &[("a", "2")]).await;
        alone.operator.kill();
        world.config_map(&team, "settings", &[("a", "3")]).await;
        world.holds(&foo, "settings", &[("a", "3")]).await;
        assert_eq!(audit::writers_in_turn(&alone.own.audit()).len(), 2, "{}", next.log());
        world.finish().await;
    }
}

/// Lets as many writes of copies pass as there are permits, and holds the others.
fn limited(permits: &Arc<Semaphore>) -> Hook {
    let permits = permits.clone();
    Arc::new(move |method, path| {
        let is_copy =
            method != Method::GET && path.split('/').any(|part| ["configmaps", "gadgets"].contains(&part));
        let permits = permits.clone();
        async move {
            if is_copy {
                permits.acquire().await.unwrap().forget();
            }
        }
        .boxed()
    })
}

#[tokio::test]
#[ignore = "needs programs of another release: make test-skew PREVIOUS=DIR"]
async fn an_upgrade_from_another_release_in_mid_fan_out_and_back_writes_each_copy_once() {
    const TARGETS: usize = 20;
    const ENOUGH: usize = 1_000;
    let old = another_release();
    let permits = Arc::new(Semaphore::new(ENOUGH));
    let own = server(&old, &old, &old).await;
    let mut alone = OwnOperator::on(own, |_| limited(&permits), &SHORT).await;
    let world = alone.world("skew-upgrade");
    let team = world.tenant().await;
    let targets = world.namespaces("to", TARGETS).await;
    let names: Vec<&str> = targets.iter().map(String::as_str).collect();
    let bar = world.target(&team, "bar").await;
    for of in SyncedKind::BOTH {
        of.grant(&world, &team, &[&[team.as_str()][..], &names].concat()).await;
        of.object(&world, &team, &[("a", "0")]).await;
        of.sync(&world, &team, of.spec(&world, &team, &names)).await;
        of.condition(&world, &team, "Ready", "True", "Synced").await;
    }
    world.old_sync(&team, "old", world.old_spec(&team, &[&bar])).await;
    world.condition(&team, "old", "Ready", "True", "Synced").await;
    let before = stored(&alone.own);

    for (value, programs) in [("1", this_release()), ("2", old)] {
        permits.forget_permits(permits.available_permits());
        for of in SyncedKind::BOTH {
            of.object(&world, &team, &[("a", value)]).await;
        }
        // Fewer than the copies of either kind.
        permits.add_permits(TARGETS / 2);
        eventually("the fan-out is on", || {
            let left = permits.available_permits();
            std::future::ready(if left == 0 { Ok(()) } else { Err(left) })
        })
        .await;
        let said = change_to(&mut alone, &programs).await;
        // An older release refuses where its definitions would drop a field, and works on the newer ones.
        assert!(said.done || value == "2" && said.err.contains("would be dropped"), "{said:?}");
        permits.add_permits(ENOUGH);
        for of in SyncedKind::BOTH {
            for target in &targets {
                of.holds(&world, target, &[("a", value)]).await;
            }
            of.condition(&world, &team, "Ready", "True", "Synced").await;
        }
        world.holds(&bar, "settings", &[("a", value)]).await;
        assert_eq!(stored(&alone.own), before);
    }
    let log = alone.own.audit();
    for target in &targets {
        assert_eq!(log.requests(target, "create"), 1, "{target}");
        // Of a request that a kill cut off the log says 504, whether it was stored or not.
        let (done, sent) = (log.changes(target, "update"), log.requests(target, "update"));
        assert!(done <= 2 && 2 <= sent, "{target}: {done} of {sent} updates");
    }
    assert_eq!(audit::writers_in_turn(&log).len(), 3);
    world.finish().await;
}

/// What `weaver` of these programs prints, as JSON.
fn shown(programs: &BuiltPrograms, words: &[&str]) -> Value {
    let mut weaver = std::process::Command::new(programs.weaver().unwrap());
    let output = weaver.env("DOCKER_HOST", "unix:///nonexistent").args(words).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Whether it shows the name that is not served, and all of it.
fn names_it(shown: &Value) -> (bool, String) {
    let findings = shown["findings"].as_array().unwrap();
    (findings.iter().any(|finding| finding["code"] == "T-02"), shown.to_string())
}

/// The report of an agent is read by `weaver` of the other release, from the cluster and from its file; then an agent of
/// that release takes over.
fn reported_to(other: &BuiltPrograms, agents: &BuiltPrograms) {
    let mut scene = AgentScene::start();
    let node = scene.dir.path().join("node.json");
    let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "devstack"}});
    fs::write(&node, object.to_string()).unwrap();
    scene.kubectl(&["create", "-f", node.to_str().unwrap()]);
    scene.change_to(agents);
    let agent = scene.run(&[]);
    agent.open();
    scene.configure("bux.example");

    let kubeconfig = scene.server.kubeconfig();
    let kubeconfig = kubeconfig.to_str().unwrap();
    until("the NodeReport names the fault", || {
        names_it(&shown(other, &["doctor", "-o", "json", "--kubeconfig", kubeconfig]))
    });
    let version = shown(other, &["version", "-o", "json", "--kubeconfig", kubeconfig]);
    assert!(version["cluster"]["nodes"][0]["agent"].is_string(), "{version:#}");
    let report = agent.file("report.json");
    let doctor = ["doctor", "-o", "json", "--kubeconfig", "/nonexistent", "--report"];
    until("the agent's file names the fault", || {
        names_it(&shown(other, &[&doctor[..], &[report.to_str().unwrap()]].concat()))
    });

    scene.take_back();
    agent.stop();
    fs::remove_file(&report).unwrap();
    scene.change_to(other);
    let agent = scene.run(&[]);
    agent.open();
    agent.stop();
}

#[test]
#[ignore = "needs programs of another release: make test-skew PREVIOUS=DIR"]
fn a_report_of_another_release_is_read_by_our_weaver_and_our_agent_takes_over() {
    reported_to(&this_release(), &another_release());
}

#[test]
#[ignore = "needs programs of another release: make test-skew PREVIOUS=DIR"]
fn our_report_is_read_by_weaver_of_another_release_and_its_agent_takes_over() {
    reported_to(&another_release(), &this_release());
}

//! The example controller of `weaver-tenant` works as it says, for a kind that is not ours: it acts with the
//! tenant's rights and no others, survives their loss and that of the account, and says what it waits for.

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;
use weaver_tests::audit::{ACCOUNT, Audit, is_done};
use weaver_tests::cli::program;
use weaver_tests::world::{World, eventually};

const ALL: [&str; 6] = ["get", "list", "watch", "create", "update", "delete"];

/// The controller as a process; it ends with the test.
struct Mirror {
    out: Arc<Mutex<String>>,
    _child: Child,
}

impl Mirror {
    fn start(team: &str, targets: &[&str]) -> Self {
        let account = format!("{team}/{ACCOUNT}");
        let arguments: Vec<&str> = [account.as_str()].into_iter().chain(targets.iter().copied()).collect();
        let mut command = program("examples/mirror", &arguments);
        let mut child = command.stderr(Stdio::inherit()).spawn().unwrap();
        let out = Arc::<Mutex<String>>::default();
        let (written, mut lines) = (out.clone(), BufReader::new(child.stdout.take().unwrap()).lines());
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                written.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        Self { out, _child: child }
    }

    /// Waits until it says these words; what it said before does not count.
    async fn says(&self, words: &str) {
        let before = self.out.lock().unwrap().len();
        eventually(&format!("the controller says {words:?}"), || async {
            let out = self.out.lock().unwrap();
            if out[before..].contains(words) { Ok(()) } else { Err(out.clone()) }
        })
        .await;
    }
}

/// What the tenant may do with the policies of a namespace; replaces what was granted before.
async fn grant(world: &World, team: &str, namespace: &str, verbs: &[&str]) {
    let rules =
        json!([{"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": verbs}]);
    world.grant_rules(team, namespace, "policies", rules).await;
}

fn policies(world: &World, namespace: &str) -> Api<NetworkPolicy> {
    Api::namespaced(world.client.clone(), namespace)
}

/// A policy of the team, to be copied; `port` is what it is about.
async fn put(world: &World, team: &str, name: &str, port: u16) {
    let policies = policies(world, team);
    let version = policies.get_opt(name).await.unwrap().and_then(|policy| policy.metadata.resource_version);
    let policy: NetworkPolicy = serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"mirror": "true"}, "resourceVersion": version},
        "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": port}]}]},
    }))
    .unwrap();
    let params = PostParams::default();
    if version.is_some() {
        policies.replace(name, &params, &policy).await.unwrap();
    } else {
        policies.create(&params, &policy).await.unwrap();
    }
}

/// Waits for the copy.
async fn holds(world: &World, namespace: &str, name: &str, port: u16) {
    let policies = policies(world, namespace);
    eventually(&format!("{namespace}/{name} is about port {port}"), || async {
        let found = policies.get_opt(name).await.unwrap();
        let ingress = found.as_ref().map(|policy| json!(policy.spec)["ingress"].clone());
        let expected = json!([{"ports": [{"port": port, "protocol": "TCP"}]}]);
        if ingress == Some(expected) { Ok(()) } else { Err(found) }
    })
    .await;
}

/// As whom the policies of a namespace were written.
fn writers(audit: &Audit, namespace: &str) -> Vec<String> {
    let events = audit.events();
    let is_write = |event: &&Value| {
        event["objectRef"]["resource"] == "networkpolicies"
            && event["objectRef"]["namespace"] == namespace
            && ["create", "update", "delete"].contains(&event["verb"].as_str().unwrap_or_default())
            && is_done(event)
    };
    events
        .iter()
        .filter(is_write)
        .map(|event| event["user"]["username"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test]
async fn a_controller_for_another_kind_acts_as_its_tenant_and_survives_what_is_taken_away() {
    let world = World::new("mirror").await;
    let team = world.namespace("team").await;
    world.account(&team).await;
    let (foo, bar) = (world.namespace("foo").await, world.namespace("bar").await);
    grant(&world, &team, &team, &["get", "list", "watch"]).await;
    grant(&world, &team, &foo, &ALL).await;
    put(&world, &team, "closed", 80).await;

    // One target grants it, the other does not yet.
    let mirror = Mirror::start(&team, &[&foo, &bar]);
    holds(&world, &foo, "closed", 80).await;
    let account = format!("ServiceAccount {team}/{ACCOUNT}");
    let may_not = |namespace: &str| {
        format!("{account} may not create networkpolicies.networking.k8s.io in namespace {namespace}")
    };
    mirror.says(&format!("{bar}: {}", may_not(&bar))).await;
    grant(&world, &team, &bar, &ALL).await;
    holds(&world, &bar, "closed", 80).await;

    // Changes are followed. What is no copy is left alone.
    put(&world, &foo, "own", 1).await;
    put(&world, &team, "own", 2).await;
    put(&world, &team, "closed", 81).await;
    for target in [&foo, &bar] {
        holds(&world, target, "closed", 81).await;
    }
    holds(&world, &bar, "own", 2).await;
    holds(&world, &foo, "own", 1).await;

    // A right is taken away, and given back.
    grant(&world, &team, &foo, &["get", "list", "watch", "update", "delete"]).await;
    put(&world, &team, "late", 90).await;
    mirror.says(&may_not(&foo)).await;
    holds(&world, &bar, "late", 90).await;
    grant(&world, &team, &foo, &ALL).await;
    holds(&world, &foo, "late", 90).await;

    // The account is deleted, and its tokens with it; one of the same name is created.
    world.delete_account(&team).await;
    let gone = format!("{account} does not exist");
    let mut port = 100;
    while !mirror.out.lock().unwrap().contains(&gone) {
        // The API server remembers for ten seconds that a token was good.
        assert!(port < 200, "{}", mirror.out.lock().unwrap());
        port += 1;
        put(&world, &team, "closed", port).await;
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
    world.account(&team).await;
    put(&world, &team, "closed", 443).await;
    for target in [&foo, &bar] {
        holds(&world, target, "closed", 443).await;
    }

    // What is deleted at its source is deleted everywhere.
    policies(&world, &team).delete("closed", &DeleteParams::default()).await.unwrap();
    for target in [&foo, &bar] {
        eventually("the copy is gone", || async {
            policies(&world, target).get_opt("closed").await.unwrap().map_or(Ok(()), Err)
        })
        .await;
    }
    let tenant = format!("system:serviceaccount:{team}:{ACCOUNT}");
    let written = eventually("the audit log has seen the copies", || async {
        let written = writers(&world.audit, &bar);
        if written.is_empty() { Err(written) } else { Ok(written) }
    })
    .await;
    assert!(written.iter().all(|writer| *writer == tenant), "{written:?}");
    assert!(!mirror.out.lock().unwrap().contains("eyJ"), "a token was said");
    world.finish().await;
}

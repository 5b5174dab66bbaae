//! The manifests for any cluster, judged by a real API server: they apply, apply again without a change, pass
//! admission; and what their pods would run does its work.
//!
//! No kubelet is here. What it would do is done by hand: the container's arguments are run as a process, with
//! the files and variables by which a pod finds the API server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::{Value, json};
use weaver_api::ownership::{ACCEPT_FROM_ANNOTATION, PAUSED_ANNOTATION};
use weaver_devstack::ports;
use weaver_tests::alone::OperatorProcess;
use weaver_tests::audit;
use weaver_tests::metrics::ReportedMetrics;
use weaver_tests::own::OwnServer;
use weaver_tests::pod;
use weaver_tests::world::{World, eventually};

const NAMESPACE: &str = weaver_api::OPERATOR_NAMESPACE;

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

/// `kubectl VERB -k deploy/kubernetes FLAGS`, as the administrator.
fn kustomized(own: &OwnServer, verb: &str, flags: &[&str]) -> String {
    let directory = deploy().join("kubernetes");
    own.kubectl(&[&[verb, "-k", directory.to_str().unwrap()], flags].concat())
}

/// Each object of the manifests, and the version at which the API server has it.
fn versions(own: &OwnServer) -> BTreeMap<String, String> {
    let list: Value = serde_json::from_str(&kustomized(own, "get", &["-o", "json"])).unwrap();
    let version = |object: &Value| {
        let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
        (name, object["metadata"]["resourceVersion"].as_str().unwrap().to_owned())
    };
    list["items"].as_array().unwrap().iter().map(version).collect()
}

/// Pod template of this Deployment.
async fn template(own: &OwnServer, name: &str) -> PodSpec {
    let deployments: Api<Deployment> = Api::namespaced(own.client.clone(), NAMESPACE);
    deployments.get(name).await.unwrap().spec.unwrap().template.spec.unwrap()
}

#[tokio::test]
async fn the_manifests_apply_and_a_second_time_nothing_changes() {
    let own = OwnServer::start().await;
    let made = kustomized(&own, "apply", &[]);
    assert!(made.lines().all(|line| line.ends_with(" created")), "{made}");
    assert_eq!(versions(&own).len(), made.lines().count());
    let tried = kustomized(&own, "apply", &["--dry-run=server"]);
    assert!(tried.lines().all(|line| line.ends_with(" unchanged (server dry run)")), "{tried}");
    // Where controllers run, they write the status of a Deployment just then.
    eventually("nothing moves", || async {
        let before = versions(&own);
        unchanged(&own);
        let after = versions(&own);
        if before == after { Ok(()) } else { Err((before, after)) }
    })
    .await;
}

fn unchanged(own: &OwnServer) {
    let again = kustomized(own, "apply", &[]);
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
}

#[tokio::test]
async fn admission_takes_the_pods_as_restricted_and_no_looser_ones() {
    let own = OwnServer::start().await;
    kustomized(&own, "apply", &[]);
    let pods: Api<Pod> = Api::namespaced(own.client.clone(), NAMESPACE);
    let trial = PostParams { dry_run: true, ..PostParams::default() };
    let pod = |spec: &Value| -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "trial"}, "spec": spec})).unwrap()
    };
    for name in ["weaver-operator", "weaver-webhook"] {
        let template = json!(template(&own, name).await);
        // k3s makes the namespace's default account some seconds after the namespace.
        let whole = pod(&template);
        eventually("the pod is admitted", || pods.create(&trial, &whole)).await;
        for (words, path, loose) in [
            ("runAsNonRoot != true", "/securityContext/runAsNonRoot", json!(false)),
            ("seccompProfile", "/securityContext/seccompProfile", Value::Null),
            ("unrestricted capabilities", "/containers/0/securityContext/capabilities", Value::Null),
            (
                "allowPrivilegeEscalation != false",
                "/containers/0/securityContext/allowPrivilegeEscalation",
                json!(true),
            ),
        ] {
            let mut spec = template.clone();
            *spec.pointer_mut(path).unwrap() = loose;
            let refusal = pods.create(&trial, &pod(&spec)).await.unwrap_err().to_string();
            let violates = refusal.contains("violates PodSecurity \"restricted:latest\"");
            assert!(violates && refusal.contains(words), "{name} {path}: {refusal}");
        }
    }
}

#[tokio::test]
async fn the_containers_command_with_the_accounts_own_rights_syncs() {
    let own = OwnServer::start().await;
    own.install().await.unwrap();
    kustomized(&own, "apply", &[]);
    let InAPod { operator, container, metrics } = in_a_pod(&own).await;

    let world = World::on(own.client.clone(), "in-a-pod", own.logs());
    let (team, foo) = world.synced().await;
    world.config_map(&team, "settings", &[("a", "2")]).await;
    world.holds(&foo, "settings", &[("a", "2")]).await;
    world.delete_sync(&team, "sync").await;
    world.lacks(&foo, "settings").await;
    assert!(operator.log().contains("became the leader"), "{}", operator.log());
    assert!(ReportedMetrics::at(&metrics).await.sum("weaver_requests_total") > 0);
    // As the kubelet would ask.
    for probe in [&container.liveness_probe, &container.readiness_probe] {
        let path = probe.clone().and_then(|probe| probe.http_get?.path).unwrap();
        eventually(&path, || async {
            let (well, report) = operator.health(&path).await;
            if well { Ok(()) } else { Err(report) }
        })
        .await;
    }
    world.finish().await;
}

/// The operator's container, as a process.
struct InAPod {
    operator: OperatorProcess,
    container: Container,
    metrics: String,
}

/// Runs the operator as the Deployment on this server has it.
async fn in_a_pod(own: &OwnServer) -> InAPod {
    let spec = template(own, "weaver-operator").await;
    let metrics = format!("127.0.0.1:{}", ports::disposable().unwrap());
    let operator = pod::start(own, "operator", &spec, &[("--metrics", &metrics)]).await;
    let container = pod::container(&spec).clone();
    InAPod { operator, container, metrics }
}

#[tokio::test]
async fn with_rights_in_two_namespaces_it_serves_these_and_asks_for_nothing_in_any_other() {
    let own = OwnServer::start().await;
    own.install().await.unwrap();
    let world = World::on(own.client.clone(), "namespaced", own.logs());
    let team = world.writer("team", "tokens").await;
    world.robot(&team, "robot").await;
    world.grant_source(&team, &team, "settings").await;
    let foo = world.target(&team, "foo").await;
    let beyond = world.target(&team, "beyond").await;
    let stranger = world.tenant_called("stranger").await;
    for namespace in [&team, &stranger] {
        world.config_map(namespace, "settings", &[("a", "1")]).await;
    }
    world.sync(&stranger, "sync", world.spec(&stranger, &[&foo])).await;

    let directory = deploy().join("namespaced");
    let manifests = own.kubectl(&["kustomize", directory.to_str().unwrap()]);
    let manifests = manifests.replace("team-a", &team).replace("team-b", &foo);
    let file = own.dir().join("namespaced.yaml");
    std::fs::write(&file, manifests).unwrap();
    let apply = ["apply", "-f", file.to_str().unwrap()];
    let made = own.kubectl(&apply);
    assert!(made.lines().all(|line| line.ends_with(" created")), "{made}");
    let again = own.kubectl(&apply);
    assert!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    let InAPod { operator, .. } = in_a_pod(&own).await;

    world.sync(&team, "sync", world.spec(&team, &[&foo, &beyond])).await;
    world.holds(&foo, "settings", &[("a", "1")]).await;
    world.condition(&team, "sync", "TargetsSynced", "False", "TargetsFailed").await;
    let status = world.syncs(&team).get("sync").await.unwrap().status.unwrap();
    let refused = status.targets.iter().find(|target| target.namespace == beyond).unwrap();
    assert_eq!(refused.reason, "NotServed", "{refused:?}");
    // All of this world, of which two are served; the other one has the source.
    let mut spec = world.spec(&team, &[]);
    spec["targets"] = json!({"selector": world.selector()});
    world.sync(&team, "sync", spec).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.service_token(&team, "tokens", &[("a", "robot")]).await;
    world.fresh(&team, "tokens").await;
    // It knows of its own namespace, and of what befalls a target.
    let mark = |key: &str, value: Value| json!({"annotations": {key: value}});
    world.mark_namespace(NAMESPACE, mark(PAUSED_ANNOTATION, json!("a test"))).await;
    world.condition(&team, "sync", "Paused", "True", "PauseRequested").await;
    world.mark_namespace(NAMESPACE, mark(PAUSED_ANNOTATION, Value::Null)).await;
    world.condition(&team, "sync", "Paused", "False", "NotPaused").await;
    world.mark_namespace(&foo, mark(ACCEPT_FROM_ANNOTATION, json!("none"))).await;
    world.condition(&team, "sync", "Ready", "False", "TargetsFailed").await;
    world.mark_namespace(&foo, mark(ACCEPT_FROM_ANNOTATION, Value::Null)).await;
    world.condition(&team, "sync", "Ready", "True", "Synced").await;
    world.delete_sync(&team, "sync").await;
    world.lacks(&foo, "settings").await;

    assert_eq!(world.syncs(&stranger).get("sync").await.unwrap().status, None);
    world.lacks(&beyond, "settings").await;
    let (ready, health) = operator.health("/readyz").await;
    assert!(ready && !health.to_string().contains(&team), "{health:#}");
    let events = own.audit().events().to_vec();
    let refused: Vec<_> =
        audit::own(&events).filter(|event| event["responseStatus"]["code"] == 403).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    world.syncs(&stranger).delete("sync", &DeleteParams::default()).await.unwrap();
    world.finish().await;
}

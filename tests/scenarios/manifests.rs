//! The files below deploy/: an API server knows what they are of, and the chart is what the manifests are.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use kube::core::{GroupVersionKind, TypeMeta};
use kube::discovery::pinned_kind;
use serde_json::{Value, json};
use weaver_devstack::server::ServerBinary;
use weaver_tests::helm::{objects, said};
use weaver_tests::world::{client_of, given};

/// Labels by which Helm and kustomize say what an object is part of.
const PART_OF: [&str; 3] = ["app.kubernetes.io/managed-by", "app.kubernetes.io/part-of", "helm.sh/chart"];

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[tokio::test]
async fn every_file_below_deploy_is_yaml_of_kinds_that_the_api_server_knows() {
    let client = client_of(&given("WEAVER_TEST_KUBECONFIG")).await;
    let mut seen = 0;
    // `monitoring.rs` and `helm_own_server.rs` judge what is not for the API server as it is.
    let elsewhere = ["monitoring", "chart"].map(|name| deploy().join(name));
    for path in files(&deploy()) {
        if elsewhere.iter().any(|other| path.starts_with(other)) {
            continue;
        }
        match path.extension().and_then(OsStr::to_str) {
            Some("yaml") if path.file_name() != Some(OsStr::new("kustomization.yaml")) => {}
            Some("yaml" | "md" | "txt") => continue,
            _ => panic!("what is {}?", path.display()),
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for object in serde_saphyr::from_multiple::<TypeMeta>(&text).unwrap() {
            let kind = GroupVersionKind::try_from(&object).unwrap();
            let known = pinned_kind(&client, &kind).await;
            assert!(known.is_ok(), "{}: {kind:?}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 20, "only {seen} objects");
}

fn kustomized(directory: &str) -> Vec<Value> {
    let mut kubectl = Command::new(ServerBinary::from_environment().unwrap().path);
    kubectl.args(["kubectl", "kustomize"]).arg(deploy().join(directory));
    serde_saphyr::from_multiple(&said(&kubectl.output().unwrap())).unwrap()
}

/// By kind, namespace and name, without what is Helm's, and without what values set that no manifest has.
fn compared(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for mut object in objects {
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.remove("annotations");
        let labels = metadata.remove("labels").unwrap_or_default();
        let mut labels = labels.as_object().cloned().unwrap_or_default();
        labels.retain(|label, _| !PART_OF.contains(&label.as_str()));
        metadata.insert("labels".into(), json!(labels));
        for pod in ["/spec/template/spec", "/spec/jobTemplate/spec/template/spec"] {
            if let Some(container) = object.pointer_mut(&format!("{pod}/containers/0")) {
                let container = container.as_object_mut().unwrap();
                container.remove("imagePullPolicy");
                container.remove("env");
            }
        }
        let id =
            format!("{} {} {}", object["kind"], object["metadata"]["namespace"], object["metadata"]["name"]);
        assert_eq!(all.insert(id.clone(), object), None, "{id} twice");
    }
    all.remove("\"Namespace\" null \"config-weaver\"");
    all
}

#[test]
fn the_chart_is_what_the_manifests_are_with_the_same_rights() {
    let home = tempfile::tempdir().unwrap();
    let mut made = compared(objects(home.path(), &[]));
    // A hook, for ports that are corrected by an upgrade; else it is the policy of the release.
    let id = |name: &str| format!("\"NetworkPolicy\" \"config-weaver\" \"{name}\"");
    let hook = made.remove(&id("weaver-installer-hook")).unwrap();
    assert_eq!(hook["spec"], made[&id("weaver-installer")]["spec"]);
    let applied = compared([kustomized("kubernetes"), kustomized("installer")].concat());
    assert_eq!(made.keys().collect::<Vec<_>>(), applied.keys().collect::<Vec<_>>());
    for (id, object) in &applied {
        assert_eq!(&made[id], object, "{id}");
    }
    let made = compared(objects(
        home.path(),
        &["--set", "operator.namespaces={team-a,team-b}", "--set", "installer.enabled=false"],
    ));
    assert_eq!(made, compared(kustomized("namespaced")));
}

#[test]
fn each_part_with_several_replicas_has_a_budget_that_selects_its_pods() {
    let home = tempfile::tempdir().unwrap();
    let made =
        compared(objects(home.path(), &["--set", "operator.replicas=2", "--set", "webhook.replicas=3"]));
    let spec = |kind: &str, name: &str| &made[&format!("\"{kind}\" \"config-weaver\" \"{name}\"")]["spec"];
    for name in ["weaver-operator", "weaver-webhook"] {
        let budget = spec("PodDisruptionBudget", name);
        assert_eq!(budget["maxUnavailable"], 1, "{name}");
        assert_eq!(budget["unhealthyPodEvictionPolicy"], "AlwaysAllow", "{name}");
        assert_eq!(budget["selector"], spec("Deployment", name)["selector"], "{name}");
    }
    // One replica has none, or its node could not be drained: the test above has no such object.
}

#[test]
fn each_pod_of_the_chart_has_the_labels_and_annotations_that_are_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let mut found = 0;
    for object in objects(home.path(), &["--set", "podLabels.cost=a", "--set", "podAnnotations.inject=b"]) {
        for template in ["/spec/template/metadata", "/spec/jobTemplate/spec/template/metadata"] {
            let Some(metadata) = object.pointer(template) else { continue };
            assert_eq!(metadata["labels"]["cost"], "a", "{object}");
            assert_eq!(metadata["annotations"]["inject"], "b", "{object}");
            found += 1;
        }
    }
    assert_eq!(found, 4);
}

//! The manifests in `deploy/kubernetes/` fit this program: its flags, the ports it opens, its version.
//!
//! What the API server says of them is in the scenario tests.

use clap::Parser as _;
use serde_json::Value;
use weaver_operator::args::{OperatorArgs, OperatorVerb};

const OPERATOR: &str = include_str!("../../../deploy/kubernetes/operator.yaml");
const WEBHOOK: &str = include_str!("../../../deploy/kubernetes/webhook.yaml");
const NAMESPACED: &str = include_str!("../../../deploy/namespaced/kustomization.yaml");
const INSTALL: &str = include_str!("../../../deploy/installer/install.yaml");
const CERTIFICATE: &str = include_str!("../../../deploy/installer/certificate.yaml");
const RIGHTS: &str = include_str!("../../../deploy/namespaced/rights.yaml");
const NETWORK: &str = include_str!("../../../deploy/kubernetes/network.yaml");

fn objects(text: &str) -> Vec<Value> {
    serde_saphyr::from_multiple(text).unwrap()
}

fn container(deployment: &Value) -> &Value {
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 1);
    &containers[0]
}

/// What the program makes of the container's arguments.
fn verb(container: &Value) -> OperatorVerb {
    let arguments = container["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    OperatorArgs::try_parse_from(["weaver-operator"].into_iter().chain(arguments)).unwrap().verb
}

/// The one port that the container names, which each of its probes uses.
fn port(container: &Value) -> u64 {
    let ports = container["ports"].as_array().unwrap();
    assert_eq!(ports.len(), 1);
    for probe in ["readinessProbe", "livenessProbe"] {
        let asked = ["httpGet", "tcpSocket"].map(|way| &container[probe][way]["port"]);
        assert!(asked.contains(&&ports[0]["name"]), "{probe}: {asked:?}");
    }
    ports[0]["containerPort"].as_u64().unwrap()
}

/// The ports that a policy lets in.
fn let_in(policy: &str) -> Vec<Value> {
    let policies = objects(NETWORK);
    let found = policies.iter().find(|found| found["metadata"]["name"] == policy).unwrap();
    let rules = found["spec"]["ingress"].as_array().unwrap();
    rules
        .iter()
        .flat_map(|rule| rule["ports"].as_array().unwrap().iter().map(|port| port["port"].clone()))
        .collect()
}

#[test]
fn the_operator_listens_where_its_probes_and_its_policy_say() {
    let deployment = &objects(OPERATOR)[0];
    let container = container(deployment);
    let OperatorVerb::Run(options) = verb(container) else { panic!("it does not run the controllers") };
    let address = options.metrics.0.unwrap();
    assert!(address.ip().is_unspecified(), "the kubelet comes from outside: {address}");
    assert_eq!(u64::from(address.port()), port(container));
    assert_eq!(let_in("weaver-operator"), [u64::from(address.port())]);
    for (probe, path) in [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
        assert_eq!(container[probe]["httpGet"]["path"], path);
    }
    assert!(!options.standalone);
}

#[test]
fn only_pods_of_namespaces_for_monitoring_reach_the_metrics() {
    let policies = objects(NETWORK);
    let policy = policies.iter().find(|policy| policy["metadata"]["name"] == "weaver-operator").unwrap();
    let from = serde_json::json!([
        {"namespaceSelector": {"matchLabels": {"weaver.example.com/monitoring": "true"}}}
    ]);
    let rules = policy["spec"]["ingress"].as_array().unwrap();
    assert_eq!((rules.len(), &rules[0]["from"]), (1, &from));
}

#[test]
fn the_variant_for_some_namespaces_names_the_same_ones_everywhere() {
    let kustomization: Value = serde_saphyr::from_str(NAMESPACED).unwrap();
    let patch = kustomization["patches"][1]["patch"].as_str().unwrap();
    let patch: Value = serde_saphyr::from_str(patch).unwrap();
    let flag = patch[0]["value"].as_str().unwrap();
    let OperatorVerb::Run(options) =
        OperatorArgs::try_parse_from(["weaver-operator", "run", flag]).unwrap().verb
    else {
        panic!("{flag}")
    };
    let rights = objects(RIGHTS);
    let bound =
        |binding: &&Value| binding["roleRef"]["kind"] == "ClusterRole" && binding["kind"] == "RoleBinding";
    let bound = rights.iter().filter(bound).map(|binding| binding["metadata"]["namespace"].as_str().unwrap());
    let bound: Vec<_> = bound.map(|name| Some(name.to_owned())).collect();
    assert_eq!(bound, options.namespaces.resource_namespaces());
    let seen = rights.iter().find(|role| role["kind"] == "ClusterRole").unwrap();
    let mut seen: Vec<Option<String>> =
        serde_json::from_value(seen["rules"][0]["resourceNames"].clone()).unwrap();
    seen.rotate_left(1);
    assert_eq!(seen, options.namespaces.namespaces());
}

#[test]
fn the_webhook_listens_where_its_probes_its_service_and_its_policy_say() {
    let objects = objects(WEBHOOK);
    let [deployment, service] = [&objects[0], &objects[1]];
    let container = container(deployment);
    let OperatorVerb::Webhook(options) = verb(container) else { panic!("it is no webhook") };
    assert!(options.listen.ip().is_unspecified(), "{}", options.listen);
    assert_eq!(u64::from(options.listen.port()), port(container));
    assert_eq!(let_in("weaver-webhook"), [u64::from(options.listen.port())]);
    assert_eq!(service["spec"]["ports"][0]["targetPort"], container["ports"][0]["name"]);
    let mount = &container["volumeMounts"][0];
    assert_eq!(mount["mountPath"].as_str(), options.certificates.to_str());
    let volume = &deployment["spec"]["template"]["spec"]["volumes"][0];
    assert_eq!((&volume["name"], &mount["readOnly"]), (&mount["name"], &Value::Bool(true)));
    let shown = [serde_json::json!({"key": "leaf.pem", "path": "leaf.pem"})];
    assert_eq!(volume["secret"]["items"].as_array().unwrap(), &shown, "the CA's key is not for this program");
}

#[test]
fn the_jobs_install_for_the_service_of_the_webhook_with_the_image_of_this_release() {
    let service = &objects(WEBHOOK)[1]["metadata"];
    for (file, pod, is_certificate) in
        [(INSTALL, "/spec/template/spec", false), (CERTIFICATE, "/spec/jobTemplate/spec/template/spec", true)]
    {
        let objects = objects(file);
        let pod = objects.last().unwrap().pointer(pod).unwrap();
        let container = &pod["containers"][0];
        let OperatorVerb::Install(options) = verb(container) else { panic!("it does not install") };
        assert_eq!(options.certificate_only, is_certificate);
        let Value::String(namespace) = &service["namespace"] else { panic!("{service}") };
        assert_eq!(options.service.to_string(), format!("{namespace}/{}", service["name"].as_str().unwrap()));
        let tag = container["image"].as_str().unwrap().rsplit_once(':').map(|(_, tag)| tag);
        assert_eq!(tag, Some(env!("CARGO_PKG_VERSION")));
        // Of the account, which is in the same file.
        let account = &pod["serviceAccountName"];
        assert!(
            objects.iter().any(|one| one["kind"] == "ServiceAccount" && one["metadata"]["name"] == *account)
        );
    }
}

#[test]
fn the_webhook_of_the_card_has_the_socket_that_the_node_agent_names_to_the_api_server() {
    let socket = include_str!("../../../systemd/weaver-webhook.socket");
    assert!(socket.contains(&format!("\nListenStream={}\n", weaver_operator::webhook::LISTEN)), "{socket}");
}

#[test]
fn each_pod_is_of_this_release_and_is_selected_by_its_own_deployment_service_and_policy() {
    for (file, policy) in [(OPERATOR, "weaver-operator"), (WEBHOOK, "weaver-webhook")] {
        let objects = objects(file);
        let deployment = &objects[0];
        let labels = deployment["spec"]["template"]["metadata"]["labels"].as_object().unwrap();
        let image = container(deployment)["image"].as_str().unwrap();
        assert_eq!(image.rsplit_once(':').map(|(_, tag)| tag), Some(env!("CARGO_PKG_VERSION")));
        let policies = self::objects(NETWORK);
        let policy = policies.iter().find(|found| found["metadata"]["name"] == policy).unwrap();
        let selectors =
            [&deployment["spec"]["selector"]["matchLabels"], &policy["spec"]["podSelector"]["matchLabels"]];
        let service = objects.get(1).map(|service| &service["spec"]["selector"]);
        for selector in selectors.into_iter().chain(service) {
            assert_eq!(selector.as_object(), Some(labels), "{policy:#}");
        }
    }
}

//! A pod of a manifest, as a process. No kubelet is here: its container's arguments are run with the files
//! and variables by which a pod finds the API server.

use std::path::PathBuf;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use serde_json::json;

use crate::alone::OperatorProcess;
use crate::own::OwnServer;

const NAMESPACE: &str = weaver_api::OPERATOR_NAMESPACE;

/// The files that the kubelet mounts for this account, in a new directory.
async fn mounted(own: &OwnServer, name: &str, account: &str) -> PathBuf {
    let kubeconfig = json!(own.kubeconfig_of(NAMESPACE, account).await);
    let token = kubeconfig["users"][0]["user"]["token"].as_str().unwrap();
    let ca = kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"].clone();
    let ca: ByteString = serde_json::from_value(ca).unwrap();
    let directory = own.dir().join(format!("account-{name}"));
    std::fs::create_dir(&directory).unwrap();
    for (file, content) in
        [("token", token.as_bytes()), ("ca.crt", &ca.0), ("namespace", NAMESPACE.as_bytes())]
    {
        std::fs::write(directory.join(file), content).unwrap();
    }
    directory
}

/// Runs the one container of the pod; its log is `NAME.log`. The values of these flags are others here.
pub async fn start(own: &OwnServer, name: &str, pod: &PodSpec, instead: &[(&str, &str)]) -> OperatorProcess {
    assert_eq!(pod.automount_service_account_token, Some(true));
    let account = mounted(own, name, pod.service_account_name.as_deref().unwrap()).await;
    let container = container(pod);
    assert_eq!(container.command, None, "the image says what is run");
    let mut arguments = container.args.clone().unwrap();
    for (flag, value) in instead {
        let flag = format!("{flag}=");
        *arguments.iter_mut().find(|word| word.starts_with(&flag)).unwrap() = format!("{flag}{value}");
    }
    let given = container.env.iter().flatten();
    let mut variables: Vec<_> =
        given.map(|one| (one.name.clone(), one.value.clone().unwrap_or_default())).collect();
    // Those that each container has.
    let port = own.server.port().to_string();
    let address = [("KUBERNETES_SERVICE_HOST", "127.0.0.1"), ("KUBERNETES_SERVICE_PORT", &port)];
    variables.extend(address.map(|(name, value)| (name.to_owned(), value.to_owned())));
    OperatorProcess::in_a_pod(own, name, &arguments, &variables, &account)
}

/// The one container of a pod.
pub fn container(pod: &PodSpec) -> &Container {
    assert_eq!(pod.containers.len(), 1);
    &pod.containers[0]
}

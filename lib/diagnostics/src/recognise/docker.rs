//! What Docker says, by its command line, its daemon or buildx: it has settings of its own, and reads none of k3s'.

use super::details::{Details, has_any};
use crate::finding::Remedy;

/// Go's bare error and the registry's own words, in which its commands end.
const FIRST: [&str; 6] = [
    "Get \"http",
    "Get http",
    "ERROR: failed to push ",
    "ERROR: failed to solve: ",
    "denied: ",
    "toomanyrequests: ",
];

/// A kubelet of before 1.24 quotes it, and pulls for pods.
fn speaks(line: &str) -> bool {
    let line = line.trim_start();
    let is_of_docker =
        FIRST.iter().any(|first| line.starts_with(first)) || has_any(line, &["from daemon", "dockerd["]);
    is_of_docker && !line.contains("rpc error: ")
}

/// With what helps where Docker is the one that speaks.
pub(super) fn advised(details: Details, line: &str, remedy: impl FnOnce() -> Remedy) -> Details {
    if speaks(line) { details.remedy(remedy()) } else { details }
}

/// A registry without TLS. Whom a machine trusts, a line does not choose.
pub(super) fn plain_http() -> Remedy {
    Remedy::new(
        "Docker has a list of its own: add `\"insecure-registries\": [\"REGISTRY:PORT\"]` to its settings, and restart it. For \
         k3s, the last command prints what to add to /etc/rancher/k3s/registries.yaml",
    )
    .command("sudo nano /etc/docker/daemon.json")
    .command("sudo systemctl restart docker")
    .command("weaver registry config REGISTRY:PORT --http")
}

pub(super) fn untrusted() -> Remedy {
    Remedy::new(
        "Docker: copy the CA certificate into the directory below; it reads it at once. k3s has its own list: the last command \
         prints what to add to /etc/rancher/k3s/registries.yaml",
    )
    .command("sudo install -D -m 644 CA.crt /etc/docker/certs.d/REGISTRY:PORT/ca.crt")
    .command("weaver registry config REGISTRY:PORT --ca-file /etc/rancher/k3s/registry-ca.crt")
}

pub(super) fn refused() -> Remedy {
    Remedy::new(
        "check the name; for a private image log in on this machine. k3s knows nothing of that: a pod takes an imagePullSecret, \
         and the node what registries.yaml has",
    )
    // Who logs in sends a password there: not to a host that a line names.
    .command("docker login REGISTRY")
}

pub(super) fn limited() -> Remedy {
    Remedy::new(
        "wait a few hours, or log in, which raises the limit; for k3s the last command prints a template of registries.yaml",
    )
    .command("docker login")
    .command("weaver registry config docker.io")
}

pub(super) fn offline(name: &str) -> Remedy {
    Remedy::new("check network and DNS of the machine on which Docker runs, or its proxy")
        .command(format!("getent hosts {name}"))
        .command("ip route")
}

pub(super) fn full() -> Remedy {
    Remedy::new(
        "remove layers and build caches that no image uses; then find what is large. `docker system prune` also deletes stopped \
         containers with their data, as those of a stopped cluster of k3d",
    )
    .command("docker system df")
    .command("docker image prune")
    .command("docker builder prune")
    .command("df -h /")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docker_is_known_by_its_head_and_not_where_a_kubelet_quotes_it() {
        for (line, is_docker) in [
            (r#"Get "https://10.0.0.15:5000/v2/": http: server gave HTTP response to HTTPS client"#, true),
            ("  Error response from daemon: toomanyrequests: You have reached your pull rate limit.", true),
            ("denied: requested access to the resource is denied", true),
            (
                r#"Failed to pull image "a": rpc error: code = Unknown desc = Error response from daemon: a"#,
                false,
            ),
            (r#"Head "https://reg.lan/v2/a/manifests/1": x509: certificate has expired"#, false),
        ] {
            assert_eq!(speaks(line), is_docker, "{line}");
        }
    }
}

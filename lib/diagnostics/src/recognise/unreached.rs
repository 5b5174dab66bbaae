//! What is said of registries that do not answer: the node asks them, or Docker does.

use super::details::{Details, after, has_any, is_name};
use super::disks::is_number;
use super::peer::asks_the_api_server;
use super::{docker, k3d};
use crate::finding::Remedy;

/// A host with or without a port, and nothing that a shell reads otherwise.
fn is_host(server: &str) -> bool {
    let (name, port) = server.rsplit_once(':').unwrap_or((server, "443"));
    is_name(name) && is_number(port)
}

/// Nothing came back from the registry.
pub(super) fn registry(line: &str) -> Option<Details> {
    // The last is of Docker before 18.
    let is_of_a_registry = has_any(line, &["/v2/", "/registry-v2/", "/v1/_ping"]);
    (is_of_a_registry && !asks_the_api_server(line)).then(|| reached(line))?
}

/// The server that gives tokens for a registry, which is asked before it.
pub(super) fn tokens(line: &str) -> Option<Details> {
    let is_of_a_registry = line.contains("fetch anonymous token") || line.contains("fetch oauth token");
    is_of_a_registry.then(|| reached(line))?
}

/// No one knows the name; the last is glibc's, of a name that its modules for `.localhost` quarrel about.
const NO_NAME: [&str; 5] = [
    "no such host",
    "server misbehaving",
    "Try again",
    "Temporary failure in name resolution",
    "device or resource busy",
];

const NO_ANSWER: [&str; 9] = [
    "i/o timeout",
    "connection refused",
    "network is unreachable",
    "no route to host",
    "TLS handshake timeout",
    "connection reset by peer",
    "Client.Timeout exceeded",
    "timeout awaiting response headers",
    "context deadline exceeded",
];

fn nothing_listens(url: &str, is_here: bool) -> Remedy {
    // microk8s#4724, microk8s#2554
    let whose = if is_here {
        ". Docker Desktop and a Docker without root have a `localhost` of their own: name an address of this machine"
    } else {
        ""
    };
    Remedy::new(format!(
        "nothing listens at that address and port: start the registry, or correct the port{whose}"
    ))
    .command(format!("curl -v {url}/v2/"))
    .command("# on the registry's machine:")
    .command("sudo ss -lntp")
}

fn reached(line: &str) -> Option<Details> {
    let why = NO_NAME
        .into_iter()
        .chain(NO_ANSWER)
        .find(|why| line.contains(why))
        .or_else(|| line.contains("\": EOF").then_some("the connection was closed"))?;
    let (scheme, host) = ["https://", "http://"]
        .into_iter()
        .find_map(|scheme| Some((scheme, after(line, scheme, &['/', '"', ' '])?)))?;
    let details = Details::message(format!("the node does not reach {host}: {why}"));
    if !is_host(host) {
        return Some(details);
    }
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    if let Some(remedy) = k3d::of_a_registry(name).filter(|_| NO_NAME.contains(&why)) {
        let message = format!("the name `{name}`, as of a registry of k3d, is not known here");
        return Some(Details::message(message).remedy(remedy));
    }
    let is_of_a_service = name.split('.').skip(2).any(|label| label == "svc");
    let is_here = ["localhost", "127.0.0.1"].contains(&name);
    let is_local = is_here && line.contains("ull image \"");
    let details = details.remedy(if is_of_a_service {
        Remedy::new(
            "this is a Service, whose name only pods can resolve; images are pulled by the node. Make the Service a \
             NodePort, and name that address as a mirror in /etc/rancher/k3s/registries.yaml",
        )
        .command(format!("weaver registry config {host}"))
        .command("kubectl get services -A | grep -i registry")
    } else if is_local {
        k3d::localhost()
    } else if why == "connection refused" {
        nothing_listens(&format!("{scheme}{host}"), is_here)
    } else if is_here {
        Remedy::new("what listens there does not answer, as while it starts: try again; if it stays so, its log says why")
            .command("docker ps")
            .command("docker logs --tail 20 REGISTRY")
    } else {
        Remedy::new(
            "check network and DNS on the node, not on the laptop; without a network, import the image from a file",
        )
        .command(format!("getent hosts {name}"))
        .command("ip route")
        .command("sudo k3s ctr images import FILE.tar")
    });
    // Where nothing listens, or the name is one of the cluster or of this machine, it does not matter who asks.
    if is_of_a_service || is_here || why == "connection refused" {
        return Some(details);
    }
    Some(docker::advised(details, line, || docker::offline(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// k3d#796, #774, #1353 and #763.
    #[test]
    fn a_registry_of_k3d_is_looked_for_where_it_is_known() {
        let remedy = |line: &str| {
            let details = registry(line).unwrap();
            let remedy = details.remedy.unwrap();
            let commands: Vec<String> = remedy.commands.iter().map(ToString::to_string).collect();
            (details.message.unwrap(), remedy.explain, commands.join("; "))
        };
        for why in ["no such host", "Temporary failure in name resolution", "device or resource busy"] {
            let (message, _, commands) = remedy(&format!(
                r#"Get "https://k3d-registry.localhost:5000/v2/": dial tcp: lookup k3d-registry.localhost: {why}"#
            ));
            assert!(message.starts_with("the name `k3d-registry.localhost`"), "{message}");
            assert!(commands.contains("echo '127.0.0.1 k3d-registry.localhost'"), "{commands}");
        }
        let (_, explain, commands) = remedy(
            r#"Failed to pull image "localhost:5000/app:1": failed to do request: Head "http://localhost:5000/v2/app/manifests/1": dial tcp [::1]:5000: connect: connection refused"#,
        );
        assert!(
            explain.contains("itself") && commands.contains("k3d registry list"),
            "{explain}: {commands}"
        );
        // Docker of this machine, and a node.
        let offline =
            r#"Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: no such host"#;
        assert!(remedy(offline).1.contains("Docker"), "{}", remedy(offline).1);
        let pulled = offline.replace("Get ", "failed to do request: Head ");
        assert!(remedy(&pulled).1.contains("not on the laptop"), "{}", remedy(&pulled).1);
    }
}

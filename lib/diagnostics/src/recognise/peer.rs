//! Who speaks, and with whom: what TLS says of a certificate is a matter of k3s only where the API server was
//! asked. The same libraries tell of databases, mail servers and web sites.

use std::net::IpAddr;

use super::details::{after, has_any};

/// The peer that a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// The API server of a cluster, or the supervisor of k3s next to it.
    ApiServer,
    /// The line has nothing but the words of a library or of a tool that is typed by hand.
    Unnamed,
    Other,
}

/// Programs and words that have to do with nothing but an API server.
const OF_THE_API_SERVER: &[&str] = &[
    "Unable to connect to the server",
    "couldn't get current server API group list",
    "couldn't read version from server",
    "luster unreachable",
    "Kubernetes cluster",
    "The connection to the server ",
    "can't connect to cluster",
    "connect to Kubernetes API",
    "http: proxy error: ",
    // Lens' own proxy.
    "/api-kube/",
    "Error while proxying request",
    "candidate authority certificate \"kubernetes\"",
    "k3s-server-ca",
    "k3s-client-ca",
    "kube-apiserver",
    "kube_client",
    "kubernetes.client",
    "kubernetes_asyncio",
    "io.kubernetes.",
    "KubernetesClientException",
    "k8s.client",
    "Failed to connect to proxy. Empty dialer response",
    "/cacerts",
    "/v1-k3s/",
    "kubectl",
    "memcache.go",
    ":6443",
    ":6444",
    ":16443",
    "port=6443",
    "port 6443",
];

/// Resources that an API server has at `/api/v1/`, where others have something else; first those that are in no
/// namespace.
const RESOURCES: &[&str] = &[
    "namespaces",
    "nodes",
    "persistentvolumes",
    "pods",
    "services",
    "endpoints",
    "configmaps",
    "secrets",
    "events",
    "persistentvolumeclaims",
    "serviceaccounts",
    "replicationcontrollers",
    "limitranges",
    "resourcequotas",
];

/// Names in the certificate of each API server.
pub(super) fn is_of_kubernetes(name: &str) -> bool {
    name == "kubernetes"
        || name.starts_with("kubernetes.default")
        || name == "10.43.0.1"
        || name == "10.96.0.1"
}

/// The URLs of a line that are looked at, and the bytes of each: a line of nothing else takes no longer.
const MOST: usize = 32;
const LONGEST: usize = 2 * 1024;

/// Each URL of a line: host with port, and the path with what follows.
fn urls(line: &str) -> impl Iterator<Item = (&str, &str)> {
    const END: &[char] = &['"', ' ', '\'', ')', '>', ','];
    line.match_indices("://").take(MOST).filter_map(|(at, _)| {
        let rest = &line[at + 3..];
        let rest = &rest[..rest.floor_char_boundary(LONGEST)];
        let url = rest.split(END).next().unwrap_or_default().trim_end_matches(':');
        let end = url.find(['/', '?']).unwrap_or(url.len());
        (!url.is_empty()).then(|| url.split_at(end))
    })
}

/// Is this a path that only an API server has? `metrics.k8s.io` is behind it, and has a certificate of its own.
fn is_of_an_api_server(path: &str) -> bool {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let is_version = path == "/version" && (query.is_empty() || query.starts_with("timeout="));
    let is_group = path == "/apis"
        || path.strip_prefix("/apis/").is_some_and(has_version) && !path.contains("metrics.k8s.io");
    // Its schema, which kubectl compares a file with; other servers have theirs at such paths, and no timeout.
    let is_schema = ["/openapi/v2", "/openapi/v3", "/swagger-"].iter().any(|start| path.starts_with(start))
        && query.contains("timeout=");
    path.strip_prefix("/api/v1/").is_some_and(is_core)
        || is_version
        || is_schema
        || is_group
        || matches!(path, "/api" | "/api/v1" | "/cacerts")
        || path.starts_with("/v1-k3s/")
}

/// A resource by its name, and no word that begins like it. One that is in a namespace has nothing below it here: its
/// objects are at `namespaces/NAMESPACE/pods/NAME`.
fn is_core(rest: &str) -> bool {
    let is_end = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let name = rest.split(is_end).next().unwrap_or_default();
    RESOURCES[..3].contains(&name) || RESOURCES.contains(&name) && !rest[name.len()..].starts_with('/')
}

/// `apps/v1/deployments`: a group, and a version of it.
fn has_version(rest: &str) -> bool {
    let version = rest.split('/').nth(1).and_then(|version| version.strip_prefix('v'));
    version.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
}

/// Other servers have these, too.
fn is_common(path: &str) -> bool {
    const OF_OTHERS: [&str; 4] =
        ["/api/v1/endpoints", "/api/v1/events", "/api/v1/secrets", "/api/v1/services"];
    matches!(path, "/api" | "/apis" | "/api/v1" | "/version" | "/cacerts")
        || OF_OTHERS.contains(&path.split('?').next().unwrap_or(path))
}

/// Where urllib3 does not name the server, or not as a URL: `with url: /api/v1/nodes`, `…)': /api/v1/nodes`.
fn asks_by_path(line: &str) -> bool {
    [" with url: ", "': "]
        .iter()
        .filter_map(|before| after(line, before, &[' ', ')']))
        .any(|path| path.starts_with('/') && !is_common(path) && is_of_an_api_server(path))
}

/// Does a client ask for an API server at `localhost` without a port, as Terraform's providers without configuration?
pub(super) fn asks_nowhere(line: &str) -> bool {
    urls(line).any(|(host, path)| host == "localhost" && !is_common(path) && is_of_an_api_server(path))
}

/// Does a server of k3s ask itself? An agent asks its load balancer, which has another port.
pub(super) fn asks_itself(line: &str) -> bool {
    urls(line).any(|(host, path)| {
        ["127.0.0.1:6443", "localhost:6443", "[::1]:6443"].contains(&host)
            && (path == "/cacerts" || path.starts_with("/v1-k3s/"))
    })
}

/// Does a program of k3s on this node ask the API server? On a server, that itself has this port; on a node that joins
/// one, k3s' load balancer before it.
pub(super) fn asks_by_k3s(line: &str) -> bool {
    urls(line).any(|(host, _)| ["127.0.0.1:6444", "localhost:6444", "[::1]:6444"].contains(&host))
}

/// Does a pod ask for the API server, by the Service `kubernetes`? Outside it has another address, or another port.
pub(super) fn asks_from_a_pod(line: &str) -> bool {
    urls(line).any(|(host, _)| {
        let (name, port) = host.split_once(':').unwrap_or((host, "443"));
        port == "443" && name != "kubernetes" && is_of_kubernetes(name)
    })
}

/// Does the line tell of the API server, and not of any server?
pub(super) fn asks_the_api_server(line: &str) -> bool {
    peer(line) == Peer::ApiServer
}

pub(super) fn peer(line: &str) -> Peer {
    // The kubelet's own certificate is at 10250, and has other names than the API server's.
    if line.contains(":10250") {
        return Peer::Other;
    }
    if OF_THE_API_SERVER.iter().any(|words| line.contains(words)) {
        return Peer::ApiServer;
    }
    let mut has_url = false;
    for (host, path) in urls(line) {
        has_url = true;
        let name = host.split(':').next().unwrap_or(host);
        if is_of_kubernetes(name) || is_of_an_api_server(path) {
            return Peer::ApiServer;
        }
    }
    if asks_by_path(line) {
        return Peer::ApiServer;
    }
    if has_url || line.contains("HTTPSConnectionPool(host=") || line.contains("[IP: ") {
        return Peer::Other;
    }
    // In the journal; what they say of others has a URL.
    if has_any(line, &["k3s[", "kubelet[", "k3s:"]) {
        return Peer::ApiServer;
    }
    if is_bare(line) { Peer::Unnamed } else { Peer::Other }
}

/// How the messages of libraries and tools begin that name no peer: a program that speaks for itself says its own name
/// or what it wanted in front of it.
const BARE: &[&str] = &[
    "x509: ",
    "tls: ",
    "curl: (",
    "error [err_tls_",
    "verify error:",
    "verify return code",
    "javax.net.ssl.sslhandshakeexception: no ",
    "javax.net.ssl.sslpeerunverifiedexception: hostname ",
    "java.security.cert.certificateexception: no ",
    "ssl.ssl",
    "urllib.error.urlerror: <urlopen error [ssl",
    "- status:",
    "issued certificate",
    "{ code: '",
    "hyper error: invalid",
    "invalid peer certificate",
    "invalid certificate: ",
    "the certificate's owner",
    "unable to locally verify",
    "self-signed certificate encountered",
    "no certificate subject alternative",
    "unable to verify the first certificate",
    "unable to get issuer certificate",
    "unable to get local issuer certificate",
    "self-signed certificate",
    "self signed certificate",
    "certificate has expired",
    "client error (connect): invalid peer",
    "the remote certificate is invalid",
    "error trying to connect: invalid peer",
];

fn is_bare(line: &str) -> bool {
    let line = line.trim_start().to_ascii_lowercase();
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    BARE.iter().any(|start| line.starts_with(start))
}

/// An address that no router of the internet knows.
pub(super) fn is_local_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_private(),
        IpAddr::V6(address) => address.is_unique_local(),
    }
}

/// A name of the internet, and not of a home or of one machine.
pub(super) fn is_public(name: &str) -> bool {
    const LOCAL: &[&str] = &[
        "lan",
        "local",
        "localdomain",
        "home",
        "arpa",
        "internal",
        "intern",
        "box",
        "test",
        "example",
        "svc",
        "localhost",
    ];
    let name = name.trim_end_matches('.');
    let Some((_, last)) = name.rsplit_once('.') else { return false };
    !LOCAL.contains(&last) && last.bytes().all(|c| c.is_ascii_alphabetic()) && !last.is_empty()
}

/// The DNS server has the address that k3s, kubeadm, EKS, `microk8s` or Kubespray give it, or the node has a cache of
/// its own.
pub(super) fn asks_dns_of_a_cluster(line: &str) -> bool {
    let servers = [
        "10.43.0.10",
        "10.96.0.10",
        "172.20.0.10",
        "10.100.0.10",
        "10.152.183.10",
        "10.233.0.3",
        "169.254.20.10",
        "169.254.25.10",
    ];
    servers.into_iter().any(|server| {
        line.match_indices(server).any(|(at, _)| {
            let rest = &line[at + server.len()..];
            let is_whole = !line[..at].ends_with(|c: char| c.is_ascii_digit() || c == '.');
            is_whole && (rest.starts_with(":53") || rest.starts_with("#53"))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whom_a_line_tells_of() {
        for (line, want) in [
            (r#"Get "https://10.0.0.7:6443/version": x509: "#, Peer::ApiServer),
            (r#"Get "https://pi/api/v1/namespaces/default/pods?limit=5": x509: "#, Peer::ApiServer),
            (r#"Get "https://pi/apis/apps/v1/deployments": x509: "#, Peer::ApiServer),
            (r#"Get "https://pi/apis/metrics.k8s.io/v1beta1": x509: "#, Peer::Other),
            (r#"Get "https://pi/openapi/v2?timeout=32s": x509: "#, Peer::ApiServer),
            (r#"Get "https://shop.example/openapi/v3/orders": x509: "#, Peer::Other),
            (r#"Get "https://grafana.example/api/a": x509: "#, Peer::Other),
            (r#"Get "https://forge.example/api/v1/repos": x509: "#, Peer::Other),
            (r#"Get "https://shop.example/api/v1/servicestatus": x509: "#, Peer::Other),
            (r#"Get "https://shop.example/api/v1/events/7": x509: "#, Peer::Other),
            (r#"Get "https://shop.example/apis/site/orders": x509: "#, Peer::Other),
            (r#"Get "https://pi/api/v1/nodes/pi?timeout=10s": x509: "#, Peer::ApiServer),
            (r#"Get "https://pi/api/v1/persistentvolumeclaims": x509: "#, Peer::ApiServer),
            (r#"Get "https://192.0.2.7:10250/metrics/resource": x509: "#, Peer::Other),
            ("LDAP Result Code 200: x509: ", Peer::Other),
            (
                "HTTPSConnectionPool(host='pi', port=443): Max retries exceeded with url: /api/v1/nodes (",
                Peer::ApiServer,
            ),
            (
                "HTTPSConnectionPool(host='pi', port=443): Max retries exceeded with url: /version (",
                Peer::Other,
            ),
            (
                "HTTPSConnectionPool(host='shop.example', port=443): Max retries exceeded with url: /api/v1/events?x=1 (",
                Peer::Other,
            ),
            (
                "Retrying after connection broken by 'SSLError()': /api/v1/namespaces/team/pods",
                Peer::ApiServer,
            ),
            ("Retrying after connection broken by 'SSLError()': /simple/requests/", Peer::Other),
            ("MongoServerSelectionError: certificate has expired", Peer::Other),
            ("Error: certificate has expired", Peer::Unnamed),
            ("x509: certificate signed by unknown authority", Peer::Unnamed),
            ("", Peer::Other),
            ("://", Peer::Other),
        ] {
            assert_eq!(peer(line), want, "{line}");
        }
        for (name, want) in [
            ("example.com", true),
            ("raspi", false),
            ("raspi.lan", false),
            ("192.0.2.7", false),
            ("a.b.svc", false),
            ("", false),
        ] {
            assert_eq!(is_public(name), want, "{name}");
        }
    }
}

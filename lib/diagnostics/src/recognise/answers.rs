//! What clients of the API server say that are not written in Go: curl, Python, Node.js, rustls. They name neither
//! kubectl nor a part of the cluster, so the port of the API server shows which server they asked.

use super::details::{Details, after, has_any};
use super::peer::asks_the_api_server;

/// Was it the API server that did not answer as hoped?
fn asks_port_6443(line: &str) -> bool {
    has_any(line, &[":6443", "port 6443", "port=6443"])
}

/// A client that asks for HTTPS where plain HTTP is spoken.
pub(super) fn plain_http(line: &str) -> Option<Details> {
    (asks_the_api_server(line) || asks_port_6443(line)).then(Details::default)
}

pub(super) fn refused(line: &str) -> Option<Details> {
    // k3s' agent asks before the server is there.
    let is_refused = !line.contains(" port 6443 after ") || line.contains("curl: (7)");
    (asks_port_6443(line) && is_refused && !line.contains("level=")).then(Details::default)
}

pub(super) fn silent(line: &str) -> Option<Details> {
    asks_port_6443(line).then(Details::default)
}

/// The API server's answer as it is sent.
pub(super) fn unauthorized(line: &str) -> Option<Details> {
    let code = after(line, "\"code\":", &[',', '}'])?;
    (code == "401" && line.contains("\"kind\":\"Status\"")).then(Details::default)
}

/// Libraries for Kubernetes, each in its words.
pub(super) fn library_unauthorized(line: &str) -> Option<Details> {
    let is_of_kubernetes = has_any(line, &["kubernetes", "K8s", "k8s.client"]);
    (is_of_kubernetes || asks_the_api_server(line)).then(Details::default)
}

/// A client without credentials is this user. A probe has none on purpose, and any answer shows that a
/// server is there.
pub(super) fn anonymous(line: &str) -> Option<Details> {
    let is_probe = has_any(line, &["\"/healthz", "\"/livez", "\"/readyz"]);
    (!is_probe).then(|| {
        Details::message("no credentials were sent, so the API server takes the client for system:anonymous")
            .advice(
                "use a kubeconfig with credentials; `curl` needs a client certificate or a token, and `kubectl get --raw` \
                 sends those of the kubeconfig",
            )
            .command("kubectl get --raw /version")
    })
}

//! What clients of the API server say that are not written in Go: curl, Python, Node.js, rustls. They name neither
//! kubectl nor a part of the cluster, so the port of the API server tells whom they asked.

use super::details::{Details, after};
use super::servers::asks_the_api_server;

/// Was it the API server that did not answer as hoped?
fn asks_port_6443(line: &str) -> bool {
    [":6443", "port 6443", "port=6443"].iter().any(|port| line.contains(port))
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

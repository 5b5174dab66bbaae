//! What k3s says of a server that it is to join.

use super::details::{Details, after};

/// As the supervisor of k3s answers; a registry's 401 is another.
pub(super) fn refused(line: &str) -> Option<Details> {
    let is_of_k3s =
        ["token is not valid", "/cacerts", "/v1-k3s/", "failed to retrieve configuration from server"]
            .iter()
            .any(|words| line.contains(words));
    is_of_k3s.then(Details::default)
}

/// These words are those of other programs too.
pub(super) fn malformed(line: &str) -> Option<Details> {
    (line.contains("level=") || line.contains("FATA[") || line.contains("ERRO["))
        .then(|| malformed_token(line))
}

pub(super) fn malformed_token(_: &str) -> Details {
    Details::message(
        "the token does not have the form of a k3s token: it was truncated, or contains a line break or quotes",
    )
}

/// A server on another machine; its own load balancer waits at each start.
pub(super) fn silent(line: &str) -> Option<Details> {
    let server = after(line, "cluster at https://", &['/', '"', ' '])?.trim_end_matches(':');
    if server.starts_with("127.0.0.1") || server.starts_with("[::1]") || server.starts_with("localhost") {
        return None;
    }
    let why = [
        "connection refused",
        "no route to host",
        "i/o timeout",
        "network is unreachable",
        "deadline exceeded",
        "Client.Timeout exceeded",
    ]
    .into_iter()
    .find(|why| line.contains(why))?;
    Some(Details::message(format!("the server {server} does not answer this node: {why}")))
}

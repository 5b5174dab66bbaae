//! What is said of images and registries. A registry is another server than the API server, and what is wrong with an
//! image is not what is wrong with the way to it.

use super::details::{Details, after};
use super::servers::asks_the_api_server;

/// Ends of an image's name.
const END: &[char] = &[' ', '"', ',', '@', '\''];

pub(super) fn registry_service(line: &str) -> Option<Details> {
    let name = after(line, "services \"", &['"'])?;
    (line.contains("not found") && name.contains("registry")).then(|| {
        Details::message(format!("`{name}` is looked up as a Service, and a registry of k3d is not one"))
    })
}

pub(super) fn plain_http(line: &str) -> Option<Details> {
    if asks_the_api_server(line) {
        return None;
    }
    let server = after(line, "https://", &['/', '"', ' '])
        .or_else(|| after(line, "container registry ", &[' ', ':', '"']))
        .filter(|server| !server.is_empty());
    Some(server.map_or_else(Details::default, |server| {
        Details::message(format!("{server} speaks plain HTTP but was contacted over HTTPS"))
    }))
}

/// A repository that docker.io does not have: a tag that it lacks is said otherwise.
pub(super) fn without_registry(line: &str) -> Option<Details> {
    let image = after(line, "docker.io/library/", END)?;
    let lower = line.to_ascii_lowercase();
    let refused = ["pull access denied", "insufficient_scope", "authorization failed"]
        .iter()
        .any(|words| lower.contains(words));
    refused.then(|| without(image))
}

fn without(image: &str) -> Details {
    Details::message(format!(
        "`{}` has no registry in front, so it is pulled from docker.io, which does not have it",
        image.trim_end_matches(':')
    ))
}

/// A registry that has the repository and not the tag, as containerd says it.
pub(super) fn not_found(line: &str) -> Option<Details> {
    let image = after(line, "failed to resolve reference \"", &['"'])?;
    line.trim_end_matches(['"', ' ']).contains(": not found").then(|| {
        let own = if image.starts_with("docker.io/library/") {
            "; where it is an image of your own, its name lacks the registry in front"
        } else {
            ""
        };
        Details::message(format!("the registry has no `{image}`{own}"))
    })
}

/// Docker's words for the same.
pub(super) fn tag_not_found(line: &str) -> Option<Details> {
    let tag = after(line, "Tag ", &[' '])?;
    let repository = after(line, "not found in repository ", END)?;
    Some(Details::message(format!("`{repository}` has no tag `{tag}`")))
}

/// Of an image, and not of any other thing that is asked for too often.
pub(super) fn too_many(line: &str) -> Option<Details> {
    ["pull", "/manifests/", "/v2/", "docker.io", "toomanyrequests:"]
        .iter()
        .any(|words| line.contains(words))
        .then(Details::default)
}

/// Nothing came back from the registry.
pub(super) fn unreachable(line: &str) -> Option<Details> {
    (line.contains("/v2/") && !asks_the_api_server(line)).then(|| reached(line))?
}

fn reached(line: &str) -> Option<Details> {
    let why = [
        "no such host",
        "i/o timeout",
        "connection refused",
        "network is unreachable",
        "no route to host",
        "server misbehaving",
        "TLS handshake timeout",
        "connection reset by peer",
        "Client.Timeout exceeded",
        "context deadline exceeded",
        "Try again",
    ]
    .into_iter()
    .find(|why| line.contains(why))?;
    let host =
        after(line, "https://", &['/', '"', ' ']).or_else(|| after(line, "http://", &['/', '"', ' ']))?;
    Some(Details::message(format!("the node does not reach {host}: {why}")))
}

/// The server that gives tokens for a registry, which is asked before it.
pub(super) fn tokens_unreachable(line: &str) -> Option<Details> {
    let is_of_a_registry = line.contains("fetch anonymous token") || line.contains("fetch oauth token");
    is_of_a_registry.then(|| reached(line))?
}

/// A name that only a registry of one's own has, without it.
pub(super) fn short_name_denied(line: &str) -> Option<Details> {
    let image = after(line, "pull access denied for ", END)?;
    (!image.contains(['/', '.']) && !image.is_empty()).then(|| without(image))
}

pub(super) fn short_name(line: &str) -> Details {
    after(line, "short-name \"", &['"']).map_or_else(Details::default, |image| {
        Details::message(format!(
            "`{image}` has no registry in front, and podman has no unqualified-search registries configured"
        ))
    })
}

pub(super) fn pull_secret(line: &str) -> Details {
    let names = after(line, "pull secrets (", &[')']).unwrap_or_default();
    Details::message(format!("the pod names the pull secret `{names}`, which is not in its namespace"))
}

/// Of a registry, and not for its dates: there the clock of the node is the first to be doubted.
pub(super) fn certificate(line: &str) -> Option<Details> {
    let host = after(line, "https://", &['/', '"', ' '])?;
    let is_of_dates = line.contains("has expired or is not yet valid");
    (line.contains("/v2/") && !is_of_dates && !asks_the_api_server(line))
        .then(|| Details::message(format!("the certificate of the registry {host} is not trusted")))
}

/// Refused by a registry, and not by any server.
pub(super) fn denied(line: &str) -> Option<Details> {
    [
        "/v2/",
        "pull",
        "registry",
        "oauth2",
        "/token?",
        "oauth token",
        "anonymous token",
        "docker.io",
        "ghcr.io",
        "image",
        "manifests",
    ]
    .iter()
    .any(|words| line.contains(words))
    .then(Details::default)
}

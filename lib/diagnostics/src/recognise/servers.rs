//! What clients say of servers that they do not reach, or that are not what they take them for.

use super::told::{Told, after};
use crate::finding::Remedy;
use crate::kubeconfig_export::advice::hard_to_find;
use crate::san::ServingName;

/// Ends of a name in a message.
const END: &[char] = &[' ', ':', ',', ';', '"', '\'', ')'];

pub(super) fn webhook_fails(line: &str) -> Option<Told> {
    let of = after(line, "conversion webhook for ", &[' ', ','])?;
    let why = line.split_once(" failed: ").map(|(_, why)| why)?;
    let why = if why.contains("connection refused") {
        "nothing answers at its address"
    } else if why.contains("x509: ") || why.contains("tls: ") {
        "its certificate is not signed by the CA in the definition"
    } else if why.contains("deadline exceeded") || why.contains("timeout") {
        "it does not answer in time"
    } else {
        "it answers with an error"
    };
    Some(Told::message(format!("the conversion webhook of {of} fails: {why}")))
}

/// The container of a line of k3d, if it is one.
fn k3d_container(line: &str) -> Option<&str> {
    let name = &line[line.find("k3d-")?..];
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(name.len());
    Some(&name[..end])
}

pub(super) fn k3d_node(line: &str) -> Option<Told> {
    let container = k3d_container(line)?;
    Some(container_log(Told::message(format!("{container} does not start")), container))
}

/// The last line of a k3d that hangs.
pub(super) fn starts_k3d_server(line: &str) -> Option<Told> {
    let container = k3d_container(line)?;
    let starts = line.contains("Starting Node '") || line.contains("Starting node '");
    let message = format!("k3d printed that it starts {container}, and nothing after that");
    (starts && container.contains("-server-")).then(|| container_log(Told::message(message), container))
}

fn container_log(told: Told, container: &str) -> Told {
    told.remedy(
        Remedy::new(
            "the container's own log says why, most often N-01: the memory controller is the host's; k3d waits for ever \
             unless it is given `--timeout`",
        )
        .command(format!("docker logs --tail 50 {container} 2>&1 | weaver explain")),
    )
}

pub(super) fn registry_service(line: &str) -> Option<Told> {
    let name = after(line, "services \"", &['"'])?;
    (line.contains("not found") && name.contains("registry")).then(|| {
        Told::message(format!("`{name}` is looked up as a Service, and a registry of k3d is not one"))
    })
}

pub(super) fn plain_http(line: &str) -> Told {
    let server = after(line, "https://", &['/', '"', ' '])
        .or_else(|| after(line, "container registry ", &[' ', ':', '"']))
        .filter(|server| !server.is_empty());
    server.map_or_else(Told::default, |server| {
        Told::message(format!("{server} speaks plain HTTP and was asked for HTTPS"))
    })
}

pub(super) fn image_without_registry(line: &str) -> Option<Told> {
    let image = after(line, "docker.io/library/", &[' ', '"', ',', '@'])?;
    let lower = line.to_ascii_lowercase();
    let refused = ["pull access denied", "insufficient_scope", "not found", "authorization failed"]
        .iter()
        .any(|words| lower.contains(words));
    refused.then(|| {
        Told::message(format!(
            "`{}` has no registry in front, so it is pulled from docker.io",
            image.trim_end_matches(':')
        ))
    })
}

pub(super) fn not_found(line: &str) -> Told {
    let name = after(line, "lookup ", &[' ', ':', '"'])
        .filter(|name| *name != "address")
        .or_else(|| after(line, "resolve host: ", END))
        .or_else(|| after(line, "resolve hostname ", END))
        .filter(|name| !name.is_empty());
    let Some(name) = name else { return Told::default() };
    let told = Told::message(format!("the name `{name}` cannot be resolved"));
    if !asks_the_api_server(line) {
        return told.remedy(Remedy::new(
            "if it is the Pi's name, add it to /etc/hosts of the machine that connects, or use the address; \
             otherwise check the network and the DNS server",
        ));
    }
    match name.parse::<ServingName>().ok().and_then(|name| hard_to_find(&name, None)) {
        Some(why) => told.remedy(Remedy::new(why)),
        None => told,
    }
}

/// Does the line tell of the API server, and not of any server?
pub(super) fn asks_the_api_server(line: &str) -> bool {
    ["Unable to connect to the server", "/api?timeout", "luster unreachable", "/cacerts", ":6443", ":6444"]
        .iter()
        .any(|words| line.contains(words))
}

fn server_refused(line: &str) -> Option<&str> {
    let server = after(line, "The connection to the server ", &[' '])?;
    line.contains("refused").then_some(server)
}

pub(super) fn fallback_server(line: &str) -> Option<Told> {
    let is_kubectls = ["The connection to the server", "/api", "/version", "luster unreachable"]
        .iter()
        .any(|words| line.contains(words));
    (is_kubectls && line.contains("refused")).then(Told::default)
}

pub(super) fn listening_address(line: &str) -> Option<Told> {
    line.contains("refused")
        .then(|| Told::message("0.0.0.0 is an address to listen at, not one to connect to"))
}

pub(super) fn this_machine(line: &str) -> Option<Told> {
    let server = server_refused(line)?;
    Some(Told::message(format!("{server} is this machine, and nothing answers there")).remedy(
        Remedy::new(
            "on the Pi: k3s does not run, or is not ready yet; on another machine: this kubeconfig is the Pi's own, so \
             export one there with `weaver kubeconfig export NAME`",
        )
        .command("systemctl status k3s"),
    ))
}

pub(super) fn refused(line: &str) -> Option<Told> {
    let server = server_refused(line)?;
    Some(Told::message(format!("nothing answers at {server}")))
}

//! What k3s says of a server that it is to join.

use super::details::{Details, after, is_name};
use super::peer::asks_itself;
use super::tls::NameMismatch;
use crate::finding::{RESTART_K3S, Remedy};
use crate::san::ServingName;

/// As the supervisor of k3s answers; a registry's 401 is another.
pub(super) fn refused(line: &str) -> Option<Details> {
    let is_of_k3s = [
        "token is not valid",
        "/cacerts",
        "/v1-k3s/",
        "/v1-rke2/",
        "failed to retrieve configuration from server",
        "Failed to retrieve agent config",
    ]
    .iter()
    .any(|words| line.contains(words));
    is_of_k3s.then(Details::default)
}

/// These words are those of other programs too.
pub(super) fn malformed(line: &str) -> Option<Details> {
    (line.contains("level=") || line.contains("FATA[") || line.contains("ERRO[")).then(|| {
        Details::message(
            "the token does not have the form of a k3s token: it was truncated, or contains a line break or quotes",
        )
    })
}

/// Only a server opens its datastore by its token, so there is none to copy it from but a backup or another server.
pub(super) fn own_token(_: &str) -> Details {
    Details::message("the token of this server does not have the form of a server's token, or is empty")
        .advice(
            "without `token` in its configuration, k3s takes it from server/token, which a power loss can leave empty: copy the \
             file back from a backup or another server, or write into it the token of a node that joined. Never make a new \
             one: it decrypts the datastore. A token in the configuration must not be one of `k3s token create`, of \
             the form `id.secret`",
        )
        .command("sudo wc -c /var/lib/rancher/k3s/server/token")
        .command("sudo grep -rlE '^token|K3S_TOKEN' /etc/rancher/k3s /etc/systemd/system")
        .command("# on a node that joined:")
        .command("sudo grep -rhE '^token|K3S_TOKEN' /etc/rancher/k3s /etc/systemd/system")
        .command("# on this server:")
        .command(RESTART_K3S)
}

fn is_this_machine(server: &str) -> bool {
    ["127.0.0.1", "[::1]", "localhost"].iter().any(|name| server.starts_with(name))
}

/// The server that the line names, if it is on another machine: an agent asks its server by a load balancer of its own,
/// which waits at each start.
fn server<'a>(line: &'a str, before: &str) -> Option<&'a str> {
    let server = after(line, before, &['/', '"', ' '])?.trim_end_matches(':');
    (!is_this_machine(server)).then_some(server)
}

/// How an agent says that a server refuses its tunnel, before and since k3s 1.31.
pub(super) const TUNNEL_REFUSED: [&str; 2] = [
    "remotedialer proxy error\" error=\"dial tcp ",
    "remotedialer proxy error; reconnecting...\" error=\"dial tcp ",
];
/// How it says that the tunnel is there.
pub(super) const TUNNEL_CONNECTED: &str = "remotedialer connected to proxy";

const WHY: &[&str] = &[
    "connection refused",
    "no route to host",
    "i/o timeout",
    "network is unreachable",
    "deadline exceeded",
    "Client.Timeout exceeded",
    // systemctl leaves out the middle of a long line.
    "reset by peer",
    "TLS handshake timeout",
    "EOF",
];

fn why(line: &str) -> Option<&'static str> {
    WHY.iter().copied().find(|why| line.contains(why))
}

pub(super) fn silent(line: &str) -> Option<Details> {
    let server = server(line, "cluster at https://")?;
    let why = why(line)?;
    Some(Details::message(format!("the server {server} does not answer this node: {why}")))
}

/// The agent's wait for the server; at first each one is refused.
pub(super) fn not_ready(line: &str) -> Option<Details> {
    let server = server(line, "not ready: Get \"https://")?;
    let why = why(line).filter(|why| *why != "connection refused")?;
    Some(Details::message(format!("the server {server} does not answer this node: {why}")))
}

/// The server's own name, or the load balancer where it has accepted and the server did not answer.
pub(super) fn no_answer(line: &str) -> Option<Details> {
    // `Failed to validate connection to cluster at …` names it better.
    if line.contains("cluster at https://") {
        return None;
    }
    let why = why(line)?;
    // Go quotes what it asked for since 1.14.
    if let Some(server) = server(line, "et \"https://").or_else(|| server(line, "Get https://")) {
        return Some(Details::message(format!("the server {server} does not answer this node: {why}")));
    }
    let was_accepted =
        ["reset by peer", "EOF", "deadline exceeded", "Client.Timeout exceeded"].contains(&why);
    was_accepted.then(|| Details::message(format!("the server that this node joins does not answer: {why}")))
}

/// A node's connection to a server, by which that reaches its kubelet. A server that starts again refuses it
/// for a while.
pub(super) fn tunnel_silent(line: &str) -> Option<Details> {
    let server = tunnel(line)?;
    let why = ["no route to host", "i/o timeout", "network is unreachable", "connection timed out"]
        .into_iter()
        .find(|why| line.contains(why))?;
    Some(Details::message(format!("the server {server} does not answer this node: {why}")))
}

pub(super) fn tunnel_refused(line: &str) -> Option<Details> {
    let server = tunnel(line).filter(|_| line.contains("connection refused"))?;
    Some(Details::message(format!("the server {server} still does not answer this node: connection refused")))
}

fn tunnel(line: &str) -> Option<&str> {
    let server = after(line, "dial tcp ", &[' '])?.trim_end_matches(':');
    // Rancher's agents say the same of Rancher; a server of k3s may have another port. k3s#1452
    let is_of_k3s = server.ends_with(":6443") || line.contains("k3s[");
    (is_of_k3s && !is_this_machine(server)).then_some(server)
}

/// Rancher's agents say the same of Rancher.
pub(super) fn other_tunnel(_: &str) -> Details {
    Details::message("what this node connects to has a certificate of another CA: the server was installed again, or another answers")
        .hint()
}

/// What is nothing while a server starts.
pub(super) fn no_answer_here(line: &str) -> Option<Details> {
    if line.contains("cluster at https://") {
        return None;
    }
    let why = why(line)?;
    Some(Details::message(format!("the server that this node joins still does not answer: {why}")))
}

/// Is it an agent that asks for the CA or for its configuration, and is a certificate wrong?
fn certificate(line: &str) -> Option<&str> {
    line.contains("x509: ")
        .then(|| server(line, "et \"https://").or_else(|| after(line, "et \"https://", &['/', '"'])))?
}

pub(super) fn name_not_served(line: &str) -> Option<Details> {
    let server = certificate(line)?;
    let used = NameMismatch::read(line)?.used?;
    if is_this_machine(server) {
        return None;
    }
    let details =
        Details::message(format!("the server's certificate does not have the name `{used}` of `server`"));
    let Ok(name) = used.parse::<ServingName>() else { return Some(details) };
    let file = name.to_string().replace([':', '*'], "-");
    Some(
        details
            .advice(
                "on the server, have k3s serve this name too: by `names` under [api] of its weaver.toml and a reboot, or with \
                 these commands",
            )
            .command("sudo mkdir -p /etc/rancher/k3s/config.yaml.d")
            .command(format!(
                "echo 'tls-san+: [\"{name}\"]' | sudo tee /etc/rancher/k3s/config.yaml.d/91-{file}.yaml"
            ))
            .command(RESTART_K3S),
    )
}

/// Behind the load balancer is a server without the names that each server of k3s has.
pub(super) fn other_server(line: &str) -> Option<Details> {
    let server = certificate(line)?;
    let is_of_names = NameMismatch::read(line).is_some() && is_this_machine(server);
    // A server that does not trust itself joins no one.
    (is_of_names || line.contains("unknown authority") && !asks_itself(line)).then(|| {
        Details::message("what answers this node is no server of this cluster: its certificate is another")
            .advice(
                "check `server`: it is the address of a k3s server with its port, 6443, and not of a proxy or an ingress in \
                 front of it. On the server",
            )
            .command("sudo cat /var/lib/rancher/k3s/server/node-token")
    })
}

/// A server that lost its data, and that the others still have on record; or another one of its name. k3s#4210
pub(super) fn member_taken(_: &str) -> Details {
    Details::message("etcd of the cluster has a server of this node's name already")
        .advice(
            "if that is another machine, give this one another name. If it is this one, which lost its data, as with a new card, \
             delete its Node on another server: etcd forgets it, its pods are started elsewhere, and it can join again. Not the \
             Node of a server that is only off, which could not come back with the data that it has",
        )
        .command("# on another server:")
        .command("sudo k3s kubectl get nodes -o wide")
        .command("sudo k3s kubectl delete node NODE")
}

/// etcd of a server that joins asks the others at a port of its own. k3s#11331, k3s#9227
pub(super) fn peers_silent(_: &str) -> Details {
    Details::message("etcd of this server gets no answer from etcd of the servers that it joins")
        .advice(
            "allow TCP ports 2379 and 2380 between the servers, and let no proxy be in between: NO_PROXY needs their addresses, \
             too. Then see whether k3s of the first server runs, and whether it has etcd (`cluster-init`)",
        )
        .command("nc -vz ADDRESS-OF-A-SERVER 2380")
        .command("sudo grep -li proxy /etc/systemd/system/k3s.service.env /etc/default/k3s")
        .command("# on the first server: sudo ls /var/lib/rancher/k3s/server/db")
}

/// The server's log of a node that comes with another password.
pub(super) fn name_taken(line: &str) -> Details {
    let before = ["for node '", "for node ", "failed for '", "failed for ["];
    let node = before
        .into_iter()
        .find_map(|before| after(line, before, &['\'', ']', ',', ':', ' ', '"']))
        .filter(|name| is_name(name));
    let Some(node) = node else { return Details::default() };
    let other = "if another machine has that name, give one of them another; if the card of this node was flashed again,";
    // Until 1.19 k3s kept these passwords in a file.
    let remedy = if line.contains("validation failed") {
        Remedy::new(format!("{other} delete its line in the file that this finds, and restart k3s"))
            .command(format!("sudo grep -rl --include=node-passwd {node} /var/lib/rancher/k3s/server"))
            .command(RESTART_K3S)
    } else {
        Remedy::new(format!("{other} delete its old password"))
            .command("sudo k3s kubectl get nodes")
            .command(format!("sudo k3s kubectl -n kube-system delete secret {node}.node-password.k3s"))
    };
    let message = format!("this server refuses the node {node}: it joined before with another node password");
    Details::message(message).remedy(remedy)
}

/// An agent of 2019, whose server does not say why. k3s#467
pub(super) fn node_forbidden(line: &str) -> Option<Details> {
    line.contains("/v1-k3s/").then(kept_in_a_file)
}

/// The agent's own word; the file is where it had its password until 1.19. k3s#746
pub(super) fn password_rejected(line: &str) -> Details {
    if line.contains("agent/node-password.txt") { kept_in_a_file() } else { Details::default() }
}

fn kept_in_a_file() -> Details {
    Details::default()
        .advice(
            "if another node has the name, give one of them another; if the card of this node was flashed again, remove its line \
             on the server from the file that this finds, and restart k3s there. A k3s of today keeps these passwords as Secrets",
        )
        .command("sudo find /var/lib/rancher/k3s/server -name node-passwd")
        .command(RESTART_K3S)
}

/// The server's log of a node that comes with another token.
pub(super) fn other_token(line: &str) -> Option<Details> {
    let from = after(line, "authenticate request from ", &[' ', '"'])?.trim_end_matches(':');
    Some(Details::message(format!(
        "this server refuses a node at {from}: its token is another than that of this server"
    )))
}

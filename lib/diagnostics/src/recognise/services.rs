//! Messages of pods about Services that they cannot reach.

use std::net::IpAddr;

use super::details::{Details, after, has_any, looked_up};
use super::peer::{asks_dns_of_a_cluster, asks_the_api_server, is_local_address};

/// A pod that asks a Service: the API server's is the first address of its range, and k3s gives the tenth to DNS.
pub(super) fn unreachable(line: &str) -> Option<Details> {
    let why = why(line)?;
    // The steps of a trace: who waited says the same in a line of its own. What an earlier start left, the kubelet removes
    // at this one, before kube-proxy has made its rules.
    if is_list_of_coredns(line) || has_any(line, &["Trace[", "failed (delete)"]) {
        return None;
    }
    let whom = if is_api_server(line) {
        "the API server"
    } else if is_dns(line) {
        "the DNS server of the cluster"
    } else {
        return None;
    };
    Some(Details::message(format!("a pod does not reach {whom}: {why}")))
}

fn why(line: &str) -> Option<&'static str> {
    ["no route to host", "i/o timeout", "network is unreachable", "timed out"]
        .into_iter()
        .find(|why| line.contains(why))
}

/// How the lines of `CoreDNS` begin that wants to know the objects of the cluster.
pub(super) const COREDNS_LISTS: &str = "[info] plugin/kubernetes: ";
pub(super) const COREDNS_WATCHES: &str = "[error] plugin/kubernetes: ";
/// What `CoreDNS` says while it starts.
pub(super) const COREDNS_STARTS: &str =
    "plugin/kubernetes: waiting for kubernetes api before starting server";

/// `CoreDNS` asks for Services, `EndpointSlices` and namespaces at once. In the first minute after a start of the
/// node it does so in vain, once, before kube-proxy has made its rules.
pub(super) fn coredns_lists(line: &str) -> Option<Details> {
    let why = why(line).filter(|_| is_list_of_coredns(line) && is_api_server(line))?;
    Some(Details::message(format!("CoreDNS does not reach the API server, again and again: {why}")))
}

fn is_list_of_coredns(line: &str) -> bool {
    line.contains("] plugin/kubernetes: ") && line.contains("failed to list *v1.")
}

/// `CoreDNS` itself, which asks the DNS server of its node for names that are not of the cluster. Its HINFO queries are
/// random names by which it looks for loops, and a pair of lines is one slow answer.
pub(super) fn forward(line: &str) -> Option<Details> {
    let is_probe = line.contains(". HINFO: ");
    let why = ["i/o timeout", "no route to host", "network is unreachable", "connection refused"]
        .into_iter()
        .find(|why| line.contains(why))?;
    let server = address(line, "->", ":53")
        .or_else(|| address(line, "dial udp ", ":53"))
        .filter(|server| !server.is_loopback())?;
    if is_probe || asks_dns_of_a_cluster(line) {
        return None;
    }
    let details =
        Details::message(format!("CoreDNS does not reach the DNS server {server}, again and again: {why}"));
    // k3s#1953
    if server.is_ipv6() && why == "network is unreachable" {
        return Some(
            details
                .advice(
                    "pods have no IPv6 unless the cluster has both families: name DNS servers with IPv4 addresses on the node, or \
                     in a file that `resolv-conf` of k3s names, and restart CoreDNS",
                )
                .command("# on the node:")
                .command("cat /etc/resolv.conf")
                .command("resolvectl dns")
                .command("kubectl -n kube-system rollout restart deployment coredns"),
        );
    }
    Some(
        details
            .advice(
                "ask that server from the node. If it answers there, a firewall on the node drops what pods send: allow the network \
                 of the pods. If not, correct the DNS server of the node, and restart CoreDNS",
            )
            .command("# on the node:")
            .command(format!("nslookup example.com {server}"))
            .command("sudo ufw status")
            .command("kubectl -n kube-system rollout restart deployment coredns"),
    )
}

/// Outside of a cluster the port is another, and a client says who it is.
fn is_api_server(line: &str) -> bool {
    if has_any(line, &["10.43.0.1:443", "10.96.0.1:443"]) {
        return true;
    }
    let Some(address) = address(line, "dial tcp ", ":443") else { return false };
    let is_first = match address {
        IpAddr::V4(address) => address.octets()[3] == 1,
        IpAddr::V6(address) => address.segments()[7] == 1,
    };
    is_first
        && is_local_address(address)
        && asks_the_api_server(line)
        && !super::servers::is_of_a_client(line)
}

/// A name of the cluster that was asked of a server with an address of its own, or k3s' and kubeadm's own.
fn is_dns(line: &str) -> bool {
    if asks_dns_of_a_cluster(line) {
        return true;
    }
    let is_of_the_cluster = looked_up(line).is_some_and(|name| {
        let name = name.trim_end_matches('.').trim_end_matches(".cluster.local");
        name.rsplit('.').next() == Some("svc")
    });
    is_of_the_cluster && address(line, "->", ":53").is_some_and(is_local_address)
}

/// The address with this port behind the text.
fn address(line: &str, before: &str, port: &str) -> Option<IpAddr> {
    let endpoint = after(line, before, &[' ', '"'])?.trim_end_matches(':');
    let address = endpoint.strip_suffix(port)?;
    address.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dns_server_above_coredns_is_named() {
        for (line, want) in [
            (
                "[ERROR] plugin/errors: 2 example.com. A: read udp 10.42.0.8:1->192.0.2.1:53: i/o timeout",
                Some("the DNS server 192.0.2.1, again and again: i/o timeout"),
            ),
            (
                "[ERROR] plugin/errors: 2 example.com. A: read udp [fd00::8]:1->[2001:db8::1]:53: read: no route to host",
                Some("the DNS server 2001:db8::1, again and again: no route to host"),
            ),
            (
                "[ERROR] plugin/errors: 2 example.com. A: dial udp [2001:db8::1]:53: connect: network is unreachable",
                Some("the DNS server 2001:db8::1, again and again: network is unreachable"),
            ),
            ("[ERROR] plugin/errors: 2 1.2. HINFO: read udp 10.42.0.8:1->192.0.2.1:53: i/o timeout", None),
            ("[ERROR] plugin/errors: 2 a. A: read udp 10.42.0.8:1->10.43.0.10:53: i/o timeout", None),
            ("[ERROR] plugin/errors: 2 a. A: read udp 127.0.0.1:1->127.0.0.53:53: connection refused", None),
            ("[ERROR] plugin/errors: 2 a. A: tls: first record does not look like a TLS handshake", None),
        ] {
            let message = forward(line).and_then(|details| details.message);
            assert_eq!(message.is_some(), want.is_some(), "{line}: {message:?}");
            assert!(message.unwrap_or_default().ends_with(want.unwrap_or_default()), "{line}");
        }
    }

    #[test]
    fn whom_a_pod_does_not_reach() {
        for (line, want) in [
            (
                r#"Get "https://172.20.0.1:443/api/v1/nodes": dial tcp 172.20.0.1:443: i/o timeout"#,
                "the API server",
            ),
            (
                r#"Get "https://[fd00:43::1]:443/version": dial tcp [fd00:43::1]:443: connect: network is unreachable"#,
                "the API server",
            ),
            ("dial tcp 10.96.0.1:443: i/o timeout", "the API server"),
            (
                "lookup db.prod.svc.cluster.local on 10.233.0.3:53: read udp 10.233.66.4:4711->10.233.0.3:53: i/o timeout",
                "the DNS server of the cluster",
            ),
            (r#"Get "https://192.0.2.1:443/api/v1/nodes": dial tcp 192.0.2.1:443: i/o timeout"#, ""),
            (r#"Get "https://10.0.0.7:443/api/v1/nodes": dial tcp 10.0.0.7:443: i/o timeout"#, ""),
            (r#"Get "https://10.0.0.1:443/index.yaml": dial tcp 10.0.0.1:443: i/o timeout"#, ""),
            ("Unable to connect to the server: dial tcp 10.0.0.1:443: i/o timeout", ""),
            ("lookup example.com on 10.0.0.2:53: read udp 10.0.0.9:1->10.0.0.2:53: i/o timeout", ""),
            ("lookup a.svc on 10.0.0.2:53: read udp 10.0.0.9:1->10.0.0.2:53: no such host", ""),
        ] {
            let message = unreachable(line).and_then(|details| details.message).unwrap_or_default();
            assert_eq!(message.contains("a pod does not reach "), !want.is_empty(), "{line}: {message}");
            assert!(message.contains(want), "{line}: {message}");
        }
    }
}

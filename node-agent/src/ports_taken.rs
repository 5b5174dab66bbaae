//! Does somebody else listen where k3s will? Then it ends itself, and starts again for ever.
//!
//! Judged only while no k3s runs: its own ports are its own.

use std::collections::BTreeSet;

use weaver_diagnostics::finding::{Code, Finding, Place};

use crate::host_root::HostRoot;

const SOCKETS: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// A socket's state: it listens.
const LISTEN: &str = "0A";
/// The kubelet's.
const KUBELET: u16 = 10_250;

/// What is taken of the API server's ports (k3s takes the one above it for itself) and, with a `kubelet`, of that one's. Only
/// a warning: two programs can have one port at different addresses. Nothing where nothing can be read.
#[must_use]
pub fn finding(root: &HostRoot, api_port: u16, kubelet: bool) -> Option<Finding> {
    let listening: BTreeSet<u16> = SOCKETS
        .iter()
        .filter_map(|path| root.read_if_possible(path))
        .flat_map(|file| file.text.lines().filter_map(port).collect::<Vec<_>>())
        .collect();
    let needed = [api_port, api_port.saturating_add(1)].into_iter().chain(kubelet.then_some(KUBELET));
    let taken: Vec<_> = needed.filter(|port| listening.contains(port)).collect();
    let first = *taken.first()?;
    if runs(root) {
        return None;
    }
    let all = taken.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
    let remedy = Code::PortTaken.row().remedy();
    let message = format!("port {all} is taken while k3s does not run: it may not start");
    Some(
        Finding::new(Code::PortTaken, message)
            .saw(Place::file(SOCKETS[0]), format!("something listens on port {first}"))
            .remedy(remedy.command(format!("sudo ss -ltnp 'sport = :{first}'"))),
    )
}

/// `sl local_address rem_address st …`, addresses as `ADDRESS:PORT` in hex.
fn port(line: &str) -> Option<u16> {
    let fields: Vec<_> = line.split_whitespace().take(4).collect();
    let [_, local, _, LISTEN] = fields[..] else { return None };
    u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()
}

/// Whether a k3s runs; one that cannot be told counts as running.
fn runs(root: &HostRoot) -> bool {
    let Ok(processes) = root.list("/proc") else { return true };
    let pids = processes.iter().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    pids.into_iter().any(|pid| {
        root.read_if_possible(format!("/proc/{pid}/comm")).is_some_and(|comm| comm.text.starts_with("k3s"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;

    #[test]
    fn a_port_of_k3s_that_somebody_else_has() {
        let listens = |port: u16| {
            format!("  sl  local_address rem_address   st\n   0: 00000000:{port:04X} 00000000:0000 0A 0\n")
        };
        let (api, kubelet, other) = (listens(6443), listens(10_250), listens(22));
        let (_dir, root) = host(&[(SOCKETS[0], kubelet.as_str())]);
        assert_eq!(finding(&root, 6443, false), None, "without a kubelet its port is anybody's");
        let connected = api.replace(" 0A ", " 01 ");
        for (files, want) in [
            (vec![(SOCKETS[0], api.as_str())], Some("port 6443 is taken")),
            (
                vec![(SOCKETS[1], api.as_str()), (SOCKETS[0], kubelet.as_str())],
                Some("port 6443, 10250 is taken"),
            ),
            (vec![(SOCKETS[0], other.as_str())], None),
            (vec![(SOCKETS[0], connected.as_str())], None),
            (vec![(SOCKETS[0], api.as_str()), ("/proc/812/comm", "k3s-server\n")], None),
            (vec![(SOCKETS[0], api.as_str()), ("/proc/812/comm", "nginx\n")], Some("port 6443")),
            (vec![], None),
        ] {
            let (_dir, root) = host(&files);
            let found = finding(&root, 6443, true).map(|found| found.message);
            assert_eq!(found.is_some(), want.is_some(), "{files:?}");
            assert!(found.unwrap_or_default().contains(want.unwrap_or_default()), "{files:?}");
        }
    }
}

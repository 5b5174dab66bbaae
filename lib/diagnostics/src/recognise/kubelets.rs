//! What the API server says of a kubelet that it asks for logs, or for a command in a container, and does not reach.

use std::net::IpAddr;

use super::details::{Details, after, has_any, is_name};
use super::tls::NameMismatch;
use crate::finding::{K3S_STATUS_ANYWHERE, RESTART_K3S, Remedy};

const RESTART_AGENT: &str = "sudo systemctl restart k3s-agent";

const PORT: &str = ":10250";

/// Why nothing came back.
const NO_ANSWER: [&str; 5] = [
    "no route to host",
    "i/o timeout",
    "connection refused",
    "network is unreachable",
    "connection timed out",
];

/// What to see to where `asker` does not reach a kubelet.
fn let_in(asker: &str, endpoint: &str) -> Remedy {
    let remedy = Remedy::new(format!(
        "see which node has this address, and whether it is on, has it still, and lets {asker} in on TCP port 10250"
    ))
    .command("kubectl get nodes -o wide");
    let remedy = match endpoint.strip_suffix(PORT) {
        Some(address) if is_name(address) => remedy.command(format!("nc -vz {address} 10250")),
        _ => remedy,
    };
    remedy
        .command("# on that node:")
        .command(K3S_STATUS_ANYWHERE)
        .command("weaver explain --journal k3s-agent")
}

/// metrics-server listens on the kubelet's port too, in a pod; a certificate that is refused is another fault.
pub(super) fn unreachable(line: &str) -> Option<Details> {
    if has_any(line, &["metrics.k8s.io", "x509: ", "tls: "]) {
        return None;
    }
    let endpoint = after(line, " while dialing ", &[',', ' '])
        .or_else(|| after(line, "dial tcp ", &[' ']))
        .map(|endpoint| endpoint.trim_end_matches(':'))
        .filter(|endpoint| endpoint.ends_with(PORT))?;
    let why = if line.contains(" while dialing ") {
        // The server's own tunnel, whose answer is of HTTP.
        has_any(line, &["code 500", "code 502", "code 503", "code 504"])
            .then_some("the server has no connection to it")?
    } else {
        NO_ANSWER.into_iter().find(|why| line.contains(why))?
    };
    let details = Details::message(format!("the kubelet at {endpoint} is not reached: {why}"))
        .remedy(let_in("the servers", endpoint));
    // The API server's own log has it while a node starts, too.
    Some(if line.contains(".go:") { details.hint() } else { details })
}

/// metrics-server, which asks each kubelet every 15 seconds: of a node that starts again it misses a few answers.
/// rancher/rke#3556, canonical/k8s-snap#1472, kubernetes-sigs/metrics-server#457
pub(super) fn not_scraped(line: &str) -> Option<Details> {
    let why = NO_ANSWER.into_iter().chain(["context deadline exceeded"]).find(|why| line.contains(why))?;
    let endpoint = after(line, "https://", &['/']).filter(|endpoint| endpoint.ends_with(PORT))?;
    let remedy = let_in("the other nodes and the network of the pods", endpoint).command("sudo ufw status");
    Some(
        Details::message(format!("the kubelet at {endpoint} is asked for figures and not reached: {why}"))
            .remedy(remedy)
            .hint(),
    )
}

/// k3s makes new certificates for both sides at its start.
fn restarted(explain: &str) -> Remedy {
    Remedy::new(explain)
        .command("sudo k3s certificate check --output table")
        .command("# on the servers first:")
        .command(RESTART_K3S)
        .command("# then on the node:")
        .command(RESTART_AGENT)
}

/// The API server comes to the kubelet with a certificate of its own; no kubeconfig has a part in it.
pub(super) fn refuses(_: &str) -> Details {
    Details::message("the kubelet of the pod's node refuses the API server's certificate").remedy(restarted(
        "one of the two has expired, or is of before a reinstallation; k3s renews both when it starts",
    ))
}

/// How the kubelet and the agent of a node say that the API server refuses them, in lower case.
pub(super) const REFUSED: [&str; 2] =
    ["failed to ensure lease exists", "unable to watch for tunnel endpoints"];

/// The reverse, which a kubelet says each few seconds; a few times are nothing while a server starts.
pub(super) fn refused(line: &str) -> Option<Details> {
    line.contains("err=\"Unauthorized\"").then(|| {
        Details::message("the API server refuses the certificate of this node's kubelet, again and again").remedy(restarted(
            "it has expired, or is of before a reinstallation; k3s renews it at its start, if that of the server is valid",
        ))
    })
}

/// The agent in the same process, which asks each five seconds who the servers of the cluster are: a few times are
/// nothing, as of the kubelet. k3s#5163
pub(super) fn agent_refused(line: &str) -> Option<Details> {
    has_any(line, &["provide credentials", "Unauthorized"]).then(|| {
        Details::message("the API server refuses the certificate of this node's agent, again and again").remedy(restarted(
            "it has expired, or is of before a reinstallation; k3s renews it at its start, if that of the server is valid",
        ))
    })
}

/// A kubelet whose machine has another name than its certificate. openshift/microshift#761, kubernetes/kubernetes#47695
pub(super) fn other_identity(line: &str) -> Option<Details> {
    let is_another = has_any(line, &["is not allowed to modify node", "cannot modify node"]);
    let before = after(line, "is forbidden: node \"", &['"']).filter(|_| is_another)?;
    Some(
        Details::message(format!("the kubelet starts under another name than {before}, of which its certificate is"))
            .advice(
                "give the machine its old name again. For a new one the kubelet needs another certificate: k3s fetches one at \
                 each start; with kubeadm, reset the node and join again",
            )
            .command("hostnamectl")
            .command("sudo hostnamectl set-hostname OLD")
            .command("# with kubeadm, for a new name: sudo kubeadm reset"),
    )
}

/// The same answer to anyone else; of the agent, its own sentence counts.
pub(super) fn client_refused(line: &str) -> Option<Details> {
    (!line.contains("watch for tunnel endpoints")).then(Details::default)
}

/// The kubelet's certificate has the addresses that its node had when k3s started there.
pub(super) fn other_name(line: &str) -> Option<Details> {
    let used = NameMismatch::read(line)?.used?;
    if used.parse::<IpAddr>().is_err() {
        return Some(other_host_name(&used));
    }
    let message = format!("the certificate of the kubelet at {used} does not have this address");
    Some(
        Details::message(message)
            .advice(
                "its node got another address since k3s started there, or two nodes have one name. Compare, then restart k3s on \
                 that node",
            )
            .command("kubectl get nodes -o wide")
            .command("# on that node:")
            .command(RESTART_AGENT),
    )
}

/// A host that was renamed has two Nodes, of which the old one leads to it. k3os#718
fn other_host_name(used: &str) -> Details {
    Details::message(format!("the certificate of the kubelet at {used} does not have this name"))
        .advice(
            "its machine got another name since, and the Node of the old one is left, or two machines have one name. Compare. If \
             the old one is left, copy what you need from its local volumes, and delete it",
        )
        .command("kubectl get nodes -o wide")
        .command("kubectl get pods,pv -A -o wide")
        .command("kubectl delete node OLD")
}

/// The server's end of the connection that each agent keeps to it, by rancher/remotedialer. k3s#519
pub(super) fn no_session(line: &str) -> Option<Details> {
    let name = after(line, "failed to find Session for client ", &[' ', '"', '\'', ',', '\n'])?;
    // Rancher has such connections to other programs.
    has_any(line, &[PORT, "dialing backend"]).then(|| {
        let details = Details::message(format!("the server has no connection to the agent on {name}"))
            .advice(
                "k3s on that node connects to each server at port 6443: see that it runs, that the node has its name and address \
                 still, and that it reaches the address that the servers advertise",
            )
            .command("kubectl get nodes -o wide")
            .command("kubectl get endpoints kubernetes")
            .command("# on that node:")
            .command(K3S_STATUS_ANYWHERE)
            .command("weaver explain --journal k3s-agent");
        // The API server's own log has it while a node starts, too.
        if line.contains(".go:") { details.hint() } else { details }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// k3s#5852
    #[test]
    fn a_kubelet_with_a_certificate_of_another_address_is_named() {
        let of = |line| other_name(line).and_then(|details| details.message);
        let logs = r#"Error from server: Get "https://192.0.2.62:10250/containerLogs/a/b/c": x509: certificate is valid for 127.0.0.1, 192.0.2.53, not 192.0.2.62"#;
        assert!(of(logs).unwrap().contains("the kubelet at 192.0.2.62 does not"), "{:?}", of(logs));
        assert_eq!(of("error dialing backend: remote error: tls: internal error"), None);
    }

    #[test]
    fn an_agent_that_is_refused_is_restarted_and_needs_no_kubeconfig() {
        let line = |answer| {
            format!("level=warning msg=\"Unable to watch for tunnel endpoints: {answer} (get endpoints)\"")
        };
        let refused = agent_refused(&line("the server has asked for the client to provide credentials"));
        let commands = refused.unwrap().remedy.unwrap().commands;
        assert!(commands.iter().any(|command| command.contains("restart k3s-agent")), "{commands:?}");
        assert!(!commands.iter().any(|command| command.contains("kubeconfig")), "{commands:?}");
        assert!(agent_refused(&line("unknown")).is_none());
    }

    #[test]
    fn a_kubelet_that_is_asked_for_figures_in_vain_has_to_let_the_pods_in() {
        let scrape = |address: &str, why: &str| {
            not_scraped(&format!(
                r#""Failed to scrape node" err="Get "https://{address}:10250/metrics/resource": {why}" node="pi02""#
            ))
        };
        let details = scrape("192.0.2.42", "dial tcp 192.0.2.42:10250: connect: no route to host").unwrap();
        assert!(details.is_hint && details.message.unwrap().ends_with("not reached: no route to host"));
        let remedy = details.remedy.unwrap();
        assert!(remedy.explain.contains("the network of the pods"), "{}", remedy.explain);
        assert_eq!(remedy.commands[1].to_string(), "nc -vz 192.0.2.42 10250");
        let commands = scrape("$(reboot)", "context deadline exceeded").unwrap().remedy.unwrap().commands;
        assert!(!commands.iter().any(|command| command.contains("reboot")), "{commands:?}");
        assert_eq!(scrape("192.0.2.42", "remote error: tls: internal error"), None);
    }

    #[test]
    fn a_kubelet_that_is_not_reached_is_named_with_the_cause() {
        for (line, want) in [
            (
                "Error from server: error dialing backend: dial tcp 192.0.2.11:10250: connect: no route to host",
                Some("the kubelet at 192.0.2.11:10250 is not reached: no route to host"),
            ),
            (
                "error dialing backend: proxy error from 127.0.0.1:6443 while dialing 192.0.2.11:10250, code 502: 502 Bad Gateway",
                Some("the kubelet at 192.0.2.11:10250 is not reached: the server has no connection to it"),
            ),
            ("error dialing backend: x509: certificate is valid for 127.0.0.1, not 192.0.2.11", None),
            ("error dialing backend: remote error: tls: internal error", None),
            ("error dialing backend: dial tcp 10.42.0.5:8443: i/o timeout", None),
            ("error dialing backend: No agent available", None),
            (
                r#"Get "https://10.42.0.5:10250/apis/metrics.k8s.io/v1beta1": proxy error from 127.0.0.1:6443 while dialing 10.42.0.5:10250, code 502"#,
                None,
            ),
        ] {
            let message = unreachable(line).and_then(|details| details.message);
            assert_eq!(message.as_deref(), want, "{line}");
        }
        let commands = |line| unreachable(line).unwrap().remedy.unwrap().commands;
        let asked = commands("error dialing backend: dial tcp 192.0.2.11:10250: i/o timeout");
        assert_eq!(asked[1].to_string(), "nc -vz 192.0.2.11 10250");
        let asked = commands("error dialing backend: dial tcp $(reboot):10250: i/o timeout");
        assert!(!asked.iter().any(|command| command.contains("reboot")), "{asked:?}");
        assert!(unreachable("E1105 10:00:00.1 1 status.go:71] err=\"error dialing backend: dial tcp 192.0.2.11:10250: i/o timeout\"").unwrap().is_hint);
    }
}

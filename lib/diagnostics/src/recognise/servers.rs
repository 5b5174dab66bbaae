//! Messages of clients about servers that are unreachable, or are not what the client expects.

use super::details::{Details, after, has_any, is_name, looked_up, only_informs, only_warns, silent_group};
use super::k3d;
use super::peer::{asks_dns_of_a_cluster, asks_nowhere, asks_the_api_server};
use crate::finding::{K3S_STATUS, Remedy};
use crate::kubeconfig_export::advice::hard_to_find;
use crate::san::ServingName;

/// Ends of a name in a message.
const END: &[char] = &[' ', ':', ',', ';', '"', '\'', '’', ')'];

/// The container of a line of k3d, if it is one.
fn k3d_container(line: &str) -> Option<&str> {
    let name = &line[line.find("k3d-")?..];
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).unwrap_or(name.len());
    Some(&name[..end])
}

pub(super) fn k3d_node(line: &str) -> Option<Details> {
    let container = k3d_container(line)?;
    Some(container_log(Details::message(format!("{container} does not start")), container))
}

/// The last line of a k3d that hangs.
pub(super) fn starts_k3d_server(line: &str) -> Option<Details> {
    let container = k3d_container(line)?;
    let starts = line.contains("Starting Node '") || line.contains("Starting node '");
    let message = format!("k3d printed that it starts {container}, then nothing more");
    (starts && container.contains("-server-")).then(|| container_log(Details::message(message), container))
}

fn container_log(details: Details, container: &str) -> Details {
    details
        .advice(
            "the log of the container says why; most often it is N-01, since the container uses the memory \
            controller of the host. k3d waits forever unless `--timeout` is given",
        )
        .command(format!("docker logs --tail 50 {container} 2>&1 | weaver explain"))
}

/// minikube asks each program that it could use, and informs which of them do not run.
pub(super) fn no_engine(line: &str) -> Option<Details> {
    (!only_informs(line)).then(Details::default)
}

/// Go's words. Without a name nothing was asked, and a container of Docker that looks for another one asks Docker.
pub(super) fn no_such_host(line: &str) -> Option<Details> {
    let is_nameless = has_any(line, &["lookup : ", "lookup  on "]);
    let asks_docker = line.contains(" on 127.0.0.11:53") && !asks_the_api_server(line);
    (!is_nameless && !asks_docker).then(|| not_found(line))
}

/// glibc's words. Who asks for the name of an address can do without an answer: most addresses have none.
pub(super) fn name_not_found(line: &str) -> Option<Details> {
    let is_of_an_address = line.contains("getnameinfo()")
        || line.contains("IP address '") && line.contains("could not be resolved");
    (!is_of_an_address).then(|| not_found(line))
}

pub(super) fn not_found(line: &str) -> Details {
    let name = looked_up(line)
        .or_else(|| {
            let before = [
                "resolve host: ",
                "resolve hostname ",
                "host address ‘",
                "host address `",
                "host address '",
                "resolving '",
                "resolve '",
                "ENOTFOUND ",
                "EAI_AGAIN ",
                "UnknownHostException: ",
                "bad address '",
                "can't find ",
                "Can't find host ",
                "ping: ",
            ];
            before.into_iter().find_map(|before| after(line, before, END))
        })
        .filter(|name| !name.is_empty());
    let of_any_server = || {
        Remedy::new(
            "if it is the Pi's name, add it to /etc/hosts of the machine that connects, or use the address; \
             otherwise check the network and the DNS server",
        )
    };
    let Some(name) = name else {
        let details = Details::default();
        return if asks_the_api_server(line) { details } else { details.remedy(of_any_server()) };
    };
    let details = Details::message(format!("the name `{name}` cannot be resolved"));
    if let Some(remedy) = k3d::of_the_host(name).or_else(|| of_the_cluster(name, line)) {
        return details.remedy(remedy);
    }
    if !asks_the_api_server(line) {
        return details.remedy(of_any_server());
    }
    if let Some(remedy) = k3d::of_docker_desktop(name) {
        return details.remedy(remedy);
    }
    match name.parse::<ServingName>().ok().and_then(|name| hard_to_find(&name, None)) {
        Some(why) => details.advice(why),
        None => details,
    }
}

/// Does `CoreDNS` ask the DNS server of its node for this name? `redis.team` may be a Service in the namespace `team`.
fn is_forwarded(name: &str) -> bool {
    const ENDS: &[&str] = &[
        "com",
        "org",
        "net",
        "io",
        "edu",
        "gov",
        "info",
        "de",
        "at",
        "ch",
        "fr",
        "nl",
        "uk",
        "eu",
        "es",
        "it",
        "pl",
        "se",
        "us",
        "lan",
        "box",
        "local",
        "localdomain",
        "arpa",
    ];
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let end = name.rsplit_once('.').map(|(_, end)| end);
    end.is_some_and(|end| ENDS.contains(&end)) && !name.ends_with(".cluster.local")
}

fn forwarded(name: &str) -> Remedy {
    let end = name.trim_end_matches('.').rsplit('.').next();
    let remedy = Remedy::new(if end == Some("local") {
        "CoreDNS asks no mDNS, which answers for .local: use the address, or a name that the router's DNS server knows"
    } else {
        "this is no name of the cluster: CoreDNS asked the DNS server of its node, which does not know it or did not answer. \
         Compare with the answer that the node gets"
    })
    .command("# on the node:");
    let remedy = if is_name(name) { remedy.command(format!("getent hosts {name}")) } else { remedy };
    remedy
        .command("cat /etc/resolv.conf")
        .command("kubectl -n kube-system get configmap coredns -o yaml | grep forward")
}

/// What helps with a name that only the DNS server of the cluster knows.
fn of_the_cluster(name: &str, line: &str) -> Option<Remedy> {
    let service = name.trim_end_matches('.').trim_end_matches(".cluster.local").strip_suffix(".svc");
    if service.is_none() && !asks_dns_of_a_cluster(line) {
        return None;
    }
    if service.is_none() && is_forwarded(name) {
        return Some(forwarded(name));
    }
    let remedy = Remedy::new(
        "the cluster's DNS server does not know it: there is no such Service in that namespace, or CoreDNS does not run",
    );
    let remedy = match service.and_then(|service| service.split_once('.')) {
        Some((name, namespace)) if is_name(name) && is_name(namespace) => {
            remedy.command(format!("kubectl -n {namespace} get service {name}"))
        }
        _ => remedy.command("kubectl get services -A"),
    };
    Some(remedy.command("kubectl -n kube-system get pods -l k8s-app=kube-dns"))
}

/// The C library's resolver, by Go: no server of names answered.
pub(super) fn resolver_gives_up(line: &str) -> Option<Details> {
    let rest = line.split_once("lookup ")?.1;
    let is_a_name = rest.split(' ').next().is_some_and(|name| name.ends_with(':'));
    (is_a_name && line.contains("dial ")).then(|| not_found(line))
}

/// Bundlers say the same of modules.
pub(super) fn apt_not_found(line: &str) -> Option<Details> {
    let name = after(line, "Could not resolve '", &['\''])?;
    let is_a_name = name.contains('.') && !name.contains('/');
    (is_a_name && (line.contains("Failed to fetch ") || line.trim_end().ends_with('\'')))
        .then(|| not_found(line))
}

/// The DNS server that nslookup asks has no answer, and does not know that there is none. k3s#776
pub(super) fn nslookup_fails(line: &str) -> Option<Details> {
    let name = after(line, "server can't find ", END)?;
    Some(
        Details::message(format!("the DNS server cannot say whether there is a name `{name}` (SERVFAIL)"))
            .advice(
                "a pod asks CoreDNS: of names of the cluster it answers so while it does not reach the API server, of others if \
                 the DNS server of its node fails. On a node or a laptop, see the servers in /etc/resolv.conf",
            )
            .command("kubectl -n kube-system logs -l k8s-app=kube-dns --tail 50 | weaver explain")
            .command("# on the node, or on the laptop:")
            .command("cat /etc/resolv.conf")
            .hint(),
    )
}

/// Is it kubectl or helm who speaks, and not a part of the cluster, which asks before others are ready?
pub(super) fn is_of_a_client(line: &str) -> bool {
    [
        "Unable to connect to the server",
        "couldn't get current server API group list",
        "luster unreachable",
        "The connection to the server ",
        "can't connect to cluster",
        "Fail to locate metrics-server",
    ]
    .iter()
    .any(|words| line.contains(words))
}

/// A client's DNS server that does not answer: the server that was asked for has no part in it.
pub(super) fn resolver_silent(line: &str) -> Option<Details> {
    let name = looked_up(line).filter(|_| is_of_a_client(line) && line.contains("i/o timeout"))?;
    let added = if is_name(name) { name } else { "NAME" };
    Some(
        Details::message(format!("the DNS server does not answer, so the name `{name}` cannot be resolved"))
            .advice("check the network of this machine and its DNS server; or add the Pi to /etc/hosts")
            .command(format!("echo 'ADDRESS {added}' | sudo tee -a /etc/hosts")),
    )
}

/// dig and nslookup, in a pod or anywhere else. k3s-ansible#378, k3s#535, rancher#43138
pub(super) fn no_resolver(_: &str) -> Details {
    Details::message("no DNS server answers")
        .advice(
            "a pod asks CoreDNS: see that it runs, that a firewall on the nodes lets the network of the pods through, and that no \
             network of a node is part of 10.42.0.0/16 or 10.43.0.0/16. On a node or a laptop, check its network and the servers \
             in /etc/resolv.conf",
        )
        .command("kubectl -n kube-system get pods -l k8s-app=kube-dns -o wide")
        .command("# on the node, or on the laptop:")
        .command("ip -brief address")
        .command("cat /etc/resolv.conf")
        .command("sudo ufw status")
        .hint()
}

/// A program that is typed by hand and ends with the error of client-go: `error: Get "https://pi:6443/api": …`
pub(super) fn is_bare_error(line: &str) -> bool {
    let line = line.trim_start();
    let asks = ["Get", "Post", "Put", "Patch", "Delete"]
        .iter()
        .any(|verb| [" \"https://", " https://"].iter().any(|url| line.contains(&format!(" {verb}{url}"))));
    (line.starts_with("error: ") || line.starts_with("Error: ")) && asks && asks_the_api_server(line)
}

/// A client that waits for the API server until it gives up.
pub(super) fn silent(line: &str) -> Option<Details> {
    if !is_of_a_client(line) && !is_bare_error(line) {
        return None;
    }
    if line.contains("proxyconnect ") {
        return Some(
            Details::message("the proxy through which the server is asked does not answer")
                .advice(
                    "HTTPS_PROXY names it. The API server of a home needs none: add its name or address to NO_PROXY",
                )
                .command("env | grep -i proxy")
                .command("export NO_PROXY=NAME,192.168.0.0/16,10.0.0.0/8"),
        );
    }
    if line.contains("TLS handshake timeout") {
        let message = "the connection was accepted, but the server did not answer: it is overloaded, or something in \
            between drops its packets";
        return Some(
            Details::message(message)
                .advice("wait a minute and try again; on the Pi see what keeps it busy")
                .command("uptime"),
        );
    }
    Some(Details::default())
}

/// Nothing answers, as client libraries say it.
pub(super) fn refused_to_client(line: &str) -> Option<Details> {
    // Windows' word for it: no server of k3s runs there, so it is a client.
    let is_of_windows = line.contains("connectex: ") && asks_the_api_server(line);
    if !is_of_a_client(line) && !is_bare_error(line) && !is_of_windows {
        return None;
    }
    let server = after(line, "dial tcp ", &[' ']).map(|server| server.trim_end_matches(':'));
    Some(
        server
            .map_or_else(Details::default, |server| Details::message(format!("nothing answers at {server}"))),
    )
}

/// k3s answers so until its API server has started. A group that a program of its own serves is another matter.
pub(super) fn starting(line: &str) -> Option<Details> {
    let is_of_a_group =
        silent_group(line).is_some() || has_any(line, &["server APIs: ", "resource list for "]);
    let is_asked = line.contains("Error from server (ServiceUnavailable): ") || is_of_a_client(line);
    (is_asked && !is_of_a_group).then(|| {
        Details::message("the API server is not ready: k3s is starting, or its start does not end")
            .hint()
            .advice("wait a minute and try again; then look on the server for what k3s waits for")
            .command("weaver explain --journal k3s")
            .command(K3S_STATUS)
    })
}

/// systemd's word that k3s failed.
pub(super) fn unit_failed(line: &str) -> Details {
    let is_agent = line.contains("k3s-agent") || line.contains("k3s agent");
    let unit = if is_agent { "k3s-agent" } else { "k3s" };
    Details::message("k3s fails when it starts, and none of these lines says why")
        .advice("its log on that node does: the first command explains it, the second shows its end")
        .command(format!("weaver explain --journal {unit}"))
        .command(format!("sudo journalctl -b -u {unit} | tail -n 50"))
}

fn server_refused(line: &str) -> Option<&str> {
    let server = after(line, "The connection to the server ", &[' '])?;
    line.contains("refused").then_some(server)
}

pub(super) fn fallback_server(line: &str) -> Option<Details> {
    (asks_the_api_server(line) && line.contains("refused")).then(Details::default)
}

/// client-go and others where there is no cluster around them. kubeml#2, harness#2673
pub(super) fn not_in_a_cluster(line: &str) -> Option<Details> {
    (!continues(line)).then(outside)
}

/// In Go's words: who looks at the file in a shell sees that by itself.
pub(super) fn without_account(line: &str) -> Option<Details> {
    (line.contains("open /var/run/secrets/kubernetes.io/") && !continues(line)).then(outside)
}

/// Whether a program only asks if there is a cluster around it, and continues without one: the scheduler of Kubernetes
/// warns so at each start.
fn continues(line: &str) -> bool {
    const MILDER: [&str; 9] = [
        "level=debug",
        "level=info",
        "level=warn",
        "\"level\":\"debug",
        "\"level\":\"info",
        "\"level\":\"warn",
        " debug ",
        " info ",
        " warn ",
    ];
    let lower = line.to_ascii_lowercase();
    lower.contains("falling back") || has_any(&lower, &MILDER) || only_informs(line) || only_warns(line)
}

fn outside() -> Details {
    Details::message("a program looks for the cluster that it runs in, and runs in none, or has no token of a ServiceAccount")
        .hint()
        .advice(
            "outside of a cluster, give it a kubeconfig by KUBECONFIG or by its own option, and mount that file where it runs in \
             a container. A pod with `automountServiceAccountToken: false` has no token",
        )
        .command("export KUBECONFIG=FILE")
}

/// terraform-provider-kubernetes#1159
pub(super) fn unconfigured_provider(line: &str) -> Option<Details> {
    let is_answered = line.contains("refused") || line.contains("x509: ");
    (is_answered && asks_nowhere(line)).then(|| {
        Details::message("the client has no configuration, and asks localhost").advice(
            "give Terraform's provider `config_path`, or `host` with `cluster_ca_certificate` and the credentials; values that are \
             not known before `apply` are empty when it plans",
        )
    })
}

pub(super) fn listening_address(_: &str) -> Details {
    Details::message("0.0.0.0 is an address to listen on, not to connect to")
}

pub(super) fn this_machine(line: &str) -> Option<Details> {
    let server = server_refused(line)?;
    Some(Details::message(format!("{server} is this machine, and nothing answers there"))
        .advice(
            "on the Pi: k3s does not run, or is not ready yet; on another machine: this kubeconfig is the Pi's own, so \
             export one there with `weaver kubeconfig export NAME`",
        )
        .command(K3S_STATUS))
}

pub(super) fn refused(line: &str) -> Option<Details> {
    let server = server_refused(line)?;
    Some(Details::message(format!("nothing answers at {server}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_coredns_passes_on_is_no_service() {
        let remedy = |name: &str| {
            let line = format!("dial tcp: lookup {name} on 10.43.0.10:53: no such host");
            no_such_host(&line).unwrap().remedy.unwrap()
        };
        for name in ["api.github.com", "nas.lan", "api.github.com."] {
            let remedy = remedy(name);
            assert!(remedy.explain.contains("no name of the cluster"), "{name}: {}", remedy.explain);
            assert_eq!(remedy.commands[1].to_string(), format!("getent hosts {name}"));
        }
        assert!(remedy("pi.local").explain.contains("mDNS"));
        // The second part can be a namespace.
        for name in ["redis", "redis.team", "a.b.svc", "a.b.svc.cluster.local", "a.cluster.local"] {
            assert!(remedy(name).explain.contains("no such Service"), "{name}");
        }
        let remedy = remedy("$(reboot).com");
        assert!(!remedy.commands.iter().any(|command| command.contains("reboot")), "{:?}", remedy.commands);
    }
}

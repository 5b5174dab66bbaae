//! What TLS says of a certificate.

use std::fmt::Write as _;

use super::details::{Details, after, has_any};
use super::peer::{self, Peer};
use crate::finding::{RESTART_K3S, Remedy};
use crate::k3d;
use crate::san::{ServingName, nearest};

/// A certificate without the name that was used, as an error reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameMismatch {
    /// The name that was used, where the error has it.
    pub used: Option<String>,
    /// The names in the certificate, where the error has them.
    pub presented: Vec<String>,
}

impl NameMismatch {
    /// Reads the words of Go (crypto/x509), rustls (0.23 and before), OpenSSL (curl, Python), `GnuTLS`, Java, Node.js.
    pub fn read(text: &str) -> Option<Self> {
        go(text).or_else(|| rustls(text)).or_else(|| openssl(text)).or_else(|| others(text))
    }
}

fn go(text: &str) -> Option<NameMismatch> {
    const END: &[char] = &['"', ' ', ',', ';', '\''];
    let named = |before| after(text, before, END).filter(|name| !name.is_empty()).map(str::to_owned);
    // "… because it doesn't contain any IP SANs", "… not valid for any names, but wanted to match …", and with more
    // than a hundred names their number.
    for before in [
        "cannot validate certificate for ",
        "is not valid for any names, but wanted to match ",
        "names, but none matched ",
        "IP SANs, but none matched ",
    ] {
        if let Some(used) = named(before) {
            return Some(NameMismatch { used: Some(used), presented: Vec::new() });
        }
    }
    let list = &text[text.find("certificate is valid for ")? + "certificate is valid for ".len()..];
    let (list, used) = list.split_once(", not ")?;
    let used = used.split(END).next().filter(|used| !used.is_empty())?;
    Some(NameMismatch {
        used: Some(used.to_owned()),
        presented: list.split(", ").map(str::to_owned).collect(),
    })
}

fn rustls(text: &str) -> Option<NameMismatch> {
    if has_any(
        text,
        &["invalid peer certificate: NotValidForName", "invalid certificate: CertNotValidForName"],
    ) {
        return Some(NameMismatch { used: None, presented: Vec::new() });
    }
    let used = after(text, "certificate not valid for name \"", &['"'])?;
    let list = text.split_once("is only valid for ").map_or("", |(_, list)| list);
    // DnsName("pi"), DnsName("raspi") or IpAddress(10.0.0.7)
    let presented = list.replace(" or ", ", ");
    let presented = presented.split(", ").filter_map(|name| {
        let name = after(name, "(", &[')'])?.trim_matches('"');
        (!name.is_empty()).then(|| name.to_owned())
    });
    Some(NameMismatch { used: Some(used.to_owned()), presented: presented.collect() })
}

fn openssl(text: &str) -> Option<NameMismatch> {
    let quote: &[char] = &['\'', '’'];
    for before in [
        "matches target host name '",
        "matches target hostname '",
        "matches target ipv4 address '",
        "does not match target host name '",
        "certificate is not valid for '",
    ] {
        if let Some(used) = after(text, before, quote) {
            return Some(NameMismatch { used: Some(used.to_owned()), presented: Vec::new() });
        }
    }
    None
}

/// Node.js, Java, Python before 3.7, wget, `GnuTLS`.
fn others(text: &str) -> Option<NameMismatch> {
    const END: &[char] = &[' ', '\'', '’', '"', '\n'];
    if text.contains("does not match certificate's altnames: ") {
        let used = after(text, "Host: ", END)
            .map(|name| name.trim_end_matches('.'))
            .or_else(|| after(text, "IP: ", END));
        let list = text.split_once("altnames: DNS:").or_else(|| text.split_once("cert's list: "));
        let presented = list.map_or("", |(_, list)| list).split(", ");
        let presented =
            presented.map(|name| name.trim_start_matches("DNS:").split(' ').next().unwrap_or_default());
        return Some(NameMismatch {
            used: used.map(str::to_owned),
            presented: presented.filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        });
    }
    if let Some(used) = after(text, "hostname '", &['\'']) {
        let list = text.split_once("' doesn't match ").map(|(_, list)| list)?;
        let presented = list.trim_start_matches("either of ").split(", ");
        let presented = presented.filter_map(|name| name.trim_start().strip_prefix('\'')?.split('\'').next());
        return Some(NameMismatch {
            used: Some(used.to_owned()),
            presented: presented.map(str::to_owned).collect(),
        });
    }
    let before = [
        "No subject alternative DNS name matching ",
        "No subject alternative names matching IP address ",
        // OkHttp, which has the names on a line of their own.
        "SSLPeerUnverifiedException: Hostname ",
        "CertificateException: No name matching ",
        "does not match hostname ‘",
        "does not match hostname '",
    ];
    if let Some(used) = before.into_iter().find_map(|before| after(text, before, END)) {
        return Some(NameMismatch { used: Some(used.to_owned()), presented: Vec::new() });
    }
    [
        "no certificate subject alternative name matches",
        "num=62:",
        "erify return code: 62 (",
        "The name in the certificate does not match",
        "certificate name does not match input",
        "SEC_E_WRONG_PRINCIPAL",
        "RemoteCertificateNameMismatch",
    ]
    .iter()
    .any(|words| text.contains(words))
    .then(|| NameMismatch { used: None, presented: Vec::new() })
}

/// Go has not read common names since 1.15; k3s' own certificates have names.
pub(super) fn without_names(line: &str) -> Option<Details> {
    (peer::peer(line) != Peer::Other).then(|| {
        Details::message("the certificate has only a common name, which Go programs ignore").advice(
            "this is not a certificate of k3s: a proxy or another server answers at this address; its administrator has \
            to give it one with subject alternative names",
        )
    })
}

/// Names that only another cluster on a laptop has in its certificate.
const OF_ANOTHER_CLUSTER: &[&str] = &[
    "docker-for-desktop",
    "docker-desktop",
    "host.docker.internal",
    "kubernetes.docker.internal",
    "minikube",
    "minikubeCA",
];

pub(super) fn mismatch(line: &str) -> Option<Details> {
    let NameMismatch { used, presented } = NameMismatch::read(line)?;
    if peer::asks_nowhere(line) {
        return None;
    }
    let is_inside =
        line.contains("SSLPeerUnverifiedException") && used.as_deref().is_some_and(peer::is_of_kubernetes);
    let is_api_server = is_inside || presented.iter().any(|name| peer::is_of_kubernetes(name));
    let peer = if is_api_server { Peer::ApiServer } else { peer::peer(line) };
    // Names of the Internet or of a Service, and none of Kubernetes: that is another server.
    let is_others = |name: &str| peer::is_public(name) || name.split('.').any(|part| part == "svc");
    let is_other = peer == Peer::Other
        || peer == Peer::Unnamed && presented.iter().chain(&used).any(|name| is_others(name));
    if is_other {
        return None;
    }
    let mut message = used.as_ref().map_or_else(
        || "the name that was used is not in the certificate".to_owned(),
        |used| format!("the certificate does not have the name `{used}` that was used"),
    );
    if !presented.is_empty() {
        let _ = write!(message, "; it has: {}", presented.join(", "));
    }
    if let Some(name) = presented.iter().find(|name| OF_ANOTHER_CLUSTER.contains(&name.as_str())) {
        return Some(of_another_cluster(name));
    }
    let details = Details::message(message);
    // Only what can be nothing but a name becomes part of a command.
    let name = used.and_then(|used| used.parse::<ServingName>().ok());
    if peer == Peer::Unnamed {
        let whom = name.map_or_else(String::new, |name| format!(" {name}"));
        return Some(details.hint().advice(format!(
            "the line does not say which server it is. If it is the API server, have k3s serve the name{whom} too (`tls-san+:` \
             in a drop-in, restart), or connect by a name that it has; if it is another, its administrator has to change \
             its certificate"
        )));
    }
    Some(match name {
        Some(name) => details.remedy(serve(&name, &presented)),
        None => details,
    })
}

fn of_another_cluster(name: &str) -> Details {
    Details::message(format!("another cluster answers: its certificate has the name `{name}`"))
        .advice(
            "Docker Desktop or minikube on this machine listens at this address: choose the context of your cluster, or \
             stop the other one",
        )
        .command("kubectl config get-contexts")
        .command("kubectl config use-context NAME")
}

/// How the API server comes to serve the name too, or is reached by one of those `presented`.
fn serve(name: &ServingName, presented: &[String]) -> Remedy {
    let text = name.to_string();
    let served = |wanted: &&String| wanted.parse::<ServingName>().is_ok() && !wanted.starts_with('*');
    let presented: Vec<String> = presented.iter().filter(served).cloned().collect();
    let verify = nearest(&text, &presented).or_else(|| presented.first().map(String::as_str));
    let instead = verify.map_or_else(String::new, |served| {
        format!(
            "\nor keep the certificate: connect to `{served}` (a line in /etc/hosts makes that name known), or give \
             kubectl `--tls-server-name={served}`"
        )
    });
    if k3d::cluster::of_served(&presented).is_some() {
        // It is deleted with all that is in it: not a cluster that a line names.
        let mut remedy = k3d::verdict::serve("CLUSTER", &text, &presented);
        remedy.explain += &instead;
        return remedy;
    }
    let file = text.replace([':', '*'], "-");
    Remedy::new(format!(
        "on the Pi, have k3s serve {name} too; on our card by `names` under [api] in weaver.toml instead{instead}\n\
         `--insecure-skip-tls-verify` is for diagnosis only: any server that answers gets your credentials"
    ))
    .command("sudo mkdir -p /etc/rancher/k3s/config.yaml.d")
    .command(format!("echo 'tls-san+: [\"{name}\"]' | sudo tee /etc/rancher/k3s/config.yaml.d/91-{file}.yaml"))
    .command(RESTART_K3S)
}

/// A client that came with a certificate of its own, as the API server's log reports it; its clock is the server's.
pub(super) fn of_a_client(line: &str) -> Option<Details> {
    if line.contains("token has expired") {
        return Some(
            Details::message("a client presented a token that has expired")
                .advice(
                    "tokens of pods are renewed by the kubelet: compare the clocks, and restart a program that keeps its \
                     first token; a user needs a new one",
                )
                .command("timedatectl")
                .command("kubectl create token ACCOUNT -n NAMESPACE"),
        );
    }
    if line.contains("signed by unknown authority") {
        return Some(Details::message(
            "a client presented a certificate of another cluster, or of this one before it was reinstalled",
        ));
    }
    line.contains("certificate has expired").then(|| {
        Details::message("a client's certificate has expired; the line does not say whose")
            .advice(
                "if it is a user's kubeconfig, export it again and replace all copies, including those that \
                background programs use; k3s renews its own certificates at start, so restart k3s only if one of \
                them has expired",
            )
            .command("sudo k3s certificate check --output table")
    })
}

/// A token that is for another server, as the API server says it in its log and to programs that have it reviewed: the
/// words are of pkg/serviceaccount/jwt.go of Kubernetes. cert-manager#6150
pub(super) fn other_audience(line: &str) -> Option<Details> {
    let of = after(line, "token audiences [", &[']'])?;
    let wanted = after(line, "target audiences [", &[']'])?;
    Some(
        Details::message(format!("a token for the audience {of} came where one for {wanted} is needed"))
            .advice(
                "a token for the API server has no audience of its own: leave `audiences` out of the ServiceToken, `audience` out \
                 of the projected volume, or `--audience` out of the command. A program that has tokens reviewed has to ask for \
                 the audience that its clients' tokens have",
            )
            .command("kubectl create token ACCOUNT -n NAMESPACE")
            .command("kubectl create token ACCOUNT -n NAMESPACE --audience AUDIENCE"),
    )
}

/// The server's answer to the certificate with which this client came: an alert, in the words of Go, OpenSSL
/// and others.
pub(super) fn alert(line: &str) -> Option<Details> {
    // A server reports the same of its clients, and there the client refuses.
    let is_of_a_server = line.contains("handshake error from") || line.contains("rejected connection");
    if is_of_a_server || peer::peer(line) == Peer::Other && !is_of_a_tool(line) {
        return None;
    }
    let lower = line.to_ascii_lowercase();
    let why = if lower.contains("expired") {
        "has expired"
    } else if lower.contains("required") {
        "was not sent"
    } else {
        "is of another cluster, or of this one before it was reinstalled"
    };
    let details = Details::message(format!("the server refused this client's certificate: it {why}"));
    Some(if peer::peer(line) == Peer::ApiServer { details } else { details.hint() })
}

/// curl and Python, with nothing but the library's words.
fn is_of_a_tool(line: &str) -> bool {
    line.starts_with("curl: (") || line.trim_start().starts_with("(Caused by SSLError(SSLError(1, ")
}

pub(super) fn untrusted(line: &str) -> Option<Details> {
    if peer::asks_itself(line) {
        return Some(own_certificate());
    }
    if peer::asks_by_k3s(line) {
        return Some(certificate_for_k3s());
    }
    if peer::asks_nowhere(line) {
        return None;
    }
    if peer::asks_from_a_pod(line) {
        return Some(certificate_for_a_pod());
    }
    if line.contains("/k8s/clusters/") {
        return Some(certificate_of_rancher());
    }
    match peer::peer(line) {
        Peer::ApiServer => Some(Details::default()),
        Peer::Other => None,
        Peer::Unnamed => Some(
            Details::message("the certificate of the server that was asked is not signed by a CA that the client knows")
                .hint()
                .advice(
                    "the line does not say which server it is. If it is the API server, export the kubeconfig again on the \
                     Pi (`weaver kubeconfig export NAME`); if it is another, such as a registry, the client needs the \
                     certificate of its CA",
                ),
        ),
    }
}

/// No kubeconfig of a user has this address.
fn certificate_for_k3s() -> Details {
    Details::message("k3s of this node does not trust the API server that it asks: the certificate is of another CA")
        .advice(
            "on a node that joins a server, 127.0.0.1:6444 is the load balancer of k3s: check that `server` and the token are of \
             the same cluster; if the server was installed again, copy its token again and restart k3s. On a server, it is \
             the API server itself: if `openssl verify` does not say OK, restore server/tls, server/token and the datastore \
             from one backup (`sudo weaver node restore BACKUP`); if it does, restart k3s",
        )
        .command("sudo cat /var/lib/rancher/k3s/server/node-token")
        .command(VERIFY)
        .command(RESTART_K3S)
}

/// A pod has no kubeconfig: it is given the CA in a ConfigMap. k3s#104
fn certificate_for_a_pod() -> Details {
    Details::message("a pod does not trust the API server: the certificate is not of the CA that the pod was given")
        .advice(
            "many programs read the CA at their start: delete the pod, so that another one starts. If that does not help, compare \
             the two CAs. If they differ, k3s does not renew the ConfigMap: see its log. If they are the same, something else \
             answers at this address, as a rule of the firewall for port 443",
        )
        .command("kubectl delete pod -n NAMESPACE POD")
        .command(
            "kubectl -n kube-system get configmap kube-root-ca.crt -o jsonpath='{.data.ca\\.crt}' | openssl x509 -noout \
             -fingerprint",
        )
        .command("sudo openssl x509 -noout -fingerprint -in /var/lib/rancher/k3s/server/tls/server-ca.crt")
}

/// Rancher stands between kubectl and the clusters that it manages. rancher/dashboard#13041
fn certificate_of_rancher() -> Details {
    Details::message("the client does not trust the certificate of Rancher, through which this kubeconfig reaches the cluster")
        .advice(
            "download the kubeconfig again in Rancher, which puts its CA into it; or use a kubeconfig of the cluster itself, which \
             needs no Rancher",
        )
        .command("kubectl config view --minify")
}

/// Of the files of a server.
const VERIFY: &str = "sudo openssl verify -CAfile /var/lib/rancher/k3s/server/tls/server-ca.crt \
                      /var/lib/rancher/k3s/server/tls/serving-kube-apiserver.crt";

/// Python before 3.7, which reports another name in other words. kubernetes-client/python#521
pub(super) fn unverified(line: &str) -> Option<Details> {
    (peer::peer(line) == Peer::ApiServer).then(|| {
        let message = "the client does not trust the API server's certificate, or it has expired; this Python does not say which";
        Details::message(message)
            .advice("compare the clocks; then export the kubeconfig on the Pi again, and have the client read it")
            .command("timedatectl")
            .command("weaver kubeconfig fetch USER@NAME")
    })
}

/// k3s checks at its start that the certificate of its port is of its own CA.
fn own_certificate() -> Details {
    Details::message("this server does not trust its own certificate: it is not of the CA in server/tls")
        .advice(
            "server/tls, server/token and the datastore belong together: they do not if a backup was restored in part, if two \
             servers made a CA at the same time, or if the clock was wrong at the first start. If `openssl verify` says OK, \
             only the certificate of the port is of an earlier CA: the commands after it have k3s make another. If not, \
             restore all three from one backup (`sudo weaver node restore BACKUP`), or from the server whose cluster it is",
        )
        .command("timedatectl")
        .command(VERIFY)
        .command("sudo k3s kubectl --server https://127.0.0.1:6444 -n kube-system delete secret k3s-serving")
        .command("sudo mv /var/lib/rancher/k3s/server/tls/dynamic-cert.json /root/")
        .command(RESTART_K3S)
}

pub(super) fn dates(line: &str) -> Option<Details> {
    let lower = line.to_ascii_lowercase();
    // etcd and k3s tell of certificates that k3s made.
    let is_of_etcd = line.contains("\"caller\":") && lower.contains("verify client certificate")
        || lower.contains(":2379") && lower.contains("authentication handshake failed");
    let peer = if is_of_etcd { Peer::ApiServer } else { peer::peer(line) };
    if peer == Peer::Other || lower.contains("alert") && lower.contains("expired") {
        return None;
    }
    let message = outside(&lower);
    if lower.contains("verify client certificate") {
        return Some(Details::message(
            message.replace("by the client's clock", "which a client brought, by the server's clock"),
        ));
    }
    let details = Details::message(message);
    if peer == Peer::ApiServer {
        return Some(details);
    }
    Some(
        details
            .hint()
            .advice(
                "compare the clocks first. The line does not say which server it is: if it is the API server, restart k3s, \
                 which renews its certificates at start; another's is renewed by its administrator",
            )
            .command("timedatectl"),
    )
}

/// What a certificate's dates are, by a line in lower case. Go says both in one sentence, and then which.
pub(super) fn outside(lower: &str) -> &'static str {
    if is_early(lower) {
        "the certificate is not valid yet by the client's clock"
    } else if lower.contains("has expired or is not yet valid") && !lower.contains("is after ") {
        "the certificate is outside its validity by the client's clock"
    } else {
        "the certificate has expired by the client's clock"
    }
}

pub(super) fn is_early(lower: &str) -> bool {
    lower.contains("is before ")
        || lower.contains("certificate not valid yet")
        || lower.contains("certificate not yet valid")
        || lower.contains("not yet valid certificate")
        || lower.contains("notyetvalid")
        || lower.contains("notvalidyet")
        || lower.contains("certificate is not yet valid") && !lower.contains("has expired")
}

/// Of whatever server: who takes a certificate for one of the future has a clock that is behind.
pub(super) fn clock_behind(line: &str) -> Option<Details> {
    is_early(&line.to_ascii_lowercase()).then(|| {
        Details::message("the clock is behind: the certificate of another server is not valid yet by it")
            .advice("set the clock: a Pi has no battery for it")
            .command("timedatectl")
    })
}

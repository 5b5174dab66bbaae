//! What the kubelet and the API server say of a node.

use super::details::{Details, after, has_any, is_name, is_plain, only_informs};
use crate::finding::{K3S_STATUS_ANYWHERE, RESTART_K3S};

/// Is the line one of a log of the kubelet? While it starts, it says for some seconds what would be a fault later.
fn is_of_the_kubelets_log(line: &str) -> bool {
    line.contains(".go:")
}

pub(super) fn network(line: &str) -> Option<Details> {
    (!is_of_the_kubelets_log(line)).then(Details::default)
}

/// A CNI plugin that is configured and not there.
pub(super) fn plugin_gone(line: &str) -> Option<Details> {
    let name = after(line, "failed to find plugin \"", &['"']).filter(|name| is_plain(name))?;
    line.contains(" in path").then(|| {
        Details::message(format!("the pod network asks for the plugin `{name}`, which is not installed"))
            .advice("another network was installed before, or its files were removed: see which one is configured")
            .command("sudo ls /etc/cni/net.d /var/lib/rancher/k3s/agent/etc/cni/net.d")
    })
}

/// flannel's last word where the kernel refuses the address or the interface that it is configured for.
pub(super) fn flannel_refused(line: &str) -> Option<Details> {
    let is_fatal = has_any(line, &["level=fatal", "level=error", "FATA["]);
    (is_fatal && line.contains("invalid argument")).then(|| {
        Details::message("flannel exits: the kernel refuses its network")
            .advice(
                "compare `cluster-cidr`, `flannel-backend` and `flannel-iface` with the networks of this host; after a \
                 change of them, restart the node, which keeps the interface of the earlier one",
            )
            .command("ip -brief address")
            .command("sudo grep -rnE 'cluster-cidr|flannel' /etc/rancher/k3s")
    })
}

fn set_interface(details: Details) -> Details {
    details
        .advice(
            "set `flannel-iface` to the interface with the address of this node, or remove it; with two families of \
             addresses the interface needs one of each",
        )
        .command("ip -brief address")
        .command("sudo grep -rn flannel-iface /etc/rancher/k3s /etc/systemd/system/k3s*.service")
        .command(RESTART_K3S)
}

/// k3s before it starts flannel, which names no interface until 1.28. k3s#8345
pub(super) fn no_interface(line: &str) -> Option<Details> {
    let is_of_k3s = has_any(line, &["level=", "INFO[", "WARN[", "FATA[", "ERRO["]);
    is_of_k3s.then(|| set_interface(Details::message("k3s does not find the interface that it is to use")))
}

/// The interface that flannel is to use, or takes by itself.
pub(super) fn interface(line: &str) -> Option<Details> {
    let is_of_flannel = line.contains("flannel exited: ") || line.contains("flannel interface");
    let name = after(line, "for interface ", &['"', ' ', ':'])
        .or_else(|| after(line, "the interface ", &[':', ' ', '"']))
        .filter(|name| is_plain(name));
    let message = match name {
        Some(name) if line.contains("IPv6") => format!("flannel finds no IPv6 address on {name}"),
        Some(name) => format!("flannel finds no address on {name}"),
        None => "flannel does not find the interface that it is to use".to_owned(),
    };
    is_of_flannel.then(|| set_interface(Details::message(message)))
}

/// Who is asked, a name of a node or of an object?
pub(super) fn name(line: &str) -> Option<Details> {
    let is_of_a_node = line.contains("Unable to register node") || line.contains("nodeRegistration.name");
    is_of_a_node.then(Details::default)
}

/// A line of `kubectl get nodes`: name, status, roles, age, version.
pub(super) fn listed(line: &str) -> Option<Details> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let [name, status, _, age, version, ..] = columns[..] else { return None };
    // A new node is not ready for a minute.
    let is_old =
        age.ends_with(['h', 'd', 'y']) || age.contains(['h', 'd']) || age.len() > 2 && age.ends_with('m');
    (status.split(',').any(|word| word == "NotReady") && version.starts_with("v1.") && is_old && is_name(name)).then(|| {
        Details::message(format!("the node {name} is NotReady"))
            .advice("the Ready condition of its description says why; if it says Unknown, the node is off or k3s does not run there")
            .command(format!("kubectl describe node {name}"))
            .command(format!("ping -c 3 {name}"))
            .command("# on that node:")
            .command(K3S_STATUS_ANYWHERE)
            .command("weaver explain --journal k3s-agent")
    })
}

pub(super) fn own_limit(_: &str) -> Details {
    Details::message("the pod used more disk than its own limit allows, and was evicted").advice(
        "raise `limits.ephemeral-storage` of its containers or `sizeLimit` of its emptyDir, or have it write less",
    )
}

/// Who asks containerd for the kubelet, and for crictl.
pub(super) const RUNTIME: &str = "remote_runtime.go";

/// crictl and ctr when containerd is gone; k3s itself waits for it at each start.
pub(super) fn runtime_gone(line: &str) -> Option<Details> {
    let is_of_a_client = has_any(line, &["FATA[", "level=fatal", "ctr: ", "listing containers"]);
    is_of_a_client.then(without_runtime)
}

/// The kubelet says it once or twice while k3s stops.
pub(super) fn runtime_gone_for_kubelet(line: &str) -> Option<Details> {
    let is_gone = has_any(line, &["connect: connection refused", "connect: no such file"]);
    (is_gone && line.contains("/run/k3s/containerd/containerd.sock")).then(without_runtime)
}

fn without_runtime() -> Details {
    Details::message("containerd of k3s does not run on this node")
        .advice("it runs as a part of k3s: see why k3s does not start")
        .command(K3S_STATUS_ANYWHERE)
        .command("weaver explain --journal k3s")
}

/// Kubelets before 1.13 inform of it at each start, when they have not asked yet.
pub(super) fn runtime_down(line: &str) -> Option<Details> {
    (!only_informs(line)).then(Details::default)
}

/// A kubelet that has not looked yet says that its last look was longer ago than Go can count.
pub(super) fn no_look_at_pods(line: &str) -> Option<Details> {
    (!line.contains("active 2562047h47m")).then(Details::default)
}

/// Once is a board that is busy.
pub(super) fn runtime_late(line: &str) -> Option<Details> {
    let is_a_look = has_any(line, &["ListContainers", "ListPodSandbox", "Version", "Status"]);
    (is_a_look && line.contains("DeadlineExceeded"))
        .then(|| Details::message("containerd does not answer the kubelet in time"))
}

/// Sockets of container runtimes that are not k3s'.
const OTHER_SOCKETS: &[&str] = &[
    "/run/dockershim.sock",
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/cri-dockerd.sock",
];

fn of_k3s(details: Details) -> Details {
    details
        .advice("containerd of k3s is at /run/k3s/containerd/containerd.sock, for root only, and k3s' own crictl knows it")
        .command("sudo k3s crictl ps")
        .command("sudo crictl --runtime-endpoint unix:///run/k3s/containerd/containerd.sock ps")
        .command("sudo ctr --address /run/k3s/containerd/containerd.sock --namespace k8s.io containers list")
}

/// crictl tries each known endpoint in turn unless one is configured. The kubelet's cadvisor tries the same endpoints
/// at each start, which waits for them.
pub(super) fn no_endpoint(line: &str) -> Option<Details> {
    const CLIENTS: &[&str] = &[
        "remote_runtime.go",
        "remote_image.go",
        "FATA[",
        "ERRO[",
        "level=fatal",
        "validate service connection",
        "ctr: ",
        "nerdctl",
    ];
    let socket = OTHER_SOCKETS.iter().find(|socket| line.contains(*socket))?;
    let has = |words: &[&str]| words.iter().any(|words| line.contains(words));
    if has(&["aiting for", "container factory", "factory.go"]) {
        return None;
    }
    let details = Details::message(format!("no container runtime listens at {socket}"));
    if has(CLIENTS) {
        return Some(of_k3s(details));
    }
    // An agent that looks at containers, whose own settings name the socket.
    Some(
        details
            .hint()
            .advice(
                "if the program is to look at the containers of k3s, give it k3s' socket in its settings, and root's rights",
            )
            .command("sudo ls -l /run/k3s/containerd/containerd.sock"),
    )
}

/// crictl and nerdctl that wait for an answer until they give up.
pub(super) fn no_answer_at(line: &str) -> Option<Details> {
    let socket = OTHER_SOCKETS.iter().find(|socket| line.contains(*socket))?;
    Some(of_k3s(Details::message(format!("no container runtime answers at {socket}"))))
}

/// nerdctl that was started without root.
pub(super) fn rootless(_: &str) -> Details {
    of_k3s(Details::message("without root, nerdctl looks for a containerd of your own, which is not there"))
}

pub(super) fn only_root(_: &str) -> Details {
    of_k3s(Details::message("only root may speak with containerd"))
}

/// Docker's package of containerd turns this part off.
pub(super) fn no_cri(line: &str) -> Option<Details> {
    let what = "what listens there is no container runtime of Kubernetes: containerd of Docker has its CRI turned off, or is too \
        old";
    (!line.contains("/run/k3s/")).then(|| of_k3s(Details::message(what)))
}

pub(super) fn no_crictl_file(_: &str) -> Details {
    of_k3s(Details::message("crictl of k3s has no configuration: k3s never ran, or you are not root"))
}

/// The controller manager gives each node a part of `cluster-cidr`.
pub(super) fn no_range(_: &str) -> Details {
    Details::message("the node was given no addresses for its pods")
        .advice(
            "the range of the cluster is too small for one more node (`cluster-cidr`, of which a node takes a /24), or nodes that \
             no longer exist hold parts of it: remove these",
        )
        .command("kubectl get nodes -o custom-columns=NAME:.metadata.name,RANGE:.spec.podCIDR")
        .command("kubectl delete node NAME")
}

/// An event of type Normal, with every CNI that gives addresses itself.
pub(super) fn no_range_of_k3s(_: &str) -> Details {
    Details::message(
        "the node was given no range of `cluster-cidr`: nothing where the CNI gives addresses itself, as Calico and Cilium do",
    )
    .advice("with flannel: the range is too small for one more node, or nodes that no longer exist hold parts of it")
    .command("kubectl get nodes -o custom-columns=NAME:.metadata.name,RANGE:.spec.podCIDR")
    .hint()
}

pub(super) fn bridge_address(_: &str) -> Details {
    Details::message(
        "the bridge cni0 has the address of another range: the node joined again under another one",
    )
}

//! What the kubelet and the API server say of a node.

use super::details::{Details, after, is_plain};
use crate::finding::{K3S_STATUS_ANYWHERE, RESTART_K3S, Remedy};

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
        Details::message(format!("the pod network asks for the plugin `{name}`, which is not installed")).remedy(
            Remedy::new("another network was installed before, or its files were removed: see which one is configured")
                .command("sudo ls /etc/cni/net.d /var/lib/rancher/k3s/agent/etc/cni/net.d"),
        )
    })
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
    is_of_flannel.then(|| {
        Details::message(message).remedy(
            Remedy::new(
                "set `flannel-iface` to the interface with the address of this node, or remove it; with two families of \
                 addresses the interface needs one of each",
            )
            .command("ip -brief address")
            .command("sudo grep -rn flannel-iface /etc/rancher/k3s /etc/systemd/system/k3s*.service")
            .command(RESTART_K3S),
        )
    })
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
    (status.split(',').any(|word| word == "NotReady") && version.starts_with("v1.") && is_old && is_plain(name)).then(|| {
        Details::message(format!("the node {name} is NotReady")).remedy(
            Remedy::new("the Ready condition of its description says why; if it says Unknown, the node is off or k3s does not run there")
                .command(format!("kubectl describe node {name}"))
                .command(format!("ping -c 3 {name}"))
                .command("# on that node:")
                .command(K3S_STATUS_ANYWHERE)
                .command("weaver explain --journal k3s-agent"),
        )
    })
}

pub(super) fn own_limit(_: &str) -> Details {
    Details::message("the pod used more disk than its own limit allows, and was evicted").remedy(Remedy::new(
        "raise `limits.ephemeral-storage` of its containers or `sizeLimit` of its emptyDir, or have it write less",
    ))
}

/// crictl and the kubelet when containerd is gone; k3s itself waits for it at each start.
pub(super) fn runtime_gone(line: &str) -> Option<Details> {
    let is_of_a_client =
        ["remote_runtime.go", "FATA[", "listing containers", "ListContainers", "ListPodSandbox"]
            .iter()
            .any(|words| line.contains(words));
    is_of_a_client.then(|| {
        Details::message("containerd of k3s does not run on this node").remedy(
            Remedy::new("it runs as a part of k3s: see why k3s does not start")
                .command(K3S_STATUS_ANYWHERE)
                .command("weaver explain --journal k3s"),
        )
    })
}

pub(super) fn bridge_address(line: &str) -> Option<Details> {
    line.contains("\"cni0\"").then(|| {
        Details::message(
            "the bridge cni0 has the address of another range: the node joined again under another one",
        )
    })
}

//! What the kubelet and kube-proxy may not do where k3s runs in a container: of k3d, of an engine without root, of LXC.

use super::details::{Details, after, has_any};
use crate::finding::Remedy;

const FEATURE_GATE: &str = "k3d cluster create CLUSTER --k3s-arg '--kubelet-arg=feature-gates=KubeletInUserNamespace=true@server:*' \
    --k3s-arg '--kubelet-arg=feature-gates=KubeletInUserNamespace=true@agent:*'";

/// With the feature gate they say what they go without.
const CONTINUES: &str = "ignoring";

fn in_a_container(message: &str) -> Details {
    Details::message(format!("k3s does not start in its container: {message}"))
}

/// k3d#607, k3d#612: since Linux 5.12 only the first network namespace may.
pub(super) fn conntrack(_: &str) -> Details {
    in_a_container("kube-proxy may not raise nf_conntrack_max")
        .advice(
            "set it on the host, at least to the number that the line before has, and start the container again; or have \
             kube-proxy leave it alone, with the last command",
        )
        .command("sudo sysctl net.netfilter.nf_conntrack_max=524288")
        .command(
            "k3d cluster create CLUSTER --k3s-arg '--kube-proxy-arg=conntrack-max-per-core=0@server:*' \
             --k3s-arg '--kube-proxy-arg=conntrack-max-per-core=0@agent:*'",
        )
}

/// In LXC and with an engine without root.
pub(super) fn kernel_log(line: &str) -> Option<Details> {
    let is_refused =
        has_any(line, &["no such file or directory", "permission denied", "operation not permitted"]);
    (is_refused && !line.contains(CONTINUES) && !line.contains("disabling OOM events")).then(|| {
        in_a_container("the kubelet may not read /dev/kmsg")
            .advice(
                "in LXC, add the line below to the container's configuration. With an engine without root, give the kubelet the \
                 feature gate; with Docker, start the container with `--privileged`",
            )
            .command("# lxc.mount.entry = /dev/kmsg dev/kmsg none defaults,bind,create=file")
            .command(FEATURE_GATE)
    })
}

/// The kubelet sets three parameters of the kernel, which belong to the host. k3d#1120
pub(super) fn kernel_parameters(line: &str) -> Option<Details> {
    (!line.contains(CONTINUES)).then(|| {
        in_a_container("the kubelet may not set parameters of the kernel")
            .advice(
                "with an engine without root, as rootless podman, give the kubelet the feature gate; otherwise start the \
                 container with `--privileged`. A k3s without root and without a container takes the gate by `kubelet-arg`",
            )
            .command(FEATURE_GATE)
    })
}

/// Before cgroup v2 a user has no cgroups to give away. k3d#1439
pub(super) fn cgroups_of_root(line: &str) -> Option<Details> {
    line.contains("/sys/fs/cgroup/").then(|| {
        // Of cgroup v2, which has one tree.
        if line.contains("/sys/fs/cgroup/kubepods") {
            return in_a_container("the kubelet may make no cgroups for pods").remedy(delegation());
        }
        in_a_container("the kubelet may make no cgroups for pods")
            .advice(
                "an engine without root needs cgroup v2 on its host: boot with it, or use the engine of root",
            )
            .command("stat -fc %T /sys/fs/cgroup   # cgroup2fs is v2")
            .command("grep -o 'systemd.unified_cgroup_hierarchy=[^ ]*' /proc/cmdline")
    })
}

/// kind and runc, before they make a cgroup. kind#2254, podman#11563
pub(super) fn not_delegated(_: &str) -> Details {
    Details::message(
        "an engine without root may not limit its containers: systemd hands no controllers down to its user",
    )
    .remedy(delegation())
}

/// Docker gives addresses in the order in which containers start, also to others. k3d#550
pub(super) fn address_taken(line: &str) -> Option<Details> {
    line.contains("k3d-").then(|| {
        Details::message("a node of k3d does not start: another container has its address")
            .advice(
                "see which one, stop it, and start the cluster again; k3d keeps the addresses of a cluster that was made with \
                 `--subnet`",
            )
            .command("docker network inspect k3d-CLUSTER")
            .command("k3d cluster stop CLUSTER")
            .command("k3d cluster start CLUSTER")
    })
}

/// The containers of a cluster have its network by an ID, which `docker network prune` removes while they are stopped.
/// unikubehq/cli#281
pub(super) fn network_gone(line: &str) -> Option<Details> {
    // A name is what was typed, as in `docker run --network k3d-demo`.
    let network = after(line, "from daemon: network ", &[' '])?;
    let is_id = network.len() >= 12 && network.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_id && line.contains("k3d-") && line.contains(" not found")).then(|| {
        Details::message("a node of k3d does not start: the network of its cluster was removed")
            .advice(
                "the containers want that very network, and no new one of its name: copy the data that you need out of them, and \
                 create the cluster again",
            )
            .command("docker network ls --filter label=app=k3d")
            .command("docker cp k3d-CLUSTER-server-0:/var/lib/rancher/k3s DIRECTORY")
            .command("k3d cluster delete CLUSTER   # deletes everything in it")
    })
}

/// A user has the controllers that systemd hands down to it, which are memory and pids. k3d#1082
pub(super) fn delegation() -> Remedy {
    Remedy::new(
        "where k3s runs in a container of an engine without root, have systemd hand the controllers down to its user, and log in \
         again. On a host, remove `cgroup_disable` from the single line in /boot/firmware/cmdline.txt, and reboot",
    )
    .command("cat /sys/fs/cgroup/user.slice/user-$(id -u).slice/user@$(id -u).service/cgroup.controllers")
    .command("sudo mkdir -p /etc/systemd/system/user@.service.d")
    .command(
        "printf '[Service]\\nDelegate=cpu cpuset io memory pids\\n' | sudo tee /etc/systemd/system/user@.service.d/delegate.conf",
    )
    .command("sudo systemctl daemon-reload")
    .command("cat /proc/cmdline")
}

/// Docker before 20.10, which looks for cgroups of v1. docker/for-linux#1334, NVIDIA/nvidia-docker#1568
pub(super) fn old_docker(_: &str) -> Details {
    Details::message("the container engine does not find cgroups of v1, which it needs: it is too old for cgroup v2")
        .advice(
            "install a current Docker (https://docs.docker.com/engine/install). With a current one, the cgroups are not \
             mounted, as systemd mounts them at each start",
        )
        .command("docker version")
        .command("stat -fc %T /sys/fs/cgroup   # cgroup2fs is v2")
        .hint()
}

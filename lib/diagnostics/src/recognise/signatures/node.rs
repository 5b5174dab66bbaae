//! What the kubelet and the cluster say of a node.

use crate::finding::Code;
use crate::recognise::wording::{Wording, judged, known, repeated, says, tells};
use crate::recognise::{bolt, host, in_container, kubelets, memory, node, pods, runtime};

pub(super) const ALL: &[(Code, &[Wording])] = &[
    (
        Code::MemoryCgroupAbsent,
        &[
            says("failed to find memory cgroup"),
            judged("missing required cgroups: ", host::memory_controller),
            judged("missing cgroups: ", host::memory_controller),
            judged("cgroup subsystem not mounted: [", host::memory_controller),
            judged("for required subsystem: ", host::memory_required),
            judged("has some missing controllers: ", host::memory_alone),
            judged("/memory.max: no such file or directory", host::of_a_container),
            judged("cannot set memory limit: ", host::of_a_container),
            says("memory cgroup not supported on this system"),
            says("the memory cgroup is not enabled."),
            says("cgroups_memory: missing"),
            says("your kernel does not support memory limit capabilities"),
            says("cgroup controller `memory` is not available"),
            says("cannot find memory controller for the current process"),
            says("warning: no memory limit support"),
        ],
    ),
    (
        Code::CgroupControllerMissing,
        &[
            judged("failed to find cpuset cgroup", host::controller),
            judged("failed to find cpu cgroup", host::controller),
            judged("missing required cgroups: ", host::controller),
            judged("cgroup subsystem not mounted: [", host::controller),
            judged("for required subsystem: ", host::controller),
            judged("has some missing controllers: ", host::controller),
            tells("devices cgroup isn't mounted", in_container::old_docker),
            tells("mountpoint for devices not found", in_container::old_docker),
            tells("cgroup mountpoint does not exist", in_container::old_docker),
            says("your kernel does not support cpu cfs period/quota"),
        ],
    ),
    (
        Code::CgroupV1Refused,
        &[
            says("configured to not run on a host using cgroup v1"),
            judged("cgroup v1 support is unsupported", host::cgroup_v1),
        ],
    ),
    (
        Code::CgroupRootThreaded,
        &[
            says("cannot enter cgroupv2 \""),
            says("failed to evacuate root cgroup"),
            judged("cgroup.subtree_control: ", host::delegation),
            judged("has some missing controllers: ", host::no_controllers),
            judged("/kubepods: permission denied", in_container::cgroups_of_root),
        ],
    ),
    (Code::MemoryTooSmall, &[judged("the system ram (", host::too_little_memory)]),
    (
        Code::HostNameUnusable,
        &[judged("rfc 1123 subdomain", node::name), judged("dns-1123 subdomain", node::name)],
    ),
    (
        Code::RuntimeHangs,
        &[
            judged("pleg was last seen active ", node::no_look_at_pods),
            judged("container runtime is down", node::runtime_down),
            known("level=error msg=\"containerd exited: ", runtime::ended),
            known("containerd: exit status ", runtime::ended),
            known("containerd: signal: killed", runtime::ended),
            repeated("from runtime service failed", 2, node::runtime_late),
            judged("/run/k3s/containerd/containerd.sock: connect: connection refused", node::runtime_gone),
            judged("/run/k3s/containerd/containerd.sock: connect: no such file", node::runtime_gone),
            repeated(node::RUNTIME, 3, node::runtime_gone_for_kubelet),
            judged("failed to recover state: ", runtime::not_recovered),
            tells("failed to reserve sandbox name ", runtime::sandbox_left),
            judged("freepages: failed to get all reachable pages", bolt::of_containerd),
            judged("page expected to be: ", bolt::of_containerd),
            judged("panic: invalid page type: ", bolt::of_containerd),
        ],
    ),
    (
        Code::RuntimeEndpointWrong,
        &[
            judged("containerd.sock: connect: permission denied", node::only_root),
            judged(".sock: connect: no such file or directory", node::no_endpoint),
            judged("v1 runtime api is not implemented for endpoint", node::no_cri),
            says("unknown service runtime.v1alpha2.runtimeservice"),
            judged("crictl.yaml: no such file or directory", node::no_crictl_file),
            judged("make sure you are running as root and the endpoint has been started", node::no_answer_at),
            judged("error while dialing: dial unix:///", node::no_answer_at),
            judged("cannot access containerd socket \"", node::no_answer_at),
            tells("rootless containerd not running? (hint: ", node::rootless),
        ],
    ),
    (
        Code::KubeletSilent,
        &[
            says("kubelet stopped posting node status"),
            says("kubelet never posted node status"),
            judged("node.kubernetes.io/unreachable", host::tainted),
            judged(" notready", node::listed),
            judged("error dialing backend: ", kubelets::unreachable),
            judged(":10250/containerlogs/", kubelets::unreachable),
            judged("proxy error from ", kubelets::unreachable),
        ],
    ),
    (
        Code::PodAddressesStuck,
        &[
            judged("already has an ip address different from ", node::bridge_address),
            says("no ip addresses available in range set"),
        ],
    ),
    (
        Code::PodNetworkMissing,
        &[
            judged("reason:networkpluginnotready", node::network),
            judged("/run/flannel/subnet.env: no such file or directory", node::network),
            judged("failed to find plugin \"", node::plugin_gone),
            judged("failed to find the interface", node::interface),
            judged("could not find valid interface ", node::interface),
            judged("route ip+net: no such network interface", node::no_interface),
            judged("flannel exited: ", node::flannel_refused),
            tells("pod cidr not assigned", node::no_range),
            tells("cidrnotavailable", node::no_range_of_k3s),
        ],
    ),
    (
        Code::MemoryPressure,
        &[
            judged("node.kubernetes.io/memory-pressure", host::tainted),
            says("kubelethasinsufficientmemory"),
            says("status is now: nodehasinsufficientmemory"),
            says("the node had condition: [memorypressure]"),
            judged("resourcename=\"memory\"", host::evicting),
            says("attempting to reclaim memory"),
        ],
    ),
    (
        Code::PodEvicted,
        &[
            says("the node was low on resource: "),
            tells("exceeds the total limit of containers", node::own_limit),
            tells("exceeded its local ephemeral storage limit", node::own_limit),
            tells("usage of emptydir volume ", node::own_limit),
            judged(" evicted ", pods::evicted),
        ],
    ),
    (
        Code::OutOfMemory,
        &[
            known("out of memory: killed process ", memory::killed),
            known("out of memory: kill process ", memory::killed),
            judged("oom-kill:constraint=", memory::constraint),
            tells("system oom encountered, victim process", memory::victim),
            tells("has been killed by the oom killer", memory::of_a_unit),
            tells("failed with result 'oom-kill'", memory::of_a_unit),
            judged("oomkilled", memory::of_a_container),
            known("oom_reaper: reaped process ", memory::reaped),
            tells("systemd-oomd killed ", memory::of_a_unit),
            judged(" due to memory pressure for ", memory::ended_by_oomd),
            judged(" due to memory used (", memory::ended_by_oomd),
            judged("sending sig", memory::ended_by_earlyoom),
        ],
    ),
];

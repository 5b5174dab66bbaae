//! The node: memory cgroup, names, size.

macro_rules! node_rows {
    ([$next:ident $($then:ident)*] $($rows:tt)*) => { $next! { [$($then)*] $($rows)*

    Node {
        MemoryCgroupOk = "N-00" "memory-cgroup-ok" Ok {
            title: "The memory cgroup controller is available and stays so after the next boot.",
            cause: "The kernel lists it, and nothing in the boot files turns it off.",
        }
        MemoryCgroupAbsent = "N-01" "memory-cgroup-absent" Fail {
            title: "The kernel has no memory cgroup controller.",
            cause: "Raspberry Pi kernels start with the controller off unless the first line of cmdline.txt \
                contains `cgroup_enable=memory`. k3s exits without it and is restarted in a loop.",
            remedy: "add `cgroup_enable=memory` to the end of the single line in \
                /boot/firmware/cmdline.txt, then reboot; `weaver-node-agent repair` makes exactly this \
                change in the file that the firmware reads",
            commands: [DRY_RUN, REPAIR, "sudo reboot"],
            links: ["https://github.com/k3s-io/k3s/issues/2067", K3S_REQUIREMENTS],
        }
        CgroupParameterOnIgnoredLine = "N-02" "cgroup-parameter-on-second-line" Fail {
            title: "`cgroup_enable=memory` is on a line that the firmware ignores.",
            cause: "The firmware passes only the first line of cmdline.txt to the kernel, and `echo >>` appends a second line.",
            remedy: "move `cgroup_enable=memory` to the end of the first line of /boot/firmware/cmdline.txt, delete \
                the other lines, then reboot; `weaver-node-agent repair` joins the lines in the file that the firmware \
                reads",
            commands: [DRY_RUN, REPAIR, "sudo reboot"],
            links: ["https://github.com/k3d-io/k3d/issues/385"],
        }
        MemoryCgroupDisabled = "N-03" "memory-cgroup-disabled" Fail {
            title: "`cgroup_disable=memory` turns the memory controller off.",
            cause: "The boot file has `cgroup_disable=memory` after the parameter that enables the \
                controller, or the kernel obeys it wherever it is.",
            remedy: "remove `cgroup_disable=memory` from the single line in /boot/firmware/cmdline.txt, then reboot; if \
                the device tree adds it, add `cgroup_enable=memory` to the end of that line instead, which overrides it",
            commands: [DRY_RUN, REPAIR, "sudo reboot"],
            links: ["https://github.com/raspberrypi/linux/issues/6980"],
        }
        RebootNeeded = "N-04" "reboot-needed" Fail {
            title: "The boot file is right, but the running kernel was booted before it was changed.",
            cause: "The memory controller is enabled from the next boot on.",
            remedy: "reboot",
            commands: ["sudo reboot"],
        }
        CgroupParameterInStub = "N-05" "cgroup-parameter-in-stub" Fail {
            title: "`cgroup_enable=memory` was added to /boot/cmdline.txt, which the firmware does not read.",
            cause: "Since Raspberry Pi OS bookworm `/boot/cmdline.txt` is only a stub, although k3s' own message still names it.",
            remedy: "add `cgroup_enable=memory` to the file that the firmware reads, \
                /boot/firmware/cmdline.txt unless the finding names another, then reboot",
            commands: [DRY_RUN, REPAIR, "sudo reboot"],
        }
        CgroupV1Refused = "N-06" "cgroup-v1-refused" Fail {
            title: "The kubelet refuses to run on cgroup v1.",
            cause: "From Kubernetes 1.35 the kubelet exits on a host with cgroup v1.",
            remedy: "boot with cgroup v2: remove `systemd.unified_cgroup_hierarchy=0` from the kernel parameters (on a \
                Raspberry Pi from the single line in /boot/firmware/cmdline.txt), then reboot; or set \
                `failCgroupV1: false` for the kubelet for as long as it still supports v1",
            commands: [
                "sudo mkdir -p /etc/rancher/k3s/config.yaml.d",
                "echo 'kubelet-arg+: [\"fail-cgroupv1=false\"]' | sudo tee /etc/rancher/k3s/config.yaml.d/92-cgroupv1.yaml",
                RESTART_K3S,
            ],
            links: ["https://github.com/kubernetes/enhancements/issues/5573"],
        }
        NameNotFound = "N-07" "name-not-found" Fail {
            title: "A client cannot resolve the name.",
            cause: "kubectl resolves names through DNS and /etc/hosts only, so it does not find names in .local.",
            remedy: "add the Pi's address and the name to /etc/hosts of the client (in a container: \
                `--add-host NAME:ADDRESS`), or connect by the address if the certificate has it",
            commands: ["echo 'ADDRESS NAME' | sudo tee -a /etc/hosts"],
            links: ["https://github.com/kubernetes/kubectl/issues/48"],
        }
        K3dNodeRestarting = "N-08" "k3d-node-restarting" Fail {
            title: "A k3d server container does not start.",
            cause: "k3s in the container exits, usually because the host's kernel has no memory cgroup controller.",
            remedy: "read the log of the container; set a limit with `k3d cluster create --timeout`",
            commands: ["docker logs --tail 50 k3d-CLUSTER-server-0 2>&1 | weaver explain"],
            links: ["https://github.com/k3d-io/k3d/issues/853"],
        }
        MemoryCgroupLostAtBoot = "N-09" "memory-cgroup-lost-at-next-boot" Warn {
            title: "The memory controller is available now but will be missing after the next boot.",
            cause: "The running kernel has the controller, but a boot file that the next boot reads does not enable \
                it: cmdline.txt, the cmdline.txt of the A/B slot that the next boot tries, or the configuration of \
                GRUB or U-Boot.",
            remedy: "before the next boot, add `cgroup_enable=memory` to the end of the single line in the file that the finding names",
            commands: [DRY_RUN, REPAIR],
        }
        BootFileUnreadable = "N-10" "boot-file-unreadable" Warn {
            title: "A boot file could not be read.",
            cause: "It is empty, damaged or not text, or config.txt names a file that does not exist. The finding is \
                `unknown` if the next boot depends on something that no file shows, such as a filter [gpio4=1], \
                another partition or a compiled boot script; `repair` then changes nothing.",
            remedy: "restore it from a backup, or write cmdline.txt again as a single line",
            commands: ["cat /proc/cmdline"],
        }
        MemoryCgroupUnknown = "N-11" "memory-cgroup-unknown" Unknown {
            title: "It is unknown whether the memory cgroup controller is available.",
            cause: "/sys/fs/cgroup could not be read, or has an unknown layout.",
            remedy: "k3s starts anyway; if it fails, read its log",
            commands: [K3S_LOG],
        }
        MemoryTooSmall = "N-12" "memory-too-small" Fail {
            title: "The board has less memory than k3s needs.",
            cause: "k3s and its own images need more than 900 MB.",
            remedy: "use a board with at least 1 GB; the documentation of k3s asks for 2 GB",
            commands: ["free -m"],
            links: [K3S_REQUIREMENTS],
        }
        CardTooSmall = "N-13" "card-too-small" Warn {
            title: "The root file system is too small.",
            cause: "There is not enough space for k3s, its images and its database.",
            remedy: "use a larger card; if the card is large, grow the partition (on a Config Weaver card with the first \
                command, elsewhere with `sudo growpart` and `sudo resize2fs`)",
            commands: ["sudo systemctl start weaver-grow-root.service", "df -h /"],
        }
        CgroupControllerMissing = "N-14" "cgroup-controller-missing" Fail {
            title: "The kernel lacks a cgroup controller that k3s needs besides memory.",
            cause: "A parameter such as `cgroup_disable=cpu` turns it off, or the kernel was built without it.",
            remedy: "remove `cgroup_disable=cpu`, or the `cgroup_disable` that `cat /proc/cmdline` shows, from the single \
                line in /boot/firmware/cmdline.txt, then reboot; if there is none, use a kernel that was built with the \
                controller",
            commands: ["cat /proc/cmdline", "sudo reboot"],
            links: [K3S_REQUIREMENTS],
        }
        CgroupRootThreaded = "N-15" "cgroup-root-threaded" Warn {
            title: "The root cgroup cannot delegate its controllers.",
            cause: "k3s runs in a container whose cgroup is threaded, so the kernel refuses `+memory` below it.",
            remedy: "give the container its own cgroup namespace, or run k3s on the host",
            commands: ["docker run --privileged --cgroupns=private rancher/k3s:VERSION"],
            links: ["https://docs.kernel.org/admin-guide/cgroup-v2.html#threads"],
        }
        HostNameUnusable = "N-16" "host-name-unusable" Warn {
            title: "The hostname is not valid as a node name.",
            cause: "k3s registers the node under the lower-cased hostname; the API server accepts only lower-case \
                letters, digits, hyphens and dots.",
            remedy: "set another hostname, in weaver.toml or with the first command, then restart k3s",
            commands: ["sudo hostnamectl set-hostname NAME", RESTART_K3S],
            links: ["https://kubernetes.io/docs/concepts/overview/working-with-objects/names/"],
        }
        NodeReportNotShown = "N-17" "node-report-not-shown" Warn {
            title: "Findings of a node's report are not shown.",
            cause: "The node runs another version of the agent, or another program writes the report with the node's certificate.",
            remedy: "use the same version of `weaver` as the node; check the node itself before you trust the report",
            commands: ["kubectl get nodereports", "sudo weaver-node-agent check"],
        }
        KubeletSilent = "N-18" "kubelet-silent" Fail {
            title: "A node is not Ready: its kubelet no longer reports.",
            cause: "The node is off, hangs or has no network, or k3s does not run on it. After five minutes its pods \
                are started on other nodes.",
            remedy: "check that the node is on and reachable; then, on the node, find out why k3s does not run",
            commands: [
                "kubectl describe node NODE",
                "ping -c 3 NODE",
                "# on the node:",
                K3S_STATUS_ANYWHERE,
                "weaver explain --journal k3s-agent",
            ],
        }
        PodNetworkMissing = "N-19" "pod-network-missing" Fail {
            title: "A node is not Ready: its pod network is not set up.",
            cause: "flannel has not started, or k3s runs with `flannel-backend: none` and no other CNI plugin is \
                installed. This is normal in the first minute after a start.",
            remedy: "read in the log of k3s why flannel does not start; if you use another CNI plugin, check that its pods run",
            commands: [
                "weaver explain --journal k3s",
                "kubectl -n kube-system get pods -o wide",
                RESTART_K3S,
            ],
        }
        RuntimeHangs = "N-20" "runtime-hangs" Fail {
            title: "A node is not Ready: containerd does not answer in time.",
            cause: "containerd has exited, or the storage is so slow that containerd cannot list its containers within three minutes.",
            remedy: "find out what keeps the node busy, then restart k3s; if it happens again, use an SSD (`[storage]` in weaver.toml) or run less on this node",
            commands: [
                "uptime",
                "sudo k3s crictl ps",
                "sudo tail -n 50 /var/lib/rancher/k3s/agent/containerd/containerd.log",
                RESTART_K3S,
            ],
        }
        ServiceNetworkUnreachable = "N-21" "service-network-unreachable" Warn {
            title: "Pods do not reach Services: the API server or the DNS server of the cluster.",
            cause: "A firewall on the node drops packets of pods, kube-proxy has not made its rules, or packets between \
                nodes (UDP port 8472) are dropped. In the first minute after a start this is normal.",
            remedy: "turn the firewall off, or allow the networks of pods and Services; with several nodes, allow UDP port \
                8472 between them",
            commands: [
                "sudo ufw status",
                "sudo ufw allow from 10.42.0.0/16 to any",
                "sudo ufw allow from 10.43.0.0/16 to any",
                "sudo ufw allow 8472/udp",
                "sudo iptables-save -t nat | grep -c KUBE-SVC",
            ],
            links: [K3S_REQUIREMENTS],
        }
        RuntimeEndpointWrong = "N-23" "runtime-endpoint-wrong" Warn {
            title: "crictl, ctr or nerdctl connects to a container runtime that does not run, or that you may not use.",
            cause: "k3s has a containerd of its own, at /run/k3s/containerd/containerd.sock, which only root may use. Others \
                look at the places of Docker, containerd and CRI-O.",
            remedy: "use the crictl of k3s, as root; with another, name the socket",
            commands: [
                "sudo k3s crictl ps",
                "sudo crictl --runtime-endpoint unix:///run/k3s/containerd/containerd.sock ps",
            ],
            links: ["https://docs.k3s.io/cli"],
        }
        PodAddressesStuck = "N-22" "pod-addresses-stuck" Warn {
            title: "New pods get no address on this node.",
            cause: "The bridge cni0 has the address of another range, because the node joined again; or addresses of pods \
                that no longer exist were never freed, as after power losses.",
            remedy: "stop k3s with its pods, remove the bridge and the list of used addresses, and start k3s; both are made again",
            commands: [
                "sudo k3s-killall.sh",
                "sudo ip link delete cni0",
                "sudo rm -r /var/lib/cni/networks/cbr0",
                RESTART_K3S,
            ],
            links: ["https://github.com/flannel-io/cni-plugin"],
        }
    }
    }};
}

//! The node: memory cgroup, names, size.

macro_rules! node_rows {
    ([$next:ident $($then:ident)*] $($rows:tt)*) => { $next! { [$($then)*] $($rows)*

    Node {
        MemoryCgroupOk = "N-00" "memory-cgroup-ok" Ok {
            title: "The memory controller is there and will be after the next boot.",
            cause: "The kernel lists it, and nothing in the boot files turns it off.",
        }
        MemoryCgroupAbsent = "N-01" "memory-cgroup-absent" Fail {
            title: "The kernel offers no memory controller.",
            cause: "Raspberry Pi's kernels have the controller off unless `cgroup_enable=memory` stands on \
                the first line of the boot file; k3s ends itself without it, and starts again for ever.",
            remedy: "add the parameter on that same line and reboot; the agent knows which file counts, \
                shows the exact change and makes it",
            commands: [DRY_RUN, REPAIR, "sudo reboot"],
            links: ["https://github.com/k3s-io/k3s/issues/2067", K3S_REQUIREMENTS],
        }
        CgroupTokenOnIgnoredLine = "N-02" "cgroup-token-on-second-line" Fail {
            title: "The parameter stands on a line that the firmware ignores.",
            cause: "The firmware hands only the first line to the kernel, and `echo >>` writes a second \
                one.",
            remedy: "join the lines and reboot",
            commands: [DRY_RUN, REPAIR, "sudo reboot"],
            links: ["https://github.com/k3d-io/k3d/issues/385"],
        }
        MemoryCgroupDisabled = "N-03" "memory-cgroup-disabled" Fail {
            title: "`cgroup_disable=memory` turns the controller off.",
            cause: "`cgroup_disable=memory` stands in the boot file behind what would turn the controller \
                on, or on a kernel that obeys it wherever it stands.",
            remedy: "remove it and reboot; what a device tree adds stands before the file's parameters and \
                is overruled by them",
            commands: [DRY_RUN, REPAIR, "sudo reboot"],
            links: ["https://github.com/raspberrypi/linux/issues/6980"],
        }
        RebootNeeded = "N-04" "reboot-needed" Fail {
            title: "The boot file is right, the running kernel was started before.",
            cause: "The boot file is right, and the running kernel was started before it was.",
            remedy: "reboot",
            commands: ["sudo reboot"],
        }
        CgroupTokenInStub = "N-05" "cgroup-token-in-stub" Fail {
            title: "The parameter was written into the stub that the firmware does not read.",
            cause: "`/boot/cmdline.txt` is a stub since Raspberry Pi OS bookworm; k3s' own message still \
                names it.",
            remedy: "change the file that the firmware reads, which the agent names",
            commands: [DRY_RUN, REPAIR, "sudo reboot"],
        }
        CgroupV1Refused = "N-06" "cgroup-v1-refused" Fail {
            title: "The kubelet refuses to run on cgroup v1.",
            cause: "From Kubernetes 1.35 on the kubelet ends itself on a host with cgroup v1.",
            remedy: "boot with cgroup v2 (remove `systemd.unified_cgroup_hierarchy=0` from the kernel's \
                parameters), or let the kubelet run on v1 for as long as it still can",
            commands: [
                "sudo mkdir -p /etc/rancher/k3s/config.yaml.d",
                "echo 'kubelet-arg+: [\"fail-cgroupv1=false\"]' | sudo tee /etc/rancher/k3s/config.yaml.d/92-cgroupv1.yaml",
                RESTART_K3S,
            ],
            links: ["https://github.com/kubernetes/enhancements/issues/5573"],
        }
        NameNotFound = "N-07" "name-not-found" Fail {
            title: "A name is not found by whoever wants to connect.",
            cause: "Who connects asks DNS and /etc/hosts; kubectl asks nobody else, so a name in .local is \
                not found by it.",
            remedy: "write the address of the Pi into /etc/hosts of the machine that connects (in a \
                container: `--add-host NAME:ADDRESS`), or use the address, where the certificate has it",
            links: ["https://github.com/kubernetes/kubectl/issues/48"],
        }
        K3dNodeRestarting = "N-08" "k3d-node-restarting" Fail {
            title: "A server container of k3d does not come up.",
            cause: "The container's k3s ends itself, mostly because the host's kernel has no memory \
                controller.",
            remedy: "read the container's own log; give k3d a limit with `--timeout`",
            commands: ["docker logs --tail 50 k3d-CLUSTER-server-0 2>&1 | weaver explain"],
            links: ["https://github.com/k3d-io/k3d/issues/853"],
        }
        MemoryCgroupLostAtBoot = "N-09" "memory-cgroup-lost-at-next-boot" Warn {
            title: "The controller is there now and will be gone after the next boot.",
            cause: "The running kernel has the controller, and the boot file does not ask for it any more.",
            remedy: "add the parameter before the next boot",
            commands: [DRY_RUN, REPAIR],
        }
        BootFileUnreadable = "N-10" "boot-file-unreadable" Warn {
            title: "A boot file could not be read as text.",
            cause: "It is empty, no text, or damaged; config.txt names a file that does not exist; or it \
                names one under a filter such as [gpio4=1], which only the firmware can evaluate: then the \
                finding is `unknown` and nothing is repaired.",
            remedy: "restore it from a backup or write it anew: one line",
            commands: ["cat /proc/cmdline"],
        }
        MemoryCgroupUnknown = "N-11" "memory-cgroup-unknown" Unknown {
            title: "Nothing tells whether the memory controller is there.",
            cause: "/sys/fs/cgroup could not be read, or is none of the layouts known.",
            remedy: "nothing is stopped by this; see what k3s says",
            commands: [K3S_LOG],
        }
        MemoryTooSmall = "N-12" "memory-too-small" Fail {
            title: "The board has less memory than k3s needs.",
            cause: "k3s with its own images needs more than 900 MB.",
            remedy: "use a board with 1 GB or more; 2 GB is what k3s' documentation asks for",
            commands: ["free -m"],
            links: [K3S_REQUIREMENTS],
        }
        CardTooSmall = "N-13" "card-too-small" Warn {
            title: "The root file system is too small for k3s and its images.",
            cause: "The root file system has not the room for k3s, its images and its database.",
            remedy: "use a larger card; where the card is large, let the partition grow",
            commands: ["sudo systemctl start weaver-grow-root.service", "df -h /"],
        }
        CgroupControllerMissing = "N-14" "cgroup-controller-missing" Fail {
            title: "The kernel lacks a controller that k3s needs besides memory.",
            cause: "A parameter such as `cgroup_disable=cpu` turns it off, or the kernel was built without \
                it.",
            remedy: "remove the parameter from the kernel's command line and reboot, or use a kernel that \
                has it",
            commands: ["cat /proc/cmdline", "sudo reboot"],
            links: [K3S_REQUIREMENTS],
        }
        CgroupRootThreaded = "N-15" "cgroup-root-threaded" Warn {
            title: "The root of the cgroups cannot hand its controllers on.",
            cause: "k3s runs in a container whose cgroup was made threaded; the kernel then refuses \
                `+memory` below it.",
            remedy: "give the container a cgroup namespace of its own, or run k3s on the host",
            commands: ["docker run --privileged --cgroupns=private rancher/k3s:VERSION"],
            links: ["https://docs.kernel.org/admin-guide/cgroup-v2.html#threads"],
        }
        HostNameUnusable = "N-16" "host-name-unusable" Warn {
            title: "The host has a name by which no node can be registered.",
            cause: "k3s registers the node under the host's name in lower case, and the API server takes \
                letters, digits, hyphens and dots.",
            remedy: "give the host another name: in weaver.toml, or with the first command; then start k3s \
                anew",
            commands: ["sudo hostnamectl set-hostname NAME", RESTART_K3S],
            links: ["https://kubernetes.io/docs/concepts/overview/working-with-objects/names/"],
        }
        NodeReportNotShown = "N-17" "node-report-not-shown" Warn {
            title: "Findings of a node are not shown.",
            cause: "The node's agent is of another version, or another program writes the report with the \
                node's certificate.",
            remedy: "use the `weaver` of the version that the node runs; check the node itself before you \
                believe the report",
            commands: ["kubectl get nodereports", "sudo weaver-node-agent check"],
        }
    }
    }};
}

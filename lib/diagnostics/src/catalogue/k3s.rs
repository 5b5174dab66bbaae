//! k3s: its files and its start.

macro_rules! k3s_rows {
    ([$next:ident $($then:ident)*] $($rows:tt)*) => { $next! { [$($then)*] $($rows)*

    K3s {
        K3sConfigInvalid = "F-01" "k3s-config-invalid" Fail {
            title: "The configuration of k3s is not valid YAML.",
            cause: "A file in /etc/rancher/k3s cannot be parsed.",
            remedy: "correct the line that the finding names",
            commands: [CHECK],
            links: [K3S_CONFIGURATION],
        }
        K3sConfigWrongType = "F-02" "k3s-config-wrong-type" Fail {
            title: "A setting of k3s has the wrong type.",
            cause: "A mapping or a list is given instead of a text, or a word instead of a number; k3s does not start with a \
                value that it cannot read.",
            remedy: "write it as the documentation of k3s shows it",
            commands: [CHECK],
            links: [K3S_CONFIGURATION],
        }
        K3sFileUnreadable = "F-03" "k3s-file-unreadable" Fail {
            title: "A file of k3s could not be read.",
            cause: "Permissions or the file system prevent it.",
            remedy: "run the check as root; look for errors of the card",
            commands: [CHECK, "sudo dmesg --level err"],
        }
        K3sNotAnswering = "F-04" "k3s-not-answering" Fail {
            title: "k3s has failed or has been starting for a long time, and its API server does not answer.",
            cause: "k3s hangs during its start, or has stopped.",
            remedy: "read its log",
            commands: ["weaver explain --journal k3s", "systemctl status k3s"],
        }
        VersionNotSupported = "F-05" "version-not-supported" Warn {
            title: "This Kubernetes version is not supported.",
            cause: "A newer version may have changed what the operator relies on; an older one may lack it.",
            remedy: "use a k3s in the supported range; the card's own is in image/k3s.lock",
            commands: ["k3s --version"],
            links: ["https://docs.k3s.io/release-notes/v1.36.X"],
        }
        PortTaken = "F-06" "port-taken" Warn {
            title: "Another program uses a port that k3s needs.",
            cause: "Another Kubernetes, a web server, or a k3s started by hand listens on it.",
            remedy: "find the program and stop it; for the API server another `https-listen-port` also works",
            links: [K3S_REQUIREMENTS],
        }
        SettingMisspelled = "F-07" "setting-misspelled" Warn {
            title: "k3s does not know a setting.",
            cause: "The key is misspelled, is one of the other role, or was removed. A server ignores it, with one line in \
                its log; an agent does not start with it.",
            remedy: "correct or remove the key and restart k3s",
            commands: ["sudo journalctl -b -u k3s | grep 'Unknown flag'", RESTART_K3S],
            links: [K3S_CONFIGURATION],
        }
        DatastoreDamaged = "F-09" "datastore-damaged" Fail {
            title: "The datastore of k3s is damaged.",
            cause: "Mostly power was lost while it was written, or the card returns other data than was written.",
            remedy: "copy the directory before anything else, then restore a backup: of etcd with \
                `--cluster-reset-restore-path`; without one, what SQLite can still read",
            commands: [
                "sudo systemctl stop k3s",
                "sudo cp -a /var/lib/rancher/k3s/server/db /root/db.broken",
                "sudo weaver node restore BACKUP",
                "sudo sqlite3 /root/db.broken/state.db .recover | sqlite3 state.db",
            ],
        }
        RegistriesWithoutEffect = "F-11" "registries-without-effect" Warn {
            title: "A part of registries.yaml has no effect.",
            cause: "k3s takes a setting in the wrong place, or by a name that no endpoint has, for nothing; \
                containerd then fails at the registry without naming the file.",
            remedy: "correct the line that the finding names, and restart k3s",
            commands: ["weaver registry config REGISTRY:PORT", RESTART_K3S],
            links: [K3S_REGISTRIES],
        }
        ContainerdTemplateFault = "F-12" "containerd-template-fault" Warn {
            title: "A template of containerd's configuration breaks it, or has no effect.",
            cause: "A file in agent/etc/containerd below k3s' data leaves k3s' own part out, has a table twice, or is \
                of another version of containerd. k3s fills it in at each start.",
            remedy: "correct the line that the finding names, and restart k3s",
            commands: ["sudo journalctl -b -u k3s | grep -i containerd", RESTART_K3S],
            links: [K3S_CONTAINERD],
        }
        KubeletConfigFault = "F-13" "kubelet-config-fault" Warn {
            title: "A file of the kubelet's configuration is not read, or is not what it was meant to be.",
            cause: "It does not end in .conf, is no KubeletConfiguration, has flags instead of fields, or sets what k3s \
                sets itself.",
            remedy: "correct the file that the finding names, and restart k3s",
            commands: ["sudo journalctl -b -u k3s | grep -i kubelet", RESTART_K3S],
            links: [K3S_CONFIGURATION],
        }
        VolumeWaits = "F-10" "volume-waits" Warn {
            title: "A pod waits for a volume that nothing provides.",
            cause: "Its PersistentVolumeClaim names no StorageClass that exists, or asks for what the class cannot \
                do: k3s' local-path gives ReadWriteOnce only.",
            remedy: "compare the claim with the classes that there are",
            commands: ["kubectl get storageclass", "kubectl get pvc -A", "kubectl describe pvc -n NAMESPACE NAME"],
        }
        ApiServerSlow = "F-14" "api-server-slow" Warn {
            title: "The API server answers, but slowly.",
            cause: "The node that it runs on is busy, or its database waits for the card. k3s and Config Weaver \
                wait and try again; nothing is broken.",
            remedy: "wait, and look again; if it stays so, find out on the node what keeps it busy",
            commands: ["uptime", "sudo weaver-node-agent check --disk"],
            links: [K3S_REQUIREMENTS],
        }
        UpgradeCutOff = "F-08" "k3s-upgrade-cut-off" Warn {
            title: "An upgrade of k3s was interrupted and not verified.",
            cause: "Power failed or the process was ended while the new k3s was being verified or the old \
                one restored.",
            remedy: "roll back, or run `weaver node upgrade` again, which first completes the interrupted one",
            commands: ["sudo weaver node rollback"],
        }
        UpdateCutOff = "F-17" "update-cut-off" Warn {
            title: "An update of Config Weaver was interrupted and not verified.",
            cause: "Power failed or the process was ended while the new packages were being installed or verified, or the \
                old ones restored. Every program is whole, the old or the new.",
            remedy: "run the update again: it first completes the interrupted one",
            commands: ["sudo weaver node update"],
        }
        RestoreCutOff = "F-19" "restore-cut-off" Fail {
            title: "A restore of this node was interrupted.",
            cause: "Power failed, or the process was ended, while the restored files took their places. A card completes \
                it at the next boot; k3s must not start on half of them.",
            remedy: "complete it",
            commands: ["sudo weaver node restore --resume"],
        }
        DnsLoops = "F-15" "dns-loops" Fail {
            title: "The cluster has no DNS, because its DNS server asks itself.",
            cause: "/etc/resolv.conf of the node names the node itself, such as 127.0.0.53 or a DNS server in the cluster, \
                and CoreDNS forwards to it.",
            remedy: "give the pods a file with the real DNS server, then restart k3s and CoreDNS",
            commands: [
                "cat /etc/resolv.conf /run/systemd/resolve/resolv.conf",
                "echo 'nameserver ADDRESS' | sudo tee /etc/rancher/k3s/resolv.conf",
                "sudo mkdir -p /etc/rancher/k3s/config.yaml.d",
                "echo 'resolv-conf: /etc/rancher/k3s/resolv.conf' | sudo tee /etc/rancher/k3s/config.yaml.d/94-resolv.yaml",
                RESTART_K3S,
                "kubectl -n kube-system rollout restart deployment coredns",
            ],
            links: ["https://coredns.io/plugins/loop/#troubleshooting"],
        }
        PodDoesNotFit = "F-16" "pod-does-not-fit" Warn {
            title: "No node has room for a pod.",
            cause: "The scheduler adds up what pods request, not what they use. A Pi has little to give.",
            remedy: "lower the requests of this pod or of others, delete what is not needed, or add a node",
            commands: ["kubectl describe nodes | grep -A 8 'Allocated resources'", "kubectl get pods -A -o wide"],
        }
    }
    }};
}

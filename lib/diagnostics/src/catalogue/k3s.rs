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
            cause: "The value is a mapping or a list instead of a string, or a word instead of a number. k3s does \
                not start with a value that it cannot parse.",
            remedy: "write the value in the form that the finding shows",
            commands: [CHECK],
            links: [K3S_CONFIGURATION],
        }
        K3sFileUnreadable = "F-03" "k3s-file-unreadable" Fail {
            title: "A file of k3s could not be read.",
            cause: "Its permissions do not allow it, the file system has errors, a power cut left it empty, or a setting \
                names a file that does not exist.",
            remedy: "run the check as root; look for errors of the card",
            commands: [CHECK, "sudo dmesg --level err"],
        }
        K3sNotAnswering = "F-04" "k3s-not-answering" Fail {
            title: "k3s has failed or has been starting for a long time, and its API server does not answer.",
            cause: "k3s hangs during its start, or has stopped.",
            remedy: "read its log",
            commands: ["weaver explain --journal k3s", K3S_STATUS],
        }
        VersionNotSupported = "F-05" "version-not-supported" Warn {
            title: "This Kubernetes version is not supported.",
            cause: "A newer version may have changed what the operator relies on; an older one may lack it.",
            remedy: "install a k3s of Kubernetes 1.33 to 1.37: `sudo weaver node upgrade --k3s VERSION`",
            commands: ["k3s --version"],
            links: ["https://docs.k3s.io/release-notes/v1.36.X"],
        }
        PortTaken = "F-06" "port-taken" Warn {
            title: "Another program uses a port that k3s needs.",
            cause: "Another Kubernetes, a web server, or a k3s started by hand listens on it.",
            remedy: "find the program by its port and stop it; for the API server another `https-listen-port` in \
                /etc/rancher/k3s/config.yaml also works",
            commands: ["sudo ss -ltnp", "sudo systemctl stop SERVICE"],
            links: [K3S_REQUIREMENTS],
        }
        SettingMisspelled = "F-07" "setting-misspelled" Fail {
            title: "k3s does not know a setting, or systemd cannot start its unit.",
            cause: "The key is misspelled, belongs to the other role (server or agent), or was removed from k3s. A \
                server ignores the key and logs one line; an agent does not start. With an unknown flag neither starts. \
                systemd does not start a unit that is masked, or has a second command in `ExecStart=`.",
            remedy: "correct or remove the key and restart k3s",
            commands: [K3S_LOG_OF_FLAGS, RESTART_K3S],
            links: [K3S_CONFIGURATION],
        }
        DatastoreDamaged = "F-09" "datastore-damaged" Fail {
            title: "The datastore of k3s is damaged.",
            cause: "Usually power was lost during a write, or the card returns data that differs from what was written.",
            remedy: "copy the datastore first. If you have a backup, restore it (etcd: `k3s server --cluster-reset \
                --cluster-reset-restore-path=SNAPSHOT`). If not, let SQLite recover what it can from the copy and start \
                k3s with the result",
            commands: [
                STOP_K3S,
                "sudo cp -a /var/lib/rancher/k3s/server/db /root/db.broken",
                "sudo weaver node restore BACKUP",
                "sudo sqlite3 /root/db.broken/state.db .recover | sudo \
                sqlite3 /var/lib/rancher/k3s/server/db/state.db.new",
                "sudo rm -f /var/lib/rancher/k3s/server/db/state.db-wal /var/lib/rancher/k3s/server/db/state.db-shm",
                "sudo mv /var/lib/rancher/k3s/server/db/state.db.new /var/lib/rancher/k3s/server/db/state.db",
                START_K3S,
            ],
        }
        RegistriesWithoutEffect = "F-11" "registries-without-effect" Warn {
            title: "A part of registries.yaml has no effect.",
            cause: "k3s ignores settings that are in the wrong place or that name an unknown endpoint. containerd \
                then fails to pull, and its error does not name registries.yaml.",
            remedy: "correct the line that the finding names, and restart k3s",
            commands: ["weaver registry config REGISTRY:PORT", RESTART_K3S],
            links: [K3S_REGISTRIES],
        }
        ContainerdTemplateFault = "F-12" "containerd-template-fault" Fail {
            title: "A template of containerd's configuration breaks it, or has no effect.",
            cause: "A template in /var/lib/rancher/k3s/agent/etc/containerd lacks the base configuration of k3s, \
                defines a table twice, or is for another version of containerd. k3s renders it at each start.",
            remedy: "correct the line that the finding names, and restart k3s",
            commands: [K3S_LOG_OF_CONTAINERD, RESTART_K3S],
            links: [K3S_CONTAINERD],
        }
        KubeletConfigFault = "F-13" "kubelet-config-fault" Fail {
            title: "A configuration file of the kubelet is ignored or not valid.",
            cause: "Its name does not end in .conf, it is not a KubeletConfiguration, it has flags instead of \
                fields, it sets a field that k3s sets, or it protects kernel parameters that this host has not set.",
            remedy: "correct the file that the finding names, and restart k3s",
            commands: [K3S_LOG_OF_KUBELET, RESTART_K3S],
            links: [K3S_CONFIGURATION],
        }
        VolumeWaits = "F-10" "volume-waits" Warn {
            title: "A pod waits for a volume that nothing provides.",
            cause: "Its PersistentVolumeClaim names a StorageClass that does not exist, or requests something that \
                the class does not support: local-path of k3s supports only ReadWriteOnce.",
            remedy: "compare the claim with the existing StorageClasses",
            commands: ["kubectl get storageclass", "kubectl get pvc -A", "kubectl describe pvc -n NAMESPACE NAME"],
        }
        ApiServerSlow = "F-14" "api-server-slow" Warn {
            title: "The API server answers, but slowly.",
            cause: "The node that it runs on is busy, or its database waits for the card. k3s and Config Weaver \
                wait and try again; nothing is broken.",
            remedy: "wait and check again; if it does not improve, find out what keeps the node busy",
            commands: ["uptime", "sudo weaver-node-agent check --disk"],
            links: [K3S_REQUIREMENTS],
        }
        UpgradeInterrupted = "F-08" "k3s-upgrade-interrupted" Warn {
            title: "An upgrade of k3s was interrupted and not verified.",
            cause: "The power failed or the process was killed while the new k3s was being verified or the old one restored.",
            remedy: "roll back, or run `weaver node upgrade` again, which first completes the interrupted one",
            commands: ["sudo weaver node rollback"],
        }
        UpdateInterrupted = "F-17" "update-interrupted" Warn {
            title: "An update of Config Weaver or of the kernel was interrupted and not verified.",
            cause: "The power failed or the process was killed while packages were being installed, verified or \
                restored, or a kernel was on trial. Each program is either the old or the new one, never half of both.",
            remedy: "reboot, or run the update again: either completes the interrupted one first",
            commands: ["sudo weaver node update"],
        }
        AutomaticUpdateFailed = "F-23" "automatic-update-failed" Warn {
            title: "An update of Config Weaver by timer failed.",
            cause: "The apt repository was not reachable or its packages were refused; or the new version was not \
                verified in time and the old one was installed again. The timer skips such a version.",
            remedy: "read its log; to install a skipped version, run the update by hand",
            commands: ["journalctl -u weaver-update", "sudo weaver node update"],
        }
        RestoreInterrupted = "F-19" "restore-interrupted" Fail {
            title: "A restore of this node is not complete.",
            cause: "It is under way; or the power failed or the process was killed while the restored files were put in \
                place. k3s does not start until it is complete. A card completes an interrupted one at the next boot.",
            remedy: "wait for a restore that is under way; complete one that was interrupted or, without a shell, reboot the card",
            commands: ["sudo weaver node restore --resume"],
        }
        DnsLoops = "F-15" "dns-loops" Fail {
            title: "The cluster has no DNS: `CoreDNS` forwards queries to itself.",
            cause: "CoreDNS forwards to the name servers in /etc/resolv.conf of the node. That file names a loopback \
                address such as 127.0.0.53, or a DNS server in the cluster.",
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
            title: "No node has capacity for a pod.",
            cause: "The scheduler counts what pods request, not what they use, and a Pi has little memory.",
            remedy: "lower the requests of this pod or of others, delete what is not needed, or add a node",
            commands: ["kubectl describe nodes | grep -A 8 'Allocated resources'", "kubectl get pods -A -o wide"],
        }
        ServerAddressChanged = "F-18" "server-address-changed" Fail {
            title: "This node does not have the address, or the membership in etcd, that k3s expects.",
            cause: "k3s listens at the addresses in its configuration, and etcd keeps those of its members. The router gave \
                this node another one, its network interface changed or comes up late, or the server was removed from \
                the cluster.",
            remedy: "give it the old address again, and reserve it in the router. To keep the new one on a cluster of one \
                server, copy the datastore and reset the membership: the data stays",
            commands: [
                "ip -brief address",
                STOP_K3S,
                "sudo cp -a /var/lib/rancher/k3s/server/db /root/db.before",
                "sudo k3s server --cluster-reset",
                START_K3S,
            ],
            links: ["https://docs.k3s.io/cli/etcd-snapshot"],
        }
        DatastoreUnreachable = "F-21" "datastore-unreachable" Fail {
            title: "k3s cannot use its external database.",
            cause: "`datastore-endpoint` names a MySQL, MariaDB, PostgreSQL or etcd that does not answer, refuses the \
                user, or has no connection left. Without it k3s does not start, or stops.",
            remedy: "see whether the database runs and answers this host; compare the address, the user and the password in \
                `datastore-endpoint`, which is in one of the files that the command names",
            commands: [
                "sudo grep -rlE 'datastore-endpoint|K3S_DATASTORE_ENDPOINT' /etc/rancher/k3s /etc/systemd/system",
                "weaver explain --journal k3s",
            ],
            links: ["https://docs.k3s.io/datastore"],
        }
        EtcdWithoutQuorum = "F-22" "etcd-without-quorum" Fail {
            title: "etcd has no majority: the servers of the cluster do not reach each other.",
            cause: "More than half of the servers must reach each other on TCP ports 2379 and 2380. One is off or has another \
                address, or a firewall is in between. A cluster of two servers needs both.",
            remedy: "start the other servers, and allow the ports between them. Only if they are lost for good, \
                stop k3s and make this server the only one with the last command; the page on `etcd-snapshot` says what the \
                others need before they join it again",
            commands: [
                "# on another server: nc -vz ADDRESS-OF-THIS-ONE 2380",
                "kubectl get nodes -o wide",
                "sudo k3s server --cluster-reset",
            ],
            links: ["https://docs.k3s.io/datastore/ha-embedded", "https://docs.k3s.io/cli/etcd-snapshot"],
        }
        SnapshotterUnusable = "F-20" "snapshotter-unusable" Fail {
            title: "containerd cannot use overlayfs on this file system, and k3s does not start.",
            cause: "The root file system is on NFS, is itself an overlay (raspi-config's read-only mode, a \
                container), or has a type that overlayfs does not support.",
            remedy: "put /var/lib/rancher on a disk with ext4, or turn the overlay off in raspi-config; the first commands set \
                a snapshotter that works everywhere, but is slower and needs more space",
            commands: [
                "sudo mkdir -p /etc/rancher/k3s/config.yaml.d",
                "echo 'snapshotter: native' | sudo tee /etc/rancher/k3s/config.yaml.d/94-snapshotter.yaml",
                RESTART_K3S,
                "findmnt -T /var/lib/rancher",
            ],
            links: [K3S_CONTAINERD],
        }
    }
    }};
}

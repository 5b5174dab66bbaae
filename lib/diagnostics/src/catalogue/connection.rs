//! Kubeconfig and connection.

macro_rules! connection_rows {
    ([$next:ident $($then:ident)*] $($rows:tt)*) => { $next! { [$($then)*] $($rows)*

    Connection {
        KubeconfigUnspecified = "K-01" "kubeconfig-server-unspecified" Fail {
            title: "The server of a kubeconfig is an address to listen at.",
            cause: "0.0.0.0 and loopback addresses mean the machine that connects. k3d writes 0.0.0.0 into \
                its kubeconfigs.",
            remedy: "export a kubeconfig with a name that is served",
            commands: ["weaver kubeconfig export NAME"],
            links: [K3S_ACCESS],
        }
        KubeconfigFallback = "K-02" "kubeconfig-fallback-server" Fail {
            title: "The server of a kubeconfig is what kubectl falls back to without one.",
            cause: "kubectl found no kubeconfig and took its default.",
            remedy: "say where the kubeconfig is",
            commands: ["export KUBECONFIG=FILE", "kubectl config get-contexts"],
            links: [K3S_ACCESS],
        }
        KubeconfigInsecureWithCa = "K-03" "kubeconfig-insecure-with-ca" Fail {
            title: "A kubeconfig has a CA and asks not to verify by it.",
            cause: "A kubeconfig has both `insecure-skip-tls-verify` and a CA.",
            remedy: "remove the first; the CA is what makes the connection safe",
            commands: ["kubectl config unset clusters.NAME.insecure-skip-tls-verify"],
        }
        KubeconfigUnreadable = "K-04" "kubeconfig-unreadable" Fail {
            title: "A kubeconfig can be read by root only.",
            cause: "/etc/rancher/k3s/k3s.yaml is the administrator's and readable by root only, as it should \
                be.",
            remedy: "export one for yourself (`--merge` puts it into one that you have); mode 644 would give \
                the cluster to every user of the machine",
            commands: [
                "sudo weaver kubeconfig export NAME --output NAME.yaml",
                "sudo chown \"$USER\" NAME.yaml",
            ],
            links: [K3S_ACCESS],
        }
        ConnectionRefused = "K-05" "connection-refused" Fail {
            title: "Nothing listens at the address and port that were used.",
            cause: "k3s does not run, or listens on another port: one of k3d is a new one for each cluster \
                unless `--api-port` says otherwise.",
            remedy: "on the Pi, see which port k3s listens on, if it runs, and start it if it does not",
            commands: ["sudo ss -ltnp", "sudo systemctl start k3s"],
        }
        KubeconfigUnusable = "K-06" "kubeconfig-unusable" Fail {
            title: "The administrator's kubeconfig cannot be used.",
            cause: "A part is missing in it, or it is no valid YAML.",
            remedy: "k3s writes it anew when it starts",
            commands: [RESTART_K3S],
        }
        KubeconfigExposed = "K-07" "kubeconfig-exposed" Warn {
            title: "The administrator's kubeconfig can be read by others.",
            cause: "`write-kubeconfig-mode` is set, or somebody changed the mode.",
            remedy: "take the mode back, and remove the setting",
            commands: ["sudo chmod 0600 /etc/rancher/k3s/k3s.yaml"],
        }
        KubeconfigInsecure = "K-09" "kubeconfig-insecure" Warn {
            title: "A kubeconfig asks for no verification.",
            cause: "It has `insecure-skip-tls-verify`, mostly because the certificate lacked a name: whoever \
                answers at that address gets the credentials.",
            remedy: "have the name served and export the kubeconfig again; it verifies by the cluster's CA \
                then",
            commands: ["sudo weaver kubeconfig export NAME"],
            links: [K3S_ACCESS],
        }
        Reached = "K-00" "reached" Ok {
            title: "The API server answers by the kubeconfig, and takes its credentials.",
            cause: "A request was answered.",
        }
        ServerSilent = "K-10" "server-silent" Fail {
            title: "The server does not answer, and does not refuse either.",
            cause: "The Pi is off, has another address now, or a firewall on the way drops what is sent.",
            remedy: "see whether the Pi is there, and which address it has",
            commands: ["ping -c 3 NAME", "nc -vz NAME 6443", "sudo ss -ltnp 'sport = :6443'"],
            links: [K3S_REQUIREMENTS],
        }
        CredentialsRefused = "K-11" "credentials-refused" Fail {
            title: "The API server does not take the credentials of a kubeconfig.",
            cause: "The kubeconfig is older than the cluster, its certificate has expired, or its token was \
                withdrawn.",
            remedy: "export it again, on the Pi",
            commands: ["weaver kubeconfig fetch USER@NAME"],
            links: [K3S_ACCESS],
        }
        OperatorNotStarted = "K-08" "operator-not-started" Fail {
            title: "The names are proven, and the operator could not be given its credentials or be \
                started.",
            cause: "A step between the proven names and the running operator failed.",
            remedy: "the finding says which; the agent tries again by itself",
            commands: ["systemctl status weaver-operator", "journalctl -u weaver-node-agent -n 50"],
        }
    }
    }};
}

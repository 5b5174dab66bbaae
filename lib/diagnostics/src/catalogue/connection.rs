//! Kubeconfigs, and the connection to the API server that they name.

macro_rules! connection_rows {
    ([$next:ident $($then:ident)*] $($rows:tt)*) => { $next! { [$($then)*] $($rows)*

    Connection {
        KubeconfigUnspecified = "K-01" "kubeconfig-server-unspecified" Fail {
            title: "The kubeconfig's server is a wildcard or loopback address.",
            cause: "0.0.0.0 and loopback addresses mean the machine that connects. k3d writes 0.0.0.0 into its kubeconfigs.",
            remedy: "export a kubeconfig with a name that is served",
            commands: ["sudo weaver kubeconfig export NAME"],
            links: [K3S_ACCESS],
        }
        KubeconfigFallback = "K-02" "kubeconfig-fallback-server" Fail {
            title: "kubectl uses its default server.",
            cause: "kubectl found no kubeconfig.",
            remedy: "set KUBECONFIG or pass --kubeconfig",
            commands: ["export KUBECONFIG=FILE", "kubectl config get-contexts"],
            links: [K3S_ACCESS],
        }
        KubeconfigInsecureWithCa = "K-03" "kubeconfig-insecure-with-ca" Fail {
            title: "The kubeconfig has a CA but turns verification off.",
            cause: "kubectl refuses `insecure-skip-tls-verify` together with a CA.",
            remedy: "remove `insecure-skip-tls-verify`; the CA makes the connection safe",
            commands: ["kubectl config unset clusters.NAME.insecure-skip-tls-verify"],
        }
        KubeconfigUnreadable = "K-04" "kubeconfig-unreadable" Fail {
            title: "Only root can read the kubeconfig.",
            cause: "/etc/rancher/k3s/k3s.yaml contains the administrator's credential and is readable by \
                root only, as it should be.",
            remedy: "export a kubeconfig for yourself (`--merge` adds it to an existing one); mode 644 \
                would give the cluster to every user of the machine",
            commands: [
                "sudo weaver kubeconfig export NAME --output NAME.yaml",
                "sudo chown \"$USER\" NAME.yaml",
            ],
            links: [K3S_ACCESS],
        }
        ConnectionRefused = "K-05" "connection-refused" Fail {
            title: "Nothing listens at this address and port.",
            cause: "k3s is not running, or listens on another port. k3d chooses a random port for each \
                cluster unless `--api-port` is given.",
            remedy: "on the Pi, check whether k3s runs and on which port it listens, and start it if it does not run",
            commands: ["sudo ss -ltnp", START_K3S],
        }
        KubeconfigUnusable = "K-06" "kubeconfig-unusable" Fail {
            title: "The kubeconfig is not usable.",
            cause: "An entry or a file that it names is missing, its server is not a URL, or it is not valid YAML.",
            remedy: "correct the entry that the finding names, or fetch the kubeconfig again. If it is \
                /etc/rancher/k3s/k3s.yaml, restart k3s, which writes it again",
            commands: ["weaver kubeconfig lint FILE", "weaver kubeconfig fetch USER@NAME"],
        }
        KubeconfigExposed = "K-07" "kubeconfig-exposed" Warn {
            title: "Other users can read the administrator's kubeconfig.",
            cause: "`write-kubeconfig-mode` is set, or the file mode was changed.",
            remedy: "reset the mode; remove `write-kubeconfig-mode` from /etc/rancher/k3s/config.yaml if it is there",
            commands: ["sudo chmod 0600 /etc/rancher/k3s/k3s.yaml"],
        }
        KubeconfigInsecure = "K-09" "kubeconfig-insecure" Warn {
            title: "The kubeconfig turns TLS verification off.",
            cause: "It has `insecure-skip-tls-verify`, usually because the certificate lacked a name. Any \
                machine that answers at the address gets the credentials.",
            remedy: "make k3s serve the name, then export the kubeconfig again; it then verifies the server by the CA of the cluster",
            commands: ["sudo weaver kubeconfig export NAME"],
            links: [K3S_ACCESS],
        }
        Reached = "K-00" "reached" Ok {
            title: "The API server responds and accepts the credentials of the kubeconfig.",
            cause: "A request succeeded.",
        }
        ServerSilent = "K-10" "server-silent" Fail {
            title: "The server does not respond.",
            cause: "The Pi is off, its address has changed, or a firewall drops the packets.",
            remedy: "check that the Pi is on and which address it has; the last command runs on the Pi",
            commands: ["ping -c 3 NAME", "nc -vz NAME 6443", "sudo ss -ltnp 'sport = :6443'"],
            links: [K3S_REQUIREMENTS],
        }
        CredentialsRefused = "K-11" "credentials-refused" Fail {
            title: "The API server rejects the credentials of the kubeconfig.",
            cause: "The kubeconfig is older than the cluster, its certificate has expired, or its token was revoked.",
            remedy: "export it again on the Pi",
            commands: ["weaver kubeconfig fetch USER@NAME"],
            links: [K3S_ACCESS],
        }
        ServerPlainHttp = "K-12" "server-plain-http" Fail {
            title: "The kubeconfig's address and port speak plain HTTP.",
            cause: "Something other than the API server listens there, or a proxy that terminates TLS.",
            remedy: "use the port of the API server, which is 6443 for k3s and what `k3d kubeconfig get CLUSTER` says for k3d",
            commands: ["kubectl config view --minify", "weaver doctor"],
        }
        OperatorNotStarted = "K-08" "operator-not-started" Fail {
            title: "All names are served, but the operator could not get its credentials or could not start.",
            cause: "A step between the proof of the names and the start of the operator failed.",
            remedy: "the finding names the step; the agent retries by itself",
            commands: ["systemctl status weaver-operator", "journalctl -u weaver-node-agent -n 50"],
        }
    }
    }};
}

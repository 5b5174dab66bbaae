//! TLS: certificates and their names.

macro_rules! tls_rows {
    ([$next:ident $($then:ident)*] $($rows:tt)*) => { $next! { [$($then)*] $($rows)*

    Tls {
        ServingNamesOk = "T-00" "serving-names-ok" Ok {
            title: "Every configured name is served.",
            cause: "A TLS handshake was made with each of them.",
        }
        NameNotInCertificate = "T-01" "name-not-in-certificate" Fail {
            title: "The API server's certificate has no such name.",
            cause: "The certificate belongs to this cluster, but does not contain the name you connect to.",
            remedy: "on a card, add the name to `names` in section [api] of weaver.toml and reboot; elsewhere add it \
                to `tls-san+` in /etc/rancher/k3s/config.yaml.d/91-names.yaml and restart k3s. Or connect by a name \
                that the certificate has, or pass one of those to `kubectl --tls-server-name`",
            commands: [CHECK, "sudo weaver kubeconfig export NAME"],
            links: ["https://github.com/k3s-io/k3s/issues/1381", K3S_CONFIGURATION],
        }
        NameNotServed = "T-02" "name-not-served" Fail {
            title: "A configured name is not in the served certificate.",
            cause: "k3s was not restarted after the name was configured, a later file or flag replaces the \
                list, or the stored certificate is frozen.",
            remedy: "restart k3s; if the name is still missing, stop k3s, renew its certificate and start \
                it again (the agent does this). The CA stays the same, and kubeconfigs stay valid",
            commands: [
                "sudo weaver-node-agent repair names --dry-run",
                "sudo weaver-node-agent repair names",
                "# by hand:",
                RESTART_K3S,
                CHECK,
                STOP_K3S,
                "sudo k3s certificate rotate --service k3s-server",
                START_K3S,
            ],
            links: [K3S_CERTIFICATES],
        }
        NameStale = "T-03" "name-stale" Warn {
            title: "The certificate has a name that is not configured, or no longer is.",
            cause: "k3s keeps every name it has ever served, in a Secret and in a file, and right after a \
                start it adds any name that a client asks for. The owner of such a name can pose as this \
                node.",
            remedy: "remove the name with the commands below; deleting the Secret does not help, because k3s writes it again at once",
            commands: [
                "sudo weaver-node-agent repair names --dry-run --remove NAME",
                "sudo weaver-node-agent repair names --remove NAME",
            ],
            links: ["https://github.com/k3s-io/k3s/issues/7312"],
        }
        CertificateDates = "T-04" "certificate-dates" Fail {
            title: "The served certificate is not valid at this date.",
            cause: "The clock of one side is wrong; k3s was not restarted for months, until the certificate \
                expired; or k3s made its CA while the clock was ahead.",
            remedy: "compare the clocks first; if they are right, restart k3s, which renews its certificates at \
                start. If the CA itself is not valid yet, run `sudo weaver-node-agent check`, which prints what to \
                do",
            commands: ["timedatectl", RESTART_K3S],
            links: [K3S_CERTIFICATES],
        }
        CertificateUntrusted = "T-05" "certificate-untrusted" Fail {
            title: "The served certificate is not signed by the cluster's CA.",
            cause: "The kubeconfig belongs to another cluster, or to this one before it was reinstalled; or \
                another server answers at this address.",
            remedy: "export the kubeconfig on the Pi again, or fetch it from there",
            commands: ["sudo weaver kubeconfig export NAME", "weaver kubeconfig fetch USER@NAME"],
            links: [K3S_ACCESS],
        }
        NamesShadowed = "T-06" "names-shadowed" Warn {
            title: "A later file or a flag replaces configured names.",
            cause: "`tls-san` without `+` in a later drop-in replaces the names before it, and a flag of the unit replaces all.",
            remedy: "write `tls-san+` in each drop-in; remove the flag",
            commands: [CHECK, RESTART_K3S],
            links: [K3S_CONFIGURATION],
        }
        SanFlagRefused = "T-07" "san-flag-refused" Fail {
            title: "`tls-san` is given in a form that k3s does not accept.",
            cause: "There is a space instead of `=`, or the flag was given to an agent: only servers have a certificate for names.",
            remedy: "write `--tls-san=NAME`, and give it to servers only; with k3d: `--k3s-arg \
                '--tls-san=NAME@server:*'`",
            links: ["https://github.com/k3d-io/k3d/issues/295", K3S_CONFIGURATION],
        }
        NameInvalid = "T-08" "name-invalid" Fail {
            title: "A configured name is not a valid name.",
            cause: "It contains a port, or a character or dot that is not allowed in the name of a certificate. k3s \
                ignores it and logs one line.",
            remedy: "correct the name in the file that the finding names",
            commands: [CHECK, RESTART_K3S],
        }
        ServingNamesUnknown = "T-09" "serving-names-unknown" Unknown {
            title: "The API server sent no certificate, so no name is verified.",
            cause: "The API server did not complete a TLS handshake.",
            remedy: "wait until k3s has started; if it does not start, read its log",
            commands: [K3S_STATUS, K3S_LOG],
        }
    }
    }};
}

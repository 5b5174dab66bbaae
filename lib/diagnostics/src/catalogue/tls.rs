//! TLS: certificates and their names.

macro_rules! tls_rows {
    ([$next:ident $($then:ident)*] $($rows:tt)*) => { $next! { [$($then)*] $($rows)*

    Tls {
        ServingNamesOk = "T-00" "serving-names-ok" Ok {
            title: "Every configured name is served.",
            cause: "A handshake was made with each of them.",
        }
        NameNotInCertificate = "T-01" "name-not-in-certificate" Fail {
            title: "The name that was used is not in the certificate.",
            cause: "The certificate is the right one, and has not the name by which you connect.",
            remedy: "have k3s serve the name (`tls-san+:` in a drop-in, restart); or connect by a name that \
                it has; or verify one of those with `kubectl --tls-server-name`; skipping verification is \
                for diagnosis only",
            commands: [CHECK, "weaver kubeconfig export NAME"],
            links: ["https://github.com/k3s-io/k3s/issues/1381", K3S_CONFIGURATION],
        }
        NameNotServed = "T-02" "name-not-served" Fail {
            title: "A configured name is not in the served certificate.",
            cause: "k3s was not restarted since the name was configured, a later file or a flag replaces the \
                list, or its stored certificate was frozen.",
            remedy: "restart k3s; where the name is still missing, stop it, renew its certificate and start \
                it again. The CA stays, and so does every kubeconfig. The agent does as much of it as is \
                needed",
            commands: [
                "sudo weaver-node-agent repair names --dry-run",
                "sudo weaver-node-agent repair names",
                "# by hand:",
                RESTART_K3S,
                CHECK,
                "sudo systemctl stop k3s",
                "sudo k3s certificate rotate --service k3s-server",
                "sudo systemctl start k3s",
            ],
            links: [K3S_CERTIFICATES],
        }
        NameStale = "T-03" "name-stale" Warn {
            title: "A name is served that nobody has configured, or not any more.",
            cause: "k3s never forgets a name that it has served: it is kept in a Secret and in a file, and \
                right after a start k3s also takes in whatever name a client asks for. Who owns that name \
                can be taken for this node.",
            remedy: "have it taken out; deleting the Secret does not help, since k3s writes it back at \
                once",
            commands: [
                "sudo weaver-node-agent repair names --dry-run --remove NAME",
                "sudo weaver-node-agent repair names --remove NAME",
            ],
            links: ["https://github.com/k3s-io/k3s/issues/7312"],
        }
        CertificateDates = "T-04" "certificate-dates" Fail {
            title: "The served certificate is outside its dates.",
            cause: "The clock of one side is wrong, k3s was not restarted in the last months before its \
                certificate expired, or it made its CA while the clock was ahead.",
            remedy: "compare the clocks first; if they are right, restart k3s: it renews its certificates at \
                start, but for a CA from the future, of which the agent says what helps",
            commands: ["timedatectl", RESTART_K3S],
            links: [K3S_CERTIFICATES],
        }
        CertificateUntrusted = "T-05" "certificate-untrusted" Fail {
            title: "The served certificate does not chain to the cluster's CA.",
            cause: "The kubeconfig is of another cluster, or of this one before it was made anew; or \
                somebody else answers.",
            remedy: "export the kubeconfig again, on the Pi, or have it fetched from there",
            commands: ["sudo weaver kubeconfig export NAME", "weaver kubeconfig fetch USER@NAME"],
            links: [K3S_ACCESS],
        }
        NamesShadowed = "T-06" "names-shadowed" Warn {
            title: "A later file or a flag replaces configured names.",
            cause: "`tls-san` without `+` in a later drop-in replaces the names before it, and a flag of the \
                unit replaces all.",
            remedy: "write `tls-san+` in each drop-in; remove the flag",
            commands: [CHECK, RESTART_K3S],
            links: [K3S_CONFIGURATION],
        }
        SanFlagRefused = "T-07" "san-flag-refused" Fail {
            title: "`tls-san` was given in a way that k3s does not take.",
            cause: "There is a space where `=` should be, or the flag was given to an agent: only servers \
                have a certificate for names.",
            remedy: "write `--tls-san=NAME`, and give it to servers only; with k3d: `--k3s-arg \
                '--tls-san=NAME@server:*'`",
            links: ["https://github.com/k3d-io/k3d/issues/295", K3S_CONFIGURATION],
        }
        NameInvalid = "T-08" "name-invalid" Fail {
            title: "A configured name is not a name.",
            cause: "It has a character, a port or a dot that no name in a certificate can have; k3s drops it \
                with a line in its log.",
            remedy: "write the name that was meant",
            commands: [CHECK, RESTART_K3S],
        }
        ServingNamesUnknown = "T-09" "serving-names-unknown" Unknown {
            title: "No certificate could be seen, so nothing is proven.",
            cause: "The API server showed no certificate.",
            remedy: "wait until k3s has started; if it does not, look at its log",
            commands: ["systemctl status k3s", K3S_LOG],
        }
    }
    }};
}

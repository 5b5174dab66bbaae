//! k3s: its files and its start.

macro_rules! k3s_rows {
    ([$next:ident $($then:ident)*] $($rows:tt)*) => { $next! { [$($then)*] $($rows)*

    K3s {
        K3sConfigInvalid = "F-01" "k3s-config-invalid" Fail {
            title: "The configuration of k3s does not parse.",
            cause: "A file of /etc/rancher/k3s is no valid YAML.",
            remedy: "mend it at the line that is named",
            commands: [CHECK],
            links: [K3S_CONFIGURATION],
        }
        K3sConfigWrongType = "F-02" "k3s-config-wrong-type" Fail {
            title: "A setting of k3s has a value of the wrong type.",
            cause: "A setting has a list where a text is wanted, or the other way round.",
            remedy: "write it as its documentation has it",
            commands: [CHECK],
            links: [K3S_CONFIGURATION],
        }
        K3sFileUnreadable = "F-03" "k3s-file-unreadable" Fail {
            title: "A file of k3s could not be read.",
            cause: "Its permissions or the file system keep the agent from reading it.",
            remedy: "run the check as root; look for errors of the card",
            commands: [CHECK, "sudo dmesg --level err"],
        }
        K3sNotAnswering = "F-04" "k3s-not-answering" Fail {
            title: "k3s has been starting for long, or has failed, and its API server does not answer.",
            cause: "k3s hangs while it starts, or has given up.",
            remedy: "its log says why",
            commands: ["weaver explain --journal k3s", "systemctl status k3s"],
        }
        VersionNotSupported = "F-05" "version-not-supported" Warn {
            title: "The version of Kubernetes is not one that Config Weaver is made for.",
            cause: "What is new in Kubernetes may change what the operator relies on; what is old may lack \
                it.",
            remedy: "use a k3s of that range: the card names its own in image/k3s.lock",
            commands: ["k3s --version"],
            links: ["https://docs.k3s.io/release-notes/v1.36.X"],
        }
        PortTaken = "F-06" "port-taken" Warn {
            title: "Somebody else listens where k3s will.",
            cause: "Another Kubernetes, a web server, or a k3s that was started by hand has the port.",
            remedy: "see who it is, and end it; for the API's own port another `https-listen-port` will do",
            links: [K3S_REQUIREMENTS],
        }
        SettingMisspelled = "F-07" "setting-misspelled" Warn {
            title: "A setting is spelled as k3s does not know it.",
            cause: "k3s passes over keys that it does not know, with one line in its log.",
            remedy: "write the key as k3s does, and start k3s anew",
            commands: ["sudo journalctl -b -u k3s | grep 'Unknown flag'", RESTART_K3S],
            links: [K3S_CONFIGURATION],
        }
        UpgradeCutOff = "F-08" "k3s-upgrade-cut-off" Warn {
            title: "An upgrade of k3s was cut off, and nothing says that what is in place is proven.",
            cause: "The power went, or somebody ended it, while the new k3s was proven or the old one put \
                back.",
            remedy: "go back to the old one, or repeat `weaver node upgrade`: it finishes that first",
            commands: ["sudo weaver node rollback"],
        }
    }
    }};
}

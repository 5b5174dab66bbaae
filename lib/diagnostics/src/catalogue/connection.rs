//! Kubeconfig and connection.

use super::Entry;
use super::table::{K3S_ACCESS, K3S_REQUIREMENTS, RESTART_K3S, known};
use crate::finding::Severity::{Fail, Ok, Warn};

pub(super) const KUBECONFIG_UNSPECIFIED: Entry = known(
    Fail,
    "0.0.0.0 and loopback addresses mean the machine that connects. k3d writes 0.0.0.0 into its kubeconfigs.",
    "export a kubeconfig with a name that is served",
    &["weaver kubeconfig export NAME"],
    &[K3S_ACCESS],
);

pub(super) const KUBECONFIG_FALLBACK: Entry = known(
    Fail,
    "kubectl found no kubeconfig and took its default.",
    "say where the kubeconfig is",
    &["export KUBECONFIG=FILE", "kubectl config get-contexts"],
    &[K3S_ACCESS],
);

pub(super) const KUBECONFIG_INSECURE_WITH_CA: Entry = known(
    Fail,
    "A kubeconfig has both `insecure-skip-tls-verify` and a CA.",
    "remove the first; the CA is what makes the connection safe",
    &["kubectl config unset clusters.NAME.insecure-skip-tls-verify"],
    &[],
);

pub(super) const KUBECONFIG_UNREADABLE: Entry = known(
    Fail,
    "/etc/rancher/k3s/k3s.yaml is the administrator's and readable by root only, as it should be.",
    "export one for yourself (`--merge` puts it into one that you have); mode 644 would give the cluster to every user of \
     the machine",
    &["sudo weaver kubeconfig export NAME --output NAME.yaml", "sudo chown \"$USER\" NAME.yaml"],
    &[K3S_ACCESS],
);

pub(super) const CONNECTION_REFUSED: Entry = known(
    Fail,
    "k3s does not run, or listens on another port: one of k3d is a new one for each cluster unless `--api-port` \
     says otherwise.",
    "on the Pi, see which port k3s listens on, if it runs, and start it if it does not",
    &["sudo ss -ltnp", "sudo systemctl start k3s"],
    &[],
);

pub(super) const KUBECONFIG_UNUSABLE: Entry = known(
    Warn,
    "A part is missing in it, or it is no valid YAML.",
    "k3s writes it anew when it starts",
    &[RESTART_K3S],
    &[],
);

pub(super) const KUBECONFIG_EXPOSED: Entry = known(
    Warn,
    "`write-kubeconfig-mode` is set, or somebody changed the mode.",
    "take the mode back, and remove the setting",
    &["sudo chmod 0600 /etc/rancher/k3s/k3s.yaml"],
    &[],
);

pub(super) const KUBECONFIG_INSECURE: Entry = known(
    Warn,
    "It has `insecure-skip-tls-verify`, mostly because the certificate lacked a name: whoever answers at that address \
     gets the credentials.",
    "have the name served and export the kubeconfig again; it verifies by the cluster's CA then",
    &["sudo weaver kubeconfig export NAME"],
    &[K3S_ACCESS],
);

pub(super) const OPERATOR_NOT_STARTED: Entry = known(
    Fail,
    "A step between the proven names and the running operator failed.",
    "the finding says which; the agent tries again by itself",
    &["systemctl status weaver-operator", "journalctl -u weaver-node-agent -n 50"],
    &[],
);

pub(super) const REACHED: Entry = known(Ok, "A request was answered.", "", &[], &[]);

pub(super) const SERVER_SILENT: Entry = known(
    Fail,
    "The Pi is off, has another address now, or a firewall on the way drops what is sent.",
    "see whether the Pi is there, and which address it has",
    &["ping -c 3 NAME", "nc -vz NAME 6443", "sudo ss -ltnp 'sport = :6443'"],
    &[K3S_REQUIREMENTS],
);

pub(super) const CREDENTIALS_REFUSED: Entry = known(
    Fail,
    "The kubeconfig is older than the cluster, its certificate has expired, or its token was withdrawn.",
    "export it again, on the Pi",
    &["weaver kubeconfig fetch USER@NAME"],
    &[K3S_ACCESS],
);

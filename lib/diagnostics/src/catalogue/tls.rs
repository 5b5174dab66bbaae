//! TLS: certificates and their names.

use super::Entry;
use super::table::{CHECK, K3S_ACCESS, K3S_CERTIFICATES, K3S_CONFIGURATION, K3S_LOG, RESTART_K3S, known};
use crate::finding::Severity::{Fail, Ok, Unknown, Warn};

pub(super) const SERVING_NAMES_OK: Entry = known(Ok, "A handshake was made with each of them.", "", &[], &[]);

pub(super) const NAME_NOT_IN_CERTIFICATE: Entry = known(
    Fail,
    "The certificate is the right one, and has not the name by which you connect.",
    "have k3s serve the name (`tls-san+:` in a drop-in, restart); or connect by a name that it has; or verify one \
     of those with `kubectl --tls-server-name`; skipping verification is for diagnosis only",
    &[CHECK, "weaver kubeconfig export NAME"],
    &["https://github.com/k3s-io/k3s/issues/1381", K3S_CONFIGURATION],
);

pub(super) const NAME_NOT_SERVED: Entry = known(
    Fail,
    "k3s was not restarted since the name was configured, a later file or a flag replaces the list, or its stored \
     certificate was frozen.",
    "restart k3s; where the name is still missing, stop it, renew its certificate and start it again. The CA stays, \
     and so does every kubeconfig. The agent does as much of it as is needed",
    &[
        "sudo weaver-node-agent repair names --dry-run",
        "sudo weaver-node-agent repair names",
        "# by hand:",
        RESTART_K3S,
        CHECK,
        "sudo systemctl stop k3s",
        "sudo k3s certificate rotate --service k3s-server",
        "sudo systemctl start k3s",
    ],
    &[K3S_CERTIFICATES],
);

pub(super) const NAME_STALE: Entry = known(
    Warn,
    "k3s never forgets a name that it has served: it is kept in a Secret and in a file, and right after a start k3s also \
     takes in whatever name a client asks for. Who owns that name can be taken for this node.",
    "have it taken out; deleting the Secret does not help, since k3s writes it back at once",
    &[
        "sudo weaver-node-agent repair names --dry-run --remove NAME",
        "sudo weaver-node-agent repair names --remove NAME",
    ],
    &["https://github.com/k3s-io/k3s/issues/7312"],
);

pub(super) const CERTIFICATE_DATES: Entry = known(
    Fail,
    "The clock of one side is wrong, k3s was not restarted in the last months before its certificate expired, or it made its CA \
     while the clock was ahead.",
    "compare the clocks first; if they are right, restart k3s: it renews its certificates at start, but for a CA from the \
     future, of which the agent says what helps",
    &["timedatectl", RESTART_K3S],
    &[K3S_CERTIFICATES],
);

pub(super) const CERTIFICATE_UNTRUSTED: Entry = known(
    Fail,
    "The kubeconfig is of another cluster, or of this one before it was made anew; or somebody else answers.",
    "export the kubeconfig again, on the Pi, or have it fetched from there",
    &["sudo weaver kubeconfig export NAME", "weaver kubeconfig fetch USER@NAME"],
    &[K3S_ACCESS],
);

pub(super) const NAMES_SHADOWED: Entry = known(
    Warn,
    "`tls-san` without `+` in a later drop-in replaces the names before it, and a flag of the unit replaces all.",
    "write `tls-san+` in each drop-in; remove the flag",
    &[CHECK, RESTART_K3S],
    &[K3S_CONFIGURATION],
);

pub(super) const SAN_FLAG_REFUSED: Entry = known(
    Fail,
    "There is a space where `=` should be, or the flag was given to an agent: only servers have a certificate for \
     names.",
    "write `--tls-san=NAME`, and give it to servers only; with k3d: `--k3s-arg '--tls-san=NAME@server:*'`",
    &[],
    &["https://github.com/k3d-io/k3d/issues/295", K3S_CONFIGURATION],
);

pub(super) const NAME_INVALID: Entry = known(
    Fail,
    "It has a character, a port or a dot that no name in a certificate can have; k3s drops it with a line in its log.",
    "write the name that was meant",
    &[CHECK, RESTART_K3S],
    &[],
);

pub(super) const SERVING_NAMES_UNKNOWN: Entry = known(
    Unknown,
    "The API server showed no certificate.",
    "wait until k3s has started; if it does not, look at its log",
    &["systemctl status k3s", K3S_LOG],
    &[],
);

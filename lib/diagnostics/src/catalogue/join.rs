//! What is known of codes J: a node that joins a server.

use super::Entry;
use super::table::known;
use crate::finding::Severity::{Fail, Warn};

const TOKEN: &str = "https://docs.k3s.io/cli/token";

pub(super) const SERVER_SILENT: Entry = known(
    Warn,
    "The server is off or still starting, the name leads elsewhere, or a firewall is between. k3s goes on asking.",
    "see on this node whether the name is found and a way leads there, and on the server whether k3s runs",
    &["getent ahosts SERVER", "ip route get ADDRESS", "systemctl status k3s"],
    &[],
);

pub(super) const OTHER_SERVER: Entry = known(
    Fail,
    "The address is another machine's, or the server was set up anew and has a new CA. k3s refuses to join it.",
    "see whether `server` in weaver.toml is right; if it is, write its token there again and reboot. On the server",
    &["sudo cat /var/lib/rancher/k3s/server/node-token"],
    &[TOKEN],
);

pub(super) const NAME_NOT_SERVED: Entry = known(
    Fail,
    "k3s verifies the server's certificate for the name in `server`, and the server was not told of that name.",
    "write the name into `names` below [api] of the server's weaver.toml and reboot the server",
    &["sudo nano /boot/firmware/weaver.toml"],
    &[],
);

pub(super) const NAME_TAKEN: Entry = known(
    Warn,
    "The name of this node is that of another one, or of this one before its card was written anew: the server keeps the \
     password that a node of that name came with first, and refuses another.",
    "give this node another `hostname` in weaver.toml, and reboot; one that has joined another server before keeps its \
     name until you remove /var/lib/rancher/k3s/agent/client-kubelet.crt, too. On the server: names that are taken, and \
     how it forgets the password of one that was written anew",
    &["sudo k3s kubectl get nodes", "sudo k3s kubectl -n kube-system delete secret NODE.node-password.k3s"],
    &[],
);

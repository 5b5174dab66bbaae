//! What k3s says of settings that it can read and not use.

use super::details::{Details, after, has_any};
use crate::finding::{RESTART_K3S, START_K3S, STOP_K3S};

/// All servers of a cluster have these settings alike. k3s before 1.24 does not name the one that differs.
pub(super) fn differs(line: &str) -> Details {
    let setting = after(line, "onfiguration mismatched: ", &['"', '\n'])
        .map(str::trim)
        .filter(|setting| !setting.is_empty());
    let message = setting.map_or_else(
        || "this server has other settings than the cluster that it joins".to_owned(),
        |setting| format!("this server has another value of `{setting}` than the cluster that it joins"),
    );
    Details::message(message)
        .advice(
            "copy the settings of the first server, from its configuration and its unit, to this one: ranges of addresses, DNS, \
             flannel, what is disabled and `secrets-encryption`; then restart k3s here",
        )
        .command("# on both servers:")
        .command(
            "sudo grep -rnE 'cidr|cluster-d|flannel|disable|egress|encryption' /etc/rancher/k3s \
             /etc/systemd/system/k3s*.service",
        )
        .command(RESTART_K3S)
}

/// IPv4, IPv6 or both: other programs compare addresses as well.
pub(super) fn families(line: &str) -> Option<Details> {
    line.contains("-cidr: ").then(|| {
        Details::message("`cluster-cidr`, `service-cidr` and `node-ip` are not all of IPv4, of IPv6 or of both")
            .advice(
                "give all three the same families; of a cluster with both, each node has two addresses in `node-ip`, with a comma",
            )
            .command("ip -brief address")
            .command("sudo grep -rnE 'cidr|node-ip' /etc/rancher/k3s /etc/systemd/system/k3s*.service")
            .command(RESTART_K3S)
    })
}

/// k3s and its installer of the server that a node is to join.
pub(super) fn server_url(line: &str) -> Option<Details> {
    let is_of_k3s = has_any(line, &["K3S_URL", "level=", "FATA[", "server url"]);
    is_of_k3s.then(|| {
        Details::message("the server to join is not given as https://SERVER:6443")
            .advice("correct `server` in weaver.toml and reboot; without weaver.toml, in the file that the command names")
            .command("sudo grep -rlE '^server:|K3S_URL' /etc/rancher/k3s /etc/systemd/system")
    })
}

/// A node that is to join, without a word for it.
pub(super) fn no_token(line: &str) -> Option<Details> {
    let is_of_k3s = has_any(line, &["K3S_URL", "level=", "FATA["]);
    is_of_k3s.then(|| {
        Details::message("this node is to join a server, and was given no token")
            .advice(
                "write it into weaver.toml and reboot; without weaver.toml into `token` of /etc/rancher/k3s/config.yaml, or give \
                 K3S_TOKEN to the installer behind `sudo`, which drops variables in front of it. The server prints it with the \
                 command below",
            )
            .command("sudo cat /var/lib/rancher/k3s/server/node-token")
    })
}

/// The CA and the passwords of this server are another cluster's, or are newer than what its own cluster has.
pub(super) fn newer_than_the_datastore(_: &str) -> Details {
    Details::message("the CA or the passwords on this server are not those in the datastore, and are newer")
        .advice(
            "keep server/db and server/token, and move these directories away: k3s writes them again from the datastore. A machine \
             that was a server of another cluster before keeps more of that: there, before it joins, move all of \
             /var/lib/rancher/k3s/server away",
        )
        .command("timedatectl")
        .command(STOP_K3S)
        .command("sudo mv /var/lib/rancher/k3s/server/tls /root/tls.before")
        .command("sudo mv /var/lib/rancher/k3s/server/cred /root/cred.before")
        .command(START_K3S)
}

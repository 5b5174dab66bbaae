//! Files of bbolt that are damaged. etcd has one, and so has containerd; SQLite, k3s' own database, has none.

use super::details::{Details, has_any};
use crate::finding::STOP_K3S;

/// Where containerd lists its images and containers: that of k3s, that of the distribution or of Docker, and that which
/// Docker starts itself.
const OF_K3S: &str = "/var/lib/rancher/k3s/agent/containerd/io.containerd.metadata.v1.bolt/meta.db";
const OF_CONTAINERD: &str = "/var/lib/containerd/io.containerd.metadata.v1.bolt/meta.db";
const OF_DOCKERD: &str = "/var/lib/docker/containerd/daemon/io.containerd.metadata.v1.bolt/meta.db";

fn is_of_containerd(line: &str) -> bool {
    has_any(line, &["containerd[", "dockerd["])
}

/// Of etcd, or of no one who is named: containerd of k3s writes to a file, without its name in front.
pub(super) fn of_etcd(line: &str) -> Option<Details> {
    if is_of_containerd(line) {
        return None;
    }
    if has_any(line, &["etcd[", "etcdserver", "etcd:", "k3s["]) {
        return Some(Details::default());
    }
    Some(
        Details::message("a file of bbolt is damaged: that of etcd, or the one in which containerd lists its images")
            .advice(
                "the lines after it name etcd or containerd; the first command shows the log of containerd. etcd, which a k3s \
                 with SQLite does not have: the second command says what to do. containerd: move its file away and \
                 reboot; images are pulled again, and those that you imported have to be imported again",
            )
            .command("sudo tail -n 50 /var/lib/rancher/k3s/agent/containerd/containerd.log")
            .command("weaver explain F-09")
            .command("# containerd of k3s:")
            .command(STOP_K3S)
            .command(format!("sudo mv {OF_K3S} /root/meta.db.broken"))
            .command("sudo reboot")
            .hint(),
    )
}

/// Of a containerd that runs by itself, or is started by Docker.
pub(super) fn of_containerd(line: &str) -> Option<Details> {
    if !is_of_containerd(line) {
        return None;
    }
    let (units, file) = if line.contains("dockerd[") {
        ("docker.socket docker", OF_DOCKERD)
    } else {
        ("docker.socket docker containerd", OF_CONTAINERD)
    };
    Some(
        Details::message("containerd does not start: the file in which it lists its images and containers is damaged")
            .advice(
                "move the file away and reboot: images are pulled again, and those that you imported have to be imported \
                 again; volumes stay. The first command says which of the three files there is. The datastore of k3s is \
                 another file, and is not damaged by this",
            )
            .command(format!("sudo ls -l {OF_CONTAINERD} {OF_DOCKERD} {OF_K3S}"))
            .command(format!("sudo systemctl stop {units}"))
            .command(format!("sudo mv {file} /root/meta.db.broken"))
            .command("sudo reboot"),
    )
}

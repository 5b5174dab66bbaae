//! What the scheduler and others say of pods that wait.

use super::details::{Details, after, is_plain};
use crate::finding::Remedy;

/// A `PersistentVolumeClaim` that a pod names and that is missing.
pub(super) fn claim_gone(line: &str) -> Option<Details> {
    let name = after(line, "persistentvolumeclaim \"", &['"'])?;
    line.contains("\" not found")
        .then(|| Details::message(format!("the pod names the claim `{name}`, which does not exist")))
}

pub(super) fn class_gone(line: &str) -> Option<Details> {
    let name = after(line, "storageclass.storage.k8s.io \"", &['"'])?;
    line.contains("\" not found")
        .then(|| Details::message(format!("the claim names the StorageClass `{name}`, which does not exist")))
}

pub(super) fn other_node(_: &str) -> Details {
    Details::message("the volume of the pod is on a node on which the pod may not run").remedy(
        Remedy::new(
            "a local-path volume stays on the node that created it: run the pod there, or bring that node back; if \
            the node is gone for good, delete the claim, with its data",
        )
        .command("kubectl get pv -o wide")
        .command("kubectl get nodes"),
    )
}

/// In the wording of current and earlier schedulers.
pub(super) fn does_not_fit(line: &str) -> Option<Details> {
    if !line.contains("nodes are available") {
        return None;
    }
    let lower = line.to_ascii_lowercase();
    let lacks = |words: &str| lower.contains(words);
    let what = match (lacks("insufficient memory"), lacks("insufficient cpu")) {
        (true, true) => "the memory and the CPU that it requests",
        (true, false) => "the memory that it requests",
        (false, true) => "the CPU that it requests",
        (false, false) => "room for another pod (limit of pods per node)",
    };
    Some(Details::message(format!("no node that the pod may run on has {what}")))
}

pub(super) fn ports(line: &str) -> Option<Details> {
    line.contains("nodes are available").then(|| {
        Details::message("a pod requests a host port that another pod uses").remedy(
            Remedy::new(
                "two pods of one node cannot have the same `hostPort`: Traefik of k3s has 80 and 443, and each Service of type \
                 LoadBalancer has its ports on all nodes",
            )
            .command("kubectl get services -A --field-selector spec.type=LoadBalancer")
            .command("kubectl -n kube-system get pods -l svccontroller.k3s.cattle.io/svcname -o wide"),
        )
    })
}

pub(super) fn not_enough(line: &str) -> Details {
    let what = after(line, "enough resource: ", &[',', ' ', '"'])
        .filter(|what| is_plain(what))
        .unwrap_or("a resource");
    Details::message(format!("the node has less {what} than the pod requests"))
}

/// local-path makes the directory of a volume in a pod on the node.
pub(super) fn helper_pod(_: &str) -> Details {
    Details::message(
        "no volume is made: the pod with which local-path makes its directory did not end in time",
    )
    .remedy(
        Remedy::new("see what that pod waits for, most often its image or its node")
            .command("kubectl -n kube-system get pods -o wide | grep helper-pod")
            .command("kubectl -n kube-system logs -l app=local-path-provisioner --tail 20"),
    )
}

/// While a volume is made, everyone waits; after minutes it is not made.
pub(super) fn still_waits(line: &str) -> Option<Details> {
    // `2s (x26 over 6m9s)`
    let over = after(line, " over ", &[')'])?;
    let is_long = over.contains(['h', 'd'])
        || over.split_once('m').is_some_and(|(minutes, _)| minutes.parse::<u32>().is_ok_and(|m| m >= 2));
    is_long.then(|| {
        let by = after(line, "external provisioner '", &['\''])
            .filter(|name| is_plain(name))
            .unwrap_or("the provisioner");
        Details::message(format!("no volume is made: {by} does not answer")).remedy(
            Remedy::new("check that its pod runs; that of k3s for local-path is in kube-system")
                .command("kubectl -n kube-system get pods -l app=local-path-provisioner")
                .command("kubectl -n kube-system logs -l app=local-path-provisioner --tail 20"),
        )
    })
}

//! What the scheduler and others say of pods that wait.

use super::details::{Details, after, is_plain};
use crate::finding::Remedy;

/// A claim that a pod names and that is not there.
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

/// As the scheduler of today and of before says it.
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

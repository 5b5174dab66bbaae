//! What k3s says of the containerd that it runs, whose end is no fault where k3s was stopped.

use super::context::LogContext;
use super::details::{CONTAINERD_AWAY, Details, has_any};
use crate::finding::{K3S_LOG, STOP_K3S};

/// containerd has ended. k3s kills it where it ends itself, and reports that, too.
pub(super) fn ended(line: &str, context: &LogContext) -> Option<Details> {
    if context.is_stopping() {
        return None;
    }
    if !line.contains("signal: ") {
        return Some(Details::default());
    }
    // With nothing but this line, as before a reboot, it can be either.
    Some(
        Details::message(
            "containerd of k3s was killed: memory ran out, or k3s or the machine was being stopped",
        )
        .hint()
        .advice(
            "if it was not stopped, look for the kernel's own words next to it, and for what took the memory",
        )
        .command("sudo journalctl -k | grep -iE 'oom-kill:|out of memory'")
        .command(K3S_LOG)
        .command("free -m"),
    )
}

/// containerd at its start, whose records of pods contradict each other, as after a power loss. k3s#5189, k3s#11973
pub(super) fn not_recovered(line: &str) -> Option<Details> {
    let contradicts = has_any(line, &["is reserved for", "failed to get metadata for stored sandbox"]);
    (line.contains("run CRI service") && contradicts).then(|| {
        Details::message("containerd does not start: its records of pods contradict each other, as after a power loss")
            .advice(
                "move its directory away and reboot: images are pulled again, and those that you imported have to be imported \
                 again; volumes and the datastore stay. Delete containerd.broken once all runs",
            )
            .command(STOP_K3S)
            .command(CONTAINERD_AWAY)
            .command("sudo reboot")
    })
}

/// A pod whose last try has not ended on a slow node, or was never cleared away. containerd/cri#1014, kubeedge#6509
pub(super) fn sandbox_left(_: &str) -> Details {
    Details::message("a pod does not start: containerd still has the sandbox of its last try")
        .advice("wait: the kubelet tries again. If it stays, as after a power loss, remove what is left on that node")
        .command("sudo k3s crictl pods --state NotReady")
        .command("sudo k3s crictl rmp SANDBOX")
        .hint()
}

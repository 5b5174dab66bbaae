//! What k3s says of the containerd that it runs, whose end is no fault where k3s was stopped.

use super::context::LogContext;
use super::details::Details;
use crate::finding::{K3S_LOG, Remedy};

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
        Details::message("containerd of k3s was killed: memory ran out, or k3s or the machine was being stopped")
            .hint()
            .remedy(
                Remedy::new("if it was not stopped, look for the kernel's own words next to it, and for what took the memory")
                    .command("sudo journalctl -k | grep -iE 'oom-kill:|out of memory'")
                    .command(K3S_LOG)
                    .command("free -m"),
            ),
    )
}

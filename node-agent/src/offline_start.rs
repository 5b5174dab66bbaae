//! A start without a network: k3s takes its address from the default route and exits without one, so the card adds a
//! route that leads nowhere, and passes its address to k3s.
//!
//! Guarantees: only `preflight --gate --offline-start` changes anything, and only on a server without a route, without
//! the owner's `node-ip`, before k3s' first start of a boot. The interface, and the file in memory from which k3s' unit
//! gets its flag, are gone after a reboot; each check before a start of k3s removes both once there is a network.
//! Failure: reported with the warning that there is no route; k3s is never blocked by it.

use std::{fs::DirBuilder, io, os::unix::fs::DirBuilderExt as _, path::Path};

use tracing::{error, info};
use weaver_diagnostics::host::network::{
    OFFLINE_ADDRESS as ADDRESS, OFFLINE_DEVICE as DEVICE, OFFLINE_RECORD as RECORD,
};
use weaver_host::durable_file;

use crate::{
    dummy_interface,
    facts::network::{default_route, is_offline_start},
    host::Host,
    host_root::HostRoot,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RouteStep {
    /// Leave everything as it is.
    Nothing,
    /// Make the interface, pin k3s; where both are there, this changes nothing.
    Begin,
    End,
}

/// `is_due`: k3s would exit for lack of a network. After the first check of a boot, k3s is left to exit: it comes up by
/// itself when the network is back, while a pinned one would keep the address until a user intervenes.
const fn decide(is_due: bool, is_first: bool, is_offline: bool) -> RouteStep {
    match (is_due, is_offline) {
        (true, true) => RouteStep::Begin,
        (true, false) if is_first => RouteStep::Begin,
        (true | false, false) => RouteStep::Nothing,
        (false, true) => RouteStep::End,
    }
}

/// Whether k3s may get an address: the owner has set none, and the node does not join a server, without which it cannot
/// work.
pub(crate) fn is_for(host: &Host) -> bool {
    // Of the unit's flags, one may be ours.
    host.effective_without(Path::new(RECORD)).node_ip.is_none() && !host.joins()
}

/// Prepares the host for a start of k3s with or without a network; `is_first`: of this boot. Blocks for a moment.
///
/// # Errors
/// What is missing for a start without a network, as text for a user.
pub(crate) fn settle(host: &Host, ip: &Path, is_first: bool) -> Result<(), String> {
    let is_due = is_for(host) && default_route(&host.root).is_none();
    match decide(is_due, is_first, is_offline_start(&host.root)) {
        RouteStep::Nothing => Ok(()),
        RouteStep::Begin => {
            dummy_interface::make(&host.root, ip)?;
            let text = format!("WEAVER_OFFLINE_START=--node-ip={ADDRESS}\n");
            let record = host.root.real(RECORD);
            if let Some(directory) = record.parent() {
                // Where this fails, the next step names the path.
                drop(DirBuilder::new().recursive(true).mode(0o750).create(directory));
            }
            durable_file::replace(&record, text.as_bytes(), 0o640).map_err(|error| error.to_string())?;
            info!("no network: k3s starts with {ADDRESS} on {DEVICE}");
            Ok(())
        }
        RouteStep::End => {
            end(&host.root, ip);
            Ok(())
        }
    }
}

/// The record first: it alone decides how k3s starts.
fn end(root: &HostRoot, ip: &Path) {
    match std::fs::remove_file(root.real(RECORD)) {
        Err(failure) if failure.kind() != io::ErrorKind::NotFound => {
            error!("cannot remove {RECORD}: {failure}; k3s keeps {ADDRESS} until the next boot");
        }
        _ => {
            info!("the network is back: k3s starts with the address of the default route");
            if let Err(failure) = dummy_interface::remove(root, ip) {
                // Its route is the last choice of all, and it is gone after a reboot.
                error!("{failure}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_made_only_for_k3s_without_a_network() {
        for (is_due, is_first, is_offline, want) in [
            (true, true, false, RouteStep::Begin),
            (true, true, true, RouteStep::Begin),
            // The network went while k3s ran, and k3s is started again.
            (true, false, false, RouteStep::Nothing),
            (true, false, true, RouteStep::Begin),
            (false, true, false, RouteStep::Nothing),
            (false, false, true, RouteStep::End),
        ] {
            assert_eq!(decide(is_due, is_first, is_offline), want, "{is_due} {is_first} {is_offline}");
        }
    }
}

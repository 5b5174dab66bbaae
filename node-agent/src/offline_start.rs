//! A start without a network: k3s takes its address from the default route and ends itself without one, so the card
//! gives itself a route that leads nowhere, and pins k3s to its address.
//!
//! Guarantees: only `preflight --gate --offline-start` changes anything, and nothing where there is a way to a network,
//! where the owner has set `node-ip`, where the node joins another server, or later than k3s' first start of a boot. What it makes is gone after a reboot: an
//! interface, and a file in memory from which k3s' unit takes its flag. Each look before k3s starts takes both back
//! once there is a network. Failure: what could not be made is told with the warning that there is no route, and
//! k3s is held back by none of it.

use std::{fs::DirBuilder, io, os::unix::fs::DirBuilderExt as _, path::Path};

use tracing::{error, info};
use weaver_diagnostics::finding::{Code, Finding, Place};
use weaver_host::durable_file;

use crate::{
    checks::Host,
    default_route::{self, ROUTES},
    dummy_interface,
    host_root::HostRoot,
};

/// The interface that leads nowhere.
pub const DEVICE: &str = "weaver0";
/// Its address: of a block that documents are written with, so that no network has it.
pub const ADDRESS: &str = "203.0.113.254";
/// There while k3s is pinned to that address; k3s' unit takes its flag from it.
pub const RECORD: &str = "/run/weaver/k3s-offline.env";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Leave everything as it is.
    Nothing,
    /// Make the interface, pin k3s; where both are there, this changes nothing.
    Begin,
    /// Take both back.
    End,
}

/// `is_due`: k3s would end itself for want of a network. Later than at the first look of a boot it is left to that: it
/// comes up by itself when the network is back, and pinned it would stay so until somebody types.
const fn decide(is_due: bool, is_first: bool, is_offline: bool) -> Step {
    match (is_due, is_offline) {
        (true, true) => Step::Begin,
        (true, false) if is_first => Step::Begin,
        (true | false, false) => Step::Nothing,
        (false, true) => Step::End,
    }
}

/// Whether k3s may be given an address: the owner has said none, and the node does not join a server, without which it
/// is nothing.
pub(crate) fn is_for(host: &Host) -> bool {
    // Of the unit's flags, one may be ours.
    host.effective_without(Path::new(RECORD)).node_ip.is_none() && !host.joins()
}

/// Makes the host ready for a start of k3s with or without a network; `is_first`: of this boot. Blocks for a moment.
///
/// # Errors
/// What is missing for a start without a network, in words for a person.
pub(crate) fn settle(host: &Host, ip: &Path, is_first: bool) -> Result<(), String> {
    let is_due = is_for(host) && !default_route::has_default_route(&host.root);
    match decide(is_due, is_first, is_offline(&host.root)) {
        Step::Nothing => Ok(()),
        Step::Begin => {
            dummy_interface::make(&host.root, ip)?;
            let text = format!("WEAVER_OFFLINE_START=--node-ip={ADDRESS}\n");
            let record = host.root.real(RECORD);
            if let Some(directory) = record.parent() {
                // Where this fails, the next step names the place.
                drop(DirBuilder::new().recursive(true).mode(0o750).create(directory));
            }
            durable_file::replace(&record, text.as_bytes(), 0o640).map_err(|error| error.to_string())?;
            info!("there is no network: k3s starts with {ADDRESS} on {DEVICE}");
            Ok(())
        }
        Step::End => {
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
            info!(
                "k3s no longer has to do without a network: it starts with the address of the default route"
            );
            if let Err(failure) = dummy_interface::remove(root, ip) {
                // Its route is the last choice of all, and it is gone after a reboot.
                error!("{failure}");
            }
        }
    }
}

fn is_offline(root: &HostRoot) -> bool {
    root.real(RECORD).exists()
}

/// That k3s does without a network, and, once there is one, what to do. In place of the finding about a missing route.
#[must_use]
pub fn finding(root: &HostRoot) -> Option<Finding> {
    if !is_offline(root) {
        return None;
    }
    let record = Place::file(RECORD);
    let pinned = format!("k3s has {ADDRESS}");
    Some(match default_route::uplink(root) {
        None => {
            let message = format!(
                "there was no network when k3s was to start: it has {ADDRESS}, an address that the card gave itself \
                 until the next boot. Nothing else is missing; connect a network, and this line says what to do then"
            );
            Finding::new(Code::OfflineStart, message)
                .without_remedy()
                .saw(record, pinned)
                .saw(Place::file(ROUTES), format!("no route to 0.0.0.0/0 but by {DEVICE}"))
        }
        Some(device) => {
            let message = format!(
                "k3s was started without a network, and there is one now, by {device}. Started again, k3s takes its \
                 address there instead of {ADDRESS}: the node says so, the certificate has it as well, and other \
                 nodes can join"
            );
            Finding::new(Code::OfflineStart, message)
                .saw(record, pinned)
                .saw(Place::file(ROUTES), format!("a default route by {device}"))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture;

    #[test]
    fn decisions() {
        for (is_due, is_first, is_offline, want) in [
            (true, true, false, Step::Begin),
            (true, true, true, Step::Begin),
            // The network went while k3s ran, and k3s is started again.
            (true, false, false, Step::Nothing),
            (true, false, true, Step::Begin),
            (false, true, false, Step::Nothing),
            (false, false, true, Step::End),
        ] {
            assert_eq!(decide(is_due, is_first, is_offline), want, "{is_due} {is_first} {is_offline}");
        }
    }

    #[test]
    fn the_report_says_what_a_network_changes_and_how() {
        let own = "weaver0\t00000000\tFF7100CB\t0003\t0\t0\t65535\t00000000\t0\t0\t0\n";
        let wired = "eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n";
        let (_dir, root) = fixture::host(&[(ROUTES, own)]);
        assert_eq!(finding(&root), None, "k3s was started with a network");

        let (_dir, root) = fixture::host(&[(ROUTES, own), (RECORD, "")]);
        let alone = finding(&root).unwrap();
        assert!(alone.message.contains("until the next boot") && alone.remedy.is_none(), "{alone:?}");

        let (_dir, root) = fixture::host(&[(ROUTES, &format!("{own}{wired}")), (RECORD, "")]);
        let late = finding(&root).unwrap();
        assert!(late.message.contains("by eth0") && late.message.contains("certificate"), "{late:?}");
        assert_eq!(late.remedy.unwrap().commands, ["sudo systemctl restart k3s"]);
    }
}

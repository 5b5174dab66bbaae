//! Is there a default route? Without one no time server is reached, and k3s takes its address from it.
//!
//! The one by which a start without a network helps itself leads nowhere and does not count.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use weaver_diagnostics::finding::{Code, Finding, Place, Severity};

use crate::host_root::HostRoot;
use crate::offline_start::DEVICE;

/// Where k3s looks, too.
pub(crate) const ROUTES: &str = "/proc/net/route";
const ROUTES_V6: &str = "/proc/net/ipv6_route";
/// Flags of a route: it is in use; it rejects what is sent.
const RTF_UP: u32 = 0x1;
const RTF_REJECT: u32 = 0x200;
const POLL: Duration = Duration::from_millis(100);

/// A warning where there is none; one may come, and what cannot be read is not judged.
#[must_use]
pub fn finding(root: &HostRoot) -> Option<Finding> {
    root.read_if_possible(ROUTES)?;
    (!has_default_route(root)).then(|| {
        let message = "there is no default route: k3s takes its address from it and ends itself without one, unless `node-ip` and \
                       `advertise-address` are set";
        Finding::new(Code::NoDefaultRoute, message)
            .milder(Severity::Warn)
            .saw(Place::file(ROUTES), "no route to 0.0.0.0/0")
    })
}

pub(crate) fn has_default_route(root: &HostRoot) -> bool {
    uplink(root).is_some()
}

/// The interface that leads to the network.
pub(crate) fn uplink(root: &HostRoot) -> Option<String> {
    let first = |path, device: fn(&str) -> Option<&str>| {
        let table = root.read_if_possible(path)?.text;
        table.lines().filter_map(device).find(|device| *device != DEVICE).map(str::to_owned)
    };
    first(ROUTES, default_v4).or_else(|| first(ROUTES_V6, default_v6))
}

/// Waits for such an interface, at most so long.
pub(crate) async fn wait(root: &HostRoot, limit: Duration) -> Option<String> {
    let begun = Instant::now();
    loop {
        let found = uplink(root);
        if found.is_some() || begun.elapsed() >= limit {
            return found;
        }
        sleep(POLL).await;
    }
}

/// The interface of a line that is a default route:
/// `Iface Destination Gateway Flags RefCnt Use Metric Mask …`, numbers in hex.
fn default_v4(line: &str) -> Option<&str> {
    let fields: Vec<_> = line.split_whitespace().collect();
    let (&device, Some(&"00000000"), Some(&"00000000")) = (fields.first()?, fields.get(1), fields.get(7))
    else {
        return None;
    };
    fields.get(3).is_some_and(|flags| is_usable(flags)).then_some(device)
}

/// `destination length source length next-hop metric refcount use flags device`;
/// the kernel's own "unreachable" on `lo` looks like a default route too.
fn default_v6(line: &str) -> Option<&str> {
    let fields: Vec<_> = line.split_whitespace().collect();
    let [destination, length, .., flags, device] = fields[..] else { return None };
    let is_default = fields.len() == 10
        && destination.bytes().all(|digit| digit == b'0')
        && length == "00"
        && device != "lo"
        && is_usable(flags);
    is_default.then_some(device)
}

fn is_usable(flags: &str) -> bool {
    u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & RTF_UP != 0 && flags & RTF_REJECT == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture;

    const V4: &str = "eth0\t00000000\t010200C0\t0003\t0\t0\t100\t00000000\t0\t0\t0";

    #[test]
    fn routes_table() {
        for (line, is_default) in [
            (V4, true),
            ("eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0", false),
            ("eth0\t00000000\t010200C0\t0002\t0\t0\t0\t00000000\t0\t0\t0", false),
            ("eth0\t00000000\t010200C0\t0203\t0\t0\t0\t00000000\t0\t0\t0", false),
            ("eth0\t00000000\t010200C0\tzz\t0\t0\t0\t00000000\t0\t0\t0", false),
            ("tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0", false),
            ("", false),
        ] {
            assert_eq!(default_v4(line), is_default.then_some("eth0"), "{line}");
        }
        let zero = "0".repeat(32);
        for (line, is_default) in [
            (format!("{zero} 00 {zero} 00 fd{} 00000400 3 0 00000003 eth0", "0".repeat(30)), true),
            (format!("{zero} 00 {zero} 00 {zero} ffffffff 1 0 00200200 lo"), false),
            (format!("{zero} 00 {zero} 00 {zero} 00000400 1 0 00000201 eth0"), false),
            (format!("{zero} 80 {zero} 00 {zero} 00000000 3 0 80200001 eth0"), false),
            (format!("{zero} 00"), false),
            (String::new(), false),
        ] {
            assert_eq!(default_v6(&line), is_default.then_some("eth0"), "{line}");
        }
    }

    #[tokio::test]
    async fn the_route_of_an_offline_start_leads_nowhere() {
        let own = "weaver0\t00000000\tFF7100CB\t0003\t0\t0\t65535\t00000000\t0\t0\t0";
        let (dir, root) = fixture::host(&[(ROUTES, own)]);
        assert_eq!(uplink(&root), None);
        assert_eq!(wait(&root, POLL).await, None);
        assert!(finding(&root).is_some());
        std::fs::write(dir.path().join("proc/net/route"), format!("{own}\n{V4}\n")).unwrap();
        assert_eq!(wait(&root, Duration::ZERO).await.as_deref(), Some("eth0"));
        assert!(finding(&root).is_none());
    }
}

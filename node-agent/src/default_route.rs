//! Is there a default route? Without one no time server is reached, and k3s takes its address from it.

use weaver_diagnostics::catalogue;
use weaver_diagnostics::finding::{Code, Finding, Place, Severity};

use crate::host_root::HostRoot;

/// Where k3s looks, too.
pub(crate) const ROUTES: &str = "/proc/net/route";
const ROUTES_V6: &str = "/proc/net/ipv6_route";
/// Flags of a route: it is in use; it rejects what is sent.
const RTF_UP: u32 = 0x1;
const RTF_REJECT: u32 = 0x200;

/// A warning where there is none; one may come, and what cannot be read is not judged.
#[must_use]
pub fn finding(root: &HostRoot) -> Option<Finding> {
    root.read_if_possible(ROUTES)?;
    (!has_default_route(root)).then(|| {
        let message = "there is no default route: k3s takes its address from it and ends itself without one, unless `node-ip` and \
                       `advertise-address` are set";
        Finding::new(Severity::Warn, Code::NoDefaultRoute, message)
            .saw(Place::file(ROUTES), "no route to 0.0.0.0/0")
            .remedy(catalogue::entry(Code::NoDefaultRoute).remedy())
    })
}

pub(crate) fn has_default_route(root: &HostRoot) -> bool {
    let says = |path, judge: fn(&str) -> bool| {
        root.read_if_possible(path).is_some_and(|file| file.text.lines().any(judge))
    };
    says(ROUTES, is_default_v4) || says(ROUTES_V6, is_default_v6)
}

/// `Iface Destination Gateway Flags RefCnt Use Metric Mask …`, numbers in hex.
fn is_default_v4(line: &str) -> bool {
    let fields: Vec<_> = line.split_whitespace().collect();
    let (Some(&"00000000"), Some(&"00000000")) = (fields.get(1), fields.get(7)) else { return false };
    fields.get(3).is_some_and(|flags| is_usable(flags))
}

/// `destination length source length next-hop metric refcount use flags device`;
/// the kernel's own "unreachable" on `lo` looks like a default route too.
fn is_default_v6(line: &str) -> bool {
    let fields: Vec<_> = line.split_whitespace().collect();
    let [destination, length, .., flags, device] = &fields[..] else { return false };
    fields.len() == 10
        && destination.bytes().all(|digit| digit == b'0')
        && *length == "00"
        && *device != "lo"
        && is_usable(flags)
}

fn is_usable(flags: &str) -> bool {
    u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & RTF_UP != 0 && flags & RTF_REJECT == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert_eq!(is_default_v4(line), is_default, "{line}");
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
            assert_eq!(is_default_v6(&line), is_default, "{line}");
        }
    }
}

//! The network: is there a default route, are k3s' ports free, do two kinds of iptables rules mix?

use crate::finding::{Code, Finding, Place, RESTART_K3S, Remedy, Severity};
use crate::k3s_config::Effective;
use crate::k3s_unit::Setting;
use crate::k3s_upgrade::Role;

/// The routes of IPv4, where k3s looks, too.
pub const ROUTES: &str = "/proc/net/route";
/// The sockets of IPv4.
pub const SOCKETS: &str = "/proc/net/tcp";

/// The dummy interface of a start without a network.
pub const OFFLINE_DEVICE: &str = "weaver0";
/// Its address: of a block for documentation, which no network has.
pub const OFFLINE_ADDRESS: &str = "203.0.113.254";
/// There while k3s is pinned to that address; k3s' unit takes its flag from it.
pub const OFFLINE_RECORD: &str = "/run/weaver/k3s-offline.env";

/// The way from this host to its network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uplink {
    /// Whether the kernel's routes could be read.
    pub is_known: bool,
    /// The interface of a default route; that of an offline start does not count.
    pub device: Option<String>,
    /// Whether k3s was started without a network in this boot.
    pub is_offline_start: bool,
    /// Why the host could not be made ready for such a start.
    pub not_ready: Option<String>,
}

impl Uplink {
    /// A warning where there is no default route, for one may come. After an offline start another one replaces it: k3s
    /// runs without a network, and what to do once there is one.
    pub fn judge(&self, role: Role) -> Option<Finding> {
        if self.is_offline_start {
            return Some(offline_start(self.device.as_deref()));
        }
        (self.is_known && self.device.is_none()).then(|| {
            let message = "there is no default route: k3s takes its address from it and exits without one, \
                           unless `node-ip` and `advertise-address` are set";
            let finding = Finding::new(Code::NoDefaultRoute, message)
                .milder(Severity::Warn)
                .saw(Place::file(ROUTES), "no route to 0.0.0.0/0");
            let finding = match role {
                Role::Server => finding,
                // Through the dummy interface the server is not reachable.
                Role::Agent => {
                    finding.remedy(Remedy::new("connect the network; k3s then continues by itself"))
                }
            };
            match &self.not_ready {
                Some(why) => finding.saw(Place::file("weaver-preflight.service"), why),
                None => finding,
            }
        })
    }
}

fn offline_start(device: Option<&str>) -> Finding {
    let (message, is_to_do, saw) = match device {
        None => (
            format!(
                "there was no network when k3s started, so the card gave it {OFFLINE_ADDRESS} until the next boot. \
                k3s works; once a network is connected, this finding says what to do"
            ),
            false,
            format!("no route to 0.0.0.0/0 but by {OFFLINE_DEVICE}"),
        ),
        Some(device) => (
            format!(
                "k3s was started without a network, and {device} has one now. Restart k3s to use its address instead \
                of {OFFLINE_ADDRESS} in the node, in the certificate and for nodes that join"
            ),
            true,
            format!("a default route by {device}"),
        ),
    };
    let finding = Finding::new(Code::OfflineStart, message)
        .saw(Place::file(OFFLINE_RECORD), format!("k3s has {OFFLINE_ADDRESS}"))
        .saw(Place::file(ROUTES), saw);
    if is_to_do { finding } else { finding.without_remedy() }
}

/// The interfaces of this host.
pub const INTERFACES: &str = "/sys/class/net";
/// How the kernel and systemd begin the names of network cards.
const CARDS: [&str; 3] = ["eth", "en", "wl"];

/// A warning where `flannel-iface` names a network card that is not there: k3s exits, and is started again until it is.
/// What is no card, such as a VLAN or a VPN, may be made later.
pub fn missing_interface(named: &Setting, there: &[String]) -> Option<Finding> {
    let is_card =
        |name: &str| CARDS.iter().any(|start| name.starts_with(start)) && !name.contains(['.', ':', '@']);
    let Setting { value: name, origin } = named;
    let cards: Vec<_> = there.iter().map(String::as_str).filter(|name| is_card(name)).collect();
    if !is_card(name) || cards.is_empty() || there.contains(name) {
        return None;
    }
    let what = format!(
        "flannel-iface names {name}, and this machine has {}: k3s does not start without it",
        cards.join(", ")
    );
    let remedy = Remedy::new(
        "write the interface that has this node's address, or remove the setting: k3s then takes that of the default \
         route",
    );
    let remedy = remedy.command("ip -brief address").command(RESTART_K3S);
    let finding = Finding::at(Code::K3sConfigWrongType, origin.clone(), &what);
    Some(finding.remedy(remedy).milder(Severity::Warn))
}

const KUBELET: u16 = 10_250;

/// The ports that k3s listens on: of a server the API server's, and the one above it; of an agent its load balancer's,
/// where it has one. With a kubelet that one's.
pub fn ports_of_k3s(role: Role, effective: &Effective, api_port: u16) -> Vec<u16> {
    let above = api_port.saturating_add(1);
    let mut ports = match role {
        Role::Server => vec![api_port, above],
        Role::Agent if effective.disable_apiserver_lb => Vec::new(),
        Role::Agent => vec![above],
    };
    ports.extend((!effective.disable_agent).then_some(KUBELET));
    ports
}

/// A port of k3s on which something listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenPort {
    pub port: u16,
    /// The program that listens, where the kernel shows it, such as `nginx (process 812)`.
    pub holder: Option<String>,
}

/// Which of k3s' ports are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct K3sPorts {
    pub taken: Vec<TakenPort>,
    /// Whether k3s runs, or may: its own ports are its own.
    pub k3s_runs: bool,
}

impl K3sPorts {
    /// A warning where another program has one: k3s exits and restarts in a loop. No more than a warning,
    /// since two programs can have one port at different addresses.
    pub fn judge(&self) -> Option<Finding> {
        let first = self.taken.first().filter(|_| !self.k3s_runs)?;
        let all = self.taken.iter().map(|taken| taken.port.to_string()).collect::<Vec<_>>().join(", ");
        let message = format!("port {all} is in use by another program, and k3s may not start");
        let holder = first.holder.as_deref().unwrap_or("something");
        let port = first.port;
        Some(
            Finding::new(Code::PortTaken, message)
                .saw(Place::file(SOCKETS), format!("{holder} listens on port {port}")),
        )
    }
}

/// The `iptables` that k3s takes, and what is loaded of the older kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iptables {
    pub program: String,
    /// The file that its links end at.
    pub leads_to: String,
    /// The kernel's list of tables of the older kind, and what it has; `None` where there are none.
    pub legacy_tables: Option<(String, Vec<String>)>,
}

impl Iptables {
    /// Where both kinds may be in use, packets are judged by both, and Services seem to work by chance
    /// (k3s-io/k3s#703, rancher/docs#2370). Only tables are seen, not whether they have rules; kernels before 5.15 have
    /// them as soon as k3s loads the modules. A host of the older kind does not show whether there are rules of the
    /// newer.
    pub fn judge(&self) -> Option<Finding> {
        let name = self.leads_to.rsplit('/').next()?;
        let (place, tables) = self.legacy_tables.as_ref().filter(|_| name.contains("nft"))?;
        let message = "iptables uses nft, and tables of legacy iptables are loaded as well: whether they hold rules is unknown";
        Some(
            Finding::new(Code::IptablesMixed, message)
                .saw(Place::file(&self.program), format!("leads to {}", self.leads_to))
                .saw(Place::file(place), tables.join(", ")),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_default_route_and_an_offline_start() {
        for (is_known, device, is_offline_start, want) in [
            (false, None, false, None),
            (true, None, false, Some((Code::NoDefaultRoute, "unless `node-ip`", true))),
            (true, Some("eth0"), false, None),
            (true, None, true, Some((Code::OfflineStart, "until the next boot", false))),
            (false, None, true, Some((Code::OfflineStart, "until the next boot", false))),
            (true, Some("eth0"), true, Some((Code::OfflineStart, "eth0 has one now. Restart k3s", true))),
        ] {
            let device = device.map(Into::into);
            let uplink = Uplink { is_known, device, is_offline_start, not_ready: None };
            let found = uplink.judge(Role::Server);
            assert_eq!(found.as_ref().map(|found| found.code), want.map(|want| want.0), "{uplink:?}");
            let (Some(found), Some((_, words, is_to_do))) = (found, want) else { continue };
            assert!(found.message.contains(words) && found.severity() == Severity::Warn, "{found:?}");
            assert_eq!(found.remedy.is_some(), is_to_do, "{found:?}");
        }
    }

    #[test]
    fn a_missing_default_route_says_why_the_host_was_not_made_ready_without_one() {
        let not_ready = Some("no dummy interface".to_owned());
        let lost = Uplink { is_known: true, not_ready, ..Uplink::default() };
        let lost = lost.judge(Role::Server).unwrap();
        assert_eq!(lost.evidence[1].to_string(), "weaver-preflight.service: no dummy interface");
    }

    #[test]
    fn a_node_that_joins_has_no_use_for_an_interface_that_leads_nowhere() {
        let lost = Uplink { is_known: true, ..Uplink::default() };
        for (role, has_commands) in [(Role::Server, true), (Role::Agent, false)] {
            let remedy = lost.judge(role).and_then(|found| found.remedy).unwrap();
            assert_eq!(!remedy.commands.is_empty(), has_commands, "{remedy:?}");
            assert!(remedy.explain.starts_with("connect the network"), "{remedy:?}");
        }
    }

    #[test]
    fn a_card_that_flannel_is_to_use_and_that_is_not_there() {
        for (name, there, want) in [
            (
                "eth0",
                &["end0", "flannel.1", "lo", "wlan0"][..],
                Some("names eth0, and this machine has end0, wlan0"),
            ),
            ("eth0", &["eth0", "lo"], None),
            ("eth0", &["lo"], None),
            ("eth0", &[], None),
            ("eth0.10", &["eth0", "lo"], None),
            ("wg0", &["eth0", "lo"], None),
            ("tailscale0", &["eth0", "lo"], None),
        ] {
            let named = Setting { value: name.into(), origin: Place::at("/c.yaml", 2, 16) };
            let there: Vec<_> = there.iter().map(|name| (*name).to_owned()).collect();
            let found = missing_interface(&named, &there);
            assert_eq!(found.is_some(), want.is_some(), "{name}: {found:?}");
            let (Some(found), Some(want)) = (found, want) else { continue };
            assert!(
                found.message.starts_with("/c.yaml:2:16: flannel-iface") && found.message.contains(want),
                "{found:?}"
            );
            assert_eq!((found.code, found.severity()), (Code::K3sConfigWrongType, Severity::Warn));
        }
    }

    #[test]
    fn ports_that_another_program_has() {
        let usual = Effective::default();
        let no_kubelet = Effective { disable_agent: true, ..Effective::default() };
        let no_balancer = Effective { disable_apiserver_lb: true, ..Effective::default() };
        for (role, effective, want) in [
            (Role::Server, &usual, &[6443, 6444, 10_250][..]),
            (Role::Server, &no_kubelet, &[6443, 6444]),
            (Role::Server, &no_balancer, &[6443, 6444, 10_250]),
            (Role::Agent, &usual, &[6444, 10_250]),
            (Role::Agent, &no_balancer, &[10_250]),
        ] {
            assert_eq!(ports_of_k3s(role, effective, 6443), want, "{role:?} {effective:?}");
        }
        let taken = |port, holder: Option<&str>| TakenPort { port, holder: holder.map(Into::into) };
        for (taken, k3s_runs, want) in [
            (vec![], false, None),
            (vec![taken(6443, None)], true, None),
            (vec![taken(6443, None)], false, Some(("port 6443 is in use", "something listens on port 6443"))),
            (
                vec![taken(6443, Some("nginx (process 812)")), taken(10_250, None)],
                false,
                Some(("port 6443, 10250 is in use", "nginx (process 812) listens on port 6443")),
            ),
        ] {
            let ports = K3sPorts { taken, k3s_runs };
            let found = ports.judge();
            assert_eq!(found.is_some(), want.is_some(), "{ports:?}");
            let (Some(found), Some((message, saw))) = (found, want) else { continue };
            assert!(found.message.starts_with(message), "{found:?}");
            assert_eq!(found.evidence[0].saw, saw);
            assert_eq!(found.remedy.unwrap().commands, ["sudo ss -ltnp", "sudo systemctl stop SERVICE"]);
        }
    }

    #[test]
    fn both_kinds_of_iptables_at_once() {
        let judged = |leads_to: &str, tables: Option<&[&str]>| {
            let tables = tables.map(|tables| tables.iter().map(|table| (*table).to_owned()).collect());
            let legacy_tables = tables.map(|tables| ("/proc/net/ip_tables_names".to_owned(), tables));
            Iptables { program: "/usr/sbin/iptables".into(), leads_to: leads_to.into(), legacy_tables }
                .judge()
        };
        let nft = "/usr/sbin/xtables-nft-multi";
        assert_eq!(judged(nft, None), None);
        assert_eq!(judged("/usr/sbin/xtables-legacy-multi", Some(&["filter", "nat"])), None);
        assert_eq!(
            judged("/opt/nft/iptables", Some(&["filter"])),
            None,
            "only the program's own name counts"
        );
        let mixed = judged(nft, Some(&["filter", "nat"])).unwrap();
        assert_eq!(mixed.code, Code::IptablesMixed);
        assert_eq!(mixed.evidence[0].to_string(), "/usr/sbin/iptables: leads to /usr/sbin/xtables-nft-multi");
        assert_eq!(mixed.evidence[1].to_string(), "/proc/net/ip_tables_names: filter, nat");
    }
}

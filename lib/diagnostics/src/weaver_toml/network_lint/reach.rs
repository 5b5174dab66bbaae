//! Whether a card with this file has an address, a way out of its network and names: what its interfaces say together.

use super::{KINDS, NetworkLint};
use crate::yaml_node::YamlNode;

/// Kinds that have addresses too, and are not looked into.
const OTHERS: [&str; 4] = ["bonds", "tunnels", "vrfs", "modems"];

impl NetworkLint<'_> {
    pub(super) fn reach(&mut self, network: &YamlNode) {
        let is_version_2 = network.text("version") == Some("2");
        let has_others = OTHERS.iter().any(|kind| network.get(kind).is_some());
        let kinds = KINDS.iter().filter_map(|kind| network.get(kind));
        let interfaces: Vec<_> = kinds.flat_map(YamlNode::entries).collect();
        let Some((name, _)) = interfaces.first().filter(|_| is_version_2 && !has_others) else { return };
        let is_static = |body: &YamlNode| body.get("addresses").is_some_and(|list| !list.items().is_empty());
        let dynamic = interfaces.iter().any(|(_, body)| is_dynamic(body));
        if let Some((name, port)) = no_port_of_a_pi(network) {
            let what = format!("the card has no interface `{port}`: its wired port is eth0");
            self.fault(name, &what, "write eth0, or `match: {name: \"e*\"}` below it");
        } else if !dynamic && !interfaces.iter().any(|(_, body)| is_static(body)) {
            self.fault(
                name,
                "no interface of this file gets an address, so the card is in no network",
                "write `dhcp4: true` below it, or `addresses` with `routes`",
            );
        } else if !dynamic && !interfaces.iter().any(|(_, body)| has_default(body)) {
            self.fault(
                name,
                "no interface of this file has a default route, and k3s does not start without one (H-01)",
                "write `routes: [{to: default, via: ADDRESS}]` below it, with the router's address",
            );
        } else if !dynamic && !interfaces.iter().any(|(_, body)| has_name_server(body)) {
            self.fault(
                name,
                "no interface of this file has a name server, so no image is pulled unless the router announces one",
                "write `nameservers: {addresses: [ADDRESS]}` below it, with the router's address",
            );
        }
    }
}

/// Whether it takes address, routes and name servers from the network.
fn is_dynamic(body: &YamlNode) -> bool {
    let is_on = |node: &YamlNode| !matches!(node.as_str(), Some("false" | "no" | "off" | "n"));
    ["dhcp4", "dhcp6"].iter().any(|key| body.get(key).is_some_and(is_on))
}

fn has_default(body: &YamlNode) -> bool {
    let to = |route: &YamlNode| matches!(route.text("to"), Some("default" | "0.0.0.0/0" | "::/0" | "0/0"));
    ["gateway4", "gateway6"].iter().any(|key| body.get(key).is_some())
        || body.get("routes").is_some_and(|routes| routes.items().iter().any(to))
}

fn has_name_server(body: &YamlNode) -> bool {
    let servers = body.get("nameservers").and_then(|servers| servers.get("addresses"));
    servers.is_some_and(|servers| !servers.items().is_empty())
}

/// The only interface, by a name that a PC gives its port; the card's kernel names ports in the old way.
fn no_port_of_a_pi(network: &YamlNode) -> Option<(&YamlNode, &str)> {
    let is_pcs = |name: &str| {
        let rest = ["enp", "eno", "ens"].iter().find_map(|start| name.strip_prefix(start));
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let wired = network.get("ethernets")?.entries();
    let is_absent = |(name, body): &(YamlNode, YamlNode)| {
        name.as_str().is_some_and(is_pcs) && body.get("match").is_none()
    };
    let has_wifi = network.get("wifis").is_some_and(|wifis| !wifis.entries().is_empty());
    let (name, _) = wired.first().filter(|_| !has_wifi && wired.iter().all(is_absent))?;
    Some((name, name.as_str()?))
}

//! `[network]` next to a `network-config` that sets the wired network otherwise.
//!
//! networkd takes the first file that matches a port, and that of `[network]` sorts first: all that `network-config`
//! says of the port is lost, an address that `[network]` does not have included. That it asks for DHCP is no
//! contradiction: Raspberry Pi Imager always writes so.

use std::net::IpAddr;

use super::{Config, Network};
use crate::{
    finding::{Code, Finding, Place, Remedy},
    text_file::TextFile,
    yaml_node::{self, YamlNode},
};

/// Both set the wired network, and not to the same. A `network-config` that is no YAML says nothing here.
pub fn clash(weaver_toml: &str, config: &Config, network_config: &TextFile) -> Option<Finding> {
    let ours = &config.network;
    let (line, column) = ours.at?;
    let root = yaml_node::parse(&network_config.text).ok()?;
    // cloud-init takes the content of `network:` on its own, too.
    let network = root.get("network").unwrap_or(&root);
    let ports = network.get("ethernets").map_or(&[][..], YamlNode::entries);
    let lost: Vec<_> =
        ports.iter().filter(|port| is_wired(port)).flat_map(|(_, port)| lost(ours, port)).collect();
    if lost.is_empty() {
        return None;
    }
    let theirs = &network_config.path;
    let message = format!("{theirs} and {weaver_toml} both set the wired network: {weaver_toml} wins");
    let remedy = format!("remove these lines from {theirs}, or [network] from {weaver_toml}");
    let finding = Finding::new(Code::UserDataClash, message)
        .saw(Place::at(weaver_toml, line, column), in_force(ours))
        .remedy(Remedy::new(remedy));
    Some(lost.into_iter().fold(finding, |finding, (node, what)| {
        finding.saw(Place::at(theirs, node.line, node.column), format!("{what}, which is not set"))
    }))
}

fn in_force(ours: &Network) -> String {
    let mut parts = vec![match ours.address {
        Some(address) => format!("address {address}"),
        None => "no `address`, so DHCP".to_owned(),
    }];
    parts.extend(ours.gateway.map(|gateway| format!("gateway {gateway}")));
    parts.extend(ours.dns.iter().map(|server| format!("name server {server}")));
    parts.join(", ")
}

/// Whether `[network]` is for this port too: its name begins with an `e`.
fn is_wired((id, port): &(YamlNode, YamlNode)) -> bool {
    let name = match port.get("match") {
        Some(of) => of.get("name"),
        None => Some(id),
    };
    name.and_then(YamlNode::as_str).is_none_or(|name| name.starts_with(['e', '*']))
}

/// What the port is to have, and `[network]` does not.
fn lost<'n>(ours: &Network, port: &'n YamlNode) -> Vec<(&'n YamlNode, String)> {
    let items = |node: Option<&'n YamlNode>| node.map_or(&[][..], YamlNode::items);
    let ip = |node: &YamlNode| node.as_str().and_then(|text| text.parse::<IpAddr>().ok());
    let mut lost = Vec::new();
    for node in items(port.get("addresses")) {
        let parts = node.as_str().and_then(|text| text.split_once('/'));
        let address = parts.and_then(|(ip, prefix)| Some((ip.parse().ok()?, prefix.parse().ok()?)));
        let Some((ip, prefix)) = address else { continue };
        if ours.address.is_none_or(|own| (own.ip, own.prefix) != (ip, prefix)) {
            lost.push((node, format!("address {ip}/{prefix}")));
        }
    }
    let is_default = |route: &&YamlNode| matches!(route.text("to"), Some("default" | "0.0.0.0/0" | "::/0"));
    let vias = items(port.get("routes")).iter().filter(is_default).filter_map(|route| route.get("via"));
    let gateways = ["gateway4", "gateway6"].iter().filter_map(|key| port.get(key));
    for node in gateways.chain(vias) {
        lost.extend(
            ip(node).filter(|ip| ours.gateway != Some(*ip)).map(|ip| (node, format!("gateway {ip}"))),
        );
    }
    for node in items(port.get("nameservers").and_then(|servers| servers.get("addresses"))) {
        let other = ip(node).filter(|ip| !ours.dns.contains(ip));
        lost.extend(other.map(|ip| (node, format!("name server {ip}"))));
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{finding::Severity, weaver_toml};

    const OURS: &str =
        "[network]\naddress = \"192.168.1.20/24\"\ngateway = \"192.168.1.1\"\ndns = [\"192.168.1.1\"]\n";

    fn of(ours: &str, theirs: &str) -> Option<Finding> {
        let config = weaver_toml::parse(ours.as_bytes()).unwrap().config;
        clash("/w", &config, &TextFile::new("/n", theirs))
    }

    #[test]
    fn both_lines_are_named_and_who_wins() {
        let theirs = "network:\n  version: 2\n  ethernets:\n    eth0:\n      addresses: [192.168.1.10/24]\n      routes:\n\
                      \x20     - {to: default, via: 192.168.2.1}\n      nameservers: {addresses: [192.168.1.1, 9.9.9.9]}\n";
        let finding = of(OURS, theirs).unwrap();
        assert_eq!((finding.code, finding.severity()), (Code::UserDataClash, Severity::Warn));
        assert_eq!(finding.message, "/n and /w both set the wired network: /w wins");
        let seen: Vec<_> = finding.evidence.iter().map(ToString::to_string).collect();
        assert_eq!(
            seen,
            [
                "/w:2:1: address 192.168.1.20/24, gateway 192.168.1.1, name server 192.168.1.1",
                "/n:5:19: address 192.168.1.10/24, which is not set",
                "/n:7:28: gateway 192.168.2.1, which is not set",
                "/n:8:46: name server 9.9.9.9, which is not set",
            ]
        );
        let only_dns = of("[network]\ndns = [\"192.168.1.1\"]\n", theirs).unwrap();
        assert_eq!(
            only_dns.evidence[0].to_string(),
            "/w:2:1: no `address`, so DHCP, name server 192.168.1.1"
        );
        let matched = "ethernets: {lan: {match: {name: \"en*\"}, gateway4: 10.0.0.1}}\n";
        assert_eq!(of(OURS, matched).unwrap().evidence.len(), 2);
    }

    #[test]
    fn the_same_or_dhcp_or_another_port_is_no_clash() {
        for theirs in [
            "",
            "\t- no yaml",
            include_str!("../../../../tests/fixtures/imager/wifi/network-config"),
            "ethernets: {eth0: {addresses: [192.168.1.20/24], gateway4: 192.168.1.1, nameservers: {addresses: [192.168.1.1]}}}\n",
            "ethernets: {usb0: {addresses: [10.0.0.2/24]}}\n",
            "ethernets: {lan: {match: {name: usb0}, addresses: [10.0.0.2/24]}}\n",
            "wifis: {wlan0: {addresses: [10.0.0.2/24], access-points: {a: {}}}}\n",
            "ethernets: {eth0: {addresses: [raspi]}}\n",
        ] {
            assert_eq!(of(OURS, theirs), None, "{theirs}");
        }
        assert_eq!(of("hostname = \"pi\"\n", "ethernets: {eth0: {addresses: [10.0.0.2/24]}}\n"), None);
    }
}

//! Keys and types of a `network-config` that netplan refuses, or that do not mean what was meant. Pure.
//!
//! netplan refuses the whole file for one key that it does not know, and the node then has no network. Only
//! what is wrong in every version: the newer ones know more keys than any table. Passwords are never
//! repeated.

mod below;
mod key_faults;

use std::net::IpAddr;

use self::below::{NAMESERVERS, ROUTE};
pub(super) use self::key_faults::KeyFault;
use self::key_faults::{KINDS, KeyFaults};
use super::wifi::{LONGEST_SSID, has_password_length};
use crate::yaml_node::{YamlNode, YamlValue};

/// Keys of an interface that people write, and what netplan calls them.
const MEANT: [(&str, &str); 13] = [
    ("dhcp", "dhcp4: true"),
    ("gateway", "routes: [{to: default, via: ADDRESS}]"),
    ("address", "addresses: [192.168.1.5/24]"),
    ("ip", "addresses: [192.168.1.5/24]"),
    ("dns", "nameservers: {addresses: [ADDRESS]}"),
    ("nameserver", "nameservers: {addresses: [ADDRESS]}"),
    ("dns-nameservers", "nameservers: {addresses: [ADDRESS]}"),
    ("route", "routes: [{to: default, via: ADDRESS}]"),
    ("access-point", "access-points: {\"NAME\": {password: PASSWORD}}"),
    ("accesspoints", "access-points: {\"NAME\": {password: PASSWORD}}"),
    ("ssid", "access-points: {\"NAME\": {password: PASSWORD}}"),
    ("country", "regulatory-domain: DE"),
    ("netmask", "addresses: [192.168.1.5/24]"),
];
/// Keys of an interface that have a hyphen, and that people write with an underscore.
const HYPHENED: [&str; 8] = [
    "access-points",
    "regulatory-domain",
    "set-name",
    "dhcp4-overrides",
    "dhcp6-overrides",
    "optional-addresses",
    "routing-policy",
    "link-local",
];
/// Keys of an interface in every version of netplan, near which others are misspelled.
const KNOWN: [&str; 14] = [
    "addresses",
    "dhcp4",
    "dhcp6",
    "routes",
    "nameservers",
    "optional",
    "access-points",
    "gateway4",
    "gateway6",
    "macaddress",
    "set-name",
    "renderer",
    "interfaces",
    "regulatory-domain",
];
const KEY_MANAGEMENT: [&str; 8] =
    ["none", "psk", "psk-sha256", "sae", "eap", "eap-sha256", "eap-suite-b-192", "802.1x"];

/// What is wrong in it; the radio is left out where weaver.toml has it. `written` is a scalar without quotes
/// as it is in the file: of a number the zeros at its start are gone otherwise.
pub(super) fn faults<'n>(
    network: &'n YamlNode,
    wifi_is_ours: bool,
    written: &dyn Fn(&YamlNode) -> Option<String>,
) -> Vec<KeyFault<'n>> {
    let mut found = KeyFaults(Vec::new());
    found.top(network);
    for kind in KINDS.into_iter().filter(|kind| !(wifi_is_ours && *kind == "wifis")) {
        let Some(interfaces) = network.get(kind) else { continue };
        found.doubles(interfaces);
        found.renderer(interfaces);
        let of_all = |key: &YamlNode| key.as_str() == Some("renderer");
        for (name, body) in interfaces.entries().iter().filter(|(key, _)| !of_all(key)) {
            found.doubles(body);
            found.keys(kind, body);
            found.types(name, body);
            found.addresses(body);
            found.routes(body);
            for route in body.list("routes") {
                found.below(&ROUTE, route);
            }
            if let Some(servers) = body.get("nameservers") {
                found.below(&NAMESERVERS, servers);
            }
            if kind == "wifis" {
                found.radio(name, body, written);
            }
        }
    }
    found.0
}

impl<'n> KeyFaults<'n> {
    fn top(&mut self, network: &'n YamlNode) {
        let version = network.text("version");
        let mut kind = network.entries().iter().map(|(key, _)| key);
        let kind = kind.find(|key| key.as_str().is_some_and(|key| KINDS.contains(&key)));
        if let (Some("1"), Some(key)) = (version, kind) {
            self.add(key, "version 1 has `config`, and not this key", "write `version: 2`");
        }
        if let (Some("2"), Some(config)) = (version, network.get("config"))
            && config.as_str().is_none()
        {
            self.add(config, "version 2 has no `config`", "write `version: 1`");
        }
        if version != Some("1") {
            self.kinds(network);
        }
        self.renderer(network);
    }

    fn renderer(&mut self, of: &'n YamlNode) {
        let Some(renderer) = of.get("renderer") else { return };
        if !matches!(renderer.as_str(), Some("NetworkManager" | "networkd" | "sriov")) {
            self.add(
                renderer,
                "there is no renderer of this name, so netplan refuses the file",
                "write NetworkManager or networkd",
            );
        }
    }

    /// The same key twice: the first is lost.
    fn doubles(&mut self, map: &'n YamlNode) {
        let entries = map.entries();
        for (at, (key, _)) in entries.iter().enumerate() {
            let is_same = |(other, _): &&(YamlNode, YamlNode)| other.as_str() == key.as_str();
            if entries.get(at + 1..).unwrap_or_default().iter().any(|entry| is_same(&entry)) {
                let what = "the same key is repeated further down, which overrides this one";
                self.add(key, what, "write all of it below one of them");
            }
        }
    }

    fn keys(&mut self, kind: &str, body: &'n YamlNode) {
        for (key, _) in body.entries() {
            let Some(name) = key.as_str() else { continue };
            let hyphened = name.replace('_', "-");
            let mistake = MEANT.iter().find(|(wrong, _)| *wrong == hyphened).map(|(_, meant)| *meant);
            let with_hyphen = || HYPHENED.into_iter().find(|known| name != hyphened && *known == hyphened);
            if let Some(meant) = mistake.or_else(with_hyphen).or_else(|| misspelled(name)) {
                self.unknown(key, "", meant);
            } else if name == "access-points" && kind != "wifis" {
                let what = format!("`{kind}` have no `access-points`, so netplan refuses the file");
                self.add(key, what, "write the interface below `wifis`");
            }
        }
    }

    fn types(&mut self, name: &'n YamlNode, body: &'n YamlNode) {
        if !matches!(body.value, YamlValue::Map(_) | YamlValue::Null) {
            self.add(name, "an interface is a mapping", "write its settings below it, indented");
        }
        let is_list = |value: &YamlValue| matches!(value, YamlValue::List(_) | YamlValue::Null);
        let is_map = |value: &YamlValue| matches!(value, YamlValue::Map(_) | YamlValue::Null);
        for (key, is_right, example) in [
            ("addresses", is_list as fn(&YamlValue) -> bool, "a list: addresses: [192.168.1.5/24]"),
            ("routes", is_list, "a list: routes: [{to: default, via: 192.168.1.1}]"),
            ("nameservers", is_map, "a mapping: nameservers: {addresses: [192.168.1.1]}"),
            ("access-points", is_map, "a mapping: access-points: {\"NAME\": {password: PASSWORD}}"),
        ] {
            if let Some(value) = body.get(key).filter(|value| !is_right(&value.value)) {
                let what = format!("`{key}` is {}, and netplan refuses the file", value.value.kind());
                self.add(value, what, format!("write {example}"));
            }
        }
        let servers = body.get("nameservers").filter(|servers| is_map(&servers.value));
        for key in ["addresses", "search"] {
            let value = servers.and_then(|servers| servers.get(key));
            if let Some(value) = value.filter(|value| !is_list(&value.value)) {
                let what = format!(
                    "`{key}` of `nameservers` is {}, and netplan refuses the file",
                    value.value.kind()
                );
                self.add(value, what, format!("write a list: {key}: [VALUE]"));
            }
        }
        for key in ["dhcp4", "dhcp6", "optional"] {
            let is_truth = |text: &str| {
                let words = ["y", "yes", "n", "no", "on", "off", "true", "false"];
                words.contains(&text.to_ascii_lowercase().as_str())
            };
            if let Some(value) = body.get(key).filter(|value| !value.as_str().is_some_and(is_truth)) {
                self.add(value, format!("`{key}` is neither true nor false"), format!("write `{key}: true`"));
            }
        }
        self.renderer(body);
    }

    /// Routers and servers of names that are no addresses.
    fn addresses(&mut self, body: &'n YamlNode) {
        let gateways = ["gateway4", "gateway6"].iter().filter_map(|key| body.get(key));
        let routes = body.list("routes");
        let vias = routes.iter().filter_map(|route| route.get("via"));
        let servers = body.get("nameservers").and_then(|servers| servers.get("addresses"));
        let servers = servers.map_or(&[][..], YamlNode::items);
        for node in gateways.chain(vias).chain(servers) {
            // A zone, or the name in a certificate, may stand behind it.
            let text = node.as_str().map(|text| text.split(['%', '#']).next().unwrap_or(text));
            if text.is_some_and(|text| text.parse::<IpAddr>().is_err()) {
                self.add(
                    node,
                    "this is no IP address, so netplan refuses the file",
                    "write one, such as 192.168.1.1",
                );
            }
        }
    }

    /// Default routes of one interface, and gateways that it cannot reach.
    fn routes(&mut self, body: &'n YamlNode) {
        let mut vias: Vec<(&YamlNode, IpAddr)> = Vec::new();
        let mut defaults = Vec::new();
        for gateway in ["gateway4", "gateway6"] {
            let Some(node) = body.get(gateway) else { continue };
            let via = node.as_str().and_then(|text| text.parse().ok());
            vias.extend(via.map(|via| (node, via)));
            defaults.extend(via.map(|via: IpAddr| (node, via.is_ipv4())));
        }
        for route in body.list("routes") {
            let via = route.get("via");
            if via.is_some() && route.get("to").is_none() && !route.entries().is_empty() {
                let what = "a route has no `to`, and netplan refuses the file";
                self.add(route, what, "write `to: default` next to `via`");
            }
            let address = via.and_then(|via| via.as_str()?.parse::<IpAddr>().ok());
            let Some((via, address)) = via.zip(address) else { continue };
            if route.text("on-link") != Some("true") {
                vias.push((via, address));
            }
            let to = route.text("to");
            if matches!(to, Some("default" | "0.0.0.0/0" | "::/0"))
                && route.get("metric").is_none()
                && route.get("table").is_none()
            {
                defaults.push((route, address.is_ipv4()));
            }
        }
        for is_v4 in [true, false] {
            if let [_, (second, _), ..] =
                defaults.iter().filter(|(_, v4)| *v4 == is_v4).collect::<Vec<_>>()[..]
            {
                let what = "this interface has a second default route with the same metric";
                self.add(second, what, "keep one, or give it a larger `metric` in `routes`");
            }
        }
        let networks: Vec<(IpAddr, u32)> = body
            .list("addresses")
            .iter()
            .filter_map(|node| {
                let (address, prefix) = node.as_str()?.split_once('/')?;
                Some((address.parse().ok()?, prefix.parse().ok()?))
            })
            .collect();
        for (node, via) in vias {
            if networks.iter().any(|(ip, _)| *ip == via) {
                let what = "the gateway is the address of this interface itself, so it leads nowhere";
                self.add(node, what, "write the router's address");
                continue;
            }
            // With DHCP the network is not known.
            let dhcp = if via.is_ipv4() { "dhcp4" } else { "dhcp6" };
            let by_dhcp = body.get(dhcp).is_some_and(|value| value.as_str() != Some("false"));
            let mut of_family = networks.iter().filter(|(ip, _)| ip.is_ipv4() == via.is_ipv4()).peekable();
            let is_local = matches!(via, IpAddr::V6(ip) if ip.is_unicast_link_local());
            if by_dhcp || is_local || of_family.peek().is_none() {
                continue;
            }
            if !of_family.any(|(ip, prefix)| is_in(via, *ip, *prefix)) {
                let what = "the gateway is in no network of this interface, so it cannot be reached";
                self.add(node, what, "write the router's address, or another address or prefix length above");
            }
        }
    }

    fn radio(
        &mut self,
        name: &'n YamlNode,
        body: &'n YamlNode,
        written: &dyn Fn(&YamlNode) -> Option<String>,
    ) {
        self.above_access_points(body);
        let Some(points) = body.get("access-points") else {
            let is_meant = |(key, _): &(YamlNode, YamlNode)| {
                let key = key.as_str().unwrap_or_default().replace('_', "-");
                key == "access-points"
                    || MEANT.iter().any(|(wrong, to)| *wrong == key && to.starts_with("access"))
            };
            if !body.entries().iter().any(is_meant) {
                let what = "a Wi-Fi interface has no `access-points`, so netplan refuses the file";
                self.add(name, what, "write access-points: {\"NAME\": {password: PASSWORD}}");
            }
            return;
        };
        self.access_points(points);
        for (name, point) in points.entries() {
            if name.as_str().is_some_and(|name| name.len() > LONGEST_SSID) {
                let what = "the Wi-Fi's name has more than 32 bytes, which none has";
                self.add(name, what, "write the name as the router sends it");
            }
            let auth = point.get("auth");
            let management = auth.and_then(|auth| auth.get("key-management"));
            if let Some(node) = management
                && !node.as_str().is_some_and(|text| KEY_MANAGEMENT.contains(&text))
            {
                let what = "there is no key management of this name, so netplan refuses the file";
                self.add(node, what, "write psk (WPA2) or sae (WPA3)");
            }
            let is_psk = management.and_then(YamlNode::as_str).is_none_or(|text| text.starts_with("psk"));
            let password = point.get("password").or_else(|| auth?.get("password"));
            let Some((node, text)) =
                password.filter(|_| is_psk).and_then(|node| Some((node, node.as_str()?)))
            else {
                continue;
            };
            let as_written = written(node);
            let text = as_written.as_deref().unwrap_or(text);
            if !text.is_empty() && !has_password_length(text) {
                let what = "the Wi-Fi's password has neither 8 to 63 characters nor 64 hexadecimal digits, so \
                    netplan refuses the file";
                self.add(node, what, "write the router's password");
            }
        }
    }
}

/// The key that was meant: a letter too few or too many, or two the wrong way round.
fn misspelled(name: &str) -> Option<&'static str> {
    let is_near = |known: &&str| name != *known && strsim::damerau_levenshtein(name, known) == 1;
    let is_known = KNOWN.contains(&name);
    KNOWN.into_iter().find(|known| !is_known && is_near(known))
}

/// Whether an address is in the network of another one.
fn is_in(one: IpAddr, other: IpAddr, prefix: u32) -> bool {
    let bits = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => u128::from(u32::from(ip)) << 96,
        IpAddr::V6(ip) => u128::from(ip),
    };
    let mask = u128::MAX.checked_shl(128_u32.saturating_sub(prefix)).unwrap_or(0);
    bits(one) & mask == bits(other) & mask
}

#[cfg(test)]
mod tests;

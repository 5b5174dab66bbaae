//! What is wrong with cloud-init's `network-config` besides its syntax: a card with it starts and is then not
//! reachable. Pure; passwords are never repeated.

mod encoded;
mod reach;

use std::net::IpAddr;

use self::encoded::{encoded_twice, in_printed_quotes, unescaped};
use super::{Config, netplan_keys, wifi};
use crate::finding::{Code, Finding, Place, Remedy};
use crate::text_file::TextFile;
use crate::yaml_node::{self, ODD_INDENT, YamlNode, YamlValue};

/// Kinds of interfaces that have addresses.
const KINDS: [&str; 4] = ["ethernets", "wifis", "bridges", "vlans"];

/// What is wrong with it. The radio is left out where `weaver.toml` has one, which then counts.
pub fn lint(file: &TextFile, config: &Config) -> Vec<Finding> {
    let wifi_is_ours = config.wifi.is_some();
    let mut found = NetworkLint { file, findings: Vec::new() };
    let root = match yaml_node::parse(&file.text) {
        Ok(root) => root,
        Err(error) => {
            let place = Place { file: file.path.clone(), line: error.line, column: error.column };
            let what = format!("it is not YAML, so no network of this file is set up: {}", error.message);
            let remedy = Remedy::new(yaml_node::correction(&file.text, error.line));
            return vec![Finding::at(Code::NetworkConfigFault, place, &what).remedy(remedy)];
        }
    };
    if matches!(root.value, YamlValue::Scalar(_) | YamlValue::List(_)) {
        let remedy = "write `version: 2`, and `ethernets` or `wifis` as netplan has them; or use [network] and [wifi] in \
            weaver.toml";
        found.fault(&root, "it is no mapping, so no network of this file is set up", remedy);
        return found.findings;
    }
    if let Some(key) = root.odd_indent(&file.text) {
        found.fault(key, ODD_INDENT.0, ODD_INDENT.1);
        return found.findings;
    }
    // cloud-init takes the content of `network:` on its own, too.
    let network = root.get("network").unwrap_or(&root);
    found.version(network);
    for fault in netplan_keys::faults(network, wifi_is_ours, &|node| plain(file, node).map(str::to_owned)) {
        found.fault(fault.at, &fault.what, &fault.remedy);
    }
    let (mut routes, mut addresses) = (Vec::new(), Vec::new());
    for kind in KINDS.into_iter().filter(|kind| !(wifi_is_ours && *kind == "wifis")) {
        for (name, body) in network.get(kind).map_or(&[][..], YamlNode::entries) {
            let Some(name) = name.as_str() else { continue };
            found.interface(name, body, &mut routes, &mut addresses);
            if kind == "wifis" {
                found.radio(body);
            }
        }
    }
    if let [(first, _), (second, at)] = routes[..] {
        let what = format!("{first} and {second} both have a default route with the same metric");
        found.fault(at, &what, "keep one, or give the second a larger `metric` in `routes`");
    }
    if found.findings.is_empty() && !wifi_is_ours && config.network.at.is_none() {
        found.reach(network);
    }
    found.findings
}

struct NetworkLint<'a> {
    file: &'a TextFile,
    findings: Vec<Finding>,
}

impl NetworkLint<'_> {
    fn fault(&mut self, at: &YamlNode, what: &str, remedy: &str) {
        let place = Place::at(&self.file.path, at.line, at.column);
        self.findings.push(Finding::at(Code::NetworkConfigFault, place, what).remedy(Remedy::new(remedy)));
    }

    /// cloud-init needs one, as a number: without it the card has no network at all.
    fn version(&mut self, network: &YamlNode) {
        let has_more = network
            .entries()
            .iter()
            .any(|(key, _)| key.as_str().is_some_and(|key| key == "renderer" || KINDS.contains(&key)));
        match network.get("version") {
            None if has_more => {
                self.fault(
                    network,
                    "it has no `version`, so cloud-init ignores the file",
                    "write `version: 2`",
                );
            }
            Some(version) if !matches!(version.as_str(), Some("1" | "2")) => {
                self.fault(version, "there are versions 1 and 2 only", "write `version: 2`");
            }
            Some(version) if plain(self.file, version).is_none() => {
                let what = "`version` is a string, so cloud-init ignores the file";
                self.fault(version, what, "write `version: 2`, without quotes");
            }
            _ => {}
        }
    }

    fn interface<'n>(
        &mut self,
        name: &'n str,
        body: &'n YamlNode,
        routes: &mut Vec<(&'n str, &'n YamlNode)>,
        addresses: &mut Vec<(&'n str, &'n str)>,
    ) {
        for node in body.list("addresses") {
            let Some(text) = node.as_str() else { continue };
            let (address, prefix) = text.split_once('/').unwrap_or((text, ""));
            match address.parse::<IpAddr>() {
                Err(_) => self.fault(node, "it is not an IP address", "write such as 192.168.1.5/24"),
                Ok(ip)
                    if prefix.parse::<u8>().is_ok_and(|bits| bits > if ip.is_ipv4() { 32 } else { 128 })
                        || !prefix.is_empty() && !prefix.bytes().all(|byte| byte.is_ascii_digit()) =>
                {
                    self.fault(node, "it has no valid prefix length", "write such as 192.168.1.5/24");
                }
                Ok(_) if prefix.is_empty() => {
                    let remedy = format!(
                        "write the prefix length: {address}/{}",
                        if address.contains(':') { 64 } else { 24 }
                    );
                    self.fault(node, "an address needs a prefix length", &remedy);
                }
                Ok(_) => match addresses.iter().find(|(one, _)| *one == address) {
                    Some((_, other)) => self.fault(
                        node,
                        &format!("{name} has the address of {other}"),
                        "give each interface an address of its own",
                    ),
                    None => addresses.push((address, name)),
                },
            }
        }
        let default = |route: &&YamlNode| {
            let to = route.text("to");
            matches!(to, Some("default" | "0.0.0.0/0")) && route.get("metric").is_none()
        };
        let route = body.get("routes").and_then(|routes| routes.items().iter().find(default));
        routes.extend(body.get("gateway4").or(route).map(|node| (name, node)));
    }

    fn radio(&mut self, body: &YamlNode) {
        if let Some(country) = body.get("regulatory-domain") {
            let text = country.as_str().unwrap_or_default();
            if let Some(written) = plain(self.file, country).filter(|written| is_reread(written)) {
                let what = "without quotes YAML reads it as a boolean, not as a country";
                self.fault(country, what, &format!("write \"{}\"", written.to_ascii_uppercase()));
            } else if text == "UK" {
                let what = "it is no country of ISO 3166, so the radio stays silent on most channels";
                self.fault(country, what, "write \"GB\"");
            } else if !wifi::is_country(text) {
                self.fault(
                    country,
                    "it is not a country code, so the radio may not use most channels",
                    "write the two letters of ISO 3166, such as DE or GB",
                );
            }
        }
        for (name, point) in body.get("access-points").map_or(&[][..], YamlNode::entries) {
            let password = point.get("password").or_else(|| point.get("auth")?.get("password"));
            for (node, what) in [(Some(name), "name"), (password, "password")] {
                let Some(node) = node else { continue };
                if plain(self.file, node).is_some_and(is_reread) {
                    let what =
                        format!("without quotes YAML reads the Wi-Fi's {what} as a number or a truth value");
                    self.fault(node, &what, "write it in quotes");
                }
            }
            for (node, what) in [(Some(name), "name"), (password, "password")] {
                let is_in = |node: &&YamlNode| in_printed_quotes(node) && !node.is_quoted(&self.file.text);
                let Some(node) = node.filter(is_in) else { continue };
                let what = format!(
                    "the quotes of the Wi-Fi's {what} are those of a word processor, and a part of it"
                );
                self.fault(node, &what, "write it in plain quotes, as a text editor writes them");
            }
            if let Some(node) = password.filter(|node| node.as_str().and_then(encoded_twice).is_some()) {
                self.fault(
                    node,
                    "the Wi-Fi's password is encoded twice, so the network refuses it",
                    "write it as it is, in a file saved as UTF-8; or use [wifi] in weaver.toml",
                );
            }
            let text = name.as_str().unwrap_or_default();
            if is_placeholder(text) {
                let what = "the Wi-Fi's name is a placeholder of a template, so no network of that name will be found";
                self.fault(name, what, "write the name of the network, and its password");
            }
            let twice = encoded_twice(text).map(|meant| (meant, "is encoded twice"));
            let escaped =
                || Some((unescaped(text)?, "has an escape, which YAML reads in double quotes only"));
            let Some((meant, what)) = twice.or_else(escaped) else { continue };
            self.fault(
                name,
                &format!("the Wi-Fi's name {what}, so no network of that name will be found"),
                &format!("write it as it is: \"{meant}\"; or use [wifi] in weaver.toml"),
            );
        }
    }
}

/// The text of a value without quotes, as it is written; none of one that has them.
fn plain<'t>(file: &'t TextFile, node: &YamlNode) -> Option<&'t str> {
    let at = |number: u64| usize::try_from(number).ok()?.checked_sub(1);
    let line = file.text.lines().nth(at(node.line)?)?;
    let (start, _) = line.char_indices().nth(at(node.column)?)?;
    let rest = &line[start..];
    let ends = [" #", ": ", ",", "]", "}"].iter().filter_map(|end| rest.find(end));
    let text = rest[..ends.min().unwrap_or(rest.len())].trim_end();
    let text = text.strip_suffix(':').unwrap_or(text);
    // Of a longer one only the beginning was found.
    let is_whole =
        node.as_str().is_some_and(|value| value.len() <= text.len() || ["true", "false"].contains(&value));
    (is_whole && !text.starts_with(['"', '\''])).then_some(text)
}

/// Whether a text is what templates and guides have in the place of a name. A network may be called `<this>`, too.
fn is_placeholder(text: &str) -> bool {
    let between = |start: &str, end: &str| text.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
    let asks_for_a_name = |inside: &str| {
        let lower = inside.to_ascii_lowercase();
        ["name", "network", "ssid", "your"].iter().any(|word| lower.contains(word))
    };
    between("<", ">").is_some_and(asks_for_a_name)
        || [between("{{", "}}"), between("${", "}")].into_iter().flatten().any(|inside| !inside.is_empty())
}

/// Whether cloud-init's YAML makes of this text something else, which is written back otherwise.
fn is_reread(text: &str) -> bool {
    let words = ["yes", "no", "on", "off", "true", "false", "null", "~"];
    let is_number = text.bytes().all(|c| c.is_ascii_digit() || c == b'_') && !text.starts_with('_');
    let is_octal = text.len() > 1 && text.starts_with('0') && !text.contains(['8', '9']);
    words.contains(&text.to_ascii_lowercase().as_str())
        || (is_number && !text.is_empty() && (is_octal || text.contains('_')))
}

#[cfg(test)]
mod tests;

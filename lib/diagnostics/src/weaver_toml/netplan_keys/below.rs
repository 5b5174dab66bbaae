//! Keys below an interface, as netplan's parser has them (`src/parse.c`, up to 1.2), and what people write instead.
//!
//! Of a key that is in neither table nothing is said: a newer netplan may know it.

use super::key_faults::{KINDS, KeyFaults};
use crate::yaml_node::{YamlNode, YamlValue};

/// What netplan knows in one kind of mapping.
pub(super) struct Mapping {
    /// What it is, in a message.
    of: &'static str,
    known: &'static [&'static str],
    /// Keys that people write, and what is meant.
    meant: &'static [(&'static str, &'static str)],
}

pub(super) const ROUTE: Mapping = Mapping {
    of: "a route",
    known: &[
        "from",
        "on-link",
        "scope",
        "table",
        "to",
        "type",
        "via",
        "metric",
        "mtu",
        "congestion-window",
        "advertised-receive-window",
        "advertised-mss",
    ],
    meant: &[
        ("gateway", "via: ADDRESS"),
        ("gateway4", "via: ADDRESS"),
        ("gateway6", "via: ADDRESS"),
        ("gw", "via: ADDRESS"),
        ("router", "via: ADDRESS"),
        ("next-hop", "via: ADDRESS"),
        ("destination", "to: default"),
        ("dest", "to: default"),
        ("dst", "to: default"),
        ("target", "to: default"),
        ("network", "to: 10.0.0.0/8"),
    ],
};
pub(super) const NAMESERVERS: Mapping = Mapping {
    of: "`nameservers`",
    known: &["addresses", "search"],
    meant: &[
        ("address", "addresses: [ADDRESS]"),
        ("ip", "addresses: [ADDRESS]"),
        ("server", "addresses: [ADDRESS]"),
        ("servers", "addresses: [ADDRESS]"),
        ("nameserver", "addresses: [ADDRESS]"),
        ("nameservers", "addresses: [ADDRESS]"),
        ("dns", "addresses: [ADDRESS]"),
        ("domain", "search: [DOMAIN]"),
        ("domains", "search: [DOMAIN]"),
        ("search-domain", "search: [DOMAIN]"),
        ("search-domains", "search: [DOMAIN]"),
    ],
};
const ACCESS_POINT: Mapping = Mapping {
    of: "a Wi-Fi network",
    known: &["band", "bssid", "hidden", "channel", "mode", "password", "auth", "networkmanager"],
    meant: &[
        ("key", "password: PASSWORD"),
        ("psk", "password: PASSWORD"),
        ("wpa-psk", "password: PASSWORD"),
        ("pass", "password: PASSWORD"),
        ("passwd", "password: PASSWORD"),
        ("passphrase", "password: PASSWORD"),
        ("key-management", "auth: {key-management: sae, password: PASSWORD}"),
        ("ssid", "the name in quotes as the key below `access-points`, in place of this line"),
        ("name", "the name in quotes as the key below `access-points`, in place of this line"),
    ],
};
pub(super) const AUTH: Mapping = Mapping {
    of: "`auth`",
    known: &[
        "key-management",
        "method",
        "identity",
        "anonymous-identity",
        "password",
        "ca-certificate",
        "client-certificate",
        "client-key",
        "client-key-password",
        "phase2-auth",
    ],
    meant: &[
        ("psk", "password: PASSWORD"),
        ("passphrase", "password: PASSWORD"),
        ("username", "identity: NAME"),
        ("key-mgmt", "key-management: psk"),
    ],
};

/// Kinds of interfaces that people write.
const KINDS_MEANT: [(&str, &str); 12] = [
    ("ethernet", "ethernets"),
    ("eth", "ethernets"),
    ("eths", "ethernets"),
    ("wired", "ethernets"),
    ("wifi", "wifis"),
    ("wi-fi", "wifis"),
    ("wlan", "wifis"),
    ("wlans", "wifis"),
    ("wireless", "wifis"),
    ("bridge", "bridges"),
    ("bond", "bonds"),
    ("vlan", "vlans"),
];
/// The other keys at the top.
const TOP: [&str; 8] =
    ["version", "renderer", "config", "vrfs", "modems", "virtual-ethernets", "nm-devices", "openvswitch"];
/// Keys of a Wi-Fi network that people write one level too high.
const OF_ACCESS_POINT: [&str; 6] = ["hidden", "password", "bssid", "band", "channel", "key-management"];
/// Keys of an interface that people write one level too low.
const OF_INTERFACE: [&str; 9] = [
    "dhcp4",
    "dhcp6",
    "addresses",
    "routes",
    "nameservers",
    "optional",
    "regulatory-domain",
    "access-points",
    "gateway4",
];

impl<'n> KeyFaults<'n> {
    /// Kinds of interfaces that netplan does not have.
    pub(super) fn kinds(&mut self, network: &'n YamlNode) {
        for (key, value) in network.entries() {
            let Some(name) = key.as_str() else { continue };
            let is_known = KINDS.contains(&name) || TOP.contains(&name);
            let is_map = matches!(value.value, YamlValue::Map(_) | YamlValue::Null);
            if !is_known
                && is_map
                && let Some(meant) = meant(name, &KINDS_MEANT, &KINDS)
            {
                self.unknown(key, "", meant);
            }
        }
    }

    /// The keys of one mapping below an interface.
    pub(super) fn below(&mut self, of: &Mapping, map: &'n YamlNode) {
        for (key, _) in map.entries() {
            let Some(name) = key.as_str().filter(|name| !of.known.contains(name)) else { continue };
            if let Some(meant) = meant(name, of.meant, of.known) {
                self.unknown(key, &format!(" in {}", of.of), meant);
            }
        }
    }

    /// Each network of a Wi-Fi.
    pub(super) fn access_points(&mut self, points: &'n YamlNode) {
        for (name, point) in points.entries() {
            if !matches!(point.value, YamlValue::Map(_)) {
                let what = "a Wi-Fi network is a mapping, and netplan refuses the file";
                let remedy = "write `password: PASSWORD` below it, indented; for an open network write `{}` behind the colon";
                self.add(name, what, remedy);
            }
            for (key, _) in point.entries() {
                if key.as_str().is_some_and(|key| OF_INTERFACE.contains(&key)) {
                    let what =
                        "this is a key of the interface, so netplan refuses the file below a Wi-Fi network";
                    self.add(key, what, "write it next to `access-points`");
                }
            }
            self.below(&ACCESS_POINT, point);
            if let Some(auth) = point.get("auth") {
                self.below(&AUTH, auth);
            }
        }
    }

    /// What belongs to a network of the Wi-Fi, and is next to its `access-points`.
    pub(super) fn above_access_points(&mut self, body: &'n YamlNode) {
        for (key, _) in body.entries() {
            if key.as_str().is_some_and(|key| OF_ACCESS_POINT.contains(&key)) {
                let what =
                    "this is a key of a Wi-Fi network, so netplan refuses the file next to `access-points`";
                self.add(key, what, "write it below the network's name in `access-points`");
            }
        }
    }
}

/// What is meant by a key that is not known: a mistake that people make, else a name that is close.
fn meant(name: &str, mistakes: &[(&str, &'static str)], known: &[&'static str]) -> Option<&'static str> {
    let plain = name.to_ascii_lowercase().replace('_', "-");
    let mistake = mistakes.iter().find(|(wrong, _)| *wrong == plain).map(|(_, meant)| *meant);
    mistake.or_else(|| known.iter().copied().find(|known| is_near(&plain, known)))
}

/// A letter too few or too many, or two the wrong way round; or other letters.
fn is_near(given: &str, known: &str) -> bool {
    given == known || (given.len() > 2 && strsim::damerau_levenshtein(given, known) == 1)
}

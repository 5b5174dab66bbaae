//! The netplan files: the wired network, the Wi-Fi, and what must be removed for it.

use serde_json::{Map, Value, json};

use super::host::KnownHost;
use crate::weaver_toml::header::with_header;
use crate::{
    weaver_toml::{
        Config, Network, Secret, SecretSetting, Wifi, network_config::RADIO, owners_netplan::Radio,
    },
    yaml_text,
};

/// Both networks; `None` where neither is asked for.
pub(super) fn networks(config: &Config, host: &KnownHost) -> Option<String> {
    let mut network = Map::new();
    if let Some(wired) = wired(&config.network) {
        network.insert("ethernets".to_owned(), json!({ WIRED: wired }));
    }
    if let Some((wifi, password)) = wifi_in_force(config, host) {
        network.insert("wifis".to_owned(), json!({ RADIO: radio(wifi, password) }));
    }
    if network.is_empty() {
        return None;
    }
    network.insert("version".to_owned(), 2.into());
    Some(with_header(&yaml_text::write(&json!({ "network": network }))))
}

/// The Wi-Fi and its password; `None` where there is no password, so that another file's network stays, or
/// where netplan would refuse all networks.
pub(super) fn wifi_in_force<'a>(config: &'a Config, host: &'a KnownHost) -> Option<(&'a Wifi, &'a Secret)> {
    let wifi = config.wifi.as_ref().filter(|_| !matches!(host.owners_radio, Some(Radio::NoWifi(_))))?;
    Some((wifi, password(wifi, host)?))
}

pub(super) fn password<'a>(wifi: &'a Wifi, host: &'a KnownHost) -> Option<&'a Secret> {
    match &wifi.password {
        SecretSetting::Import(password) => Some(password),
        SecretSetting::Keep => host.wifi_password.as_ref(),
        SecretSetting::None => None,
    }
}

/// networkd takes the first file that matches: this id sorts before those that cloud-init writes.
const WIRED: &str = "0-weaver";

/// Matched by name and not by MAC, so that the card can move to another board.
fn wired(network: &Network) -> Option<Value> {
    if network.address.is_none() && network.dns.is_empty() {
        return None;
    }
    let is_dhcp = network.address.is_none_or(|address| address.ip.is_ipv6());
    let mut port = json!({ "match": { "name": "e*" }, "optional": true, "dhcp4": is_dhcp });
    if is_dhcp && !network.dns.is_empty() {
        port["dhcp4-overrides"] = json!({ "use-dns": false });
    }
    if let Some(address) = network.address {
        port["addresses"] = json!([address.to_string()]);
    }
    if let Some(gateway) = network.gateway {
        let all = if gateway.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
        port["routes"] = json!([{ "to": all, "via": gateway }]);
    }
    if !network.dns.is_empty() {
        port["nameservers"] = json!({ "addresses": network.dns });
    }
    Some(port)
}

/// By the name that every Pi's own radio has: for networkd netplan refuses to match a Wi-Fi. The password has a
/// line of its own, as each value has, for netplan repeats the line that it complains of.
fn radio(wifi: &Wifi, password: &Secret) -> Value {
    let mut network = json!({ "password": password.expose() });
    if wifi.hidden {
        network["hidden"] = true.into();
    }
    json!({
        "optional": true,
        "dhcp4": true,
        "regulatory-domain": wifi.country,
        "access-points": { wifi.ssid.as_str(): network },
    })
}

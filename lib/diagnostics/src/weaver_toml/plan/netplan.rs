//! The netplan files: the wired network, the Wi-Fi, and what has to make room for it.

use std::net::IpAddr;

use super::{Host, with_header};
use crate::weaver_toml::{
    Config, Network, Secret, SecretWish, Wifi, network_config::RADIO, owners_netplan::Radio, yaml_scalar,
};

/// Both networks; `None` where neither is asked for.
pub(super) fn networks(config: &Config, host: &Host) -> Option<String> {
    let wired = wired(&config.network);
    let wifi = wifi_in_force(config, host).map(|(wifi, password)| radio(wifi, password));
    let parts: Vec<_> = wired.into_iter().chain(wifi).flatten().collect();
    if parts.is_empty() {
        return None;
    }
    let begin = ["network:", "  version: 2"].map(str::to_owned);
    with_header(&begin.into_iter().chain(parts).collect::<Vec<_>>())
}

/// The Wi-Fi and its password; `None` where there is no password, so that another file's network stays, or where netplan
/// would refuse all networks.
pub(super) fn wifi_in_force<'a>(config: &'a Config, host: &'a Host) -> Option<(&'a Wifi, &'a Secret)> {
    let wifi = config.wifi.as_ref().filter(|_| !matches!(host.owners_radio, Some(Radio::NoWifi(_))))?;
    Some((wifi, password(wifi, host)?))
}

pub(super) fn password<'a>(wifi: &'a Wifi, host: &'a Host) -> Option<&'a Secret> {
    match &wifi.password {
        SecretWish::Import(password) => Some(password),
        SecretWish::Keep => host.wifi_password.as_ref(),
        SecretWish::None => None,
    }
}

/// Matched by name and not by MAC, so that the card can move to another board. networkd takes the first
/// file that matches: the id sorts before those that cloud-init writes.
fn wired(network: &Network) -> Option<Vec<String>> {
    if network.address.is_none() && network.dns.is_empty() {
        return None;
    }
    let mut lines: Vec<_> = ["  ethernets:", "    \"0-weaver\":"].map(str::to_owned).into();
    let mut add = |line: &str| lines.push(format!("      {line}"));
    add("match: {name: \"e*\"}");
    add("optional: true");
    let is_dhcp = network.address.is_none_or(|address| address.ip.is_ipv6());
    add(&format!("dhcp4: {is_dhcp}"));
    if is_dhcp && !network.dns.is_empty() {
        add("dhcp4-overrides: {use-dns: false}");
    }
    if let Some(address) = network.address {
        add(&format!("addresses: {}", yaml_scalar::quoted_list([address.to_string()])));
    }
    if let Some(gateway) = network.gateway {
        let all = if gateway.is_ipv4() { "0.0.0.0/0" } else { "::/0" };
        add(&format!("routes: [{{to: \"{all}\", via: {}}}]", yaml_scalar::quoted(&gateway.to_string())));
    }
    if !network.dns.is_empty() {
        let servers = network.dns.iter().map(IpAddr::to_string);
        add(&format!("nameservers: {{addresses: {}}}", yaml_scalar::quoted_list(servers)));
    }
    Some(lines)
}

/// By the name that every Pi's own radio has: for networkd netplan refuses to match a Wi-Fi. The password has a
/// line of its own, for netplan repeats the line that it complains of.
fn radio(wifi: &Wifi, password: &Secret) -> Vec<String> {
    let mut lines = vec![
        "  wifis:".to_owned(),
        format!("    {RADIO}:"),
        "      optional: true".to_owned(),
        "      dhcp4: true".to_owned(),
        format!("      regulatory-domain: {}", yaml_scalar::quoted(&wifi.country)),
        "      access-points:".to_owned(),
        format!("        {}:", yaml_scalar::quoted(&wifi.ssid)),
    ];
    if wifi.hidden {
        lines.push("          hidden: true".to_owned());
    }
    lines.push(format!("          password: {}", yaml_scalar::quoted(password.expose())));
    lines
}

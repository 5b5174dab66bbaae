//! The wired network: an address of its own, or DHCP.

use std::{fmt, net::IpAddr};

use super::{
    fault::{Faults, Mistake, shown},
    limits::is_of_no_host,
    section::{Section, SpannedText},
};

/// What is asked of the wired network. Nothing means DHCP.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Network {
    pub address: Option<Address>,
    /// The router, in the address's network.
    pub gateway: Option<IpAddr>,
    pub dns: Vec<IpAddr>,
    /// Line and column of `address`, or of `dns` where there is none.
    pub at: Option<(u64, u64)>,
}

/// An address and the length of its network's prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    pub ip: IpAddr,
    /// Bits of the network, at least 1.
    pub prefix: u8,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.ip, self.prefix)
    }
}

pub(super) fn read(section: &Section<'_>, faults: &mut Faults<'_>) -> Network {
    let address = section.text("address", faults);
    let address_is_given = address.is_some();
    let address = address.and_then(|text| faults.take(text.span.as_ref(), self::address(text.value)));
    let gateway = section.text("gateway", faults).and_then(|text| {
        if !address_is_given {
            let remedy = "add `address`, or remove `gateway`: DHCP brings its own";
            faults.add_at(text.span.as_ref(), "`gateway` without an `address`", remedy);
        }
        faults.take(text.span.as_ref(), gateway(text.value, address))
    });
    let mut dns = Vec::new();
    for SpannedText { value, span } in section.texts("dns", faults) {
        let Some(server) = faults.take(span.as_ref(), host_address("name server", value)) else { continue };
        if dns.contains(&server) {
            faults.add_at(
                span.as_ref(),
                format!("{} is listed twice", shown(value)),
                "remove one of the two",
            );
        }
        dns.push(server);
    }
    let place = section.place_of("address").or_else(|| section.place_of("dns"));
    let at = place.map(|place| faults.place(Some(&place)));
    Network { address, gateway, dns, at }
}

fn address(text: &str) -> Result<Address, Mistake> {
    let wrong =
        |why: &str, remedy: String| Err(Mistake::new(format!("the address {} {why}", shown(text)), remedy));
    let example = || "write it like 192.168.1.20/24".to_owned();
    let Some((ip, prefix)) = text.split_once('/') else {
        return match text.parse::<IpAddr>() {
            Ok(ip) => {
                let usual = if ip.is_ipv4() { 24 } else { 64 };
                wrong("has no prefix length", format!("write \"{text}/{usual}\" if that is its network"))
            }
            Err(_) => wrong("is not an IP address", example()),
        };
    };
    let Ok(ip) = ip.parse::<IpAddr>() else { return wrong("is not an IP address", example()) };
    let bits: u8 = if ip.is_ipv4() { 32 } else { 128 };
    let prefix = prefix.parse::<u8>().ok().filter(|prefix| (1..=bits).contains(prefix));
    let Some(prefix) = prefix else {
        return wrong(
            "has no prefix length after its slash",
            format!("write a number from 1 to {bits} there"),
        );
    };
    if is_of_no_host(ip) || ip.is_loopback() {
        return wrong("is reserved, and no host can have it", example());
    }
    let host = number(ip) & !mask(bits, prefix);
    if ip.is_ipv4() && prefix < 31 && (host == 0 || host == !mask(bits, prefix) & u128::from(u32::MAX)) {
        return wrong("is the network or broadcast address", "write an address between the two".to_owned());
    }
    Ok(Address { ip, prefix })
}

/// `address` is that of the host, where it is a good one.
fn gateway(text: &str, address: Option<Address>) -> Result<IpAddr, Mistake> {
    let router = host_address("gateway", text)?;
    let Some(own) = address else { return Ok(router) };
    let wrong =
        |why: String, remedy: &str| Err(Mistake::new(format!("the gateway {} {why}", shown(text)), remedy));
    if router == own.ip {
        return wrong("is the host's own address".to_owned(), "write the address of the router");
    }
    if router.is_ipv4() != own.ip.is_ipv4() {
        return wrong(
            format!("is not of the same IP version as {own}"),
            "write both as IPv4 or both as IPv6",
        );
    }
    let is_link_local = matches!(router, IpAddr::V6(v6) if v6.is_unicast_link_local());
    let mask = mask(if own.ip.is_ipv4() { 32 } else { 128 }, own.prefix);
    if !is_link_local && number(router) & mask != number(own.ip) & mask {
        return wrong(
            format!("is not in the network of {own}"),
            "correct one of the two, or the prefix length after the slash",
        );
    }
    Ok(router)
}

fn host_address(what: &str, text: &str) -> Result<IpAddr, Mistake> {
    let address = text.parse::<IpAddr>().ok().filter(|ip| !is_of_no_host(*ip));
    address.ok_or_else(|| {
        let message = format!("the {what} {} is not a host address", shown(text));
        Mistake::new(message, "write it like 192.168.1.1, without port or prefix length")
    })
}

fn number(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(v4) => u32::from(v4).into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

/// The bits of the network; those above an address of `bits` bits are set.
const fn mask(bits: u8, prefix: u8) -> u128 {
    match u128::MAX.checked_shl((bits - prefix) as u32) {
        Some(mask) => mask,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for good in
            ["192.168.1.20/24", "10.0.0.1/8", "10.0.0.0/31", "10.0.0.9/32", "fd00::1/64", "2001:db8::/128"]
        {
            assert_eq!(address(good).unwrap().to_string(), good);
        }
        for (text, why, remedy) in [
            ("192.168.1.20", "no prefix length", "write \"192.168.1.20/24\""),
            ("fd00::1", "no prefix length", "write \"fd00::1/64\""),
            ("192.168.1.20/33", "no prefix length", "1 to 32"),
            ("192.168.1.20/0", "no prefix length", "1 to 32"),
            ("192.168.1.20/", "no prefix length", "1 to 32"),
            ("192.168.1.20/255.255.255.0", "no prefix length", "1 to 32"),
            ("fd00::1/129", "no prefix length", "1 to 128"),
            ("192.168.1.0/24", "network or broadcast", "between"),
            ("192.168.1.255/24", "network or broadcast", "between"),
            ("127.0.0.1/8", "no host can", "192.168.1.20/24"),
            ("0.0.0.0/24", "no host can", "192.168.1.20/24"),
            ("raspi/24", "not an IP", "192.168.1.20/24"),
            ("", "not an IP", "192.168.1.20/24"),
            (" 192.168.1.20/24", "not an IP", "192.168.1.20/24"),
        ] {
            let mistake = address(text).unwrap_err();
            assert!(
                mistake.message.contains(why) && mistake.remedy.contains(remedy),
                "{text:?}: {mistake:?}"
            );
        }
    }

    #[test]
    fn gateways() {
        let own = |text: &str| Some(address(text).unwrap());
        for (text, own) in [
            ("192.168.1.1", own("192.168.1.20/24")),
            ("fe80::1", own("fd00::1/64")),
            ("fd00::2", own("fd00::1/64")),
            ("10.1.2.3", own("10.200.0.1/8")),
        ] {
            assert!(gateway(text, own).is_ok(), "{text}");
        }
        for (text, own, why) in [
            ("192.168.2.1", own("192.168.1.20/24"), "not in the network"),
            ("192.168.1.20", own("192.168.1.20/24"), "own address"),
            ("fe80::1", own("192.168.1.20/24"), "same IP version"),
            ("192.168.1.1/24", own("192.168.1.20/24"), "not a host address"),
            ("router", None, "not a host address"),
            ("0.0.0.0", None, "not a host address"),
        ] {
            let mistake = gateway(text, own).unwrap_err();
            assert!(mistake.message.contains(why), "{text}: {mistake:?}");
        }
    }

    #[test]
    fn masks() {
        assert_eq!(mask(32, 24), !0xff);
        assert_eq!(mask(32, 32), u128::MAX);
        assert_eq!(mask(128, 1), 1 << 127);
    }
}

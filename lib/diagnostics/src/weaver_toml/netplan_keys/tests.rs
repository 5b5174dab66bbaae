use super::*;
use crate::yaml_node;

fn found(text: &str) -> Vec<String> {
    let network = yaml_node::parse(text).unwrap();
    let faults = faults(&network, false, &|_| None);
    faults
        .into_iter()
        .map(|it| format!("{}:{}: {} | {}", it.at.line, it.at.column, it.what, it.remedy))
        .collect()
}

#[test]
fn what_netplan_refuses_or_takes_otherwise() {
    let long = "a".repeat(33);
    let psk = "g".repeat(64);
    for (text, want) in [
        ("{version: 1, ethernets: {}}", "1:14: version 1 has `config`"),
        ("{version: 2, config: [{}]}", "1:22: version 2 has no `config`"),
        ("renderer: networkmanager", "1:11: there is no renderer"),
        (
            "ethernets: {e: {dhcp: true}}",
            "1:17: netplan has no `dhcp`, and refuses the file | write `dhcp4: true`",
        ),
        (
            "ethernets: {e: {set_name: a}}",
            "1:17: netplan has no `set_name`, and refuses the file | write `set-name`",
        ),
        (
            "ethernets: {e: {dhpc4: true}}",
            "1:17: netplan has no `dhpc4`, and refuses the file | write `dhcp4`",
        ),
        ("ethernets: {e: {adresses: []}}", "1:17: netplan has no `adresses`"),
        (
            "ethernets: {e: {addresses: [10.0.0.2/24], routes: [{via: 10.0.0.1}]}}",
            "1:52: a route has no `to`, and netplan refuses the file",
        ),
        ("ethernets: {e: {access-points: {}}}", "1:17: `ethernets` have no `access-points`"),
        (
            "wifis: {w: {access-points: {}, routes: [{to: default, via: ROUTER}]}}",
            "1:60: this is no IP address, so netplan refuses the file",
        ),
        (
            "ethernets: {e: {nameservers: {addresses: [dns.lan]}}}",
            "1:43: this is no IP address, so netplan refuses the file",
        ),
        ("ethernets: {e: {gateway4: x.x.x.x}}", "1:27: this is no IP address, so netplan refuses the file"),
        ("ethernets: {renderer: nm, e: {dhcp4: true}}", "1:23: there is no renderer"),
        ("wifis: {w: {access_points: {}}}", "1:13: netplan has no `access_points`"),
        ("wifis: {w: {dhcp4: true}}", "1:9: a Wi-Fi interface has no `access-points`"),
        ("wifis: {w: {access-points: [{name: a}]}}", "1:28: `access-points` is a list"),
        ("ethernets: {e: {addresses: 10.0.0.2/24}}", "1:28: `addresses` is a single value"),
        ("ethernets: {e: {nameservers: [1.1.1.1]}}", "1:30: `nameservers` is a list"),
        ("ethernets: {e: {dhcp4: maybe}}", "1:24: `dhcp4` is neither true nor false"),
        (
            "wifis: {w: {access-points: {}}, w: {access-points: {}}}",
            "1:9: the same key is repeated further down",
        ),
        (
            &format!("wifis: {{w: {{access-points: {{{long}: {{}}}}}}}}"),
            "1:29: the Wi-Fi's name has more than 32",
        ),
        ("wifis: {w: {access-points: {a: {password: short}}}}", "1:43: the Wi-Fi's password has neither"),
        (
            &format!("wifis: {{w: {{access-points: {{a: {{password: {psk}}}}}}}}}"),
            "1:43: the Wi-Fi's password",
        ),
        (
            "wifis: {w: {access-points: {a: {auth: {key-management: wpa2, password: longenough}}}}}",
            "1:56: there is no key management",
        ),
        (
            "ethernets: {e: {gateway4: 10.0.0.1, routes: [{to: default, via: 10.0.0.2}]}}",
            "1:46: this interface has a second default route",
        ),
        (
            "ethernets: {e: {addresses: [10.0.0.2/24], gateway4: 10.0.1.1}}",
            "1:53: the gateway is in no network",
        ),
        (
            "ethernets: {e: {addresses: [\"fd00::2/64\"], routes: [{to: default, via: \"fd01::1\"}]}}",
            "1:72: the gateway is in no network",
        ),
        (
            "ethernets: {e: {addresses: [10.0.0.1/24], gateway4: 10.0.0.1}}",
            "1:53: the gateway is the address of this interface itself",
        ),
    ] {
        let found = found(text);
        assert!(found.len() == 1 && found[0].starts_with(want), "{text}: {found:?}");
    }
}

#[test]
fn keys_below_an_interface_and_kinds_that_netplan_refuses() {
    let wifi = |point: &str| format!("wifis: {{w: {{access-points: {{a: {{{point}}}}}}}}}");
    let route = |key: &str| format!("ethernets: {{e: {{routes: [{{to: default, {key}: 10.0.0.1}}]}}}}");
    let servers = |key: &str| format!("ethernets: {{e: {{nameservers: {{{key}: [1.1.1.1]}}}}}}");
    for (text, want) in [
        (
            wifi("pasword: hunter2222"),
            "netplan has no `pasword` in a Wi-Fi network, and refuses the file | write `password`",
        ),
        (
            wifi("psk: hunter2222"),
            "netplan has no `psk` in a Wi-Fi network, and refuses the file | write `password: P",
        ),
        (wifi("key: hunter2222"), "netplan has no `key` in a Wi-Fi network"),
        (
            wifi("Password: hunter2222"),
            "netplan has no `Password` in a Wi-Fi network, and refuses the file | write `password`",
        ),
        (
            wifi("ssid: b"),
            "netplan has no `ssid` in a Wi-Fi network, and refuses the file | write the name in quotes",
        ),
        (
            wifi("auth: {key_management: psk}"),
            "netplan has no `key_management` in `auth`, and refuses the file | write `key-management`",
        ),
        (wifi("dhcp4: true"), "this is a key of the interface"),
        (wifi("regulatory-domain: DE"), "this is a key of the interface"),
        ("wifis: {w: {access-points: {a: hunter2222}}}".to_owned(), "a Wi-Fi network is a mapping"),
        ("wifis: {w: {hidden: true, access-points: {a: {}}}}".to_owned(), "this is a key of a Wi-Fi network"),
        (
            route("gateway"),
            "netplan has no `gateway` in a route, and refuses the file | write `via: ADDRESS`",
        ),
        (route("vai"), "netplan has no `vai` in a route, and refuses the file | write `via`"),
        (route("on_link"), "netplan has no `on_link` in a route, and refuses the file | write `on-link`"),
        (
            servers("address"),
            "netplan has no `address` in `nameservers`, and refuses the file | write `addresses: [ADDRESS]`",
        ),
        (servers("adresses"), "netplan has no `adresses` in `nameservers`"),
        (
            servers("domains"),
            "netplan has no `domains` in `nameservers`, and refuses the file | write `search: [DOMAIN]`",
        ),
        (
            "{version: 2, ethernet: {e: {dhcp4: true}}}".to_owned(),
            "netplan has no `ethernet`, and refuses the file | write `ethernets`",
        ),
        (
            "{version: 2, wifi: {w: {access-points: {a: {}}}}}".to_owned(),
            "netplan has no `wifi`, and refuses the file | write `wifis`",
        ),
        ("{version: 2, Ethernets: {e: {dhcp4: true}}}".to_owned(), "netplan has no `Ethernets`"),
    ] {
        let found = found(&text);
        let has_it =
            found.len() == 1 && found[0].split_once(": ").is_some_and(|(_, said)| said.starts_with(want));
        assert!(has_it && !found[0].contains("hunter2"), "{text}: {found:?}");
    }
}

#[test]
fn what_is_fine_is_left_alone() {
    for text in [
        "{version: 2, renderer: networkd, ethernets: {e: {match: {name: \"en*\"}, dhcp4: yes, optional: true}}}",
        "ethernets: {e: {dhcp4: true, addresses: [10.0.0.2/24], routes: [{to: default, via: 10.9.0.1}]}}",
        "ethernets: {e: {addresses: [10.0.0.2/24], routes: [{to: default, via: 10.9.0.1, on-link: true}]}}",
        "ethernets: {e: {addresses: [10.0.0.2/24, \"fd00::2/64\"], gateway4: 10.0.0.1, gateway6: \"fe80::1\"}}",
        "ethernets: {e: {routes: [{to: default, via: 10.0.0.1}, {to: default, via: 10.0.0.2, metric: 200}]}}",
        "wifis: {w: {access-points: {a: {}, b: {password: \"\"}, c: {auth: {key-management: sae, password: x}}}}}",
        "wifis: {renderer: networkd, w: {access-points: {a: {}}}}",
        "ethernets: {e: {nameservers: {addresses: [1.1.1.1, \"2606:4700::1111\"], search: [lan]}}}",
        "ethernets: {e: {nameservers: {addresses:}, routes: [{to: 10.9.0.0/16, scope: link}]}}",
        "{version: 1, config: [{type: physical}]}",
        "{version: 2, vrfs: {}, modems: {}, virtual-ethernets: {}, nm-devices: {}, openvswitch: {}, later: {}}",
        "ethernets: {e: {routes: [{to: 0.0.0.0/0, via: 10.0.0.1, metric: 9, table: 7, mtu: 1400, on-link: true, later: 1}]}}",
        "ethernets: {e: {nameservers: {addresses: [1.1.1.1], search: [lan], later: x}}}",
        "wifis: {w: {auth: {}, access-points: {a: {band: 5GHz, bssid: x, hidden: true, channel: 36, mode: ap, later: 1}}}}",
        "config: disabled",
        "ethernets:",
    ] {
        assert_eq!(found(text), [""; 0], "{text}");
    }
}

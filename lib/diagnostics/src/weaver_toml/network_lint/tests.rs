use super::*;
use proptest::prelude::*;

fn found(text: &str) -> Vec<String> {
    let has_one = text.contains("version") || !text.contains(": ") || text.starts_with("network");
    let text = if has_one { text.to_owned() } else { format!("{text}version: 2\n") };
    let findings = lint(&TextFile::new("/n", text), &Config::default());
    assert!(!format!("{findings:?}").contains("hunter2"), "{findings:?}");
    findings.into_iter().map(|finding| finding.message + " | " + &finding.remedy.unwrap().explain).collect()
}

/// Each text has one fault, which begins so.
fn assert_faults(cases: &[(&str, &str)]) {
    for (text, want) in cases {
        let found = found(text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(found[0].starts_with(want), "{text}: {found:?}");
    }
}

#[test]
fn names_and_passwords_that_another_program_changed_are_named() {
    assert_faults(&[
        (
            "network:\n  version: 2\n  wifis:\n    wlan0:\n      access-points:\n        \"\\xe4\\xb8\\x9c\\xe4\\xba\\xac\": {password: hunter2x}\n",
            "/n:6:9: the Wi-Fi's name is encoded twice, so no network of that name will be found | write it as it is: \"东京\"",
        ),
        (
            "wifis:\n  wlan0:\n    dhcp4: true\n    access-points:\n      'Caf\\xc3\\xa9': {}\n",
            "/n:5:7: the Wi-Fi's name has an escape, which YAML reads in double quotes only, so no network of that name will \
                 be found | write it as it is: \"Café\"",
        ),
        (
            "wifis: {wlan0: {dhcp4: true, access-points: {\"Bobâ€™s iPhone\": {}}}}\n",
            "/n:1:46: the Wi-Fi's name is encoded twice, so no network of that name will be found | write it as it is: \
                 \"Bob’s iPhone\"",
        ),
        (
            "wifis: {wlan0: {dhcp4: true, access-points: {\"<SSID>\": {password: hunter2hunter2}}}}\n",
            "/n:1:46: the Wi-Fi's name is a placeholder of a template, so no network of that name will be found | write the",
        ),
        (
            "wifis: {wlan0: {dhcp4: true, access-points: {\"{{ssid}}\": {}}}}\n",
            "/n:1:46: the Wi-Fi's name is a placeholder",
        ),
        (
            "wifis: {wlan0: {dhcp4: true, access-points: {“attic”: {}}}}\n",
            "/n:1:46: the quotes of the Wi-Fi's name are those of a word processor",
        ),
        (
            "wifis: {wlan0: {dhcp4: true, access-points: {attic: {password: “hunter2hunter2”}}}}\n",
            "/n:1:64: the quotes of the Wi-Fi's password are those of a word processor",
        ),
    ]);
}

#[test]
fn each_fault_is_named_with_its_line_and_what_to_write() {
    assert_faults(&[
        (
            "network:\n  version: 2\n  wifis:\n\u{a0}\u{a0}\u{a0}\u{a0}wlan0:\n      dhcp4: true\n",
            "/n:4:1: the blanks here are those of a web page",
        ),
        // What was wpa_supplicant.conf.
        ("country=DE\nnetwork={\n ssid=\"attic\"\n}\n", "/n:1:1: it is no mapping"),
        ("network: {version: 3}\n", "/n:1:20: there are versions 1 and 2 only | write `version: 2`"),
        (
            "ethernets:\n  end0:\n    addresses: [192.168.1.5]\n",
            "/n:3:17: an address needs a prefix length | write the prefix length: 192.168.1.5/24",
        ),
        ("ethernets:\n  end0:\n    addresses: [raspi]\n", "/n:3:17: it is not an IP address"),
        (
            "ethernets:\n  end0: {addresses: [10.0.0.2/24]}\n  end1: {addresses: [10.0.0.2/24]}\n",
            "/n:3:22: end1 has the address of end0",
        ),
        (
            "ethernets:\n  end0: {gateway4: 10.0.0.1}\n  end1: {routes: [{to: default, via: 10.0.1.1}]}\n",
            "/n:3:19: end0 and end1 both have a default route",
        ),
        (
            "wifis: {wlan0: {regulatory-domain: germany, access-points: {}}}\n",
            "/n:1:36: it is not a country code",
        ),
        (
            "wifis: {wlan0: {regulatory-domain: UK, access-points: {}}}\n",
            "/n:1:36: it is no country of ISO 3166",
        ),
        (
            "wifis:\n  wlan0:\n    regulatory-domain: NO\n    access-points: {}\n",
            "/n:3:24: without quotes YAML reads it as a boolean",
        ),
        (
            "wifis:\n  wlan0:\n    regulatory-domain: de\n    access-points: {}\n",
            "/n:3:24: it is not a country code",
        ),
        (
            "wifis:\n  wlan0:\n    access-points:\n      0123: {password: \"hunter2x\"}\n",
            "/n:4:7: without quotes YAML reads the Wi-Fi's name as a number",
        ),
        (
            "wifis:\n  wlan0:\n    access-points:\n      attic:\n        password: 01234567 # mine\n",
            "/n:5:19: without quotes YAML reads the Wi-Fi's password as a number",
        ),
        (
            "wifis: {wlan0: {access-points: {attic: {auth: {password: 1234_5678}}}}}\n",
            "/n:1:58: without quotes YAML reads the Wi-Fi's password",
        ),
        ("network:\n  ethernets: {end0: {dhcp4: true}}\n", "/n:2:3: it has no `version`"),
        (
            "ethernets: {end0: {optional: true}, end1: {dhcp4: false}}\n",
            "/n:1:13: no interface of this file gets an address",
        ),
        (
            "ethernets: {eth0: {addresses: [10.0.0.2/24]}}\n",
            "/n:1:13: no interface of this file has a default route, and k3s does not start without one (H-01)",
        ),
        (
            "ethernets: {eth0: {dhcp4: no, addresses: [10.0.0.2/24], gateway4: 10.0.0.1}}\n",
            "/n:1:13: no interface of this file has a name server",
        ),
        ("ethernets: {enp0s31f6: {dhcp4: true}}\n", "/n:1:13: the card has no interface `enp0s31f6`"),
        (
            "wifis:\n  wlan0:\n    dhcp4: true\n    access-points:\n      attic: {password: \"gr\\xc3\\xbchunter2\"}\n",
            "/n:5:25: the Wi-Fi's password is encoded twice",
        ),
        ("network:\n  version: \"2\"\n  ethernets: {}\n", "/n:2:12: `version` is a string"),
        ("network: [\n", "/n:"),
        (
            "network:\n  ethernets:\n\teth0: {}\n",
            "/n:3:2: it is not YAML, so no network of this file is set up",
        ),
        ("ethernets:\n  end0:\n    addresses: [10.0.0.2/33]\n", "/n:3:17: it has no valid prefix length"),
        (
            "ethernets:\n  end0:\n    addresses: [10.0.0.2/255.255.255.0]\n",
            "/n:3:17: it has no valid prefix length",
        ),
        (
            "wifis: {wlan0: {regulatory-domain: EN, access-points: {a: {}}}}\n",
            "/n:1:36: it is not a country code",
        ),
        ("version: 3\nethernets: {}\n", "/n:1:10: there are versions 1 and 2 only"),
    ]);
}

#[test]
fn what_is_fine_is_left_alone() {
    for text in [
        "",
        include_str!("../../../../../tests/fixtures/imager/wifi/network-config"),
        "wifis: {wlan0: {dhcp4: true, regulatory-domain: DE, access-points: {\"Café Zürich\": {}, plain: {}, 东京: {}}}}\n",
        "ethernets:\n  end0: {gateway4: 10.0.0.1, addresses: [10.0.0.2/24, \"fd00::2/64\"], nameservers: {addresses: [10.0.0.1]}}\n  end1: {routes: [{to: default, via: 10.0.1.1, metric: 200}]}\n",
        "network: {config: disabled}\n",
        "wifis: {wlan0: {dhcp4: true, access-points: {\"<3 cats\": {}, \"<<< attic >>>\": {}, \"{attic}\": {}, \"$attic\": {}}}}\n",
        "wifis: {wlan0: {dhcp4: true, access-points: {\"CAFÉ™ – €5\": {}, '\u{a0}attic': {}, 'back\\slash': {}}}}\n",
        "ethernets: {eth0: {addresses: [10.0.0.2/24]}, eth1: {dhcp4: true}}\n",
        "ethernets: {eth0: {addresses: [10.0.0.2/24], routes: [{to: default, via: 10.0.0.1}], nameservers: {addresses: [9.9.9.9]}}}\n",
        "ethernets: {lan: {match: {name: \"en*\"}, dhcp4: true}, enp1s0: {match: {driver: r8169}, dhcp4: true}}\n",
        "ethernets: {enp1s0: {dhcp4: true}, eth0: {dhcp4: true}}\n",
        "network:\n  version: 1\n  config: [{type: physical, name: eth0, subnets: [{type: dhcp}]}]\n",
        "wifis:\n  wlan0:\n    dhcp4: true\n    regulatory-domain: \"NO\"\n    access-points:\n      \"0123\": {password: '01234567'}\n      \
             0123 attic: {password: 12345678}\n      0123,x: {password: 08154711}\n      cellar: {password: hunter2x}\n",
    ] {
        assert_eq!(found(text), Vec::<String>::new(), "{text}");
    }
    let twice = "wifis: {wlan0: {access-points: {\"\\xc3\\xbc\": {}}}}\nversion: 2\n";
    assert_eq!(found(twice).len(), 1);
    let config = |text: &str| crate::weaver_toml::parse(text.as_bytes()).unwrap().config;
    let wifi = config("[wifi]\ncountry = \"DE\"\nssid = \"attic\"\npassword = \"hunter2hunter2\"\n");
    assert_eq!(lint(&TextFile::new("/n", twice), &wifi), [], "weaver.toml has the radio");
    let alone = "version: 2\nethernets: {eth0: {addresses: [10.0.0.2/24]}}\n";
    let wired = config("[network]\naddress = \"10.0.0.2/24\"\ngateway = \"10.0.0.1\"\n");
    assert_eq!(lint(&TextFile::new("/n", alone), &wired), [], "weaver.toml has the wired port");
}

proptest! {
    #[test]
    fn never_panics(text in "\\PC*|(ethernets:|  end0:|    addresses: |\\[10.0.0.2\\]|wifis:|\n){0,20}") {
        let _ = lint(&TextFile::new("/n", text), &Config::default());
    }
}

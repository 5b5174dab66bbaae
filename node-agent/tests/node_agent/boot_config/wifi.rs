//! `[wifi]`: the network is set up, its password is shown nowhere, and another file's network is replaced.

#![allow(clippy::unwrap_used, reason = "a failed step of a test ends the test")]

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::{LAST_GOOD, SECRET, TOKEN, WEAVER_TOML, card::CardHost};

const PASSWORD_FILE: &str = "/var/lib/weaver/wifi.password";
const NETPLAN: &str = "/etc/netplan/90-weaver.yaml";
const CLOUD_INITS: &str = "/etc/netplan/50-cloud-init.yaml";
const IN_ITS_PLACE: &str = "/run/netplan/50-cloud-init.yaml";
const PASSWORD: &str = "hunter2 of the attic";
const WIFI: &str = r#"# mine
[wifi]
country = "DE"
ssid = "attic"
password = "hunter2 of the attic" # secret
hidden = true
"#;
const IMAGERS: &str = include_str!("../../../../tests/fixtures/imager/wifi/network-config");
/// Imager's network and key.
const THEIRS: [&str; 2] = ["Corner House", "100482164f8afdd4"];

#[test]
fn the_network_is_set_up_and_the_password_is_shown_to_no_one() {
    let host = CardHost::new();
    let said = host.configure(WIFI).exits(0);
    assert!(said.finds("B-00", "ok")["message"].as_str().unwrap().contains("a Wi-Fi in DE"));
    assert_eq!(host.read(PASSWORD_FILE), format!("{PASSWORD}\n"));
    let netplan = host.read(NETPLAN);
    let password = format!("password: {PASSWORD}");
    for line in ["wlan0:", "regulatory-domain: DE", "attic:", "hidden: true", password.as_str()] {
        assert!(netplan.lines().any(|present| present.trim_start() == line), "no {line}: {netplan}");
    }
    assert_eq!(host.read(WEAVER_TOML), WIFI.replace(PASSWORD, ""), "every other byte stays");
    assert_eq!(host.read(LAST_GOOD), WIFI.replace(PASSWORD, ""));
    for path in [PASSWORD_FILE, NETPLAN] {
        assert_eq!(fs::metadata(host.path(path)).unwrap().permissions().mode() & 0o7777, 0o600, "{path}");
    }
    assert!(!said.stderr.contains("hunter2"), "{}", said.stderr);
    let holders = [PASSWORD_FILE, NETPLAN].map(|path| host.path(path));
    for (path, (_, _, content)) in host.state() {
        let holds = String::from_utf8_lossy(&content).contains("hunter2");
        assert_eq!(holds, holders.contains(&path), "{}", path.display());
    }
}

#[test]
fn a_second_start_keeps_the_password_and_writes_nothing() {
    let host = CardHost::new();
    host.configure(WIFI).exits(0);
    let before = host.state();
    host.run().exits(0).finds("B-00", "ok");
    assert_eq!(host.state(), before);
}

#[test]
fn another_name_or_country_keeps_the_password_and_a_new_password_replaces_it() {
    let host = CardHost::new();
    host.configure(WIFI).exits(0);
    let kept = WIFI.replace(PASSWORD, "");
    host.configure(&kept.replace("attic", "cellar").replace("DE", "AT")).exits(0);
    let netplan = host.read(NETPLAN);
    assert!(netplan.contains("cellar:") && netplan.contains(PASSWORD) && netplan.contains("domain: AT"));
    host.configure(&WIFI.replace(PASSWORD, "another one")).exits(0);
    assert!(
        host.read(NETPLAN).contains("password: another one\n") && !host.read(NETPLAN).contains("hunter2")
    );
    assert_eq!(host.read(PASSWORD_FILE), "another one\n");
}

#[test]
fn without_the_section_everything_of_it_is_removed() {
    for without in [None, Some(""), Some("[network]\ndns = [\"9.9.9.9\"]\n")] {
        let host = CardHost::new();
        host.write("/boot/firmware/network-config", IMAGERS);
        host.configure(WIFI).exits(0);
        assert!(host.exists(IN_ITS_PLACE));
        fs::remove_file(host.path(WEAVER_TOML)).unwrap();
        if let Some(text) = without {
            host.write(WEAVER_TOML, text);
        }
        host.run().exits(0);
        assert!(!host.exists(PASSWORD_FILE) && !host.exists(IN_ITS_PLACE), "{without:?}");
        let wired = without.is_some_and(|text| !text.is_empty());
        assert_eq!(host.exists(NETPLAN), wired, "{without:?}");
        assert!(!wired || !host.read(NETPLAN).contains("wifis"));
    }
}

#[test]
fn a_fault_leaves_the_network_as_it_was() {
    let host = CardHost::new();
    host.configure(WIFI).exits(0);
    for (line, wrong, says) in [
        ("country = \"DE\"\n", "", "`ssid` without a `country`"),
        ("\"DE\"", "\"de\"", "write \"DE\""),
        ("\"DE\"", "\"UK\"", "write \"GB\""),
        ("\"attic\"", "\"\"", "has no name"),
        (PASSWORD, "hunter2", "shorter than 8"),
        ("hidden = true", "hidden = 1", "`hidden` is a number, not true or false"),
    ] {
        host.write(WEAVER_TOML, WIFI.replace(line, wrong));
        let before = host.state_but_report();
        let said = host.run().exits(0);
        let evidence = said.finds("B-01", "warn")["evidence"].clone();
        assert_eq!(evidence.as_array().unwrap().len(), 1, "{evidence}");
        assert!(evidence[0]["saw"].as_str().unwrap().contains(says), "{evidence}");
        assert_eq!(host.state_but_report(), before, "{wrong}");
        assert!(!said.stderr.contains("hunter2") && !said.report.to_string().contains("hunter2"));
    }
}

#[test]
fn an_empty_password_on_a_new_card_is_reported_and_imagers_network_stays() {
    let host = CardHost::new();
    host.write("/boot/firmware/network-config", IMAGERS);
    let said = host.configure(&WIFI.replace(PASSWORD, "")).exits(0);
    let finding = said.finds("B-05", "warn");
    assert_eq!(
        (&finding["evidence"][0]["file"], &finding["evidence"][0]["line"]),
        (&WEAVER_TOML.into(), &4.into())
    );
    assert!(!said.stderr.contains("B-03"), "{}", said.stderr);
    assert!(!host.exists(NETPLAN) && !host.exists(IN_ITS_PLACE));
}

#[test]
fn imagers_network_makes_room_and_both_lines_are_named() {
    let host = CardHost::new();
    host.write("/boot/firmware/network-config", IMAGERS);
    let said = host.configure(WIFI).exits(0);
    let evidence = said.finds("B-03", "warn")["evidence"].clone();
    let places: Vec<_> =
        evidence.as_array().unwrap().iter().map(|e| (e["file"].clone(), e["line"].clone())).collect();
    let theirs = ("/boot/firmware/network-config".into(), 9.into());
    assert_eq!(places, [(WEAVER_TOML.into(), 4.into()), theirs]);
    let instead = host.read(IN_ITS_PLACE);
    assert!(instead.contains("    eth0:\n      dhcp4: \"true\""), "the wired port stays: {instead}");
    assert_eq!(fs::metadata(host.path(IN_ITS_PLACE)).unwrap().permissions().mode() & 0o7777, 0o600);
    let reported = [said.stderr, said.report.to_string(), instead, host.read(NETPLAN)].concat();
    assert!(THEIRS.iter().all(|theirs| IMAGERS.contains(theirs) && !reported.contains(theirs)), "{reported}");
}

#[test]
fn what_cloud_init_set_up_at_an_earlier_start_makes_room_too() {
    let host = CardHost::new();
    host.write(CLOUD_INITS, IMAGERS);
    let before = host.read(CLOUD_INITS);
    let said = host.configure(WIFI).exits(0);
    assert_eq!(said.finds("B-03", "warn")["evidence"][1]["file"], CLOUD_INITS);
    assert!(host.exists(IN_ITS_PLACE));
    assert_eq!(host.read(CLOUD_INITS), before, "it is cloud-init's, and comes back without [wifi]");
}

#[test]
fn room_is_made_at_each_boot_while_the_last_good_state_is_kept() {
    let host = CardHost::new();
    host.write(CLOUD_INITS, IMAGERS);
    host.configure(WIFI).exits(0);
    let room = host.read(IN_ITS_PLACE);
    let reboot = || fs::remove_dir_all(host.path("/run")).unwrap();
    reboot();
    host.configure("hostname = \"Bad\"\n").exits(0).finds("B-01", "warn");
    assert_eq!(host.read(IN_ITS_PLACE), room, "netplan would join either network");
    reboot();
    fs::remove_dir_all(host.path("/boot/firmware")).unwrap();
    fs::create_dir(host.path("/boot/firmware")).unwrap();
    host.run().exits(0).finds("B-02", "warn");
    assert_eq!(host.read(IN_ITS_PLACE), room);
}

#[test]
fn a_wifi_of_imagers_alone_is_nothing_to_tell() {
    let host = CardHost::new();
    host.write("/boot/firmware/network-config", IMAGERS);
    let said = host.configure("[network]\ndns = [\"9.9.9.9\"]\n").exits(0);
    assert!(!said.stderr.contains("B-03"), "{}", said.stderr);
    assert!(!host.exists(IN_ITS_PLACE));
}

#[test]
fn a_network_config_that_is_no_yaml_is_reported_without_its_text() {
    let host = CardHost::new();
    host.write("/boot/firmware/network-config", "network:\n  wifis: {wlan0: {password: \"theirs99\n");
    let said = host.configure(WIFI).exits(0);
    assert_eq!(said.finds("B-03", "warn")["evidence"][0]["file"], "/boot/firmware/network-config");
    assert!(!said.stderr.contains("theirs99"), "{}", said.stderr);
    assert!(host.exists(NETPLAN), "the Wi-Fi is set up all the same");
}

/// What is reported of `[wifi]` next to a file of the owner's, and whether it is set up.
fn next_to_the_owners(path: &str, content: &str) -> (String, bool) {
    let host = CardHost::new();
    host.write(path, content);
    let said = host.configure(&format!("{WIFI}[network]\ndns = [\"9.9.9.9\"]\n")).exits(0);
    let reported = format!("{}{}", said.stderr, said.report);
    assert!(!reported.contains("theirs99") && !reported.contains("hunter2"), "{reported}");
    assert_eq!(host.read(path), content, "it is the owner's");
    let netplan = host.read(NETPLAN);
    assert!(netplan.contains("9.9.9.9"), "the wired port is set up: {netplan}");
    let is_set_up = netplan.contains("wlan0");
    let in_force = said.finds("B-00", "ok")["message"].to_string();
    assert_eq!(in_force.contains("a Wi-Fi in DE"), is_set_up, "{in_force}");
    assert_eq!(host.read(PASSWORD_FILE), format!("{PASSWORD}\n"), "it is kept for when the file is gone");
    let clash = said.report["findings"].as_array().unwrap().iter().find(|finding| finding["code"] == "B-03");
    let evidence = clash.map(|finding| finding["evidence"].as_array().unwrap().clone()).unwrap_or_default();
    let places = evidence.iter().map(|e| format!("{}:{} ", e["file"].as_str().unwrap(), e["line"]));
    (places.collect(), is_set_up)
}

#[test]
fn a_file_of_the_owners_that_names_the_radio_is_reported_and_costs_no_network() {
    let path = "/etc/netplan/60-wifi.yaml";
    let both = format!("{WEAVER_TOML}:4 {path}:3 ");
    let networks = "network:\n  wifis:\n    wlan0: {access-points: {attic: {password: theirs99}}}\n";
    assert_eq!(next_to_the_owners(path, networks), (both.clone(), true));
    let port = "network:\n  ethernets:\n    wlan0: {auth: {password: theirs99}}\n";
    assert_eq!(next_to_the_owners(path, port), (both, false), "netplan would refuse all networks");
    let more = "network:\n  wifis:\n    wlan0: {dhcp6: true}\n";
    assert_eq!(next_to_the_owners(path, more), (String::new(), true), "netplan refuses it without [wifi]");
    let no_yaml = "network:\n  ethernets: {wlan0: {password: \"theirs99\n";
    let (places, is_set_up) = next_to_the_owners(path, no_yaml);
    assert!(places.starts_with(path) && is_set_up, "{places}");
}

#[test]
fn no_secret_leaves_the_file_before_both_are_stored() {
    let text = format!("{WIFI}[k3s]\ntoken = \"{SECRET}\"\n");
    for (blocked, stored) in [(PASSWORD_FILE, TOKEN), (TOKEN, PASSWORD_FILE)] {
        let host = CardHost::new();
        host.write(&format!("{blocked}/inner"), "");
        let said = host.configure(&text).exits(1);
        assert_eq!(said.finds("B-05", "warn")["evidence"][0]["file"], blocked);
        assert_eq!(host.read(WEAVER_TOML), text);
        assert!(host.exists(stored) && !host.exists(LAST_GOOD), "{blocked}");
        fs::remove_dir_all(host.path(blocked)).unwrap();
        host.run().exits(0);
        assert_eq!(host.read(WEAVER_TOML), text.replace(PASSWORD, "").replace(SECRET, ""));
    }
}

#[test]
fn a_card_that_cannot_be_written_keeps_the_password_and_the_report_names_its_key() {
    let host = CardHost::new();
    // Blocks the path of the new file: it can neither be removed nor made.
    host.write("/boot/firmware/weaver.toml.new/inner", "");
    let said = host.configure(WIFI).exits(0);
    let remedy = said.finds("B-04", "warn")["remedy"]["explain"].as_str().unwrap().to_owned();
    assert!(remedy.contains("`password = \"\"`") && !remedy.contains("token"), "{remedy}");
    assert_eq!((host.read(WEAVER_TOML).as_str(), host.read(PASSWORD_FILE)), (WIFI, format!("{PASSWORD}\n")));
    assert!(!said.stderr.contains("hunter2") && !host.read(LAST_GOOD).contains("hunter2"), "{}", said.stderr);
}

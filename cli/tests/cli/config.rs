//! `weaver config check`: what the Pi would warn of is reported before the card is in it.

use std::{fs, path::Path, process::Command};

const KEYS: &str =
    "[ssh]\nkeys = [\"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g\"]\n";
const WIFI: &str = "[wifi]\ncountry = \"DE\"\nssid = \"attic\"\npassword = \"\"\n";
const NO_YAML: &str = "#cloud-config\nnetwork: {wifis: {wlan0: {password: \"hunter2\n";

/// The messages about a `weaver.toml` in this directory, which has no fault.
fn said(dir: &Path, weaver_toml: &str) -> String {
    let file = dir.join("weaver.toml");
    fs::write(&file, weaver_toml).unwrap();
    let mut weaver = Command::new(env!("CARGO_BIN_EXE_weaver"));
    let done = weaver.args(["config", "check"]).arg(file).output().unwrap();
    let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
    assert!(done.status.success(), "{said}");
    assert!(!said.contains("hunter2"), "{said}");
    said
}

#[test]
fn a_file_next_to_it_that_says_nothing_is_reported_where_the_pi_would_tell_it() {
    for (name, asks, other) in [("network-config", WIFI, KEYS), ("user-data", KEYS, WIFI)] {
        for content in [NO_YAML.as_bytes(), b"#cloud-config\n\xff"] {
            let dir = tempfile::tempdir().unwrap();
            assert!(!said(dir.path(), asks).contains("B-03"), "there is no {name}");
            let path = dir.path().join(name);
            fs::write(&path, content).unwrap();
            let reported = said(dir.path(), asks);
            assert!(
                reported.contains("B-03") && reported.contains(&format!("{name} could not be read")),
                "{reported}"
            );
            assert!(reported.contains(&path.display().to_string()), "{reported}");
            assert!(!said(dir.path(), other).contains("B-03"), "{name} has no part in it");
        }
    }
}

#[test]
fn a_network_of_imagers_is_reported_with_both_lines() {
    let dir = tempfile::tempdir().unwrap();
    let network_config = "network:\n  wifis:\n    wlan0: {access-points: {x: {password: \"hunter2\"}}}\n";
    fs::write(dir.path().join("network-config"), network_config).unwrap();
    let reported = said(dir.path(), WIFI);
    assert!(reported.contains("weaver.toml:3:1") && reported.contains("network-config:3:5"), "{reported}");
}

#[test]
fn keys_of_user_data_that_no_one_gets_are_reported() {
    let key = KEYS.lines().nth(1).and_then(|line| line.split('"').nth(1)).unwrap();
    for (user_data, want) in [
        (
            format!("#cloud-config\nssh_authorized_keys: [{key}]\n"),
            Some("user-data:2:22: these keys are for the default user"),
        ),
        (format!("#cloud-config\nusers:\n- name: ada\n  ssh_authorized_keys: [{key}]\n"), None),
        (
            "# cloud-config\nhostname: pi\n".to_owned(),
            Some("user-data:1: the first line is not `#cloud-config`"),
        ),
        ("## template: jinja\n#cloud-config\nssh_authorized_keys: []\n".to_owned(), None),
    ] {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("user-data"), &user_data).unwrap();
        let reported = said(dir.path(), "");
        assert_eq!(reported.contains("B-09"), want.is_some(), "{reported}");
        assert!(want.is_none_or(|want| reported.contains(want)), "{reported}");
    }
}

#[test]
fn a_file_of_another_system_is_reported_on_a_boot_partition_only() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("userconf.txt"), "pi:hunter2").unwrap();
    assert!(!said(dir.path(), KEYS).contains("B-09"), "a directory of the user's");
    fs::write(dir.path().join("config.txt"), "").unwrap();
    let reported = said(dir.path(), KEYS);
    assert!(
        reported.contains("B-09") && reported.contains("userconf.txt: this file is for Raspberry Pi OS"),
        "{reported}"
    );
}

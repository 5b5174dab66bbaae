//! How `boot-config` handles the cards that Raspberry Pi Imager prepares.

#![allow(clippy::unwrap_used, reason = "a failed step of a test ends the test")]

use std::{fs, path::Path};

use super::{WEAVER_TOML, card::CardHost};

const CARDS: [&str; 5] = ["key-only", "password", "wifi", "hidden-wifi", "no-host-name"];
/// Parts of the password's hash and of the networks' keys.
const SECRETS: [&str; 3] = ["F5Jx5fExrKuPp53xLKQ", "100482164f8afdd4", "a4a72e6c56cfd94c"];
const OURS: &str = r#"hostname = "raspi"
[ssh]
keys = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g me@laptop"]
"#;

fn file(card: &str, name: &str) -> Option<String> {
    let cards = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/imager");
    fs::read_to_string(Path::new(cards).join(card).join(name)).ok()
}

/// The card as Imager leaves it.
fn prepared(card: &str) -> CardHost {
    let host = CardHost::new();
    for name in ["user-data", "meta-data", "network-config"] {
        if let Some(text) = file(card, name) {
            host.write(&format!("/boot/firmware/{name}"), text);
        }
    }
    // Imager installs it with each host name.
    host.write("/var/lib/dpkg/info/avahi-daemon.list", "");
    let appended = file(card, "appended").unwrap();
    host.write(
        "/boot/firmware/cmdline.txt",
        format!("console=tty0 root=LABEL=weaver-root rootwait {appended}"),
    );
    host
}

/// The line of user-data that begins so.
fn line(card: &str, begin: &str) -> usize {
    file(card, "user-data").unwrap().lines().position(|line| line.starts_with(begin)).unwrap() + 1
}

#[test]
fn without_a_weaver_toml_everything_is_imagers() {
    for card in CARDS {
        let host = prepared(card);
        let said = host.run().exits(0);
        assert!(!said.stderr.contains("B-03"), "{card}: {}", said.stderr);
        assert_eq!(host.read("/etc/hostname"), "weaver\n", "{card}: cloud-init sets it");
        assert_eq!(host.read("/etc/default/raspi-extra-cmdline"), file(card, "appended").unwrap(), "{card}");
    }
}

#[test]
fn what_both_say_is_reported_with_both_lines_and_weaver_toml_wins() {
    for card in CARDS {
        let host = prepared(card);
        let said = host.configure(OURS).exits(0);
        assert_eq!(host.read("/etc/hostname"), "raspi\n", "{card}");
        if card == "no-host-name" {
            assert!(!said.stderr.contains("B-03"), "{card}: {}", said.stderr);
            continue;
        }
        let evidence = said.finds("B-03", "warn")["evidence"].as_array().unwrap().clone();
        let places: Vec<_> =
            evidence.iter().map(|e| (e["file"].as_str().unwrap(), e["line"].as_u64())).collect();
        let theirs = |begin| ("/boot/firmware/user-data", u64::try_from(line(card, begin)).ok());
        assert_eq!(
            places,
            [(WEAVER_TOML, Some(1)), theirs("hostname:"), theirs("manage_etc_hosts:")],
            "{card}"
        );
    }
}

#[test]
fn packages_that_no_one_installs_are_named_and_imagers_own_is_there() {
    for asked in ["", "- htop\n"] {
        let host = prepared("key-only");
        let text = file("key-only", "user-data").unwrap();
        host.write("/boot/firmware/user-data", text.replace("packages:\n", &format!("packages:\n{asked}")));
        let said = host.configure(OURS).exits(0);
        if asked.is_empty() {
            assert!(!said.stderr.contains("apt-get"), "{}", said.stderr);
            continue;
        }
        let commands = said.finds("B-05", "warn")["remedy"]["commands"].clone();
        assert_eq!(commands, serde_json::json!(["sudo apt-get update", "sudo apt-get install htop"]));
        host.write("/var/lib/dpkg/info/htop:arm64.list", "");
        let said = host.configure(OURS).exits(0);
        assert!(!said.stderr.contains("apt-get"), "once it is there: {}", said.stderr);
    }
}

#[test]
fn keys_of_weaver_toml_go_to_imagers_user() {
    for card in CARDS {
        let host = prepared(card);
        host.configure(OURS).exits(0);
        assert!(host.read("/etc/ssh/weaver_keys/ada").contains("me@laptop"), "{card}");
        assert!(!host.exists("/etc/ssh/weaver_keys/weaver-admin"), "{card}");
    }
}

#[test]
fn no_hash_and_no_key_of_a_network_is_repeated() {
    for card in CARDS {
        let host = prepared(card);
        let said = host.configure(OURS).exits(0);
        let inputs = host.path("/boot/firmware");
        let written = host.state().into_iter().filter(|(path, _)| !path.starts_with(&inputs));
        let texts = written.map(|(_, (_, _, bytes))| String::from_utf8_lossy(&bytes).into_owned());
        for text in texts.chain([said.stderr]) {
            for secret in SECRETS {
                assert!(!text.contains(secret), "{card}: {secret} in {text}");
            }
        }
    }
    let all: String = CARDS
        .iter()
        .flat_map(|card| ["user-data", "network-config"].map(|name| file(card, name)))
        .flatten()
        .collect();
    assert!(SECRETS.iter().all(|secret| all.contains(secret)), "the cards have them");
}

//! netplan's files are applied where they have changed, and only there: its generator runs before k3s may start.

#![allow(clippy::unwrap_used, reason = "a failed step of a test ends the test")]

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::card::{CardHost, GENERATE};

const WIRED: &str = "[network]\naddress = \"192.168.1.20/24\"\ngateway = \"192.168.1.1\"\n";
const LOG: &str = "/generated";

/// A generator that notes that it was called, then ends so.
fn generator(host: &CardHost, ends: &str) {
    let log = host.path(LOG);
    host.write(GENERATE, format!("#!/bin/sh\necho called >> {}\necho hunter2 >&2\n{ends}\n", log.display()));
    fs::set_permissions(host.path(GENERATE), fs::Permissions::from_mode(0o755)).unwrap();
}

fn calls(host: &CardHost) -> usize {
    if host.exists(LOG) { host.read(LOG).lines().count() } else { 0 }
}

#[test]
fn networks_are_generated_where_their_file_has_changed() {
    let host = CardHost::new();
    generator(&host, "exit 0");
    for (weaver_toml, want) in [
        ("hostname = \"raspi\"\n", 0),
        (WIRED, 1),
        (WIRED, 1),
        (&WIRED.replace("20/24", "21/24"), 2),
        ("hostname = raspi\n", 2),
        ("", 3),
        ("", 3),
    ] {
        host.configure(weaver_toml).exits(0);
        assert_eq!(calls(&host), want, "{weaver_toml}");
    }
}

#[test]
fn networks_that_netplan_refuses_are_reported_without_its_words() {
    let host = CardHost::new();
    generator(&host, "exit 3");
    let said = host.configure(WIRED).exits(1);
    let finding = said.finds("B-05", "warn");
    assert!(finding["message"].as_str().unwrap().contains("netplan refuses"), "{finding}");
    assert!(!said.stderr.contains("hunter2") && !said.stderr.contains("B-00"), "{}", said.stderr);
    // systemd's generator is the next to read it.
    host.run().exits(0);
    assert_eq!(calls(&host), 1);
}

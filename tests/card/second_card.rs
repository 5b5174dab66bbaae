//! A second card of the same image: prepared by Raspberry Pi Imager, with a fixed address, and on a kernel without
//! the memory controller, with which k3s would restart forever and say nothing.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use weaver_image::boot::card::{Card, Edits};
use weaver_image::boot::fat::Fat;
use weaver_image::boot::machine::{Machine, Setup};
use weaver_image::booted;

use crate::node::is_active;
use crate::poll::until;
use crate::root::image;

/// As Imager 2 writes them for an owner who sets no user; the host name clashes with weaver.toml's. Imager's third
/// file, meta-data, is the card's own here, as for a user who writes these two.
const USER_DATA: &str = "#cloud-config
hostname: imager
manage_etc_hosts: true
timezone: Asia/Tokyo
";
const NETWORK_CONFIG: &str = "network:
  version: 2
  ethernets:
    eth0: {dhcp4: true, optional: true}
";
/// And what it appends to cmdline.txt.
const APPENDED: &str = "cfg80211.ieee80211_regdom=JP ds=nocloud;i=rpi-imager-1763700000000";
/// The address is the one to which QEMU forwards the ports.
const SETTINGS: &str = "
[network]
address = \"10.0.2.15/24\"
gateway = \"10.0.2.2\"
dns = [\"10.0.2.3\"]

[k3s]
token = \"word-of-the-owner\"
";

/// Of all that a card makes for itself, what may never be on two of them.
fn identity(machine: &Machine) -> Vec<String> {
    let reported = machine.run("cat /etc/machine-id /etc/ssh/ssh_host_*_key.pub").unwrap();
    reported.lines().map(str::to_owned).collect()
}

fn edits() -> Edits {
    let mut edits = booted::edits();
    for (name, text) in [("user-data", USER_DATA), ("network-config", NETWORK_CONFIG)] {
        edits.files.push((name.to_owned(), text.as_bytes().to_vec()));
    }
    edits.weaver_toml = edits.weaver_toml.map(|text| text + SETTINGS);
    edits
}

fn append_to_cmdline(card: &Card) {
    let edit = |fat: &Fat| {
        let text = fat.read("cmdline.txt")?.context("the card has a cmdline.txt")?;
        let text = format!("{} {APPENDED}\n", String::from_utf8(text)?.trim_end());
        fat.write("cmdline.txt", text.as_bytes())
    };
    card.overlay().edit_fat(edit).unwrap();
}

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn without_the_memory_controller_k3s_is_not_started_and_the_card_says_why() {
    let card = Arc::new(Card::new(&image(), 4 << 30, &edits()).unwrap());
    append_to_cmdline(&card);
    let off = Setup { arguments: vec!["cgroup_disable=memory".to_owned()], ..Setup::default() };
    let mut machine = Machine::start(&card, &off).unwrap();
    machine.wait_for_ssh(Duration::from_mins(12)).unwrap();
    the_owners_settings_are_applied(&machine);
    k3s_is_held_back(&machine);
    the_token_is_kept_from_others(&machine);
    what_imager_appended_outlives_the_next_kernel(&machine);
    let own = identity(&machine);

    machine.power_off(Duration::from_mins(3)).unwrap();
    let text = machine.read_fat("NODE-STATUS.txt").unwrap().expect("the reason is on the card");
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("cgroup_disable=memory") && text.contains("cmdline.txt"), "{text}");
    assert!(text.contains("user-data"), "the clash is reported: {text}");
    assert!(text.contains("card-too-small") && text.contains("8 GB or more"), "4 GiB are: {text}");

    let toml = machine.read_fat("weaver.toml").unwrap().expect("the owner's file stays");
    let toml = String::from_utf8(toml).unwrap();
    assert!(toml.contains("token = \"\"") && !toml.contains("word-of-the-owner"), "{toml}");
    assert!(!text.contains("word-of-the-owner"), "{text}");

    let first = identity(&booted::machine().unwrap());
    assert_eq!(first.len(), own.len());
    assert!(own.iter().all(|line| !first.contains(line)), "two cards are strangers: {own:#?}");
}

fn the_owners_settings_are_applied(machine: &Machine) {
    until("Imager's time zone", || {
        let zone = machine.run("readlink /etc/localtime")?;
        Ok(if zone.contains("Asia/Tokyo") { Ok(()) } else { Err(zone) })
    });
    assert_eq!(machine.run("hostname").unwrap().trim(), "raspi", "weaver.toml wins");
    let route = machine.run("ip -4 route show default").unwrap();
    assert!(route.contains("via 10.0.2.2") && route.contains("proto static"), "weaver.toml wins: {route}");
    let servers = machine.run("resolvectl dns").unwrap();
    assert!(servers.contains("10.0.2.3"), "{servers}");
}

fn the_token_is_kept_from_others(machine: &Machine) {
    let stored = "stat -c '%a %U' /var/lib/weaver/k3s.token && cat /var/lib/weaver/k3s.token";
    assert_eq!(machine.run(stored).unwrap().trim(), "600 root\nword-of-the-owner");
    let k3s = machine.run("cat /etc/rancher/k3s/config.yaml.d/90-weaver.yaml").unwrap();
    assert!(k3s.contains("token-file:"), "{k3s}");
    // Written so that a note of the command itself is no find.
    let files = "grep -rl '[w]ord-of-the-owner' /run/weaver /run/issue.d /boot/firmware";
    let records = "journalctl --no-pager | grep '[w]ord-of-the-owner'";
    for command in [files, records] {
        let reported = machine.attempt(command, Duration::from_mins(2)).unwrap();
        assert_eq!((reported.code, reported.stdout.trim()), (1, ""), "{}", reported.stderr);
    }
}

/// The hook of a kernel's package writes cmdline.txt again; without the old one, nothing else can have.
fn what_imager_appended_outlives_the_next_kernel(machine: &Machine) {
    let again = "rm /boot/firmware/cmdline.txt
        DEB_MAINT_PARAMS=configure /etc/kernel/postinst.d/z50-raspi-firmware && cat /boot/firmware/cmdline.txt";
    let line = machine.run_within(again, Duration::from_mins(5)).unwrap();
    assert_eq!(line.matches(APPENDED).count(), 1, "{line}");
    assert_eq!(line.trim_end().lines().count(), 1, "{line}");
    // While there was none, the agent may have said so; the last word on the card is of the new one.
    until("a report that has seen it", || {
        let page = machine.attempt("cat /boot/firmware/NODE-STATUS.txt", Duration::from_mins(1))?.stdout;
        Ok(if page.contains("cmdline.txt") { Ok(()) } else { Err(page) })
    });
}

fn k3s_is_held_back(machine: &Machine) {
    let blocked = until("the block", || {
        let asked = machine.attempt("cat /run/weaver/k3s.blocked", Duration::from_mins(1))?;
        Ok(if asked.code == 0 { Ok(asked.stdout) } else { Err(asked.stderr) })
    });
    assert!(blocked.contains("cgroup_disable=memory"), "the cause: {blocked}");
    until("an end of the boot", || {
        let state = machine.attempt("systemctl is-system-running", Duration::from_mins(1))?;
        let state = state.stdout.trim().to_owned();
        Ok(if state == "starting" { Err(state) } else { Ok(()) })
    });
    let show = "systemctl show -p ActiveState -p ConditionResult -p ConditionTimestampMonotonic k3s.service";
    let k3s = machine.run(show).unwrap();
    assert!(k3s.contains("ActiveState=inactive") && k3s.contains("ConditionResult=no"), "{k3s}");
    assert!(!k3s.contains("ConditionTimestampMonotonic=0"), "no one asked for k3s: {k3s}");
    assert!(!is_active(machine, "weaver-operator.service").unwrap());
    let banner = machine.run("cat /run/issue.d/*weaver*").unwrap();
    assert!(banner.contains("N-0"), "the console names the code: {banner}");
}

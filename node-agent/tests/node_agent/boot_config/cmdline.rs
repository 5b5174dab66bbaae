//! What Imager or the owner appended to `cmdline.txt` outlives Debian's generator.

use std::fs;

use super::{WEAVER_TOML, card::CardHost};

const CMDLINE: &str = "/boot/firmware/cmdline.txt";
const EXTRA: &str = "/etc/default/raspi-extra-cmdline";
const NOTED: &str = "/var/lib/weaver/boot-config/imported-cmdline";
const GENERATED: &str =
    "console=ttyS1,115200 console=tty0 root=LABEL=weaver-root rw fsck.repair=yes net.ifnames=0  rootwait ";
const IMAGERS: &str = "cfg80211.ieee80211_regdom=DE ds=nocloud;i=rpi-imager-1763700000000";

fn host(appended: &str) -> CardHost {
    let host = CardHost::new();
    host.write(CMDLINE, format!("{GENERATED}{appended}\n"));
    host
}

#[test]
fn what_imager_appended_is_kept_and_a_second_start_writes_nothing() {
    let host = host(IMAGERS);
    host.run().exits(0);
    assert_eq!(host.read(EXTRA), format!("{IMAGERS}\n"));
    let before = host.state();
    host.run().exits(0);
    assert_eq!(host.state(), before);
}

#[test]
fn what_is_taken_out_again_goes_and_the_owners_own_stays() {
    let host = host("usb-storage.quirks=152d:0578:u");
    host.write(EXTRA, "own=1\n");
    host.run().exits(0);
    assert_eq!(host.read(EXTRA), "own=1 usb-storage.quirks=152d:0578:u\n");
    host.write(CMDLINE, format!("{GENERATED}own=1\n"));
    host.run().exits(0);
    assert_eq!(host.read(EXTRA), "own=1\n");
}

#[test]
fn a_faulty_weaver_toml_keeps_nothing_back() {
    let host = host(IMAGERS);
    host.write(WEAVER_TOML, "hostname =\n");
    host.run().exits(0).finds("B-01", "warn");
    assert_eq!(host.read(EXTRA), format!("{IMAGERS}\n"));
}

#[test]
fn nothing_appended_writes_nothing() {
    let host = host("");
    host.run().exits(0);
    assert!(!host.exists(EXTRA) && !host.exists(NOTED));
}

#[test]
fn a_partition_that_is_not_mounted_takes_nothing_away() {
    let host = host(IMAGERS);
    host.run().exits(0);
    host.write("/proc/self/mountinfo", "25 1 254:2 / / rw - ext4 /dev/vda2 rw\n");
    host.write(CMDLINE, GENERATED);
    host.run().exits(0);
    assert_eq!(host.read(EXTRA), format!("{IMAGERS}\n"));
}

#[test]
fn an_extra_file_that_is_no_text_is_reported_and_left() {
    let host = host(IMAGERS);
    host.write(EXTRA, b"own\0");
    host.run().exits(1).finds("B-05", "warn");
    assert_eq!(fs::read(host.path(EXTRA)).unwrap(), b"own\0");
}

#[test]
fn a_note_that_cannot_be_written_hands_nothing_on() {
    let host = host(IMAGERS);
    fs::create_dir_all(host.path(NOTED)).unwrap();
    host.run().exits(1).finds("B-05", "warn");
    assert!(!host.exists(EXTRA));
}

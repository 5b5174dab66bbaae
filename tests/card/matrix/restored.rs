//! The card dies: a backup of it, a new card, and the kubeconfig that the laptop had.

use std::fs::{self, File};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use weaver_image::boot::machine::{Machine, Setup};
use weaver_image::booted::{API_NAME, edits, machine, wait_for_unit};

use crate::poll::until;
use crate::root::image;

const BOOT: Duration = Duration::from_mins(15);
const RESTORE: Duration = Duration::from_mins(20);
const BACKUP: &str = "/root/backup.tar";

/// As `[backup]` asks for them: none while nothing is mounted there, which the report says, then one.
fn made_by_the_timers_unit(card: &Machine) {
    let asked = "WEAVER_BACKUP_TARGET=/mnt/usb\\nWEAVER_BACKUP_WHEN=daily\\nWEAVER_BACKUP_KEEP=2\\n";
    card.run(&format!("mkdir /mnt/usb && printf '{asked}' > /etc/weaver/backup.env")).unwrap();
    let start = "systemctl start weaver-backup.service";
    card.run_within(&format!("! {start}"), RESTORE).unwrap();
    let said = card.run("weaver-node-agent check || true").unwrap();
    assert!(said.contains("H-23") && said.contains("/mnt/usb"), "{said}");
    card.run_within(&format!("truncate -s 256M /var/tmp/usb && mkfs.ext4 -q /var/tmp/usb && mount -o loop /var/tmp/usb /mnt/usb && {start}"), RESTORE).unwrap();
    let made = card.run("ls /mnt/usb | grep -v lost+found").unwrap();
    assert!(made.starts_with("weaver-backup-") && made.lines().count() == 1, "{made}");
    let said = card.run("weaver-node-agent check || true").unwrap();
    assert!(!said.contains("H-23"), "{said}");
    card.run("systemctl start weaver-backup.timer && systemctl is-active weaver-backup.timer").unwrap();
    card.run("systemctl stop weaver-backup.timer && umount /mnt/usb && rm /etc/weaver/backup.env").unwrap();
}

#[test]
#[ignore = "needs the booted image: make image-matrix"]
fn a_new_card_continues_as_the_one_that_died() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().join("backup.tar");
    let mut old = machine().unwrap();
    // The weaver.toml of the backup, and so its key, is in force after the restore.
    let card = Arc::new(old.card().successor(&image(), 8 << 30, &edits()).unwrap());
    let authority = "sha256sum < /var/lib/rancher/k3s/server/tls/server-ca.crt";
    let ca = old.run(authority).unwrap();
    old.kubectl(API_NAME, &["create", "configmap", "kept", "--from-literal=a=1"]).unwrap();
    let kubeconfig = dir.path().join("kubeconfig");
    fs::copy(old.kubeconfig(API_NAME).unwrap(), &kubeconfig).unwrap();
    made_by_the_timers_unit(&old);
    old.run_within(&format!("weaver node backup {BACKUP}"), RESTORE).unwrap();
    old.run_within(&format!("weaver node backup --show {BACKUP}"), RESTORE).unwrap();
    let sum = format!("sha256sum {BACKUP}");
    let before = old.run(&sum).unwrap();
    fs::write(&here, old.run_within(&format!("base64 {BACKUP}"), RESTORE).unwrap()).unwrap();
    old.kill().unwrap();

    let mut new = Machine::start(&card, &Setup::default()).unwrap();
    new.wait_for_ssh(BOOT).unwrap();
    wait_for_unit(&new, "weaver-operator.service", BOOT).unwrap();
    let words = card.key().args(new.ports().ssh);
    let mut sending = Command::new(&words[0]);
    sending.args(&words[1..]).arg(format!("sudo -n sh -c 'base64 -d > {BACKUP}'"));
    assert!(sending.stdin(File::open(&here).unwrap()).status().unwrap().success());
    assert_eq!(new.run(&sum).unwrap(), before);
    assert_ne!(new.run(authority).unwrap(), ca);
    new.run_within(&format!("weaver node restore {BACKUP} --wait 900"), RESTORE).unwrap();

    let server = format!("https://{API_NAME}:{}", new.ports().api);
    let by_the_old = ["--kubeconfig", kubeconfig.to_str().unwrap(), "--server", &server];
    let asked = [&by_the_old[..], &["get", "configmap", "kept", "-o", "jsonpath={.data.a}"]].concat();
    until("the object, by the kubeconfig from before", || {
        let said = new.kubectl(API_NAME, &asked)?;
        Ok(if said == "1" { Ok(()) } else { Err(said) })
    });
    wait_for_unit(&new, "weaver-operator.service", BOOT).unwrap();
    assert_eq!(new.run(authority).unwrap(), ca);
    new.power_off(BOOT).unwrap();
    let mut new = new.start_again().unwrap();
    new.wait_for_ssh(BOOT).unwrap();
    wait_for_unit(&new, "weaver-operator.service", BOOT).unwrap();
    let said = new.run("weaver-node-agent check").unwrap();
    assert!(!said.contains("F-19"), "{said}");
}

//! The data of k3s moved to a second disk, the power cut in the middle of it, and that disk unplugged later.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weaver_image::boot::card::Card;
use weaver_image::boot::machine::{Machine, Setup};
use weaver_image::boot::qemu::EmulatedHardware;
use weaver_image::boot::running::End;
use weaver_image::booted::{API_NAME, edits, wait_for_unit};

use super::fault::{MatrixCase, MatrixFault, codes};
use crate::node::report;
use crate::poll::until;
use crate::root::image;

const BOOT: Duration = Duration::from_mins(15);
const COMMAND: Duration = Duration::from_mins(10);
/// Bytes of the second disk.
const DISK: u64 = 8 << 30;
/// Stands in front of the system's `cp`, and once does nothing more when the copy is whole: then the power is cut.
const CP: &str = r#"#!/bin/sh
case "$*" in *--preserve=*xattr*)
    if [ ! -e /var/cut ]; then
        touch /var/cut
        /usr/bin/cp "$@"
        sync
        touch /run/copied
        sleep 3600
    fi ;;
esac
exec /usr/bin/cp "$@"
"#;
/// KiB that are written to the card in two minutes.
const WRITTEN: &str = "written() { awk '{print $7}' /sys/block/vda/stat; }; a=$(written); sleep 120; \
                       echo $((($(written) - a) / 2))";

static UNPLUGGED: MatrixFault = MatrixFault {
    name: "52-data-disk-missing",
    what: "the disk to which the data of k3s was moved, unplugged",
    codes: &["H-31"],
    down: &["k3s", "weaver-operator", "weaver-webhook"],
};

fn with_disk(path: &Path) -> Setup {
    let path = path.to_str().unwrap();
    let qemu_arguments = ["-drive", &format!("if=none,id=ssd,format=raw,file={path}"), "-device"];
    let qemu_arguments = qemu_arguments.into_iter().chain(["virtio-blk-pci,drive=ssd"]).map(str::to_owned);
    let qemu_arguments = qemu_arguments.collect();
    Setup { hardware: EmulatedHardware { qemu_arguments, ..EmulatedHardware::default() }, ..Setup::default() }
}

fn again(machine: Machine) -> Machine {
    let mut machine = machine.start_again().unwrap();
    machine.wait_for_ssh(BOOT).unwrap();
    machine
}

fn written(machine: &Machine) -> u64 {
    machine.run_within(WRITTEN, COMMAND).unwrap().trim().parse().unwrap()
}

/// What the docs say to type, and the reboot in which the power is cut.
fn cut_in_the_move(mut machine: Machine) -> Machine {
    machine.run_within("mkfs.ext4 -q -L ssd /dev/vdb", COMMAND).unwrap();
    let asked = "printf '\\n[storage]\\ndata = \"LABEL=ssd\"\\n' >> /boot/firmware/weaver.toml && sync";
    machine.run(asked).unwrap();
    let shim = format!("cat > /usr/local/bin/cp <<'E'\n{CP}E\nchmod 755 /usr/local/bin/cp && sync");
    machine.run(&shim).unwrap();
    // The connection may break before ssh has its answer.
    let _ = machine.attempt("reboot", COMMAND);
    assert_eq!(machine.wait_for_end(BOOT).unwrap(), End::Reset);
    let mut machine = again(machine);
    until("a whole copy", || {
        let copied = machine.attempt("test -e /run/copied", COMMAND)?;
        Ok(if copied.code == 0 { Ok(()) } else { Err(copied.stderr) })
    });
    let seen = machine.run("systemctl is-active k3s.service || ls /var/lib/rancher").unwrap();
    assert!(
        seen.contains("inactive") && seen.contains("k3s"),
        "k3s waits, and the card has its data: {seen}"
    );
    machine.kill().unwrap();
    again(machine)
}

#[test]
#[ignore = "needs the booted image: make image-matrix"]
fn the_data_moves_to_a_second_disk_through_a_power_cut_and_k3s_waits_for_that_disk() {
    let dir = tempfile::tempdir().unwrap();
    let [disk, unplugged] = ["ssd.raw", "unplugged.raw"].map(|name| dir.path().join(name));
    File::create(&disk).unwrap().set_len(DISK).unwrap();
    let card = Arc::new(Card::new(&image(), 8 << 30, &edits()).unwrap());
    let mut machine = Machine::start(&card, &with_disk(&disk)).unwrap();
    machine.wait_for_ssh(BOOT).unwrap();
    wait_for_unit(&machine, "weaver-operator.service", BOOT).unwrap();
    let authority = "sha256sum < /var/lib/rancher/k3s/server/tls/server-ca.crt";
    let ca = machine.run(authority).unwrap();
    machine.kubectl(API_NAME, &["create", "configmap", "kept", "--from-literal=a=1"]).unwrap();
    let before = written(&machine);

    let mut machine = cut_in_the_move(machine);
    wait_for_unit(&machine, "weaver-operator.service", BOOT).unwrap();
    let source = machine.run("findmnt -no SOURCE /var/lib/rancher").unwrap();
    assert_eq!(source.trim(), "/dev/vdb");
    assert_eq!(machine.run(authority).unwrap(), ca, "the same cluster");
    let value = machine.kubectl(API_NAME, &["get", "configmap", "kept", "-o", "jsonpath={.data.a}"]);
    assert_eq!(value.unwrap(), "1");
    machine.run("k3s kubectl get nodes").unwrap();
    let said = machine.run("weaver-node-agent check || true").unwrap();
    assert!(said.contains("B-12") && said.contains("$ sudo rm -rf /var/lib/rancher.on-card"), "{said}");
    machine.run("rm -rf /var/lib/rancher.on-card").unwrap();
    let after = written(&machine);
    eprintln!("written to the card in two minutes: {before} KiB before the move, {after} KiB after it");
    assert!(after < before, "{before} KiB, {after} KiB");
    let well = codes(&report(&machine).unwrap());

    machine.power_off(BOOT).unwrap();
    fs::rename(&disk, &unplugged).unwrap();
    File::create(&disk).unwrap().set_len(DISK).unwrap();
    let mut case = MatrixCase::new(again(machine), &UNPLUGGED, well);
    let said = case.seen(&["LABEL=ssd"]);
    let left = case.machine.run("ls -A /var/lib/rancher").unwrap();
    assert_eq!(left.trim(), "", "no new cluster");
    fs::rename(&unplugged, &disk).unwrap();
    case.does("the disk plugged in");
    let machine = case.type_remedy(&said, "H-31", &[]).mended();
    assert_eq!(machine.run(authority).unwrap(), ca);
}

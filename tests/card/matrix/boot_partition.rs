//! The FAT partition cannot be written, or is lost.

use weaver_image::booted::machine;

use super::fault::{MatrixCase, MatrixFault};

#[test]
#[ignore = "needs the booted image: make image-matrix"]
fn with_a_read_only_boot_partition_all_continues_and_the_console_tells() {
    static FAULT: MatrixFault = MatrixFault {
        name: "40-boot-partition-read-only",
        what: "the boot partition mounted read-only, then a name that is not served",
        codes: &["H-15", "T-02"],
        down: &[],
    };
    let mut case = MatrixCase::begin(machine().unwrap(), &FAULT);
    // As the kernel does after a fault of the file system.
    case.machine.run("mount -o remount,ro /dev/vda1 /boot/firmware").unwrap();
    let drop_in = "printf 'tls-san+:\\n- fat.weaver.test\\n' > /etc/rancher/k3s/config.yaml.d/95-fat.yaml";
    case.machine.run(drop_in).unwrap();
    let said = case.seen_but_on_the_card("the page of before; the console has the new one");
    let banner = case.machine.run("cat /run/issue.d/*").unwrap();
    assert!(banner.contains("T-02"), "{banner}");
    let case = case.type_remedy(&said, "H-15", &[]);
    case.type_remedy(&said, "T-02", &[]).mended();
}

#[test]
#[ignore = "needs the booted image: make image-matrix"]
fn without_the_boot_partition_what_runs_continues() {
    static FAULT: MatrixFault = MatrixFault {
        name: "41-boot-partition-destroyed",
        what: "the boot partition overwritten with zeros while the node runs",
        codes: &["H-15"],
        down: &[],
    };
    let mut case = MatrixCase::begin(machine().unwrap(), &FAULT);
    let keep = "dd if=/dev/vda1 of=/var/tmp/boot.img bs=1M status=none && umount /boot/firmware
        dd if=/dev/zero of=/dev/vda1 bs=1M count=64 conv=fsync status=none
        systemctl restart weaver-node-agent.service";
    case.machine.run(keep).unwrap();
    let what = "a partition that it offers to format; a board does not start from it";
    let said = case.seen_but_on_the_card(what);
    case.does("the boot partition written again from a copy, then");
    case.machine.run("dd if=/var/tmp/boot.img of=/dev/vda1 bs=1M conv=fsync status=none").unwrap();
    case.type_remedy(&said, "H-15", &[]).mended();
}

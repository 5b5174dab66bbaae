//! No space on the card.

use weaver_image::booted::machine;

use super::fault::{MatrixCase, MatrixFault};

#[test]
#[ignore = "needs the booted image: make image-matrix"]
fn a_full_root_is_named_and_stops_nothing_that_runs() {
    static FAULT: MatrixFault = MatrixFault {
        name: "50-root-full",
        what: "the root file system filled to the last byte",
        codes: &["H-03"],
        down: &[],
    };
    let mut case = MatrixCase::begin(machine().unwrap(), &FAULT);
    let fill = "fallocate -l $(df --output=avail -B1 / | tail -1) /var/fill || dd if=/dev/zero of=/var/fill bs=1M || true; sync";
    case.machine.run(fill).unwrap();
    let said = case.seen(&[]);
    let mut case = case.type_remedy(&said, "H-03", &[]);
    case.does("what that shows removed");
    case.machine.run("rm /var/fill").unwrap();
    case.mended();
}

#[test]
#[ignore = "needs the booted image: make image-matrix"]
fn with_a_full_boot_partition_the_report_is_on_the_console_and_in_the_journal() {
    static FAULT: MatrixFault = MatrixFault {
        name: "42-boot-partition-full",
        what: "the boot partition filled to the last byte, then a name that is not served",
        codes: &["H-15", "T-02"],
        down: &[],
    };
    let mut case = MatrixCase::begin(machine().unwrap(), &FAULT);
    case.machine.run("! dd if=/dev/zero of=/boot/firmware/fill bs=1M && sync").unwrap();
    let drop_in = "printf 'tls-san+:\\n- full.weaver.test\\n' > /etc/rancher/k3s/config.yaml.d/95-full.yaml";
    case.machine.run(drop_in).unwrap();
    let said = case.seen_but_on_the_card("the page of before; the console has the new one");
    let banner = case.machine.run("cat /run/issue.d/*").unwrap();
    assert!(banner.contains("T-02"), "{banner}");
    let mut case = case.type_remedy(&said, "H-15", &[]);
    case.does("what that shows removed");
    case.machine.run("rm /boot/firmware/fill").unwrap();
    case.type_remedy(&said, "T-02", &[]).mended();
}

//! Disks by the bus at which the kernel found them.

use super::*;

const BUSES: &[(&[&str], &[Want])] = &[
    // A disk at SATA: no USB in its remedy, and it is no card.
    (
        &[
            "scsi host1: ahci",
            "sd 1:0:0:0: [sdc] Attached SCSI disk",
            "I/O error, dev sdc, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
        ],
        &[("H-07", WARN, "reading or writing sdc failed")],
    ),
    // What a disk need not be able to do.
    (
        &[
            "critical target error, dev sda, sector 8 op 0x3:(DISCARD) flags 0x800 phys_seg 1 prio class 2",
            "I/O error, dev sda, sector 8 op 0x9:(WRITE_ZEROES) flags 0x800 phys_seg 0 prio class 2",
        ],
        &[],
    ),
    // UAS does not say its port: it is the one at which a device was found last.
    (
        &[
            "usb 2-2: new SuperSpeed USB device number 3 using xhci_hcd",
            "scsi host3: uas",
            "usb 2-2: reset SuperSpeed USB device number 3 using xhci_hcd",
            "usb 2-2: reset SuperSpeed USB device number 3 using xhci_hcd",
            "usb 2-2: reset SuperSpeed USB device number 3 using xhci_hcd",
        ],
        &[("H-26", WARN, "at port 2-2 was reset more than once")],
    ),
];

#[test]
fn a_disk_is_at_usb_only_where_the_kernel_said_so() {
    for (texts, want) in BUSES {
        check(texts, want);
    }
}

#[test]
fn what_helps_a_disk_is_said_by_its_bus() {
    let commands = |texts: &[&str]| {
        at(&read(texts), 200)
            .remove(0)
            .remedy
            .unwrap()
            .commands
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ")
    };
    let error = |disk: &str| {
        format!("I/O error, dev {disk}, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2")
    };
    let usb = commands(&["scsi host0: uas", "sd 0:0:0:0: [sda] Attached SCSI disk", &error("sda")]);
    assert!(usb.contains("usb-storage.quirks"), "{usb}");
    let sata = commands(&["scsi host1: ahci", "sd 1:0:0:0: [sdc] Attached SCSI disk", &error("sdc")]);
    assert!(sata.contains("smartctl -a /dev/sdc") && !sata.contains("usb"), "{sata}");
    let unknown = commands(&[&error("sdx1")]);
    assert!(unknown.starts_with("lsblk -o NAME,TRAN,MODEL /dev/sdx;"), "{unknown}");
    assert!(commands(&[&error("mmcblk0")]).contains("node backup"));
}

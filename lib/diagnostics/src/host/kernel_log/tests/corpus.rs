//! The recorded texts of `weaver explain`, read as the kernel's log: what is explained is watched too.

use super::*;

/// By code, one per line; lines of one text have `⏎` between.
const KNOWN: &str = include_str!("../../../recognise/corpus/known.txt");

/// What the kernel says of these codes is a trouble of the node.
const WATCHED: &[&str] = &["H-02", "H-07", "H-10", "H-26"];

/// What programs say, and not the kernel; a reset of a disk, which counts from the third on; and a kernel without its
/// root file system, on which no agent runs.
const NOT_WATCHED: &[&str] = &[
    "read-only file system",
    "Read-only file system",
    "error in txn",
    "docker: ",
    "uas_eh_",
    "VFS: ",
    "Dropping to a shell",
    "Gave up waiting",
    "No working init",
    "to kill init",
    // An empty slot says it too.
    "Timeout waiting for hardware cmd interrupt",
    // The controller that is given up then is watched.
    "not responding to stop endpoint command",
];

/// The record as `/dev/kmsg` has it, without what dmesg, syslog or the journal put in front.
fn body(line: &str) -> &str {
    let line = line.split_once("kernel: ").map_or(line, |(_, rest)| rest).trim_start();
    match line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((_, rest)) => rest.trim_start(),
        None => line,
    }
}

#[test]
fn what_is_explained_of_the_kernel_is_watched() {
    let texts = KNOWN.lines().filter_map(|line| line.split_once(' '));
    let silent: Vec<&str> = texts
        .filter(|(code, _)| WATCHED.contains(code))
        .filter(|(code, text)| {
            let log = read(&text.split(" ⏎ ").map(body).collect::<Vec<_>>());
            !found(&log, 200).iter().any(|(found, ..)| found == code)
        })
        .map(|(_, text)| text)
        .filter(|text| !NOT_WATCHED.iter().any(|part| text.contains(part)))
        .collect();
    assert!(silent.is_empty(), "{silent:#?}");
}

#[test]
fn each_trouble_of_power_and_of_buses_has_its_own_words() {
    let over = "usb usb2-port1: over-current change #1";
    for (texts, code, want) in [
        (&[over, over, over][..], "H-02", "USB ports were turned off"),
        (&["hwmon hwmon1: Undervoltage detected!"], "H-02", "under-voltage"),
        (
            &[
                "mmcblk0: mmc0:59b4 SD16G 14.9 GiB",
                "mmc0: running CQE recovery",
                "mmc0: running CQE recovery",
            ],
            "H-07",
            "the card mmcblk0 lost commands",
        ),
        (
            &["EXT4-fs (mmcblk0p2): warning: mounting fs with errors, running e2fsck is recommended"],
            "H-07",
            "errors in the file system on mmcblk0p2",
        ),
        (
            &["EXT4-fs (mmcblk0p2): error count since last fsck: 4"],
            "H-07",
            "errors in the file system on mmcblk0p2",
        ),
        (
            &["mmcblk1: mmc1:aaaa SD32G 29.7 GiB", "mmc1: Timeout waiting for hardware interrupt."],
            "H-07",
            "the card mmcblk1 did not answer",
        ),
        (&["nvme nvme0: I/O 12 QID 3 timeout, reset controller"], "H-07", "reading or writing nvme0 failed"),
        (
            &["xhci_hcd 0000:01:00.0: xHCI host controller not responding, assume dead"],
            "H-26",
            "the USB controller stopped",
        ),
        (
            &[
                "scsi host1: uas",
                "sd 1:0:0:0: [sdb] Attached SCSI disk",
                "sd 1:0:0:0: Device offlined - not ready after error recovery",
            ],
            "H-26",
            "reading or writing sdb failed",
        ),
    ] {
        let found = found(&read(texts), 200);
        assert_eq!(found.len(), 1, "{texts:?}: {found:?}");
        assert_eq!(found[0].0, code, "{texts:?}");
        assert!(found[0].2.contains(want), "{}", found[0].2);
        assert_eq!(found[0].1, WARN);
    }
    // Once or twice is a plug that moved.
    assert_eq!(found(&read(&[over, over]), 200), []);
}

#[test]
fn what_means_nothing_once_means_nothing_once_a_month() {
    let month = 30 * DAY / SECOND;
    let (over, queue) = ("usb usb2-port1: over-current change", "mmc0: running CQE recovery");
    let mut log = read(&[over, queue]);
    for months in 1..6 {
        take(&mut log, months * month, &[over, queue]);
        assert_eq!(found(&log, months * month + 2), [], "after {months} months");
    }
    take(&mut log, 6 * month + 60, &[queue]);
    assert_eq!(found(&log, 6 * month + 61), []);
    take(&mut log, 6 * month + 120, &[queue]);
    assert_eq!(found(&log, 6 * month + 121).len(), 1, "twice on one day");
}

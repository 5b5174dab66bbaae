//! Logs in the kernel's words, as `/dev/kmsg` gives them, and the expected findings.

use proptest::prelude::*;

use super::*;
use crate::finding::Severity;

mod buses;
mod corpus;

const POD: &str = "/kubepods/burstable/pod28fcb1a0-a45c-44e7-b9bf-e3b9360bedba/3e5e5eab";
const SYSTEMD_POD: &str =
    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod968a06fb.slice/cri-containerd-0f32.scope";

/// Takes in records, one a second, the first at the second `from`.
fn take(log: &mut KernelLog, from: u64, texts: &[&str]) -> Vec<KernelEvent> {
    let next = log.last.map_or(100, |last| last + 1);
    let lines = texts.iter().zip(0..).map(|(text, at)| {
        let level = if text.starts_with("EXT4") { 2 } else { 6 };
        format!("{level},{},{},-;{text}", next + at, (from + at) * SECOND)
    });
    lines.filter_map(|line| log.take(&line)).collect()
}

fn read(texts: &[&str]) -> KernelLog {
    let mut log = KernelLog::new().unwrap();
    take(&mut log, 1, texts);
    log
}

fn at(log: &KernelLog, second: u64) -> Vec<Finding> {
    log.findings(second * SECOND, |at| format!("<{}>", at / SECOND))
}

fn found(log: &KernelLog, second: u64) -> Vec<(&'static str, Severity, String)> {
    at(log, second).into_iter().map(|f| (f.code.id(), f.severity(), f.message)).collect()
}

/// A boot on which all is well: a Pi with a card, Wi-Fi, a USB disk that is reset once, k3s with pods.
const HEALTHY: &[&str] = &[
    "Booting Linux on physical CPU 0x0000000000 [0x410fd083]",
    "Kernel command line: coherent_pool=1M console=ttyS0,115200 root=LABEL=weaver-root rootwait cgroup_enable=memory",
    "mmc0: SDHCI controller on fe340000.mmc [fe340000.mmc] using ADMA",
    "mmc0: new ultra high speed DDR50 SDHC card at address 59b4",
    "mmcblk0: mmc0:59b4 SD16G 14.9 GiB",
    " mmcblk0: p1 p2",
    "mmc1: new high speed SDIO card at address 0001",
    "usb 2-1: new SuperSpeed USB device number 2 using xhci_hcd",
    "usb-storage 2-1:1.0: USB Mass Storage device detected",
    "scsi host0: usb-storage 2-1:1.0",
    "usb 2-1: reset SuperSpeed USB device number 2 using xhci_hcd",
    "sd 0:0:0:0: [sda] Attached SCSI disk",
    "sd 0:0:0:0: [sda] No Caching mode page found",
    "EXT4-fs (mmcblk0p2): INFO: recovery required on readonly filesystem",
    "EXT4-fs (mmcblk0p2): recovery complete",
    "EXT4-fs (mmcblk0p2): mounted filesystem 3b0f0001 ro with ordered data mode. Quota mode: none.",
    "EXT4-fs (mmcblk0p2): re-mounted 3b0f0001 r/w. Quota mode: none.",
    "FAT-fs (mmcblk0p1): Volume was not properly unmounted. Some data may be corrupt. Please run fsck.",
    "hwmon hwmon1: Voltage normalised",
    "usb 1-1.3: device descriptor read/64, error -32",
    "brcmfmac: brcmf_sdio_htclk: HT Avail timeout (1000000): clkctl 0x50",
    "usb 1-1.4: reset high-speed USB device number 5 using xhci_hcd",
    "bridge: filtering via arp/ip/ip6tables is no longer available by default.",
    "cni0: port 1(veth41f3) entered forwarding state",
    "IPv6: ADDRCONF(NETDEV_CHANGE): flannel.1: link becomes ready",
    "loop0: detected capacity change from 0 to 8",
    "I/O error, dev loop0, sector 0 op 0x0:(READ) flags 0x80700 phys_seg 1 prio class 2",
    "Buffer I/O error on dev sr0, logical block 0, async page read",
    "oom_reaper: reaped process 4242 (java), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB",
];

#[test]
fn nothing_is_said_of_a_healthy_boot() {
    let mut log = KernelLog::new().unwrap();
    assert_eq!(take(&mut log, 1, HEALTHY), []);
    assert_eq!(found(&log, 60), []);
}

/// A board that starts from a USB disk, whose slot is empty. raspberrypi/firmware#1556
#[test]
fn a_slot_that_never_had_a_card_is_not_said_to_have_one_that_fails() {
    let log = read(&["mmc0: Timeout waiting for hardware cmd interrupt."; 3]);
    assert_eq!(found(&log, 60), []);
}

/// A code, a severity, and words of the message.
type Want = (&'static str, Severity, &'static str);

const WARN: Severity = Severity::Warn;

/// Records after a healthy boot, and the expected findings.
const STORAGE: &[(&[&str], &[Want])] = &[
    (
        &["mmc0: Timeout waiting for hardware interrupt."],
        &[("H-07", WARN, "the card mmcblk0 did not answer the kernel in time")],
    ),
    (&["mmc1: Timeout waiting for hardware interrupt."], &[]),
    (
        &["mmc0: Timeout waiting for hardware cmd interrupt."],
        &[("H-07", WARN, "the card mmcblk0 did not answer the kernel in time")],
    ),
    (
        &[
            "mmcblk0: error -110 transferring data, sector 311382, nr 8, cmd response 0x900, card status 0xc00",
        ],
        &[("H-07", WARN, "the card mmcblk0 did not answer")],
    ),
    (&["mmc0: cache flush error -110"], &[("H-07", WARN, "the card mmcblk0 did not answer")]),
    // One card, two troubles.
    (
        &[
            "blk_update_request: I/O error, dev mmcblk0, sector 19569480 op 0x0:(READ) flags 0x80700 phys_seg 14 prio class 0",
            "Buffer I/O error on dev mmcblk0p2, logical block 131115, lost async page write",
            "EXT4-fs error (device mmcblk0p2): ext4_find_entry:1682: inode #131: comm k3s-server: reading directory lblock 0",
        ],
        &[
            ("H-07", WARN, "reading or writing mmcblk0 failed"),
            ("H-07", WARN, "errors in the file system on mmcblk0p2"),
        ],
    ),
    (
        &["EXT4-fs (mmcblk0p2): Remounting filesystem read-only"],
        &[("H-07", Severity::Fail, "made the file system on mmcblk0p2 read-only")],
    ),
    (
        &[
            "EXT4-fs (sda1): Remounting filesystem read-only",
            "EXT4-fs (sda1): mounted filesystem 77 r/w with ordered data mode. Quota mode: none.",
        ],
        &[("H-26", WARN, "sda1 was read-only after an error; it is mounted again")],
    ),
    // Mounted by hand, as it was: for reading.
    (
        &[
            "EXT4-fs (sda1): Remounting filesystem read-only",
            "EXT4-fs (sda1): re-mounted 77 ro. Quota mode: none.",
        ],
        &[("H-26", Severity::Fail, "made the file system on sda1 read-only")],
    ),
    (
        &["I/O error, dev nvme0n1, sector 2048 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2"],
        &[("H-07", WARN, "reading or writing nvme0n1 failed")],
    ),
    // A disk in the network: the node is not to blame.
    (
        &[
            "scsi host2: iSCSI Initiator over TCP/IP",
            "sd 2:0:0:1: [sdb] Attached SCSI disk",
            "I/O error, dev sdb, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
            "EXT4-fs (sdb1): Remounting filesystem read-only",
        ],
        &[],
    ),
    // Once in the boot, and twice now.
    (
        &["usb 2-1: reset SuperSpeed USB device number 2 using xhci_hcd"; 2],
        &[("H-26", WARN, "the USB disk at port 2-1 was reset more than once")],
    ),
    (&["usb 1-1.4: reset high-speed USB device number 5 using xhci_hcd"; 9], &[]),
    (
        &[
            "usb 2-1: USB disconnect, device number 2",
            "usb 2-1: reset SuperSpeed USB device number 3 using xhci_hcd",
            "usb 2-1: reset SuperSpeed USB device number 3 using xhci_hcd",
        ],
        &[],
    ),
    (
        &[
            "sd 0:0:0:0: [sda] tag#2 uas_eh_abort_handler 0 uas-tag 1 inflight: CMD OUT",
            "sd 0:0:0:0: [sda] tag#3 uas_eh_abort_handler 0 uas-tag 2 inflight: CMD OUT",
            "scsi host0: uas_eh_device_reset_handler start",
            "scsi host0: uas_eh_device_reset_handler success",
            "scsi host0: uas_eh_device_reset_handler start",
            "scsi host0: uas_eh_device_reset_handler start",
        ],
        &[("H-26", WARN, "the USB disk sda was reset more than once")],
    ),
];

/// The same of all that is no storage.
const OTHER: &[(&[&str], &[Want])] = &[
    (
        &["INFO: task jbd2/mmcblk0p2-8:85 blocked for more than 120 seconds."],
        &[("H-10", WARN, "the process jbd2/mmcblk0p2-8 was blocked for minutes")],
    ),
    (
        &[
            "INFO: task kworker/u8:2:31 blocked for more than 120 seconds.",
            "INFO: task kworker/u9:1+flush-179:0:7 blocked for more than 120 seconds.",
        ],
        &[("H-10", WARN, "the process kworker was blocked")],
    ),
    // No one knows what a vendor's thread waits for.
    (&["INFO: task hdmi_thread:187 blocked for more than 120 seconds."], &[]),
    // A process that calls itself an error of a disk.
    (
        &["INFO: task k3s I/O error, :9 blocked for more than 120 seconds."],
        &[("H-10", WARN, "the process k3s?I/O?error")],
    ),
    (&["hwmon hwmon1: Undervoltage detected!"], &[("H-02", WARN, "the kernel reported under-voltage")]),
    (&["Under-voltage detected! (0x00050005)"], &[("H-02", WARN, "the kernel reported under-voltage")]),
    (
        &["thermal thermal_zone0: cpu-thermal: critical temperature reached, shutting down"],
        &[("H-02", WARN, "too hot")],
    ),
    // Words of other codes mean nothing here.
    (&["audit: type=1400 msg=no space left on device"], &[]),
];

#[test]
fn each_trouble() {
    for (texts, want) in STORAGE.iter().chain(OTHER) {
        check(texts, want);
    }
}

#[track_caller]
fn check(texts: &[&str], want: &[Want]) {
    let mut log = read(HEALTHY);
    take(&mut log, 100, texts);
    let found = found(&log, 200);
    assert_eq!(found.len(), want.len(), "{texts:#?}: {found:#?}");
    for ((code, severity, message), (id, worst, words)) in found.iter().zip(want) {
        assert_eq!((code, severity), (id, worst), "{texts:#?}");
        assert!(message.contains(words), "{texts:#?}: {message}");
    }
}

#[test]
fn whose_memory_ran_out() {
    const KILLED: &str = "Out of memory: Killed process 812 (k3s-server) total-vm:1843200kB, anon-rss:612000kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1500kB oom_score_adj:-999";
    const KILLED_THERE: &str = "Memory cgroup out of memory: Killed process 812 (java) total-vm:3000000kB, anon-rss:512000kB, file-rss:0kB";
    let line = |constraint: &str, of: &str, cgroup: &str, task: &str| {
        format!(
            "oom-kill:constraint={constraint},nodemask=(null),cpuset=x,mems_allowed=0,{of},task_memcg={cgroup},task={task},pid=812,uid=0"
        )
    };
    let board = |cgroup: &str, task: &str| line("CONSTRAINT_NONE", "global_oom", cgroup, task);
    for (cgroup, task, words) in [
        ("/system.slice/k3s.service", "k3s-server", "the kernel killed k3s (process k3s-server)"),
        ("/weaver.slice/weaver-operator.service", "x", "the kernel killed weaver-operator (process x)"),
        (POD, "java", "memory ran out, and the kernel killed process java of a pod"),
        (SYSTEMD_POD, "java", "process java of a pod"),
        ("/user.slice/user-1000.slice", "ps", "killed process ps"),
        // What a pod calls its processes changes nothing.
        (POD, "a,pid=1,task=k3s", "process a?pid?1?task?k3s of a pod"),
    ] {
        check(&[&board(cgroup, task), KILLED], &[("H-17", WARN, words)]);
    }
    let limit = |whose: &str, cgroup: &str| {
        let line = line("CONSTRAINT_MEMCG", &format!("oom_memcg={whose}"), cgroup, "java");
        move |want: &[Want]| check(&[&line, KILLED_THERE], want)
    };
    // A pod's own limit is its matter, whatever it calls its cgroups; so is that of another container.
    for cgroup in [POD, SYSTEMD_POD, "/docker/4f1c", "/user.slice"] {
        limit(cgroup, cgroup)(&[]);
    }
    limit(POD, &format!("{POD}/x,task_memcg=/system.slice/k3s.service,task=k3s"))(&[]);
    limit("/kubepods", POD)(&[("H-17", WARN, "the pods together reached the memory limit")]);
    let webhook = "/weaver.slice/weaver-webhook.service";
    limit(webhook, webhook)(&[("H-17", WARN, "weaver-webhook reached the memory limit")]);
    // Without the first line.
    check(&[KILLED_THERE], &[]);
    check(&[KILLED], &[("H-17", WARN, "the kernel killed process k3s-server")]);
}

#[test]
fn what_is_over_is_left_out_and_a_week_later_it_begins_again() {
    let mut log =
        read(&["hwmon hwmon1: Undervoltage detected!", "mmc0: Timeout waiting for hardware interrupt."]);
    let ids = |log: &KernelLog, second| found(log, second).into_iter().map(|f| f.0).collect::<Vec<_>>();
    let day = DAY / SECOND;
    assert_eq!(ids(&log, 60), ["H-07", "H-02"]);
    assert_eq!(ids(&log, day + 3), ["H-07"], "under-voltage of yesterday");
    assert_eq!(ids(&log, 7 * day + 3), Vec::<&str>::new());
    take(&mut log, 8 * day, &["hwmon hwmon1: Undervoltage detected!"]);
    let again = at(&log, 8 * day + 9);
    let first = 8 * day;
    assert_eq!(
        again[0].evidence[0].to_string(),
        format!("/dev/kmsg: at <{first}>: hwmon hwmon1: Undervoltage detected!")
    );
    // Read-only it stays for as long as it is.
    let log = read(&["EXT4-fs (mmcblk0p2): Remounting filesystem read-only"]);
    assert_eq!(ids(&log, 90 * day), ["H-07"]);
}

#[test]
fn counts_and_times_are_evidence_and_the_message_stays() {
    let mut log = KernelLog::new().unwrap();
    let mut states = Vec::new();
    for second in 1..=1000 {
        take(&mut log, second, &["mmc0: Timeout waiting for hardware interrupt."]);
        states.push(at(&log, second).remove(0));
    }
    assert!(states.iter().all(|state| state.message == states[0].message));
    let shown = |at: usize| states[at - 1].evidence[0].saw.clone();
    let text = "mmc0: Timeout waiting for hardware interrupt.";
    assert_eq!(shown(1), format!("at <1>: {text}"));
    assert_eq!(shown(20), format!("20 times from <1> to <20>: {text}"));
    assert_eq!(shown(49), shown(20), "no news for the log of each round");
    states.dedup();
    assert_eq!(states.len(), 11, "1, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000");
    // A quiet hour later the next is shown, whatever its number.
    take(&mut log, 9000, &[text]);
    assert_eq!(at(&log, 9000)[0].evidence[0].saw, format!("1001 times from <1> to <9000>: {text}"));
}

#[test]
fn a_log_that_is_read_again_counts_once() {
    let lines = [
        "3,7,1000000,-;mmc0: Timeout waiting for hardware interrupt.",
        "3,9,2000000,-;mmc0: cache flush error -5",
    ];
    let mut log = KernelLog::new().unwrap();
    for line in lines.iter().chain(&lines) {
        log.take(line);
    }
    assert!(at(&log, 3)[0].evidence[0].saw.starts_with("2 times"), "{:?}", at(&log, 3));
    // What another agent had read, a new one reads from the beginning of the buffer.
    let mut new = KernelLog::new().unwrap();
    for line in lines {
        new.take(line);
    }
    assert_eq!(at(&new, 3), at(&log, 3));
}

#[test]
fn events_have_the_reasons_of_node_problem_detector_once_an_hour() {
    let mut log = read(HEALTHY);
    let reasons = |events: Vec<KernelEvent>| events.into_iter().map(|event| event.reason).collect::<Vec<_>>();
    let texts = [
        "mmc0: Timeout waiting for hardware interrupt.",
        "mmc0: Timeout waiting for hardware interrupt.",
        "EXT4-fs error (device mmcblk0p2): ext4_lookup:1: x",
        "EXT4-fs (mmcblk0p2): Remounting filesystem read-only",
        "INFO: task k3s-server:812 blocked for more than 120 seconds.",
        "Out of memory: Killed process 9 (java) total-vm:1kB",
        "hwmon hwmon1: Undervoltage detected!",
        "thermal thermal_zone0: cpu-thermal: critical temperature reached, shutting down",
        "xhci_hcd 0000:01:00.0: xHCI host controller not responding, assume dead",
    ];
    let want = [
        "IOError",
        "Ext4Error",
        "FilesystemIsReadOnly",
        "TaskHung",
        "OOMKilling",
        "UndervoltageDetected",
        "CPUOverheated",
        "USBControllerStopped",
    ];
    assert_eq!(reasons(take(&mut log, 100, &texts)), want);
    assert_eq!(reasons(take(&mut log, 200, &texts)), Vec::<&str>::new());
    assert_eq!(reasons(take(&mut log, 3900, &texts)), want);
    // What means nothing once is no event once.
    let (reset, over) = (
        "usb 2-1: reset SuperSpeed USB device number 2 using xhci_hcd",
        "usb usb2-port1: over-current change",
    );
    let mut log = read(HEALTHY);
    assert_eq!(reasons(take(&mut log, 100, &[reset, over, over])), Vec::<&str>::new());
    assert_eq!(reasons(take(&mut log, 200, &[reset, over])), ["USBDiskReset", "USBOverCurrent"]);
    let mut log = read(HEALTHY);
    let event = take(&mut log, 100, &texts[..1]).remove(0);
    assert_eq!(
        event.note,
        "the card mmcblk0 did not answer the kernel in time: mmc0: Timeout waiting for hardware interrupt."
    );
}

#[test]
fn what_is_kept_and_shown_is_bounded() {
    let mut log = KernelLog::new().unwrap();
    let texts: Vec<String> = (0..1000)
        .flat_map(|n| {
            [
                format!("usb-storage 1-{n}:1.0: USB Mass Storage device detected"),
                format!("mmcblk{n}: mmc{n}:59b4 SD"),
                format!("sd {n}:0:0:0: [sda] Attached"),
                format!("Out of memory: Killed process {n} (p{n}) x"),
            ]
        })
        .collect();
    take(&mut log, 1, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(at(&log, 5000).len(), MOST);
    // 8 KiB in one record.
    take(&mut log, 6000, &[&format!("mmc0: Timeout waiting for hardware interrupt. {}", "x".repeat(8192))]);
    let shown = at(&log, 6000).remove(0).evidence.remove(0).saw;
    assert!(shown.len() < 300, "{shown}");
}

proptest! {
    #[test]
    fn no_line_makes_it_panic(
        head in "[0-9,;-]{0,12}",
        words in prop::sample::select(vec!["task ", "oom-kill:constraint=", "Killed process ", "scsi host", "sd ", "usb ", "EXT4-fs (", "I/O error, dev ", ""]),
        rest in ".{0,60}",
    ) {
        let mut log = KernelLog::new().unwrap();
        let _ = log.take(&format!("{head};{words}{rest}"));
        let _ = log.take(&format!("3,1,2,-;{words}{rest}"));
        let _ = log.findings(u64::MAX, |at| at.to_string());
    }
}

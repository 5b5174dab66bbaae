//! What is said of the host in particular: whose memory ran out, what is full, which slot has the card.

use super::*;

/// The messages of a text, each once, with their severities.
fn said(text: &str) -> Vec<(String, Severity)> {
    let mut context = LogContext::default();
    let lines = text.split('\n').map(str::as_bytes);
    let mut said: Vec<Finding> =
        lines.filter_map(|line| RECOGNISER.judge_in(&mut context, line, || Place::line("log", 1))).collect();
    said.extend(Recogniser::judge_end(&context, |line| Place::line("log", line)));
    let mut said: Vec<_> =
        said.into_iter().map(|finding| (finding.message.clone(), finding.severity())).collect();
    said.dedup();
    said
}

#[track_caller]
fn says(text: &str, severity: Severity, message: &str) {
    assert_eq!(said(text), [(message.to_owned(), severity)], "{text}");
}

#[test]
fn one_kill_of_the_kernel_is_said_once_and_by_whose_memory_it_was() {
    let log = |constraint: &str, of: &str, task_cgroup: &str, killed: &str| {
        format!(
            "a invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=968\n\
             oom-kill:constraint={constraint},nodemask=(null),cpuset=/,mems_allowed=0,{of},task_memcg={task_cgroup},task=java,pid=812,uid=0\n\
             {killed}: Killed process 812 (java) total-vm:3kB, anon-rss:5kB, file-rss:0kB\n\
             oom_reaper: reaped process 812 (java), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB"
        )
    };
    for (cgroup, message) in [
        ("/kubepods/burstable/pod1/2c", "the kernel killed java: its container reached its memory limit"),
        (
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod9.slice/cri-containerd-0f.scope",
            "the kernel killed java: its container reached its memory limit",
        ),
        ("/docker/4f1c", "the kernel killed java: its container reached its memory limit"),
        (
            "/kubepods",
            "the kernel killed java: the pods together reached the memory that the kubelet leaves to them",
        ),
        ("/system.slice/app.service", "the kernel killed java: app.service reached its memory limit"),
        ("/user.slice", "the kernel killed java: its cgroup reached its memory limit"),
    ] {
        let of = format!("oom_memcg={cgroup}");
        says(&log("CONSTRAINT_MEMCG", &of, cgroup, "Memory cgroup out of memory"), Severity::Fail, message);
    }
    says(
        &log("CONSTRAINT_NONE", "global_oom", "/kubepods/pod1/2c", "Out of memory"),
        Severity::Fail,
        "the kernel killed java because memory ran out",
    );
    // Cut off after the first line, nothing tells which it is.
    says(
        "a invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0",
        Severity::Warn,
        "the kernel looked for a process to kill: memory ran out, or a container reached its limit",
    );
}

#[test]
fn what_is_full_is_the_root_file_system_only_where_the_node_keeps_its_files() {
    let root = "The root file system is nearly full.";
    let hint = "a file system is full";
    for (line, severity, message) in [
        ("write /var/lib/rancher/k3s/agent/x: no space left on device", Severity::Fail, root),
        ("docker: failed to register layer: write /app/x: no space left on device", Severity::Fail, root),
        (
            "MountVolume.SetUp failed: mkdir /var/lib/kubelet/pods/1/volumes/kubernetes.io~empty-dir/a: no space left on device",
            Severity::Fail,
            root,
        ),
        (
            "open /var/lib/kubelet/pods/1/volumes/kubernetes.io~csi/pvc-1/mount/a: no space left on device",
            Severity::Warn,
            "the file system of /var/lib/kubelet/pods/1/volumes/kubernetes.io~csi/pvc-1/mount is full",
        ),
        ("Jan 1 pi k3s[9]: error syncing: no space left on device", Severity::Fail, root),
        (
            "rsync: write failed on \"/mnt/nas/x\": No space left on device (28)",
            Severity::Warn,
            "the file system of /mnt/nas is full",
        ),
        (
            "Error: no space left on device (*fs.PathError) /export",
            Severity::Warn,
            "the file system of /export is full",
        ),
        ("write /a$(reboot)/x: no space left on device", Severity::Warn, hint),
        ("error=\"no space left on device\"", Severity::Warn, hint),
        ("level=error msg=\"error in txn: database or disk is full\"", Severity::Fail, root),
        (
            "(sqlite3.OperationalError) database or disk is full",
            Severity::Warn,
            "an SQLite database cannot grow, because its file system is full",
        ),
    ] {
        says(line, severity, message);
    }
}

#[test]
fn a_file_of_bbolt_is_that_of_the_program_that_speaks() {
    let remedy = |line: &str| {
        let finding = judge(line).unwrap();
        let remedy = finding.remedy.clone().unwrap_or_else(|| finding.code.row().remedy());
        (
            finding.code.id(),
            finding.severity(),
            remedy.commands.iter().map(|command| &**command).collect::<Vec<&str>>().join("; "),
        )
    };
    let panic = "panic: assertion failed: Page expected to be: 3393, but self identifies as 6";
    let (code, severity, commands) = remedy(&format!("Mar 04 14:17:36 pi containerd[244]: {panic}"));
    assert_eq!((code, severity), ("N-20", Severity::Fail));
    assert!(commands.contains("mv /var/lib/containerd/io.containerd") && !commands.contains("state.db"));
    let (code, _, commands) = remedy(&format!("Mar 04 14:17:36 pi dockerd[244]: {panic}"));
    assert_eq!(code, "N-20");
    assert!(commands.contains("mv /var/lib/docker/containerd/daemon/"), "{commands}");
    let (code, severity, commands) = remedy(&format!("Mar 04 14:17:36 pi k3s[244]: {panic}"));
    assert_eq!((code, severity), ("F-09", Severity::Fail));
    assert!(commands.contains("state.db"), "{commands}");
    let (code, severity, commands) = remedy(panic);
    assert_eq!((code, severity), ("F-09", Severity::Warn));
    assert!(commands.contains("containerd.log") && !commands.contains("state.db"), "{commands}");
}

#[test]
fn a_card_is_in_the_slot_where_the_kernel_found_it() {
    let timeout = |slot: u8| format!("mmc{slot}: Timeout waiting for hardware cmd interrupt.");
    let failing = "The card is failing, or is mounted read-only.";
    // Without a card the driver asks again and again for one.
    let in_doubt = "the slot mmc0 does not answer: there is no card in it, or its card fails";
    says(&timeout(0), Severity::Warn, in_doubt);
    says("mmc0: Timeout waiting for hardware interrupt.", Severity::Fail, failing);
    says(&format!("mmcblk0: mmc0:59b4 SD16G 14.9 GiB\n{}", timeout(0)), Severity::Fail, failing);
    assert_eq!(said(&timeout(1)), []);
    says(&format!("mmcblk1: mmc1:aaaa SD32G 29.7 GiB\n{}", timeout(1)), Severity::Fail, failing);
    // A board whose Wi-Fi is in the first slot.
    let other = format!(
        "mmc0: new high speed SDIO card at address 0001\nmmcblk1: mmc1:aaaa SD32G 29.7 GiB\n{}",
        timeout(0)
    );
    assert_eq!(said(&other), []);
}

#[test]
fn a_disk_is_reset_once_when_it_is_found() {
    let found = |port: &str| format!("usb-storage {port}:1.0: USB Mass Storage device detected");
    let reset = |port: &str| format!("usb {port}: reset SuperSpeed USB device number 2 using xhci_hcd");
    let log = |ports: &[&str]| {
        let resets = ports.iter().map(|port| reset(port));
        let lines: Vec<String> = ["2-1", "2-2"].map(found).into_iter().chain(resets).collect();
        said(&lines.join("\n"))
    };
    assert_eq!(log(&["2-1", "2-2", "2-1", "2-2"]), []);
    let message = "the USB disk at port 2-1 was reset more than once: it did not answer";
    assert_eq!(log(&["2-1", "2-1", "2-2", "2-1"]), [(message.to_owned(), Severity::Warn)]);
    let again =
        [found("2-1"), reset("2-1"), reset("2-1"), "usb 2-1: USB disconnect, device number 2".to_owned()];
    assert_eq!(said(&[&again[..], &[found("2-1"), reset("2-1")]].concat().join("\n")), []);
}

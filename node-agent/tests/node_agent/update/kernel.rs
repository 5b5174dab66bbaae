//! `update --kernel` on a Raspberry Pi that is a directory: what a trial leaves where it is kept, refused, or cut off.

use std::fs;

use super::UpdateTestHost;

const OLD: &str = "6.12.48-arm64";
const NEW: &str = "6.12.57-arm64";
const CONFIG: &str =
    "arm_64bit=1\nkernel=vmlinuz-6.12.48-arm64\ninitramfs initrd.img-6.12.48-arm64 followkernel\n";
const BOOT: &str = "root/boot/firmware";

/// A board with Debian's names, and a kernel that apt has.
fn board() -> UpdateTestHost {
    let host = UpdateTestHost::new();
    host.write("root/proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.5\0");
    host.write(&format!("{BOOT}/config.txt"), CONFIG);
    host.write(&format!("{BOOT}/cmdline.txt"), "root=x\n");
    for name in ["bcm2711-rpi-4-b.dtb", &format!("vmlinuz-{OLD}"), &format!("initrd.img-{OLD}")] {
        host.write(&format!("{BOOT}/{name}"), "old");
    }
    host.write(&format!("root/lib/modules/{OLD}/x.ko"), "module");
    host.write("state/linux-image-arm64", "6.12.48-1 ii\n");
    host.write(&format!("state/linux-image-{OLD}"), "6.12.48-1 ii\n");
    let meta =
        format!("Package: linux-image-arm64\nVersion: 6.12.57-1\nDepends: linux-image-{NEW} (= 6.12.57-1)\n");
    host.write("show-linux-image-arm64", &meta);
    let image = format!(
        "Package: linux-image-{NEW}\nVersion: 6.12.57-1\nInstalled-Size: 1000\nDepends: kmod, linux-base-{NEW}\n"
    );
    host.write(&format!("show-linux-image-{NEW}"), &image);
    let base = format!("Package: linux-base-{NEW}\nVersion: 6.12.57-1\nInstalled-Size: 10\n");
    host.write(&format!("show-linux-base-{NEW}"), &base);
    starts(&host, "first", OLD, false);
    host
}

/// The next boot, with this kernel.
fn starts(host: &UpdateTestHost, boot: &str, kernel: &str, is_trial: bool) {
    host.write("root/proc/sys/kernel/random/boot_id", &format!("{boot}\n"));
    host.write("root/proc/sys/kernel/osrelease", &format!("{kernel}\n"));
    let flag = if is_trial { "\0\0\0\u{1}" } else { "\0\0\0\0" };
    host.write("root/proc/device-tree/chosen/bootloader/tryboot", flag);
}

fn text(host: &UpdateTestHost, path: &str) -> String {
    fs::read_to_string(host.path(path)).unwrap_or_else(|_| format!("no {path}"))
}

fn on_boot(host: &UpdateTestHost, name: &str) -> String {
    text(host, &format!("{BOOT}/{name}"))
}

fn record(host: &UpdateTestHost) -> String {
    text(host, "root/var/lib/weaver/kernel.json")
}

/// That a regular start takes the old kernel, and nothing of the new one is left.
fn is_as_before(host: &UpdateTestHost, at: &str) {
    assert_eq!(on_boot(host, "config.txt"), CONFIG, "{at}");
    assert_eq!(on_boot(host, &format!("vmlinuz-{OLD}")), "old", "{at}");
    for gone in ["boot/firmware/weaver-kernel", "boot/firmware/tryboot.txt", &format!("lib/modules/{NEW}")] {
        assert!(!host.path(&format!("root/{gone}")).exists(), "{at}: {gone}");
    }
}

/// That a regular start takes the new kernel, which is installed.
fn is_kept(host: &UpdateTestHost, at: &str) {
    assert_eq!(on_boot(host, "config.txt"), CONFIG.replace(OLD, NEW), "{at}");
    assert_eq!(on_boot(host, &format!("vmlinuz-{NEW}")), format!("kernel {NEW}\n"), "{at}");
    assert_eq!(on_boot(host, &format!("initrd.img-{NEW}")), format!("initramfs {NEW}\n"), "{at}");
    assert_eq!(on_boot(host, "bcm2711-rpi-4-b.dtb"), format!("tree {NEW}\n"), "{at}");
    assert_eq!(on_boot(host, "cmdline.txt"), "root=x\n", "{at}");
    for package in ["linux-image-arm64", &format!("linux-image-{NEW}"), &format!("linux-base-{NEW}")] {
        assert_eq!(text(host, &format!("state/{package}")), "6.12.57-1 ii \n", "{at}: {package}");
    }
    for gone in ["weaver-kernel", "tryboot.txt", "seen"] {
        assert!(!host.path(&format!("{BOOT}/{gone}")).exists(), "{at}: {gone}");
    }
    assert!(host.path(&format!("root/lib/modules/{NEW}/x.ko")).exists(), "{at}");
    assert!(record(host).contains("\"kept\""), "{at}: {}", record(host));
}

fn resumes(host: &UpdateTestHost) -> (Option<i32>, String) {
    host.update(&["--resume", "--yes"])
}

#[test]
fn a_kernel_that_is_proven_on_trial_is_installed_and_started_from_then_on() {
    let host = board();
    let (code, said) = host.update(&["--kernel"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.starts_with(&format!("A newer kernel: {OLD} → {NEW}. This node restarts")), "{said}");
    assert!(said.ends_with("pass --yes to install.\n"), "{said}");
    is_as_before(&host, "a look");

    let (code, said) = host.update(&["--kernel", "--yes"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(text(&host, "reboots"), "reboot --reboot-argument=0 tryboot\n");
    assert_eq!(on_boot(&host, "config.txt"), CONFIG, "a regular start is as before");
    let trial = on_boot(&host, "tryboot.txt");
    assert!(
        trial.starts_with(&CONFIG.replace(OLD, NEW)) && trial.ends_with("\nos_prefix=weaver-kernel/\n"),
        "{trial}"
    );
    assert_eq!(on_boot(&host, &format!("weaver-kernel/vmlinuz-{NEW}")), format!("kernel {NEW}\n"));
    assert_eq!(on_boot(&host, "weaver-kernel/cmdline.txt"), "panic=10 root=x\n");
    let report = host.preflight();
    assert!(report.contains("F-17") && report.contains(&format!("a trial of kernel {NEW}")), "{report}");
    for flags in [&["--yes"][..], &["--yes", "--when", "daily"], &["--kernel", "--dry-run"]] {
        let (code, said) = host.update(flags);
        assert!(
            code == Some(0) && said.contains("has not ended") && !said.contains("weaver 0.1"),
            "{flags:?}: {said}"
        );
    }

    starts(&host, "second", NEW, true);
    let (code, said) = resumes(&host);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.ends_with("is verified and installed: each start takes it from now on.\n"), "{said}");
    is_kept(&host, "on trial");
    assert!(host.calls().contains("apt-get install"), "{}", host.calls());
    assert_eq!(text(&host, "reboots").lines().count(), 1);

    starts(&host, "third", NEW, false);
    assert_eq!(resumes(&host), (Some(0), String::new()));
    let (code, said) = host.update(&["--kernel", "--yes"]);
    let want = format!("Nothing to try: kernel {NEW} is running, and apt has no newer one.\n");
    assert_eq!((code, said), (Some(0), want));
}

#[test]
fn a_kernel_that_is_not_proven_is_left_by_a_restart_and_all_of_it_removed() {
    let host = board();
    assert_eq!(host.update(&["--kernel", "--yes"]).0, Some(0));
    starts(&host, "second", NEW, true);
    host.write("state/config-weaver", "0.1bad ii\n");
    let (code, said) = resumes(&host);
    assert_eq!(code, Some(12), "{said}");
    assert!(said.ends_with(&format!("This node restarts now with kernel {OLD}.\n")), "{said}");
    assert_eq!(text(&host, "reboots"), "reboot --reboot-argument=0 tryboot\nreboot\n");
    assert_eq!(on_boot(&host, "config.txt"), CONFIG);
    // The restart was lost: it is asked for again, and nothing of the kernel that runs is removed.
    assert_eq!(resumes(&host).0, Some(12));
    assert!(host.path(&format!("root/lib/modules/{NEW}/x.ko")).exists());

    starts(&host, "third", OLD, false);
    assert_eq!(resumes(&host), (Some(0), String::new()));
    is_as_before(&host, "refused");
    let (code, said) = host.update(&["--kernel", "--dry-run"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("was refused: after 1 s: weaver-node-agent.service is failed"), "{said}");
    assert!(said.contains("A newer kernel: "), "it is tried again by hand: {said}");
}

#[test]
fn an_edit_of_config_txt_during_a_trial_outlives_it_and_one_that_chooses_a_kernel_ends_it() {
    let trying = |config: &str| {
        let host = board();
        assert_eq!(host.update(&["--kernel", "--yes"]).0, Some(0));
        starts(&host, "second", NEW, true);
        host.write(&format!("{BOOT}/config.txt"), config);
        host
    };
    let edited = format!("{CONFIG}dtparam=audio=on\n");
    let host = trying(&edited);
    let (code, said) = resumes(&host);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(on_boot(&host, "config.txt"), edited.replace(OLD, NEW));
    assert!(record(&host).contains("\"kept\""), "{}", record(&host));

    let mine = CONFIG.replace(&format!("vmlinuz-{OLD}"), "mine");
    let host = trying(&mine);
    let (code, said) = resumes(&host);
    assert_eq!(code, Some(12), "{said}");
    assert!(said.contains("config.txt was changed during the trial"), "{said}");
    assert_eq!(on_boot(&host, "config.txt"), mine);
    assert!(record(&host).contains("changed during the trial"), "{}", record(&host));
    assert_eq!(text(&host, "reboots"), "reboot --reboot-argument=0 tryboot\nreboot\n");
}

#[test]
fn a_board_that_comes_back_with_the_old_kernel_has_refused_the_new_one() {
    for (is_trial, boots) in
        [(false, "the request was lost"), (true, "the firmware had no use for the files")]
    {
        let host = board();
        assert_eq!(host.update(&["--kernel", "--yes"]).0, Some(0));
        starts(&host, "second", OLD, is_trial);
        let (code, said) = resumes(&host);
        assert_eq!(code, Some(0), "{boots}: {said}");
        assert!(said.contains("the trial did not start, or did not come back"), "{boots}: {said}");
        is_as_before(&host, boots);
        assert!(record(&host).contains("\"refused\""), "{boots}: {}", record(&host));
    }
    let host = board();
    assert_eq!(host.update(&["--kernel", "--yes"]).0, Some(0));
    starts(&host, "second", NEW, true);
    host.write("kill", "after systemctl show");
    assert_eq!(resumes(&host).0, None, "killed while the kernel is verified");
    starts(&host, "third", OLD, false);
    let (code, said) = resumes(&host);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("restarted before the new kernel was verified"), "{said}");
    is_as_before(&host, "cut off");
}

#[test]
fn a_trial_on_which_nothing_can_be_written_is_left_by_a_restart() {
    // As on a read-only root: the lock cannot be made, or the record cannot be written.
    for blocked in ["node.lock", "kernel.json.new"] {
        let host = board();
        assert_eq!(host.update(&["--kernel", "--yes"]).0, Some(0));
        starts(&host, "second", NEW, true);
        let path = host.path(&format!("root/var/lib/weaver/{blocked}"));
        let _ = fs::remove_file(&path);
        fs::create_dir(&path).unwrap();
        let (code, said) = resumes(&host);
        assert_eq!(code, Some(12), "{blocked}: {said}");
        assert!(said.contains("cannot write "), "{blocked}: {said}");
        assert!(said.ends_with(&format!("This node restarts now with kernel {OLD}.\n")), "{blocked}: {said}");
        assert_eq!(text(&host, "reboots"), "reboot --reboot-argument=0 tryboot\nreboot\n", "{blocked}");
        assert_eq!(on_boot(&host, "config.txt"), CONFIG, "{blocked}");

        fs::remove_dir(&path).unwrap();
        starts(&host, "third", OLD, false);
        assert_eq!(resumes(&host).0, Some(0), "{blocked}");
        is_as_before(&host, blocked);
    }
}

#[test]
fn the_timer_restarts_nothing_and_installs_what_is_proven() {
    let timer = ["--yes", "--when", "daily"];
    let host = board();
    assert_eq!(host.update(&["--kernel", "--yes"]).0, Some(0));
    let leaves = |boot: &str, kernel: &str, is_trial: bool| {
        starts(&host, boot, kernel, is_trial);
        let before = (record(&host), text(&host, "reboots"));
        let (code, said) = host.update(&timer);
        assert!(code == Some(0) && said.contains("has not ended"), "{boot}: {said}");
        assert_eq!((record(&host), text(&host, "reboots")), before, "{boot}");
        assert!(host.path(&format!("root/lib/modules/{NEW}/x.ko")).exists(), "{boot}");
    };
    leaves("second", NEW, true);
    leaves("third", OLD, false);
    // Refused, and the restart was lost.
    starts(&host, "second", NEW, true);
    host.write("state/config-weaver", "0.1bad ii\n");
    assert_eq!(resumes(&host).0, Some(12));
    leaves("second", NEW, true);

    let host = board();
    assert_eq!(host.update(&["--kernel", "--yes"]).0, Some(0));
    starts(&host, "second", NEW, true);
    host.write("fail", "apt-get install");
    host.write("words", "dpkg: error: No space left on device");
    assert_eq!(resumes(&host).0, Some(13));
    fs::remove_file(host.path("fail")).unwrap();
    let (code, said) = host.update(&timer);
    assert_eq!(code, Some(0), "{said}");
    is_kept(&host, "by the timer");
}

#[test]
fn a_host_on_which_nothing_runs_that_could_verify_a_kernel_tries_none() {
    let host = board();
    fs::remove_dir_all(host.path("root/run/systemd")).unwrap();
    let (code, said) = host.update(&["--kernel", "--yes"]);
    assert_eq!(code, Some(10), "{said}");
    assert!(said.contains("refused: nothing runs here by which a kernel could be verified"), "{said}");
    assert_eq!(record(&host), "no root/var/lib/weaver/kernel.json");
    assert!(!host.calls().contains("apt-get download") && !host.path("reboots").exists());
}

#[test]
fn cut_off_before_the_restart_the_next_boot_removes_what_was_prepared() {
    let depmod = format!("depmod {NEW}");
    let calls = [
        "apt-get download",
        "apt-get simulate",
        "dpkg-deb --extract",
        &depmod,
        "mkinitramfs -o",
        "systemctl reboot",
    ];
    for (when, call) in ["before", "after"].into_iter().flat_map(|when| calls.map(|call| (when, call))) {
        let at = format!("{when} {call}");
        let host = board();
        host.write("kill", &at);
        let (killed, said) = host.update(&["--kernel", "--yes"]);
        assert_eq!(killed, None, "{at}: {said}");
        assert_eq!(on_boot(&host, "config.txt"), CONFIG, "{at}");
        starts(&host, "second", OLD, false);
        let (code, said) = resumes(&host);
        assert_eq!(code, Some(0), "{at}: {said}");
        is_as_before(&host, &at);
        assert_eq!(host.update(&["--kernel", "--yes"]).0, Some(0), "{at}: the next trial");
        assert!(record(&host).contains("\"asked\""), "{at}");
    }
}

#[test]
fn cut_off_while_it_is_installed_a_proven_kernel_starts_and_the_next_boot_completes_it() {
    for at in
        ["before dpkg configure", "before apt-get install", "within apt-get install", "after apt-get install"]
    {
        let host = board();
        assert_eq!(host.update(&["--kernel", "--yes"]).0, Some(0));
        starts(&host, "second", NEW, true);
        host.write("kill", at);
        assert_eq!(resumes(&host).0, None, "{at}");
        let config = on_boot(&host, "config.txt");
        assert!(config.ends_with("\nos_prefix=weaver-kernel/\n"), "{at}: {config}");
        starts(&host, "third", NEW, false);
        // The network may be away.
        host.write("fail", "apt-get download");
        host.write("words", "E: Failed to fetch x  Could not resolve 'x'");
        let (code, said) = resumes(&host);
        assert_eq!(code, Some(0), "{at}: {said}");
        is_kept(&host, at);
    }
}

#[test]
fn what_would_write_to_the_boot_partition_is_not_installed_to_complete_an_interrupted_installation() {
    let host = board();
    assert_eq!(host.update(&["--kernel", "--yes"]).0, Some(0));
    starts(&host, "second", NEW, true);
    host.write("kill", "within apt-get install");
    assert_eq!(resumes(&host).0, None);
    host.write("missing", "raspi-firmware\n");
    starts(&host, "third", NEW, false);
    let (code, said) = resumes(&host);
    assert_eq!(code, Some(13), "{said}");
    assert!(said.contains("apt would also install raspi-firmware 1"), "{said}");
    fs::remove_file(host.path("missing")).unwrap();
    let (code, said) = resumes(&host);
    assert!(code == Some(0) && said.contains("apt also installs: libother 1.0\n"), "{said}");
    is_kept(&host, "once it is there");
}

#[test]
fn a_kernel_that_cannot_be_installed_starts_all_the_same_and_is_tried_again() {
    let host = board();
    assert_eq!(host.update(&["--kernel", "--yes"]).0, Some(0));
    starts(&host, "second", NEW, true);
    host.write("fail", "apt-get install");
    host.write("words", "dpkg: error: No space left on device");
    // As it is called: after it, half of a package is there.
    let (code, said) = resumes(&host);
    assert_eq!(code, Some(13), "{said}");
    assert!(said.contains("is verified, and not installed yet: the disk is full"), "{said}");
    assert!(on_boot(&host, "config.txt").ends_with("\nos_prefix=weaver-kernel/\n"));
    fs::remove_file(host.path("fail")).unwrap();
    starts(&host, "third", NEW, false);
    let (code, said) = host.update(&["--yes"]);
    assert_eq!(code, Some(0), "{said}");
    is_kept(&host, "tried again");
    assert!(said.contains("0.2 is installed and verified"), "and then the update itself: {said}");
}

#[test]
fn what_fails_or_is_refused_before_the_restart_leaves_nothing() {
    for (call, code, words) in [
        ("apt-get download", 10, "refused: the package lists of another apt source are out of date"),
        ("dpkg-deb --extract", 1, "the old kernel stays"),
        ("mkinitramfs -o", 1, "mkinitramfs fails"),
    ] {
        let host = board();
        host.write("fail", call);
        host.write("words", "E: Failed to fetch x  File not found");
        let (ended, said) = host.update(&["--kernel", "--yes"]);
        assert_eq!(ended, Some(code), "{call}: {said}");
        assert!(said.contains(words), "{call}: {said}");
        is_as_before(&host, call);
        assert!(!host.path("reboots").exists(), "{call}");
    }
    for (file, content, words) in [
        ("proc/device-tree/model", "PC", "this is no Raspberry Pi"),
        ("boot/firmware/config.txt", "kernel=a\nos_prefix=mine/\n", "already chooses between kernels"),
        ("boot/firmware/tryboot.txt", "kernel=a\n", "`weaver` did not write it"),
        ("boot/firmware/autoboot.txt", "tryboot_a_b=1\n", "autoboot.txt decides"),
        ("proc/sys/kernel/osrelease", "6.8.0-raspi\n", "no package is installed that follows"),
    ] {
        let host = board();
        host.write(&format!("root/{file}"), content);
        let (code, said) = host.update(&["--kernel", "--yes"]);
        assert!(code == Some(10) && said.contains(words), "{file}: {said}");
        assert!(!host.calls().contains("apt-get download") && !host.path("reboots").exists(), "{file}");
    }
}

//! `preflight --gate` on fixture hosts: what blocks k3s and what never does, and
//! what a user finds on the console and on the card.

use std::{
    fs,
    os::unix::net::UnixDatagram,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::support::host::{CONFIG, CONTROLLERS, MEMINFO, TestHost, enough_memory};
use serde_json::Value;

const BLOCK: &str = "/run/weaver/k3s.blocked";
const REPORT: &str = "/run/weaver/report.json";
const BANNER: &str = "/run/issue.d/50-weaver.issue";
const PAGE: &str = "/boot/firmware/NODE-STATUS.txt";
const PAGE_JSON: &str = "/boot/firmware/node-status.json";
const OVERRIDE: &str = "/boot/firmware/weaver-override";
const MARK: &str = "/run/systemd/timesync/synchronized";
const ROUTE: &str = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
                     eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
const PATIENCE: Duration = Duration::from_secs(30);

fn json(host: &TestHost, path: &str) -> Value {
    serde_json::from_str(&host.read(path)).unwrap()
}

fn is_blocked(host: &TestHost) -> bool {
    host.path(BLOCK).exists()
}

#[test]
fn a_fit_host_is_not_blocked_and_an_old_block_is_removed() {
    let host = TestHost::debian().boot_partition("rw").file(BLOCK, "old").file(MARK, "");
    assert_eq!(host.gate(&[]).code, 0);
    assert!(!is_blocked(&host));
    let report = json(&host, REPORT);
    assert_eq!((&report["gate"], &report["k3s_blocked"]), (&"shut".into(), &false.into()));
    assert_eq!(report["card"]["current"], true);
    assert!(host.read(PAGE).contains("k3s may start"));
}

#[test]
fn a_known_bad_host_is_blocked_with_code_evidence_and_remedy() {
    let host = TestHost::raspberry_pi_without_memory("root=a\ncgroup_enable=memory\n").boot_partition("rw");
    assert_eq!(host.gate(&[]).code, 10);
    for (file, parts) in [
        (BLOCK, &["N-02", "/boot/firmware/cmdline.txt:2:1", "join the lines", "weaver-override"][..]),
        (
            PAGE,
            &["N-02", "cmdline.txt:2:1", "join the lines", "verdict  failed: N-02", "k3s      not started"],
        ),
        (BANNER, &["N-02", "k3s is not started", "do: ", "/run/weaver/node-status.txt"]),
        ("/run/weaver/node-status.txt", &["N-02", "join the lines"]),
    ] {
        let text = host.read(file);
        for part in parts {
            assert!(text.contains(part), "{part} in {file}: {text}");
        }
    }
    assert_eq!(json(&host, REPORT)["k3s_blocked"], true);
    let page = json(&host, PAGE_JSON);
    assert_eq!((&page["k3sBlocked"], &page["findings"][0]["code"]), (&true.into(), &"N-02".into()));
}

#[test]
fn too_little_memory_blocks() {
    let host = TestHost::debian().small();
    let verdict = host.gate(&[]);
    assert_eq!(verdict.code, 10);
    verdict.finding("N-12").is("fail").says("451 MB").seen_at("/proc/meminfo:1");
    assert!(is_blocked(&host));
}

#[test]
fn k3s_does_not_begin_a_new_cluster_where_its_disk_of_fstab_is_missing() {
    const ROOT: &str = "25 1 254:2 / / rw - ext4 /dev/vda2 rw\n";
    let host = TestHost::debian()
        .file(CONFIG, "data-dir: /mnt/my-ssd/k3s\n")
        .file("/etc/fstab", "LABEL=ssd /mnt/my-ssd ext4 nofail 0 2\n")
        .file("/proc/self/mountinfo", ROOT);
    let verdict = host.gate(&[]);
    assert_eq!(verdict.code, 10);
    verdict.finding("H-31").is("fail").says("/mnt/my-ssd is not mounted").seen_at("/etc/fstab");
    assert!(is_blocked(&host));
    let host =
        host.file("/proc/self/mountinfo", format!("{ROOT}26 25 8:1 / /mnt/my-ssd rw - ext4 /dev/sda1 rw\n"));
    let verdict = host.gate(&[]);
    assert!(!verdict.has("H-31"), "{:#}", verdict.report);
    assert!(!is_blocked(&host));
}

#[test]
fn what_only_a_newer_k3s_refuses_is_said_and_blocks_nothing() {
    let unit = "[Service]\nExecStart=/usr/local/bin/k3s server --no-deploy traefik --flannel-backend ipsec\n";
    let host = TestHost::debian().file("/etc/systemd/system/k3s.service", unit);
    let verdict = host.gate(&[]);
    verdict.finding("F-07").is("fail").says("--no-deploy");
    assert!(!is_blocked(&host));
}

#[test]
fn the_owners_override_lets_k3s_start_and_is_reported() {
    let host =
        TestHost::debian().small().boot_partition("rw").file(OVERRIDE, "\u{feff}# mine\r\nn-12 # 512 MB\r\n");
    let verdict = host.gate(&[]);
    assert_eq!(verdict.code, 0);
    verdict.finding("N-12").is("warn").says("overridden").seen_at("/boot/firmware/weaver-override:2");
    assert!(!is_blocked(&host));
    assert!(host.read(PAGE).contains("N-12  WARN"));
    // The check without `--gate` reports the same.
    host.preflight().finding("N-12").is("warn");
}

#[test]
fn another_code_in_the_override_changes_nothing_and_no_code_is_reported() {
    let host = TestHost::debian().small().file(OVERRIDE, "N-01\nmemory-to-small\n");
    let verdict = host.gate(&[]);
    assert_eq!(verdict.code, 10);
    verdict.finding("N-12").is("fail");
    verdict
        .finding("H-06")
        .is("warn")
        .says("N-12 memory-too-small")
        .seen_at("/boot/firmware/weaver-override:2");
    assert!(is_blocked(&host));
}

#[test]
fn what_is_not_known_never_blocks() {
    let host = TestHost::debian().file(MEMINFO, "MemTotal: much\n").file(BLOCK, "old");
    fs::remove_file(host.path(CONTROLLERS)).unwrap();
    let verdict = host.gate(&[]);
    assert_eq!(verdict.code, 0);
    verdict.finding("N-11").is("unknown");
    verdict.finding("H-05").is("unknown");
    assert!(!is_blocked(&host));
}

#[test]
fn an_error_of_our_own_never_blocks() {
    // The block cannot be written: a non-empty directory has the name of its new file.
    let host = TestHost::debian().small().file("/run/weaver/k3s.blocked.new/x", "").file(BLOCK, "old");
    let output = host.agent("preflight").args(["--gate", "--clock-wait", "0"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("k3s.blocked") && said.contains("could not be"), "{said}");
    assert!(!is_blocked(&host));
    let report = json(&host, REPORT);
    assert_eq!(report["k3s_blocked"], false);
    assert!(
        report["reason"].as_str().unwrap().contains("k3s starts although it will fail: N-12"),
        "{report:#}"
    );
}

#[test]
fn a_killed_preflight_leaves_no_old_block() {
    let host = TestHost::debian().small().file(BLOCK, "old").file("/proc/net/route", ROUTE);
    let mut command = host.agent("preflight");
    command.args(["--gate", "--clock-wait", "300"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    wait(&mut child, || !is_blocked(&host));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!is_blocked(&host) && !host.path(REPORT).exists());
}

#[test]
fn a_report_that_cannot_be_published_does_not_change_the_verdict() {
    let host =
        TestHost::debian().small().file("/run/weaver/report.json/x", "").file("/run/issue.d", "a file");
    assert_eq!(host.gate(&[]).code, 10);
    assert!(is_blocked(&host));
    assert!(host.read("/run/weaver/node-status.txt").contains("N-12"));
}

#[test]
fn the_clock_is_waited_for_until_it_is_set() {
    let host = TestHost::debian().file("/proc/net/route", ROUTE);
    let mut command = host.agent("preflight");
    command.args(["--gate", "-o", "json", "--clock-wait", "300"]).stdout(Stdio::piped());
    let child = command.stderr(Stdio::null()).spawn().unwrap();
    assert!(!host.path(REPORT).exists(), "it waits");
    let host = host.file(MARK, "");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(!String::from_utf8_lossy(&output.stdout).contains("H-05"));
    assert!(!host.read("/run/weaver/node-status.txt").contains("not synchronised"));
}

#[test]
fn the_wait_for_the_clock_is_bounded_and_its_end_is_unknown_not_bad() {
    let host = TestHost::debian().file("/proc/net/route", ROUTE);
    let verdict = host.gate(&["--clock-wait", "1"]);
    assert_eq!(verdict.code, 0);
    verdict.finding("H-05").is("unknown").says("within 1 s");
    assert!(
        !is_blocked(&host) && host.read("/run/weaver/node-status.txt").contains("(clock not synchronised)")
    );
}

#[test]
fn without_a_route_the_clock_is_not_waited_for() {
    let host = TestHost::debian();
    host.gate(&["--clock-wait", "1"]).finding("H-05").is("unknown").says("no default route for 1 s");
}

#[test]
fn a_restart_of_k3s_does_not_wait_for_the_clock_again() {
    let host = TestHost::debian().file("/proc/net/route", ROUTE).file("/run/weaver/agent.lock", "");
    let lock = fs::File::open(host.path("/run/weaver/agent.lock")).unwrap();
    lock.lock().unwrap();
    host.gate(&["--clock-wait", "300"]).finding("H-05").is("unknown").says("within 0 s");
}

#[test]
fn the_environment_says_how_long_the_clock_is_waited_for() {
    let host = TestHost::debian().file("/proc/net/route", ROUTE);
    let run = |wait: &str| {
        let mut agent = host.agent("preflight");
        agent.args(["--gate", "-o", "json"]).env("WEAVER_CLOCK_WAIT", wait).output().unwrap()
    };
    assert!(String::from_utf8_lossy(&run("0").stdout).contains("within 0 s"));
    assert_eq!(run("soon").status.code(), Some(2));
}

#[test]
fn systemd_is_asked_for_the_time_that_a_long_wait_takes() {
    let host = TestHost::debian().file(MARK, "");
    let path = host.path("/notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut agent = host.agent("preflight");
    agent.args(["--gate", "--clock-wait", "300"]).env("NOTIFY_SOCKET", &path);
    assert_eq!(agent.output().unwrap().status.code(), Some(0));
    let mut buffer = [0; 256];
    let length = socket.recv(&mut buffer).unwrap();
    assert_eq!(String::from_utf8_lossy(&buffer[..length]).trim(), "EXTEND_TIMEOUT_USEC=360000000");

    let mut agent = host.agent("preflight");
    agent.args(["--gate", "--clock-wait", "30"]).env("NOTIFY_SOCKET", &path);
    assert_eq!(agent.output().unwrap().status.code(), Some(0));
    // It has ended: what it sent would be there.
    socket.set_nonblocking(true).unwrap();
    let asked = socket.recv(&mut buffer);
    assert!(asked.is_err(), "the unit's own time is enough for the usual wait");
}

#[test]
fn without_the_flag_nothing_is_written() {
    let host = TestHost::debian().small().boot_partition("rw").file(BLOCK, "old");
    let before = files(host.dir());
    assert_eq!(host.preflight().code, 10);
    assert_eq!(files(host.dir()), before);
}

#[test]
fn a_card_that_cannot_be_written_is_named_in_report_and_banner() {
    let absent = TestHost::debian().small();
    let read_only = TestHost::debian().small().boot_partition("ro");
    let refusing =
        TestHost::debian().small().boot_partition("rw").file("/boot/firmware/NODE-STATUS.txt/x", "");
    for (host, why) in [
        (absent, "no boot partition is mounted at /boot/firmware"),
        (read_only, "mounted read-only"),
        (refusing, "cannot write /boot/firmware/NODE-STATUS.txt"),
    ] {
        assert_eq!(host.gate(&[]).code, 10, "{why}");
        let card = &json(&host, REPORT)["card"];
        assert_eq!(card["current"], false);
        assert!(card["reason"].as_str().unwrap().contains(why), "{card}");
        assert!(host.read(BANNER).contains(why) && is_blocked(&host), "{why}");
        assert!(!host.path(PAGE).is_file() && !host.path(PAGE_JSON).exists(), "{why}");
    }
}

/// On a full file system, like a full card.
#[test]
fn a_full_card_is_named_and_keeps_what_it_has() {
    let host = TestHost::debian().small().boot_partition("rw");
    let boot = host.path("/boot/firmware");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=16k", "tmpfs"])
        .arg(&boot)
        .stderr(Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        // Only root may mount; the error path itself is tested above and in publish/card.rs.
        return;
    }
    let _unmount = Unmount(&boot);
    fs::write(boot.join("node-status.json"), "old").unwrap();
    let full = fs::write(boot.join("filler"), vec![0; 64 * 1024]).unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(host.gate(&[]).code, 10);
    let card = json(&host, REPORT)["card"].clone();
    assert!(card["reason"].as_str().unwrap().contains("No space left"), "{card}");
    assert!(is_blocked(&host) && host.read(BANNER).contains("No space left"));
    assert_eq!(host.read(PAGE_JSON), "old");
    let names: Vec<_> = fs::read_dir(&boot).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "nothing half-written is left: {names:?}");
}

struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn the_card_is_written_on_a_change_only_and_at_most_24_times() {
    let host = TestHost::debian().boot_partition("rw").file(MARK, "");
    host.gate(&[]);
    let first = host.read(PAGE);
    host.gate(&[]);
    assert_eq!(host.read(PAGE), first, "a time alone is no change");
    // 24 in all: 11 times small and large again, and once more small.
    let (mut host, mut last) = (host, first);
    for n in 0..23 {
        host = if n % 2 == 0 { host.small() } else { host.file(MEMINFO, enough_memory()) };
        host.gate(&[]);
        let page = host.read(PAGE);
        assert_ne!(page, last, "change {n}");
        last = page;
    }
    let host = host.file(MEMINFO, enough_memory());
    assert_eq!(host.gate(&[]).code, 0);
    assert_eq!(host.read(PAGE), last, "the 25th");
    let card = &json(&host, REPORT)["card"];
    assert!(card["reason"].as_str().unwrap().contains("24 times in a day"), "{card}");
    assert!(!host.read("/run/weaver/node-status.txt").contains("N-12"), "the rest is up to date");
    assert!(host.read(BANNER).contains("24 times in a day"));
}

#[test]
fn the_page_for_a_laptop_has_windows_line_ends_and_the_banner_no_live_escapes() {
    let host = TestHost::debian()
        .boot_partition("rw")
        .file("/proc/sys/kernel/hostname", "ras\\npi\n")
        .file(CONFIG, "tls-san:\n  pi: \"\\e\\\\d\"\n");
    assert_eq!(host.gate(&[]).code, 10);
    let page = host.read(PAGE);
    assert_eq!(page.matches('\n').count(), page.matches("\r\n").count());
    assert!(page.contains("node ras\\npi\r\n"), "{page}");
    let banner = host.read(BANNER);
    assert!(banner.contains(" on ras\\\\npi  \\4  \\6\n"), "{banner}");
    assert_eq!(banner.replace("\\\\", "").matches('\\').count(), 2, "{banner}");
}

#[test]
fn no_secret_goes_into_any_of_the_files() {
    let host = TestHost::debian()
        .small()
        .boot_partition("rw")
        .file(CONFIG, "token: hunter2\nagent-token: hunter2\ntls-san: [[hunter2\n")
        .file("/boot/firmware/weaver.toml", "[k3s]\ntoken = \"hunter2\"\n");
    assert_eq!(host.gate(&[]).code, 10);
    for file in [REPORT, BANNER, PAGE, PAGE_JSON, BLOCK, "/run/weaver/node-status.txt"] {
        let text = host.read(file);
        assert!(!text.contains("hunter2") && !text.is_empty(), "{file}: {text}");
    }
}

#[test]
fn what_boot_config_found_is_in_the_report_and_blocks_nothing() {
    let found = r#"{"exitCode": 10, "findings": [{"severity": "fail", "code": "B-01", "name": "n",
        "message": "weaver.toml:3:1 is wrong", "evidence": []}]}"#;
    let host = TestHost::debian().boot_partition("rw").file("/var/lib/weaver/boot-config/report.json", found);
    host.gate(&[]).finding("B-01").says("weaver.toml:3:1");
    assert!(!is_blocked(&host));
    assert!(host.read(PAGE).contains("weaver.toml:3:1 is wrong"));
}

#[test]
fn the_report_of_a_running_agent_is_left_to_it() {
    let host = TestHost::debian().small().file(REPORT, "the agent's").file("/run/weaver/agent.lock", "");
    let lock = fs::File::open(host.path("/run/weaver/agent.lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(host.gate(&[]).code, 10);
    assert_eq!(host.read(REPORT), "the agent's");
    assert!(is_blocked(&host), "k3s is judged all the same");
    drop(lock);
    host.gate(&[]);
    assert!(host.read(REPORT).contains("N-12"));
}

#[track_caller]
fn wait(child: &mut Child, until: impl Fn() -> bool) {
    let since = Instant::now();
    while !until() {
        assert!(since.elapsed() < PATIENCE, "it never came");
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Every file below, with its content.
fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push((entry.path().display().to_string(), fs::read(entry.path()).unwrap()));
        }
    }
    found.sort();
    found
}

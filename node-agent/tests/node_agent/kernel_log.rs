//! `run --systemd` next to a `/dev/kmsg` that is a pipe: the kernel's messages are in the report, counted once, and end
//! nothing.

use std::{
    fs::{self, File, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::stat::Mode,
    time::{ClockId, clock_gettime},
    unistd::mkfifo,
};
use serde_json::Value;

use crate::support::{
    host::{CONFIG, TestHost},
    systemctl::FakeSystemctl,
    tls_server::closed_port,
};

const PATIENCE: Duration = Duration::from_mins(1);

struct Scene {
    host: TestHost,
    systemctl: FakeSystemctl,
}

/// A running agent; killed at the end.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Scene {
    fn new() -> Self {
        let host = TestHost::debian().boot_partition("rw").file(CONFIG, "tls-san: [box.example]\n");
        fs::create_dir_all(host.path("/dev")).unwrap();
        Self { host, systemctl: FakeSystemctl::new("active") }
    }

    fn kmsg(&self) -> PathBuf {
        self.host.path("/dev/kmsg")
    }

    /// The kernel's end. It is open for reading too, so that no open blocks.
    fn kernel(&self) -> File {
        mkfifo(&self.kmsg(), Mode::from_bits_truncate(0o600)).unwrap();
        OpenOptions::new().read(true).write(true).open(self.kmsg()).unwrap()
    }

    fn start(&self) -> Agent {
        let mut command: Command = self.host.agent("run");
        command.args(["--systemd", "--probe-timeout", "1", "--recheck-seconds", "1"]);
        command.arg("--api-address").arg(closed_port().to_string());
        command.arg("--systemctl").arg(self.systemctl.path());
        command.arg("--certificates").arg(self.host.path("/webhook"));
        command.arg("--webhook-address").arg(closed_port().to_string());
        let log = File::create(self.log()).unwrap();
        command.stderr(log).stdout(Stdio::null()).env("RUST_LOG", "info");
        Agent(command.spawn().unwrap())
    }

    fn log(&self) -> PathBuf {
        self.host.path("/agent.log")
    }

    fn report(&self) -> Value {
        let bytes = fs::read(self.host.path("/run/weaver/report.json")).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// The findings of a code, once one of them contains this.
    #[track_caller]
    fn wait_for(&self, agent: &mut Agent, code: &str, says: &str) -> Vec<Value> {
        let since = Instant::now();
        loop {
            let report = self.report();
            let findings = report["findings"].as_array().cloned().unwrap_or_default();
            let found: Vec<Value> = findings.into_iter().filter(|finding| finding["code"] == code).collect();
            if found.iter().any(|finding| finding.to_string().contains(says)) {
                return found;
            }
            assert_eq!(agent.0.try_wait().unwrap(), None, "the agent ended");
            assert!(since.elapsed() < PATIENCE, "no {code} with {says}: {report:#}\n{}", shown(&self.log()));
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Until a check has ended: what is not there then was not found.
    fn wait_for_a_check(&self, agent: &mut Agent) {
        self.wait_for(agent, "N-00", "");
    }
}

fn shown(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// A record of this moment.
fn record(sequence: u64, text: &str) -> String {
    let now = Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap()).as_micros();
    format!("3,{sequence},{now},-;{text}\n SUBSYSTEM=mmc\n DEVICE=+mmc:mmc0:59b4\n")
}

const SILENT: &str = "mmc0: Timeout waiting for hardware interrupt.";

#[test]
fn what_the_kernel_says_is_in_the_report_and_on_the_card_among_whatever_else_is_read() {
    let scene = Scene::new();
    let mut kernel = scene.kernel();
    let mut agent = scene.start();
    scene.wait_for_a_check(&mut agent);
    assert!(!scene.report().to_string().contains("H-07"), "{:#}", scene.report());
    kernel.write_all(b"\xff\xfe no record\n;;;\n\n3,x,y,-;mmc0: cache flush error\n").unwrap();
    kernel.write_all(record(1, &"x".repeat(8192)).as_bytes()).unwrap();
    kernel.write_all(record(2, "mmcblk0: mmc0:59b4 SD16G 14.9 GiB").as_bytes()).unwrap();
    kernel.write_all(record(3, SILENT).as_bytes()).unwrap();
    let found = scene.wait_for(&mut agent, "H-07", "did not answer").remove(0);
    assert_eq!(
        (found["severity"].as_str(), found["evidence"][0]["file"].as_str()),
        (Some("warn"), Some("/dev/kmsg"))
    );
    assert!(found["message"].as_str().unwrap().contains("the card mmcblk0 "), "{found:#}");
    let since = Instant::now();
    let page = scene.host.path("/boot/firmware/NODE-STATUS.txt");
    while !shown(&page).contains("did not answer the kernel") {
        assert!(since.elapsed() < PATIENCE, "{}", shown(&page));
        std::thread::park_timeout(Duration::from_millis(20));
    }
    kernel.write_all(record(4, SILENT).as_bytes()).unwrap();
    scene.wait_for(&mut agent, "H-07", "2 times from");
    // The same records read again, as after a fault of the reader's.
    kernel.write_all(record(3, SILENT).as_bytes()).unwrap();
    kernel.write_all(record(5, SILENT).as_bytes()).unwrap();
    scene.wait_for(&mut agent, "H-07", "3 times from");
    // A failure by its row; k3s runs on.
    kernel.write_all(record(6, "EXT4-fs (mmcblk0p2): Remounting filesystem read-only").as_bytes()).unwrap();
    let found = scene.wait_for(&mut agent, "H-07", "read-only");
    assert!(found.iter().any(|finding| finding["severity"] == "fail"), "{found:#?}");
    assert!(!scene.host.path("/run/weaver/k3s.blocked").exists(), "what the kernel says holds nothing back");
}

#[test]
fn a_new_agent_counts_what_the_buffer_still_has() {
    let scene = Scene::new();
    let mut kernel = scene.kernel();
    for sequence in 1..=2 {
        kernel.write_all(record(sequence, SILENT).as_bytes()).unwrap();
    }
    let mut first = scene.start();
    scene.wait_for(&mut first, "H-07", "2 times from");
    drop(first);
    fs::remove_file(scene.host.path("/run/weaver/report.json")).unwrap();
    // The kernel gives each reader all of them.
    for sequence in 1..=2 {
        kernel.write_all(record(sequence, SILENT).as_bytes()).unwrap();
    }
    let mut second = scene.start();
    scene.wait_for(&mut second, "H-07", "2 times from");
}

#[test]
fn a_log_that_cannot_be_read_is_said_once_and_is_no_finding() {
    type Make = fn(&Scene);
    // The kernel refuses to poll a directory or a regular file: EPERM, as without CAP_SYSLOG.
    let cases: [(&str, Make); 3] = [
        ("/dev/kmsg does not exist", |_| {}),
        ("Operation not permitted", |scene| fs::create_dir(scene.kmsg()).unwrap()),
        ("Operation not permitted", |scene| fs::write(scene.kmsg(), "a file").unwrap()),
    ];
    for (words, make) in cases {
        let scene = Scene::new();
        make(&scene);
        let mut agent = scene.start();
        scene.wait_for_a_check(&mut agent);
        let since = Instant::now();
        while !shown(&scene.log()).contains(words) {
            assert!(since.elapsed() < PATIENCE, "{words}: {}", shown(&scene.log()));
            std::thread::park_timeout(Duration::from_millis(20));
        }
        assert_eq!(shown(&scene.log()).matches("/dev/kmsg").count(), 1, "{}", shown(&scene.log()));
        assert!(!scene.report()["findings"].to_string().contains("/dev/kmsg"), "{:#}", scene.report());
        assert_eq!(agent.0.try_wait().unwrap(), None, "it does its other work");
    }
}

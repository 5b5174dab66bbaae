//! A host in a temporary directory, and the agent started on it.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

pub const CMDLINE: &str = "/boot/firmware/cmdline.txt";
pub const CONFIG: &str = "/etc/rancher/k3s/config.yaml";
pub const KUBECONFIG: &str = "/etc/rancher/k3s/k3s.yaml";
pub const BOOT: &str = "/boot/firmware";
pub const MEMINFO: &str = "/proc/meminfo";
/// `/proc/meminfo` of a board that is too small.
pub const SMALL: &str = include_str!("meminfo");
pub const CONTROLLERS: &str = "/sys/fs/cgroup/cgroup.controllers";
const SERVER_CA: &str = "/var/lib/rancher/k3s/server/tls/server-ca.crt";

/// `/proc/meminfo` of a larger board.
pub fn enough_memory() -> String {
    SMALL.replacen("440844", "8000000", 1)
}

pub struct TestHost(tempfile::TempDir);

impl TestHost {
    /// Debian's kernel, the memory controller there, nothing configured.
    pub fn debian() -> Self {
        Self(tempfile::tempdir().unwrap())
            .file("/proc/sys/kernel/osrelease", "6.12.107+deb13-arm64\n")
            .file("/proc/cmdline", "root=LABEL=weaver-root rootwait\n")
            .file(CONTROLLERS, "cpuset cpu io memory pids\n")
    }

    /// Raspberry Pi's kernel without the memory controller, as its device tree
    /// leaves it.
    pub fn raspberry_pi_without_memory(cmdline: &str) -> Self {
        Self(tempfile::tempdir().unwrap())
            .file("/proc/sys/kernel/osrelease", "6.12.47+rpt-rpi-v8\n")
            .file("/proc/cmdline", "cgroup_disable=memory root=/dev/mmcblk0p2 rootwait\n")
            .file(CONTROLLERS, "cpuset cpu io pids\n")
            .file(CMDLINE, cmdline)
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    pub fn file(self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let real = self.path(path);
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        fs::write(real, content).unwrap();
        self
    }

    /// A boot partition that is mounted with these options, `rw` or `ro`.
    pub fn boot_partition(self, options: &str) -> Self {
        fs::create_dir_all(self.path(BOOT)).unwrap();
        let line = format!("36 25 254:1 / {BOOT} {options} shared:1 - vfat /dev/vda1 rw\n");
        self.file("/proc/self/mountinfo", line)
    }

    /// Less memory than k3s needs.
    pub fn small(self) -> Self {
        self.file(MEMINFO, SMALL)
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub fn server_ca(self, pem: &str) -> Self {
        self.file(SERVER_CA, pem)
    }

    pub fn agent(&self, command: &str) -> Command {
        let mut agent = Command::new(env!("CARGO_BIN_EXE_weaver-node-agent"));
        agent
            .arg(command)
            .arg("--root")
            .arg(self.0.path())
            .env_remove("NOTIFY_SOCKET")
            .env_remove("WATCHDOG_USEC")
            .env_remove("WEAVER_CLOCK_WAIT")
            .env_remove("RUST_LOG");
        agent
    }

    /// `check -o json` against an address, for at most so many seconds.
    pub fn check(&self, address: SocketAddr, seconds: u32) -> AgentOutput {
        let mut agent = self.agent("check");
        agent.args(["-o", "json", "--api-address", &address.to_string()]);
        agent.args(["--probe-timeout", &seconds.to_string()]);
        AgentOutput::of(&agent.output().unwrap())
    }

    pub fn preflight(&self) -> AgentOutput {
        AgentOutput::of(&self.agent("preflight").args(["-o", "json"]).output().unwrap())
    }

    /// `preflight --gate -o json`, which waits no longer than asked.
    pub fn gate(&self, flags: &[&str]) -> AgentOutput {
        let mut agent = self.agent("preflight");
        agent.args(["--gate", "-o", "json"]).env("WEAVER_CLOCK_WAIT", "0").args(flags);
        AgentOutput::of(&agent.output().unwrap())
    }

    /// `preflight` as a user sees it.
    pub fn preflight_text(&self) -> String {
        String::from_utf8(self.agent("preflight").output().unwrap().stdout).unwrap()
    }

    pub fn dir(&self) -> &Path {
        self.0.path()
    }
}

/// The output of the agent.
#[derive(Debug)]
pub struct AgentOutput {
    pub code: i32,
    pub report: Value,
}

impl AgentOutput {
    fn of(output: &Output) -> Self {
        let error = String::from_utf8_lossy(&output.stderr);
        let report = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("no report: {:?} {error}", output.status));
        Self { code: output.status.code().unwrap(), report }
    }

    /// The one finding with this code.
    #[track_caller]
    pub fn finding(&self, code: &str) -> Found<'_> {
        let mut found = self.report["findings"].as_array().unwrap().iter().filter(|f| f["code"] == code);
        let Some(finding) = found.next() else { panic!("no {code}: {:#}", self.report) };
        assert!(found.next().is_none(), "{code} twice: {:#}", self.report);
        Found(finding)
    }

    pub fn has(&self, code: &str) -> bool {
        self.report["findings"].as_array().unwrap().iter().any(|f| f["code"] == code)
    }
}

pub struct Found<'a>(&'a Value);

impl Found<'_> {
    #[track_caller]
    pub fn is(self, severity: &str) -> Self {
        assert_eq!(self.0["severity"], severity, "{:#}", self.0);
        self
    }

    #[track_caller]
    pub fn says(self, text: &str) -> Self {
        assert!(self.0["message"].as_str().unwrap().contains(text), "no `{text}`: {:#}", self.0);
        self
    }

    /// Evidence at `file`, `file:line` or `file:line:column`.
    #[track_caller]
    pub fn seen_at(self, place: &str) -> Self {
        let places: Vec<String> = self.0["evidence"].as_array().unwrap().iter().map(place_of).collect();
        assert!(places.iter().any(|p| p == place), "no {place}: {places:?}");
        self
    }

    /// Something in the remedy.
    #[track_caller]
    pub fn remedied_by(self, text: &str) -> Self {
        let remedy = &self.0["remedy"];
        let all = [remedy["explain"].to_string(), remedy["commands"].to_string(), remedy["diff"].to_string()];
        assert!(all.iter().any(|part| part.contains(text)), "no `{text}`: {remedy:#}");
        self
    }
}

fn place_of(evidence: &Value) -> String {
    let mut place = evidence["file"].as_str().unwrap().to_owned();
    for part in ["line", "column"] {
        if let Some(number) = evidence[part].as_u64() {
            place = format!("{place}:{number}");
        }
    }
    place
}

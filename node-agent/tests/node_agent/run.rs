//! `run` without a cluster: what keeps the gate shut, and an orderly end. The
//! open gate is tested on a real API server, in the workspace's scenario tests.

use std::{
    fs,
    os::unix::net::UnixDatagram,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::support::{
    host::{CONFIG, KUBECONFIG, TestHost},
    tls_server::{Ca, TlsServer, closed_port},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(30);

/// A running agent; killed when a test fails.
struct Agent {
    child: Child,
    runtime: PathBuf,
}

impl Agent {
    fn start(host: &TestHost, server: &TlsServer, operator: &str, edit: impl FnOnce(&mut Command)) -> Self {
        let runtime = host.path("/run/weaver");
        let mut command = host.agent("run");
        command
            .args([
                "--api-address",
                &server.address.to_string(),
                "--probe-timeout",
                "1",
                "--operator",
                operator,
            ])
            .arg("--runtime-dir")
            .arg(&runtime)
            .arg("--certificates")
            .arg(host.path("/webhook"))
            .stderr(Stdio::null());
        edit(&mut command);
        Self { child: command.spawn().unwrap(), runtime }
    }

    fn report(&self) -> Option<Value> {
        serde_json::from_slice(&fs::read(self.runtime.join("report.json")).ok()?).ok()
    }

    /// Polls the report until `says` is true.
    #[track_caller]
    fn wait_for(&self, what: &str, says: impl Fn(&Value) -> bool) -> Value {
        let since = Instant::now();
        loop {
            let report = self.report();
            if let Some(report) = report.as_ref().filter(|report| says(report)) {
                return report.clone();
            }
            assert!(since.elapsed() < PATIENCE, "no {what}: {report:#?}");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    fn stop(mut self) -> Option<i32> {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), Signal::SIGTERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn reason(report: &Value) -> &str {
    report["reason"].as_str().unwrap_or_default()
}

/// An operator that leaves a file if it is ever started.
fn marking_operator(host: &TestHost) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = host.path("/operator.sh");
    fs::write(&path, format!("#!/bin/sh\ntouch {}\n", host.path("/started").display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn an_unserved_name_keeps_the_gate_shut_and_the_operator_never_starts() {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(&["box.example"]));
    let host = TestHost::debian().server_ca(&ca.pem()).file(CONFIG, "tls-san: [bux.example]\n");
    let agent = Agent::start(&host, &server, &marking_operator(&host), |_| ());
    let report = agent.wait_for("shut gate", |r| reason(r).contains("T-02"));
    assert_eq!(report["gate"], "shut");
    assert!(reason(&report).contains("valid for: box.example"), "{report:#}");
    assert_eq!(report["operator"], Value::Null);
    let runtime = agent.runtime.clone();
    assert_eq!(agent.stop(), Some(0));
    assert!(!runtime.join("operator.token").exists() && !runtime.join("operator.kubeconfig").exists());
    assert!(!host.path("/started").exists());
}

#[test]
fn a_known_bad_host_keeps_the_gate_shut_although_the_names_are_proven() {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(&["box.example"]));
    let host = TestHost::raspberry_pi_without_memory("root=a\n")
        .server_ca(&ca.pem())
        .file(CONFIG, "tls-san: [box.example]\n");
    let agent = Agent::start(&host, &server, &marking_operator(&host), |_| ());
    let report = agent.wait_for("shut gate", |r| reason(r).contains("N-01"));
    assert_eq!(report["gate"], "shut");
    assert_eq!(agent.stop(), Some(0));
    assert!(!host.path("/started").exists());
}

#[test]
fn a_broken_kubeconfig_is_named_and_tried_again() {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(&["box.example"]));
    let host = TestHost::debian().server_ca(&ca.pem()).file(CONFIG, "tls-san: [box.example]\n");
    let agent = Agent::start(&host, &server, "/bin/true", |_| ());
    let missing = agent.wait_for("missing kubeconfig", |r| reason(r).contains("k3s.yaml"));
    assert_eq!(missing["gate"], "shut");
    let host = host.file(KUBECONFIG, "apiVersion: v1\nkind: Config\ncurrent-context: gone\ncontexts: []\n");
    let broken = agent.wait_for("broken kubeconfig", |r| reason(r).contains("context `gone`"));
    assert_eq!(broken["gate"], "shut");
    // Each reason is that of one more attempt to open, with the file as it is by then.
    let whole = format!(
        "current-context: a\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: \"https://{}\"}}}}]\n\
         users: [{{name: u, user: {{token: hunter2}}}}]\n",
        closed_port()
    );
    let host = host.file(KUBECONFIG, whole);
    let refused = agent.wait_for("silent server", |r| reason(r).contains("applying Namespace"));
    assert_eq!(refused["gate"], "shut");
    assert!(!refused.to_string().contains("hunter2"), "{refused:#}");
    assert_eq!(agent.stop(), Some(0));
    drop(host);
}

#[test]
fn systemd_is_notified_ready_and_stopping() {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(&["box.example"]));
    let host = TestHost::debian().server_ca(&ca.pem());
    let path = host.path("/notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let agent = Agent::start(&host, &server, "/bin/true", |command| {
        command.env("NOTIFY_SOCKET", &path);
    });
    let reported = || {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert!(reported().contains("READY=1"));
    assert_eq!(agent.stop(), Some(0));
    assert!(reported().contains("STOPPING=1"));
}

#[test]
fn two_agents_do_not_share_a_runtime_directory() {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(&["box.example"]));
    let host = TestHost::debian().server_ca(&ca.pem());
    let first = Agent::start(&host, &server, "/bin/true", |_| ());
    first.wait_for("a report", |_| true);
    let second = host
        .agent("run")
        .arg("--runtime-dir")
        .arg(&first.runtime)
        .arg("--certificates")
        .arg(host.path("/webhook"))
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another weaver-node-agent uses"));
    assert_eq!(first.stop(), Some(0));
}

#[test]
fn a_change_is_seen_long_before_the_next_look() {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(&["box.example"]));
    let host = TestHost::debian().server_ca(&ca.pem()).file(CONFIG, "tls-san: [box.example]\n");
    let agent = Agent::start(&host, &server, "/bin/true", |command| {
        // The test ends first.
        command.args(["--retry-seconds", "3600", "--recheck-seconds", "3600"]);
    });
    agent.wait_for("first check", |r| reason(r).contains("k3s.yaml"));
    let host = host.file(CONFIG, "tls-san: [bux.example]\n");
    agent
        .wait_for("file that was edited", |r| reason(r).contains("bux.example is configured and not served"));
    // In a directory that was not there before.
    let host =
        host.file("/etc/rancher/k3s/config.yaml.d/50-more.yaml", "tls-san+: [box.example, bax.example]\n");
    agent.wait_for("new drop-in", |r| reason(r).contains("bax.example is configured"));
    std::fs::remove_file(host.path("/etc/rancher/k3s/config.yaml.d/50-more.yaml")).unwrap();
    let host = host.file(CONFIG, "tls-san: [box.example]\n");
    agent.wait_for("cure", |r| reason(r).contains("k3s.yaml"));
    assert_eq!(agent.stop(), Some(0));
    drop(host);
}

//! `repair names` where nothing has to be changed: it needs neither root nor the lock of the node, and a change does.

use std::fs;
use std::process::{Command, Stdio};

use crate::support::{
    host::{CONFIG, TestHost},
    tls_server::{Ca, TlsServer},
};

const UNCHANGED: [(&[&str], &str); 2] = [
    (&[], "Every configured name is served, nothing had to be done: box.example"),
    (&["--remove", "gone.example"], "gone.example is not in the certificate"),
];

/// A server for these names, and a host that is configured for one of them.
fn scene() -> (TestHost, TlsServer) {
    let ca = Ca::new();
    let server = TlsServer::start(ca.leaf(&["box.example", "old.example"]));
    let host = TestHost::debian().server_ca(&ca.pem()).file(CONFIG, "tls-san: [box.example]\n");
    (host, server)
}

fn repair_names(host: &TestHost, server: &TlsServer, flags: &[&str]) -> (Option<i32>, String) {
    let mut agent = Command::new(env!("CARGO_BIN_EXE_weaver-node-agent"));
    agent.args(["repair", "names", "--probe-timeout", "1", "--systemctl", "false", "--root"]).arg(host.dir());
    agent.arg("--api-address").arg(server.address.to_string());
    let output = agent.args(flags).stdin(Stdio::null()).output().unwrap();
    let said = [&output.stdout[..], &output.stderr].concat();
    (output.status.code(), String::from_utf8(said).unwrap())
}

#[test]
fn where_nothing_has_to_be_changed_a_busy_node_is_no_obstacle() {
    const LOCK: &str = "/var/lib/weaver/node.lock";
    let (host, server) = scene();
    let host = host.file(LOCK, r#"{"what": "an upgrade of k3s", "pid": 812, "since": ""}"#);
    let held = fs::File::open(host.path(LOCK)).unwrap();
    held.lock().unwrap();
    for (flags, says) in UNCHANGED {
        let (code, said) = repair_names(&host, &server, flags);
        assert!(code == Some(0) && said.contains(says), "{code:?} {said}");
    }
    let (code, said) = repair_names(&host, &server, &["--remove", "old.example"]);
    assert!(code == Some(1) && said.contains("an upgrade of k3s is running on this node"), "{code:?} {said}");
    let (code, said) = repair_names(&host, &server, &["--remove", "old.example", "--dry-run"]);
    assert!(code == Some(10) && said.contains("would remove old.example"), "{code:?} {said}");
    let host = host.file(CONFIG, "tls-san: [box.example, new.example]\n");
    let (code, said) = repair_names(&host, &server, &[]);
    assert!(code == Some(1) && said.contains("an upgrade of k3s is running on this node"), "{code:?} {said}");
}

#[test]
fn where_nothing_has_to_be_changed_no_right_to_write_is_needed() {
    let (host, server) = scene();
    // As for a user other than root, the directory cannot be made.
    let host = host.file("/file", "");
    let no_directory = ["--state-dir", "/file/state"];
    for (flags, says) in UNCHANGED {
        let (code, said) = repair_names(&host, &server, &[&no_directory[..], flags].concat());
        assert!(code == Some(0) && said.contains(says), "{code:?} {said}");
    }
    let remove = [no_directory, ["--remove", "old.example"]].concat();
    let (code, said) = repair_names(&host, &server, &remove);
    assert!(code == Some(1) && said.contains("run this as root"), "{code:?} {said}");
}

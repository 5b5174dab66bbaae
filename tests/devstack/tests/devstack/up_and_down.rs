//! `up`, `status` and `down` as processes: what starts, what heals, what ends.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use crate::fakes::{Fakes, kill_9, may_isolate, pids};

#[test]
fn up_starts_everything_and_down_leaves_nothing() {
    let fakes = Fakes::new();
    let up = fakes.run(&["up"], &[]).expect(
        0,
        &[
            "API server ready",
            "gate open",
            "operator running",
            "copies there",
            "foo",
            "ConfigMap/team/s",
            "Try next",
            "/env && weaver ui",
        ],
    );
    assert!(up.text.contains("k3s v0 could not be fetched"), "{}", up.text);
    let all = fakes.processes();
    assert_eq!(fakes.all(), pids(all));
    fakes.run(&["status"], &[]).expect(0, &["gate open", "1 copies", "ConfigMap/team/s"]);

    fakes.run(&["down"], &[]).expect(0, &["4 processes"]);
    assert!(all.iter().all(|process| !process.is_alive()));
    assert!(fakes.all().is_empty());
    fakes.run(&["down"], &[]).expect(0, &["nothing runs"]);
    fakes.run(&["status"], &[]).expect(3, &["stopped"]);
}

#[test]
fn a_machine_without_curl_gets_the_testbed() {
    let fakes = Fakes::new();
    fs::write(fakes.path("tests/devstack/prerequisites.sh"), "#!/bin/sh\necho remedies >&2\nexit 1\n")
        .unwrap();
    let up =
        fakes.run(&["up"], &[]).expect(0, &["could not be fetched (curl is missing); the testbed stands in"]);
    assert!(!up.text.contains("remedies"), "one line is enough: {}", up.text);
}

#[test]
fn up_twice_changes_nothing() {
    let fakes = Fakes::new();
    fakes.run(&["up"], &[]).expect(0, &[]);
    let before = fakes.processes();
    fakes
        .run(&["up"], &[])
        .expect(0, &["API server running", "already", "node agent running", "copies there"]);
    assert_eq!(fakes.processes(), before);
    assert_eq!(fakes.all(), pids(before));
}

#[test]
fn two_ups_at_once_start_one_stack() {
    let fakes = Fakes::new();
    let mut first = fakes.command(&["up"]).stdout(std::process::Stdio::null()).spawn().unwrap();
    fakes.run(&["up"], &[]).expect(0, &["copies there"]);
    assert!(first.wait().unwrap().success());
    assert_eq!(fakes.all(), pids(fakes.processes()));
}

#[test]
fn up_heals_after_a_kill_of_any_process() {
    for (victim, name) in ["server", "agent", "operator"].into_iter().enumerate() {
        let fakes = Fakes::new();
        fakes.run(&["up"], &[]).expect(0, &[]);
        let before = fakes.processes();
        kill_9(before[victim]);
        fakes.run(&["up"], &[]).expect(0, &["copies there"]);
        let after = fakes.processes();
        assert_ne!(after[victim], before[victim], "{name}");
        assert_eq!(fakes.all(), pids(after), "{name}: nothing old is left");
    }
}

#[test]
fn corrupt_and_half_written_files_do_no_harm() {
    for (name, code, seen) in [
        ("pids/server", 3, "API server  stopped"),
        ("pids/agent", 3, "node agent  stopped"),
        ("server.json", 0, "node agent  running"),
        ("weaver/report.json", 3, "report.json is not a report"),
        ("k3s/config.yaml", 0, "1 copies"),
    ] {
        let fakes = Fakes::new();
        fakes.run(&["up"], &[]).expect(0, &[]);
        fs::write(fakes.run_dir().join(name), "12").unwrap();
        fakes.run(&["status"], &[]).expect(code, &["PROCESS", seen]);
        fakes.run(&["up"], &[]).expect(0, &["copies there"]);
        assert_eq!(fakes.all(), pids(fakes.processes()), "{name}: nothing runs twice");
        fs::write(fakes.run_dir().join(name), "\0").unwrap();
        fakes.run(&["down"], &[]).expect(0, &["4 processes"]);
        assert!(fakes.all().is_empty(), "{name}");
    }
}

#[test]
fn status_believes_only_a_living_agent_and_marked_processes() {
    let fakes = Fakes::new();
    fakes.run(&["up"], &[]).expect(0, &[]);
    let [_, agent, ..] = fakes.processes();
    let mut stranger = Command::new("sleep").arg("600").spawn().unwrap();
    let report = fakes.layout().runtime().join("report.json");
    let text = fs::read_to_string(&report).unwrap();
    fs::write(&report, format!(r#"{{"gate": "open", "operator": {{"pid": {}}}}}"#, stranger.id())).unwrap();
    fakes.run(&["status"], &[]).expect(3, &["gate open", "operator    stopped", "1 copies"]);
    fs::write(&report, text).unwrap();
    fakes.run(&["status"], &[]).expect(0, &["operator    running"]);
    kill_9(agent);
    fakes.run(&["status"], &[]).expect(3, &["node agent  stopped", "operator    stopped"]);
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn a_newly_built_operator_is_started() {
    let fakes = Fakes::new();
    fakes.run(&["up"], &[]).expect(0, &[]);
    let [server, agent, operator, _] = fakes.processes();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
    fs::File::options()
        .write(true)
        .open(fakes.path("bin/weaver-operator"))
        .unwrap()
        .set_modified(later)
        .unwrap();
    fakes.run(&["up"], &[]).expect(0, &["node agent started"]);
    let after = fakes.processes();
    assert_eq!(after[0], server);
    assert!(after[1] != agent && after[2] != operator);
}

#[test]
fn as_many_operators_run_as_are_asked_for() {
    let fakes = Fakes::new();
    fakes
        .run(&["up", "--replicas", "3"], &[])
        .expect(0, &["another operator", "the fake weaver shows the leader"]);
    let three = fakes.all();
    fakes.run(&["status"], &[]).expect(0, &["candidate-1  running", "candidate-2  running"]);
    fakes.run(&["up", "--replicas", "3"], &[]).expect(0, &[]);
    assert_eq!(fakes.all(), three, "twice is once");
    fakes.run(&["up", "--replicas", "2"], &[]).expect(0, &[]);
    assert_eq!(fakes.all().len(), three.len() - 1);
    fakes.run(&["up", "--replicas", "9"], &[]).expect(2, &["9 is not in 1..=5"]);
    fakes.run(&["down"], &[]).expect(0, &[]);
    assert_eq!(fakes.all(), [0; 0]);
}

#[test]
fn down_ends_nothing_that_up_did_not_start() {
    let fakes = Fakes::new();
    fakes.run(&["up"], &[]).expect(0, &[]);
    let all = fakes.processes();
    let mut stranger = Command::new("sleep").arg("600").spawn().unwrap();
    // As after a reboot: the file names a pid that belongs to someone else now.
    fs::write(fakes.layout().pid_file("server"), format!("{} 1\n", stranger.id())).unwrap();
    fakes.run(&["down"], &[]).expect(0, &["4 processes"]);
    assert!(all.iter().all(|process| !process.is_alive()));
    assert!(stranger.try_wait().unwrap().is_none(), "the stranger still runs");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn a_taken_port_is_said_with_its_holder() {
    let fakes = Fakes::new();
    let held = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = held.local_addr().unwrap().port().to_string();
    let (taken, holder) = (format!("port {port} is taken by "), format!("(pid {})", std::process::id()));
    let up = fakes.run(&["up", "--port", &port], &[]).expect(0, &[&taken, &holder, "; using "]);
    assert!(!up.text.contains(&format!("https://127.0.0.1:{port}")), "{}", up.text);
    drop(held);

    fakes.run(&["down"], &[]).expect(0, &[]);
    let address = format!("https://127.0.0.1:{port}");
    fakes.run(&["up"], &[("WEAVER_PORT", &port)]).expect(0, &[&address]);
    fakes.run(&["up", "--port", "0"], &[]).expect(2, &["0 is not in 1.."]);
}

#[test]
fn another_k3s_bin_replaces_the_running_server() {
    let fakes = Fakes::new();
    fakes.run(&["up"], &[]).expect(0, &[]);
    let before = fakes.processes();
    let same = fakes.path("k3s-fake");
    fakes
        .run(&["up"], &[("K3S_BIN", same.to_str().unwrap())])
        .expect(0, &["already, pid", "k3s version v0.0.0+fake"]);
    fakes.run(&["up"], &[("K3S_BIN", "/bin/true")]).expect(1, &["is not k3s"]);
    assert_eq!(fakes.processes(), before, "nothing was ended for a wrong one");

    let other = fakes.path("k3s-other");
    fs::copy(&same, &other).unwrap();
    let code = i32::from(!may_isolate());
    let line = format!("4 processes, for K3S_BIN={} in place of {}", other.display(), same.display());
    fakes.run(&["up"], &[("K3S_BIN", other.to_str().unwrap())]).expect(code, &[&line]);
    assert!(before.iter().all(|process| !process.is_alive()));
    if code == 0 {
        let after = fakes.processes();
        fakes.run(&["up"], &[]).expect(0, &["API server running"]);
        assert_eq!(fakes.processes(), after, "without K3S_BIN what runs is good");
        assert_eq!(fakes.all(), pids(after));
    }
}

#[test]
fn a_start_that_is_cut_short_leaves_no_old_record() {
    let fakes = Fakes::new();
    fakes.run(&["up"], &[]).expect(0, &[]);
    kill_9(fakes.processes()[0]);
    let (config, record) = (fakes.layout().config(), fakes.layout().server_record());
    assert!(record.exists());
    // Fails after the old server was given up and before the new one is known.
    fs::remove_file(&config).unwrap();
    fs::create_dir(&config).unwrap();
    fakes.run(&["up"], &[]).expect(1, &["config.yaml"]);
    assert!(!record.exists());
    fs::remove_dir(&config).unwrap();
    fakes.run(&["up"], &[]).expect(0, &["copies there"]);
}

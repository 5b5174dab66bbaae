//! Every way in which `up` refuses or fails: exit code, message, nothing left over.

use std::fs;
use std::process::Command;

use crate::fakes::{CommandOutput, Fakes};

#[test]
fn an_unfit_host_starts_nothing() {
    let fakes = Fakes::new();
    fakes
        .run(&["up"], &[("FAKE_HOST", "bad")])
        .expect(10, &["no memory controller", "type this", "nothing was started"]);
    assert!(fakes.all().is_empty());
}

#[test]
fn a_shut_gate_has_its_remedy_and_opens_later() {
    let fakes = Fakes::new();
    fakes
        .run(&["up"], &[("FAKE_GATE", "shut")])
        .expect(10, &["weaver.test is not served", "type that", "gate is shut"]);
    let agent = fs::read_to_string(fakes.layout().pid_file("agent")).unwrap();
    fakes.run(&["status"], &[]).expect(3, &["gate is shut: T-02"]);
    // Mended, and the agent that watched is gone: the next `up` gets through.
    crate::fakes::kill_9(agent.parse().unwrap());
    fakes.run(&["up"], &[]).expect(0, &["copies there"]);
}

#[test]
fn a_server_that_dies_is_shown_with_its_last_words() {
    let fakes = Fakes::new();
    fakes
        .run(&["up"], &[("FAKE_SERVER", "dies")])
        .expect(1, &["the API server ended (exit status: 7)", "the fake has its reasons", "logs/server.log"]);
    assert!(fakes.all().is_empty());
}

#[test]
fn an_agent_that_dies_is_shown_with_its_last_words() {
    let fakes = Fakes::new();
    fakes
        .run(&["up"], &[("FAKE_AGENT", "dies")])
        .expect(1, &["node agent ended", "has its reasons", "agent.log"]);
}

#[test]
fn a_wrong_k3s_bin_is_named() {
    let fakes = Fakes::new();
    fakes.run(&["up"], &[("K3S_BIN", "/bin/true")]).expect(1, &["K3S_BIN=/bin/true is not k3s"]);
    fakes.run(&["up"], &[("K3S_BIN", "/nowhere/k3s")]).expect(1, &["K3S_BIN=/nowhere/k3s cannot be started"]);
    assert!(fakes.all().is_empty());
}

#[test]
fn a_program_that_is_not_built_is_named_with_the_command() {
    let fakes = Fakes::new();
    fs::remove_file(fakes.path("bin/weaver-operator")).unwrap();
    fakes.run(&["up"], &[]).expect(1, &["weaver-operator is not built", "cargo build"]);
}

#[test]
fn a_full_disk_is_said_before_anything_is_written() {
    let fakes = Fakes::new();
    fs::create_dir(fakes.run_dir()).unwrap();
    // A file system of one megabyte in a mount namespace of its own.
    let inside = "mount -t tmpfs -o size=1m small \"$WEAVER_RUN_DIR\" && exec \"$@\"";
    let up = fakes.command(&["up"]);
    let mut small = Command::new("unshare");
    if !nix::unistd::Uid::effective().is_root() {
        small.args(["--user", "--map-root-user"]);
    }
    small.args(["--mount", "sh", "-c", inside, "sh"]).arg(up.get_program()).args(up.get_args());
    small.envs(up.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(fakes.path(""));
    CommandOutput::from(small.output().unwrap())
        .expect(1, &["is full", "MiB are free", "WEAVER_RUN_DIR", "Nothing was lost"]);
    assert!(fakes.all().is_empty());
}

/// A k3s run by root writes to `/etc/rancher`; in a stack that is a copy.
#[test]
fn a_given_k3s_sees_an_etc_of_its_own() {
    let fakes = Fakes::new();
    let server = fakes.path("k3s-fake");
    let mark = format!("/etc/rancher/k3s/weaver-test-{}", std::process::id());
    let environment = [("K3S_BIN", server.to_str().unwrap()), ("FAKE_ETC", mark.as_str())];
    let root = nix::unistd::Uid::effective().is_root();
    let may_mount = Command::new("unshare").args(["--mount", "true"]).status().unwrap().success();
    if root && may_mount {
        fakes.run(&["up"], &environment).expect(0, &["copies there"]);
        assert_eq!(fs::read_to_string(fakes.layout().log("server")).unwrap(), "seen\n");
    } else {
        // Without the right to mount, or without the right to write there, it says so.
        fakes.run(&["up"], &environment).expect(1, &["the API server ended", "ermi"]);
    }
    assert!(!fs::exists(&mark).unwrap(), "the machine's own /etc is untouched");
}

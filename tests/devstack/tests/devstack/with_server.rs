//! `with-server`: the command's environment and exit code, and that nothing
//! outlives it.

use std::fs;
use std::process::{Child, Command, Stdio};

use crate::fakes::{CommandOutput, Fakes, PATIENCE, appears};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use weaver_devstack::process;

fn with_server(fakes: &Fakes, script: &str) -> Command {
    let scenarios = fakes.path("scenario");
    fakes.command(&["with-server", "--scenarios", scenarios.to_str().unwrap(), "--", "sh", "-c", script])
}

#[test]
fn the_command_finds_the_stack_and_its_code_is_passed_on() {
    let fakes = Fakes::new();
    let script = "test -e $WEAVER_TEST_KUBECONFIG && test -x $WEAVER_TEST_SERVER_BIN && \
        test -x $WEAVER_TEST_BIN_DIR/weaver-operator && test -e $WEAVER_TEST_AGENT_LOG && \
        test -d $(dirname $WEAVER_TEST_AUDIT_LOG) && test -e $WEAVER_TEST_OPERATOR_LOG && \
        test $WEAVER_TEST_SERVER_ORIGIN = testbed && test -d $WEAVER_TEST_DIR && exit 42";
    CommandOutput::from(with_server(&fakes, script).output().unwrap()).expect(42, &["logs are kept"]);
    assert!(fakes.path("scenario/1/logs/agent.log").exists());
    CommandOutput::from(with_server(&fakes, "true").output().unwrap()).expect(0, &["operator running"]);
    assert!(!fakes.path("scenario/2").exists(), "removed after success");
}

#[test]
fn a_shut_gate_runs_no_command() {
    let fakes = Fakes::new();
    let ran = fakes.path("ran");
    let mut command = with_server(&fakes, &format!("touch {}", ran.display()));
    CommandOutput::from(command.env("FAKE_GATE", "shut").output().unwrap())
        .expect(10, &["type that", "gate is shut"]);
    assert!(!ran.exists());
}

/// Starts one that waits, and says which signal ended it.
fn waiting(fakes: &Fakes) -> Child {
    let script = "trap 'echo TERM > signal; exit 3' TERM; trap 'echo INT > signal; exit 4' INT; touch ready; \
        while :; do sleep 0.05; done";
    let child = with_server(fakes, script).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    assert!(appears(&fakes.path("ready")));
    child
}

fn nothing_runs(fakes: &Fakes) -> bool {
    let dir = fakes.path("scenario").canonicalize().unwrap().join("1");
    process::poll(PATIENCE, || process::marked(&dir).is_empty())
}

#[test]
fn a_signal_is_passed_on_and_the_stack_ends() {
    for (signal, name, code) in [(Signal::SIGTERM, "TERM", 3), (Signal::SIGINT, "INT", 4)] {
        let fakes = Fakes::new();
        let mut child = waiting(&fakes);
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code));
        assert_eq!(fs::read_to_string(fakes.path("signal")).unwrap(), format!("{name}\n"));
        assert!(nothing_runs(&fakes));
    }
}

#[test]
fn nothing_outlives_a_kill_9() {
    let fakes = Fakes::new();
    let mut child = waiting(&fakes);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(appears(&fakes.path("signal")), "the command gets the signal too");
    assert!(nothing_runs(&fakes));
}

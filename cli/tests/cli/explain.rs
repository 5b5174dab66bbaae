//! `weaver explain` as a user runs it.

#[cfg(unix)]
use std::fs;
use std::io::Write as _;
#[cfg(unix)]
use std::io::{BufRead as _, BufReader};
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn weaver(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weaver"));
    command.arg("explain").args(arguments).stdin(Stdio::null());
    command
}

fn piped(arguments: &[&str], text: &str) -> Output {
    let mut child = weaver(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn what_is_piped_in_is_explained_once_with_its_line_and_what_to_type() {
    let fatal = "level=fatal msg=\"failed to find memory cgroup (v2)\"\n";
    let other = "level=fatal msg=\"failed to find cpuset cgroup (v2)\"\n";
    let done = piped(&[], &format!("level=info msg=\"Starting k3s\"\n{fatal}{fatal}{other}{fatal}"));
    assert!(done.status.success());
    let said = text(&done.stdout);
    assert!(said.starts_with("N-01  FAIL    memory-cgroup-absent\n"), "{said}");
    assert!(
        said.contains("seen  stdin:2: level=fatal") && said.contains("$ sudo weaver-node-agent repair\n")
    );
    for code in ["N-01", "N-14"] {
        assert_eq!(said.matches(&format!("{code}  FAIL")).count(), 1, "one for each that it says: {said}");
    }
    assert_eq!(text(&done.stderr), "in 5 lines: N-01 ×3, N-14 ×1\n");
}

#[test]
fn a_log_that_names_ever_new_servers_is_explained_in_a_bounded_number_of_findings() {
    let line = |n: u32| {
        format!(
            "Get \"https://r{n}.lan/v2/\": http: server gave HTTP response to HTTPS client pinging container registry\n"
        )
    };
    let lines: String = (0..300).map(line).collect();
    let done = piped(&[], &(lines + "level=fatal msg=\"failed to find memory cgroup (v2)\"\n"));
    assert!(done.status.success());
    let said = text(&done.stdout);
    assert_eq!(said.matches("R-01  FAIL").count(), 200);
    assert!(said.contains("N-01  FAIL"), "what comes after them is shown");
    let counts = text(&done.stderr);
    assert!(counts.contains("R-01 ×300 (100 not shown)") && counts.contains("N-01 ×1"), "{counts}");
}

#[test]
fn where_nothing_is_recognised_the_next_step_is_reported() {
    let done = piped(&[], "all is well\n");
    assert!(done.status.success() && done.stdout.is_empty());
    assert!(text(&done.stderr).starts_with("no known error in 1 lines; `sudo weaver-node-agent check`"));
}

#[test]
fn a_program_gets_a_json_object_per_line() {
    let done = piped(
        &["--output", "json"],
        "x509: certificate is valid for kubernetes, pi, not raspi\nThe connection to the server localhost:8080 was refused\n",
    );
    let findings: Vec<Value> = text(&done.stdout)
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let codes: Vec<&str> = findings.iter().map(|finding| finding["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["T-01", "K-02"]);
    assert_eq!(findings[0]["evidence"][0]["line"], 1);
}

#[test]
fn a_k3d_that_hangs_is_explained_when_its_output_ends() {
    let done =
        piped(&[], "INFO[0013] Starting servers...\nINFO[0014] Starting Node 'k3d-weaver-server-0'\n\n");
    assert!(text(&done.stdout).starts_with("N-08  FAIL"), "{done:?}");
    assert!(text(&done.stdout).contains("seen  stdin:2: INFO[0014]"), "{done:?}");
    let done = piped(&[], "Starting Node 'k3d-weaver-server-0'\nCluster 'weaver' created successfully!\n");
    assert!(done.stdout.is_empty(), "{done:?}");
}

#[test]
fn tokens_of_a_line_are_not_repeated() {
    let done = piped(
        &[],
        "Get https://raspi:6443 (Bearer eyJhbGci.eyJzdWIi.c2lnbmF0dXJl): x509: certificate is valid for pi, not raspi\n",
    );
    assert!(text(&done.stdout).contains("(token)") && !text(&done.stdout).contains("eyJ"), "{done:?}");
}

#[test]
fn bytes_that_are_no_text_and_a_line_without_end_are_no_trouble() {
    let mut input = vec![0xff; 300_000];
    input.extend(b"\nflag provided but not defined: -tls-san x");
    let mut child =
        weaver(&[]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&input).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(text(&done.stdout).contains("seen  stdin:2: flag provided"), "{done:?}");
    assert_eq!(text(&done.stderr), "in 2 lines: T-07 ×1\n");
}

#[test]
fn a_code_is_explained_by_id_or_name_and_an_unknown_one_is_refused() {
    for code in ["N-01", "n-01", "memory-cgroup-absent"] {
        let done = weaver(&[code]).output().unwrap();
        assert!(text(&done.stdout).starts_with("N-01 memory-cgroup-absent (fail)\n"), "{done:?}");
    }
    let done = weaver(&["N-99"]).output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(
        text(&done.stderr).contains("it is not a code of this version, such as N-01 or memory-cgroup-absent"),
        "{done:?}"
    );
}

#[test]
fn anyone_who_has_read_enough_may_go() {
    let mut child =
        weaver(&[]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"leaderelection lost\n").unwrap();
    drop(stdin);
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success() && !text(&done.stderr).contains("panicked"), "{done:?}");
}

/// A `journalctl` of the test's own, which runs this script.
#[cfg(unix)]
fn with_journal(script: &str, arguments: &[&str]) -> (tempfile::TempDir, Command) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("journalctl");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = weaver(&[&["--journal", "k3s"], arguments].concat());
    command.env("PATH", format!("{}:/usr/bin:/bin", dir.path().display()));
    (dir, command)
}

#[cfg(unix)]
#[test]
fn the_journal_of_a_unit_is_followed() {
    // Ends when its output is not read any more.
    let script = "echo \"$@\" >&2; echo leaderelection lost; while echo well; do sleep 0.1; done";
    let (_dir, mut command) = with_journal(script, &["--follow"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // It is reported while the journal continues.
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("L-01  WARN"), "{first}");
    let mut asked = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut asked).unwrap();
    assert!(asked.contains("--follow") && asked.contains("--unit=k3s"), "{asked}");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[cfg(unix)]
#[test]
fn the_journal_of_a_unit_is_read_to_its_end() {
    let script = "case \"$*\" in *--follow*|*--lines*) exec sleep 100;; esac; echo leaderelection lost";
    let done = with_journal(script, &[]).1.output().unwrap();
    assert!(done.status.success() && text(&done.stdout).starts_with("L-01  WARN"), "{done:?}");
    let done = weaver(&["--follow"]).output().unwrap();
    assert_eq!(done.status.code(), Some(2), "there is no journal to follow");
}

#[cfg(unix)]
#[test]
fn a_journal_that_cannot_be_read_is_an_error() {
    let (_dir, mut command) = with_journal("echo No journal files were found. >&2; exit 1", &[]);
    let done = command.output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done.stderr).contains("error: journalctl ended"), "{done:?}");
    let mut command = weaver(&["--journal", "k3s"]);
    let done = command.env("PATH", "/nowhere").output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert!(
        text(&done.stderr).contains("journalctl cannot be run: on another machine than the Pi"),
        "{done:?}"
    );
}

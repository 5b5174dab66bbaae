//! An update, and something else that changes the node, or has left it half changed.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use super::{NEW, OLD, UpdateTestHost};

const RUNS: &str = "a restore is running on this node (process 812, since 2026-11-27T08:22:00Z)";
const TIMER: [&str; 3] = ["--yes", "--when", "daily"];

/// Something else changes the node until this is dropped.
fn restoring(host: &UpdateTestHost) -> File {
    const LOCK: &str = "root/var/lib/weaver/node.lock";
    host.write(LOCK, r#"{"what": "a restore", "pid": 812, "since": "2026-11-27T08:22:00Z"}"#);
    let held = File::open(host.path(LOCK)).unwrap();
    held.lock().unwrap();
    held
}

#[test]
fn an_update_is_refused_with_what_runs_and_one_of_the_timer_is_reported_and_tried_again() {
    let host = UpdateTestHost::new();
    let noted = || fs::read_to_string(host.path("root/var/lib/weaver/update-timer.json")).unwrap();
    let held = restoring(&host);
    let refused = format!("{RUNS}: wait until it has finished");
    for flags in [&["--yes"][..], &TIMER] {
        let (code, said) = host.update(flags);
        assert_eq!((code, host.installed()), (Some(1), OLD.map(str::to_owned).into()), "{said}");
        assert!(said.contains(&refused), "{said}");
    }
    assert!(noted().contains(&format!(r#""made":null,"failure":"{refused}"#)), "{}", noted());
    drop(held);
    let (code, said) = host.update(&TIMER);
    assert_eq!((code, host.installed()), (Some(0), NEW.map(str::to_owned).into()), "{said}");
    assert!(noted().contains(r#""failure":null"#), "{}", noted());
}

#[test]
fn what_a_timer_begins_or_a_boot_completes_waits_until_nothing_else_changes_the_node() {
    for flags in [&TIMER[..], &["--resume", "--yes"]] {
        let host = UpdateTestHost::new();
        if flags.contains(&"--resume") {
            host.write("kill", "within apt-get install");
            assert_eq!(host.update(&["--yes"]).0, None);
        }
        let held = restoring(&host);
        let mut update = host.command(&["--lock-timeout", "600"]);
        let mut update = update.args(flags).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(update.stdout.take().unwrap());
        let mut said = String::new();
        output.read_line(&mut said).unwrap();
        assert_eq!(said, format!("{RUNS}: waiting for its end for up to 600 s\n"));
        drop(held);
        output.read_to_string(&mut said).unwrap();
        let code = update.wait().unwrap().code();
        assert_eq!((code, host.installed()), (Some(0), NEW.map(str::to_owned).into()), "{said}");
    }
}

#[test]
fn an_update_does_not_begin_on_half_of_a_restore() {
    let host = UpdateTestHost::new();
    let record = r#"{"begun": "", "node": "raspi", "made": "", "swaps": [], "stale": [], "phase": "swap"}"#;
    host.write("root/var/lib/weaver/restore.json", record);
    let (code, said) = host.update(&["--yes"]);
    assert_eq!((code, host.installed()), (Some(1), OLD.map(str::to_owned).into()), "{said}");
    assert!(said.contains("`sudo weaver node restore --resume` first"), "{said}");
}

//! A closed pipe: `weaver …
//! head -1` ends without a message, as kubectl does.

use std::process::{Command, Stdio};

#[test]
fn a_reader_that_has_gone_is_no_failure_and_no_words() {
    for arguments in [
        &["crd", "show"][..],
        &["crd", "explain", "spec", "--recursive"],
        &["completion", "bash"],
        &["config", "init"],
        &["tenant", "allow", "team-a", "sync", "--dry-run"],
        &["sync", "create", "--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_weaver"));
        let done = command.args(arguments).stdin(Stdio::null()).stdout(writer).output().unwrap();
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success() && said.is_empty(), "{arguments:?}: {} {said}", done.status);
    }
}

//! `weaver`, and the example program of `weaver-client`, as a user runs them against the shared server.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use weaver_devstack::programs::BuiltPrograms;
use weaver_devstack::server::ServerBinary;

use crate::own::{OwnServer, this_release};
use crate::terminal::Terminal;
use crate::world::given;

/// Runs the server program's `kubectl` with this kubeconfig and nothing else of the user's; `home` is its home
/// directory.
pub fn kubectl(home: &Path, kubeconfig: &Path, arguments: &[&str]) -> std::process::Output {
    std::process::Command::new(ServerBinary::from_environment().unwrap().path)
        .arg("kubectl")
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(arguments)
        .env("HOME", home)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// What a program said.
#[derive(Debug)]
pub struct Said {
    pub done: bool,
    pub out: String,
    pub err: String,
}

impl Said {
    /// Standard output as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// It failed, said nothing but why, and the reason contains these words.
    pub fn refused(&self, words: &str) {
        assert!(!self.done && self.out.is_empty() && self.err.contains(words), "{words:?}: {self:?}");
    }
}

/// A program next to `weaver`, as the administrator; nothing is typed into it.
pub fn program(name: &str, arguments: &[&str]) -> Command {
    let path = given("WEAVER_TEST_BIN_DIR").join(name);
    assert!(path.exists(), "{} is not built: `cargo build --workspace --examples`", path.display());
    prepared(&path, arguments)
}

fn prepared(path: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(path);
    command.args(arguments).env("KUBECONFIG", given("WEAVER_TEST_KUBECONFIG"));
    command.env_remove("VISUAL").env_remove("EDITOR");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// `weaver` as the administrator of a server of the test's own.
pub fn weaver_on(own: &OwnServer, arguments: &[&str]) -> Command {
    weaver_of(&this_release(), own, arguments)
}

/// The same of these programs.
pub fn weaver_of(programs: &BuiltPrograms, own: &OwnServer, arguments: &[&str]) -> Command {
    let mut command = prepared(&programs.weaver().unwrap(), arguments);
    command.env("KUBECONFIG", own.server.kubeconfig());
    command
}

/// Runs `weaver` to its end.
pub async fn weaver(arguments: &[&str]) -> Said {
    ended(program("weaver", arguments)).await
}

/// The same, and it has to end well; returns standard output.
pub async fn done(arguments: &[&str]) -> String {
    let said = weaver(arguments).await;
    assert!(said.done, "{arguments:?}: {said:?}");
    said.out
}

/// Runs `weaver` with this text on its standard input.
pub async fn fed(arguments: &[&str], text: &str) -> Said {
    let mut command = program("weaver", arguments);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    // A program that refuses its arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(text.as_bytes()).await;
    said(child.wait_with_output().await.unwrap())
}

/// Runs a prepared program to its end.
pub async fn ended(mut command: Command) -> Said {
    said(command.output().await.unwrap())
}

/// Runs a prepared program, with its standard error on a terminal, to a good end: what it printed, and all that was
/// drawn.
pub async fn drawn(mut command: Command) -> (String, String) {
    let (terminal, far) = Terminal::open(24, 120);
    command.env("TERM", "xterm-256color").stdout(Stdio::piped()).stderr(far.stream());
    let ended = command.spawn().unwrap().wait_with_output().await.unwrap();
    drop((command, far));
    let (_, drawn) = terminal.end();
    assert!(ended.status.success(), "{drawn}");
    (String::from_utf8(ended.stdout).unwrap(), drawn)
}

/// Writes a program that `weaver` runs as the user's editor; `$1` is the file.
pub fn editor(path: &Path, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, format!("#!/bin/sh\nset -e\n{script}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn said(output: std::process::Output) -> Said {
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    Said { done: output.status.success(), out, err }
}

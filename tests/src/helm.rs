//! Helm, with the chart of this repository.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The program, which `make test` provides once per machine (tests/devstack/tools.sh).
pub fn program() -> PathBuf {
    let cache = std::env::var_os("XDG_CACHE_HOME")
        .map_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"), PathBuf::from);
    let tools = cache.join("config-weaver/tools");
    let version =
        include_str!("../devstack/tools.sh").lines().find_map(|line| line.strip_prefix("helm_version="));
    let program = tools.join(format!("helm-{}/helm", version.unwrap()));
    assert!(
        program.exists(),
        "{} does not exist; `tests/devstack/test.sh tools` provides it",
        program.display()
    );
    program
}

/// The chart of this repository.
pub fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/chart")
}

/// The files of values that the chart is tried with.
pub fn fixtures() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/chart")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// A command of Helm in our namespace, which keeps its own files in this directory.
pub fn command(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).args(["--namespace", weaver_api::OPERATOR_NAMESPACE]).stdin(Stdio::null());
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        command.env(variable, home.join("helm"));
    }
    command
}

/// What it printed, if it ended well.
pub fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// The objects that the chart is with these flags, hooks included.
pub fn objects(home: &Path, flags: &[&str]) -> Vec<Value> {
    let chart = chart();
    let mut command = command(home, &["template", "config-weaver", chart.to_str().unwrap()]);
    let text = said(&command.args(flags).output().unwrap());
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    objects.into_iter().filter(|object| !object.is_null()).collect()
}

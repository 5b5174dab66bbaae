//! A flashed card in a temporary directory, and `boot-config` started on it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed step of a test ends the test")]

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt as _, path::PathBuf, process::Command};

use serde_json::Value;

use super::{REPORT, WEAVER_TOML};

/// Every file: inode, time of the last change, content.
type FileStates = BTreeMap<PathBuf, (u64, (i64, i64), Vec<u8>)>;

/// A test's replacement for netplan's own.
pub const GENERATE: &str = "/usr/libexec/netplan/generate";

pub struct CardHost(tempfile::TempDir);

pub struct BootConfigOutput {
    pub code: i32,
    pub stderr: String,
    pub report: Value,
}

impl CardHost {
    /// The card as flashed, with its boot partition mounted.
    pub fn new() -> Self {
        let host = Self(tempfile::tempdir().unwrap());
        host.write("/boot/firmware/config.txt", "");
        host.write("/etc/hosts", "127.0.0.1 localhost\n10.0.0.9 nas\n");
        host.write("/etc/hostname", "weaver\n");
        host
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        fs::write(self.path(path), content).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    pub fn run(&self) -> BootConfigOutput {
        let mut agent = Command::new(env!("CARGO_BIN_EXE_weaver-node-agent"));
        agent.args(["boot-config", "--root"]).arg(self.0.path()).env_remove("RUST_LOG");
        let generate = self.path(GENERATE);
        if generate.exists() {
            agent.arg("--netplan-generate").arg(generate);
        }
        let output = agent.output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.stdout.is_empty());
        let report = fs::read(self.path(REPORT)).ok();
        let report = report.map_or(Value::Null, |report| serde_json::from_slice(&report).unwrap());
        BootConfigOutput { code: output.status.code().unwrap(), stderr, report }
    }

    pub fn configure(&self, weaver_toml: &str) -> BootConfigOutput {
        self.write(WEAVER_TOML, weaver_toml);
        self.run()
    }

    pub fn state(&self) -> FileStates {
        let mut state = FileStates::new();
        let mut open = vec![self.0.path().to_owned()];
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let (path, metadata) = entry.map(|e| (e.path(), e.metadata().unwrap())).unwrap();
                if metadata.is_dir() {
                    open.push(path);
                } else {
                    let changed = (metadata.mtime(), metadata.mtime_nsec());
                    // A link leads to a path of the host, which is not this machine's.
                    let content = if metadata.is_symlink() {
                        fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                    } else {
                        fs::read(&path).unwrap()
                    };
                    state.insert(path, (metadata.ino(), changed, content));
                }
            }
        }
        state
    }

    /// The state but for the report, which a fault changes.
    pub fn state_but_report(&self) -> FileStates {
        let mut state = self.state();
        state.remove(&self.path(REPORT));
        state
    }
}

impl BootConfigOutput {
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}", self.stderr);
        self
    }

    /// A finding of this code and severity, in the report and on standard error.
    #[track_caller]
    pub fn finds(&self, code: &str, severity: &str) -> &Value {
        let findings = self.report["findings"].as_array().unwrap();
        let found = findings.iter().find(|finding| finding["code"] == code);
        let found = found.unwrap_or_else(|| panic!("no {code}: {:#}", self.report));
        assert_eq!(found["severity"], severity);
        assert!(self.stderr.contains(code), "{}", self.stderr);
        found
    }
}

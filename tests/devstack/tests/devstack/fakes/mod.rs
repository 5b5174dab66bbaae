//! A checkout and programs made of small shell scripts, so that every way in
//! which a stack can fail is tested in a second and without an API server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use tempfile::TempDir;
use weaver_devstack::agent::AgentReport;
use weaver_devstack::layout::Layout;
use weaver_devstack::process::{self, Process};

/// More than any step takes; only a failing test waits so long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A fake checkout and a stack made from it; what still runs ends with it.
pub struct Fakes {
    root: TempDir,
}

impl Fakes {
    pub fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let fakes = Self { root };
        let server = fakes.path("k3s-fake");
        for (path, text) in [
            ("k3s-fake", include_str!("server.sh").to_owned()),
            ("bin/weaver-node-agent", include_str!("agent.sh").to_owned()),
            ("bin/weaver-operator", include_str!("operator.sh").to_owned()),
            ("bin/weaver", "#!/bin/sh\necho the fake weaver shows the leader\n".to_owned()),
            ("tests/testbed/build.sh", format!("#!/bin/sh\necho {}\n", server.display())),
            ("tests/devstack/prerequisites.sh", "#!/bin/sh\n".to_owned()),
            ("deploy/samples/configmapsync.yaml", String::new()),
            // Nothing listens on port 1: the testbed is in at once.
            (
                "image/k3s.lock",
                format!(
                    "version: v0\naddress: http://127.0.0.1:1\nfiles: {{k3s: {0}, k3s-arm64: {0}}}\n",
                    "0".repeat(64)
                ),
            ),
        ] {
            let path = fakes.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        fakes
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.path().join(relative)
    }

    pub fn run_dir(&self) -> PathBuf {
        self.path("run")
    }

    /// `weaver-devstack ARGUMENTS` in this checkout.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weaver-devstack"));
        command.args(arguments).current_dir(self.root.path());
        command.env("WEAVER_RUN_DIR", self.run_dir()).env("WEAVER_BIN_DIR", self.path("bin"));
        command.env("WEAVER_SOURCE_DIR", self.root.path()).env("XDG_CACHE_HOME", self.path("cache"));
        command.env_remove("K3S_BIN").env_remove("WEAVER_PORT");
        command
    }

    /// Runs it to its end.
    pub fn run(&self, arguments: &[&str], environment: &[(&str, &str)]) -> CommandOutput {
        CommandOutput::from(self.command(arguments).envs(environment.iter().copied()).output().unwrap())
    }

    pub fn layout(&self) -> Layout {
        Layout::existing(&self.run_dir()).unwrap().unwrap()
    }

    /// API server, agent, operator and webhook, each of which must run or be just starting: `up` waits for the
    /// copies, not for the webhook.
    pub fn processes(&self) -> [Process; 4] {
        let layout = self.layout();
        let mut children = None;
        process::poll(PATIENCE, || {
            let report = AgentReport::read(&layout).unwrap().unwrap();
            children = report.operator(&layout).zip(report.webhook(&layout));
            children.is_some()
        });
        let (operator, webhook) = children.expect("operator and webhook");
        let named = |name| Process::from_file(&layout.pid_file(name)).unwrap().expect(name);
        [named("server"), named("agent"), operator, webhook]
    }

    /// Everything that runs in the stack, by pid.
    pub fn all(&self) -> Vec<i32> {
        pids(process::marked(self.layout().dir()))
    }
}

impl Drop for Fakes {
    fn drop(&mut self) {
        for dir in [self.run_dir(), self.path("scenario/1")] {
            if let Ok(dir) = dir.canonicalize() {
                let _ = process::end(&process::marked(&dir), PATIENCE);
            }
        }
    }
}

pub fn pids(processes: impl IntoIterator<Item = Process>) -> Vec<i32> {
    let mut pids: Vec<_> = processes.into_iter().map(|process| process.pid).collect();
    pids.sort_unstable();
    pids
}

/// What a command said, and its exit code.
#[derive(Debug)]
pub struct CommandOutput {
    pub code: Option<i32>,
    pub text: String,
}

impl CommandOutput {
    #[track_caller]
    pub fn expect(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "{}", self.text);
        for word in words {
            assert!(self.text.contains(word), "{word:?} is not in:\n{}", self.text);
        }
        self
    }
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        let text = [output.stdout, output.stderr].concat();
        Self { code: output.status.code(), text: String::from_utf8(text).unwrap() }
    }
}

/// Ends a process as the kernel's out-of-memory killer would, and waits.
pub fn kill_9(process: Process) {
    let status = Command::new("kill").args(["-9", &process.pid.to_string()]).status().unwrap();
    assert!(status.success());
    assert!(process::poll(PATIENCE, || !process.is_alive()));
}

/// Whether a given k3s can be started: as root it gets an `/etc` of its own.
pub fn may_isolate() -> bool {
    !nix::unistd::Uid::effective().is_root()
        || Command::new("unshare").args(["--mount", "true"]).status().unwrap().success()
}

/// Whether a file is there before the patience ends.
pub fn appears(path: &Path) -> bool {
    process::poll(PATIENCE, || path.exists())
}

//! Starting one process of a stack.
//!
//! Guarantees: it has its own session (Ctrl-C in the terminal is not for it),
//! its log, and the stack's mark in its environment; its pid file exists
//! before the call returns. Bound to its starter, it gets SIGTERM when the
//! starter ends in any way, SIGKILL included.
//! Failure: names the program that could not be started.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::{env, io, thread};

use anyhow::{Context, Result, anyhow};

use crate::layout::Layout;
use crate::process::{self, Process};
use crate::signals;

/// Whether a process outlives the one that started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// It continues: `make up`.
    Detached,
    /// It ends with its starter: disposable stacks.
    Bound,
}

pub struct Launch<'a> {
    /// The stack it belongs to.
    pub layout: &'a Layout,
    /// Names its pid file and, in messages, the process.
    pub name: &'static str,
    pub program: &'a Path,
    pub arguments: Vec<OsString>,
    /// Added to the environment.
    pub environment: Vec<(&'static str, OsString)>,
    /// Where standard output and error go.
    pub log: File,
    /// Whether it outlives us.
    pub lifetime: Lifetime,
    /// Give it a private copy of `/etc` at this mount point (see [`PRIVATE_ETC`]).
    pub private_etc: Option<PathBuf>,
}

/// A process that was started here.
pub struct Started {
    pub process: Process,
    child: Child,
    // Dropped last: the thread that started the child must outlive it, since
    // the kernel's parent-death signal follows the thread, not the process.
    _keeper: Option<mpsc::Sender<()>>,
}

/// A k3s that runs as root replaces `/etc/rancher/k3s/k3s.yaml`. In a mount
/// namespace of its own, with a copy of `/etc` in memory, it replaces the copy's.
const PRIVATE_ETC: &str = "set -e
mount -t tmpfs -o mode=0755 private-etc \"$1\"
cp -a /etc/. \"$1\"
mount --bind \"$1\" /etc
shift
exec \"$@\"";

impl Launch<'_> {
    /// Starts it.
    ///
    /// # Errors
    /// When the program cannot be started or the pid file not written.
    pub fn start(self) -> Result<Started> {
        let (layout, name) = (self.layout, self.name);
        let bound = self.lifetime == Lifetime::Bound;
        let what = format!("cannot start the {name} ({})", self.program.display());
        let command = self.command().with_context(|| what.clone())?;
        let (child, keeper) =
            if bound { spawn_kept(command) } else { spawn(command).map(|child| (child, None)) }
                .with_context(|| what.clone())?;
        let pid = i32::try_from(child.id()).context("a pid beyond 31 bits")?;
        let process = Process::child(pid).ok_or_else(|| anyhow!("{what}: /proc does not show it"))?;
        let started = Started { process, child, _keeper: keeper };
        process.to_file(&layout.pid_file(name))?;
        Ok(started)
    }

    /// Wrappers of util-linux that replace themselves by the next program (exec),
    /// so that pid and start time are those of the program itself.
    fn command(self) -> io::Result<Command> {
        let mut words: Vec<OsString> = Vec::new();
        if self.lifetime == Lifetime::Bound {
            words.extend(["setpriv", "--pdeathsig", "TERM"].map(OsString::from));
        }
        words.push("setsid".into());
        if let Some(mount_point) = self.private_etc {
            words.extend(["unshare", "--mount", "--propagation", "private"].map(OsString::from));
            words.extend(["sh", "-c", PRIVATE_ETC, "private-etc"].map(OsString::from));
            words.push(mount_point.into());
        }
        words.push(self.program.into());
        words.extend(self.arguments);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stdout(self.log.try_clone()?).stderr(self.log);
        command.env_remove("NOTIFY_SOCKET").env_remove("KUBECONFIG").envs(self.environment);
        command.env(process::MARK, self.layout.dir());
        Ok(command)
    }
}

impl Started {
    /// How it ended, if it did.
    ///
    /// # Errors
    /// When the kernel does not say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().context("cannot ask whether a process has ended")
    }

    /// Ends it: SIGTERM, and SIGKILL after ten seconds.
    ///
    /// # Errors
    /// When it does not end.
    pub fn stop(&mut self) -> Result<()> {
        process::end(&[self.process], process::GRACE)?;
        self.child.wait().map(drop).context("cannot collect an ended process")
    }

    /// Ends it at once, as a power cut would.
    ///
    /// # Errors
    /// When it does not end.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().context("cannot kill a process")?;
        self.child.wait().map(drop).context("cannot collect an ended process")
    }
}

/// `PATH` with one directory in front.
pub fn path_with(dir: &Path) -> OsString {
    let rest = env::var_os("PATH").unwrap_or_default();
    let dirs = [dir.to_owned()].into_iter().chain(env::split_paths(&rest));
    env::join_paths(dirs).unwrap_or(rest)
}

fn spawn(mut command: Command) -> Result<Child> {
    signals::unblocked(|| command.spawn().map_err(anyhow::Error::from))
}

fn spawn_kept(command: Command) -> Result<(Child, Option<mpsc::Sender<()>>)> {
    let (answer, answered) = mpsc::channel();
    let (keeper, kept) = mpsc::channel();
    thread::Builder::new().name("keeper".to_owned()).spawn(move || {
        let _ = answer.send(spawn(command));
        // Returns when the `Started` is dropped.
        let _ = kept.recv();
    })?;
    Ok((answered.recv().context("the starting thread ended")??, Some(keeper)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::process::GRACE;

    fn launch<'a>(layout: &'a Layout, script: &str, lifetime: Lifetime) -> Launch<'a> {
        Launch {
            layout,
            name: "server",
            program: Path::new("/bin/sh"),
            arguments: ["-c", script].map(OsString::from).to_vec(),
            environment: Vec::new(),
            log: crate::logs::start(&layout.log("server")).unwrap(),
            lifetime,
            private_etc: None,
        }
    }

    #[test]
    fn has_log_mark_pid_file_and_its_own_session() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::create(dir.path()).unwrap();
        let script = "echo out; echo err >&2; ps -o sid= -p $$; exec sleep 600";
        let mut started = launch(&layout, script, Lifetime::Detached).start().unwrap();
        let log = layout.log("server");
        assert!(process::poll(GRACE, || fs::read_to_string(&log).unwrap().lines().count() == 3));
        let pid = started.process.pid.to_string();
        assert_eq!(
            fs::read_to_string(&log).unwrap().split_whitespace().collect::<Vec<_>>(),
            ["out", "err", &pid]
        );
        assert_eq!(Process::from_file(&layout.pid_file("server")).unwrap(), Some(started.process));
        assert_eq!(process::marked(layout.dir()), [started.process]);
        started.stop().unwrap();
        assert!(process::marked(layout.dir()).is_empty());
    }

    #[test]
    fn a_bound_process_ends_with_its_starter() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::create(dir.path()).unwrap();
        let started = launch(&layout, "exec sleep 600", Lifetime::Bound).start().unwrap();
        let process = started.process;
        let comm = format!("/proc/{}/comm", process.pid);
        assert!(process::poll(GRACE, || fs::read_to_string(&comm).is_ok_and(|comm| comm == "sleep\n")));
        // Dropping ends the starting thread, as the death of the whole program would.
        drop(started);
        assert!(process::poll(GRACE, || !process.is_alive()));
    }
}

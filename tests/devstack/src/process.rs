//! Processes, known by pid and start time.
//!
//! A pid alone may belong to someone else by the time it is used; pid and start time together name one
//! process. Guarantee: [`end`] signals only processes whose start time still matches. Failure: what cannot be
//! read in `/proc` counts as not running.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::files;

/// How long a process may take to end after SIGTERM.
pub const GRACE: Duration = Duration::from_secs(10);

/// The environment variable that every process of a stack carries; its value
/// is the stack's directory. It finds what no pid file knows: the operator of
/// a killed agent, or a server whose pid file was lost.
pub const MARK: &str = "WEAVER_STACK";

/// One process, for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    /// When it started, in clock ticks after boot (field 22 of `/proc/PID/stat`).
    pub start: u64,
}

impl Process {
    /// The process that has this pid now; `None` if there is none or it is a zombie.
    pub fn running(pid: i32) -> Option<Self> {
        let (state, process) = Self::seen(pid)?;
        (!matches!(state, 'Z' | 'X')).then_some(process)
    }

    /// A child that was not waited for yet, be it a zombie.
    pub fn child(pid: i32) -> Option<Self> {
        Self::seen(pid).map(|(_, process)| process)
    }

    fn seen(pid: i32) -> Option<(char, Self)> {
        let line = fs::read(format!("/proc/{pid}/stat")).ok()?;
        let (state, start) = parse_stat(&String::from_utf8_lossy(&line))?;
        (pid > 0).then_some((state, Self { pid, start }))
    }

    /// Whether this very process still runs.
    pub fn is_alive(&self) -> bool {
        Self::running(self.pid).as_ref() == Some(self)
    }

    /// Whether it carries the mark of the stack in `dir`. Another user's
    /// environment cannot be read, and is none of ours.
    pub fn is_marked(&self, dir: &Path) -> bool {
        fs::read(format!("/proc/{}/environ", self.pid)).is_ok_and(|environ| has_mark(&environ, dir))
            && self.is_alive()
    }

    /// Resident memory in KiB, where the kernel says.
    pub fn resident_kib(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    }

    /// Reads a pid file. No file, a half-written or a corrupt one, and one
    /// whose process is gone all mean the same: not running.
    ///
    /// # Errors
    /// When the file exists and cannot be read at all.
    pub fn from_file(path: &Path) -> Result<Option<Self>> {
        let named = files::read_if_there(path)?.and_then(|text| text.parse::<Self>().ok());
        Ok(named.filter(Self::is_alive))
    }

    /// Writes a pid file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn to_file(&self, path: &Path) -> Result<()> {
        files::replace(path, format!("{self}\n").as_bytes(), 0o644)
    }

    fn signal(&self, signal: Signal) {
        if self.is_alive() {
            // It may end between the two calls; then there is nothing to do.
            let _ = kill(Pid::from_raw(self.pid), signal);
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.pid, self.start)
    }
}

/// The text was not what [`Process`] writes.
#[derive(Debug, PartialEq, Eq)]
pub struct NotAPidFile;

impl FromStr for Process {
    type Err = NotAPidFile;

    /// Strict, with the final newline: `12 34` may be the first half of `12 3456`.
    fn from_str(text: &str) -> Result<Self, NotAPidFile> {
        let (pid, start) =
            text.strip_suffix('\n').and_then(|line| line.split_once(' ')).ok_or(NotAPidFile)?;
        let pid: i32 = pid.parse().map_err(|_| NotAPidFile)?;
        let start = start.parse().map_err(|_| NotAPidFile)?;
        // 0 and below address groups, 1 is never ours.
        if pid > 1 { Ok(Self { pid, start }) } else { Err(NotAPidFile) }
    }
}

/// Ends processes: SIGTERM to all, SIGKILL to what is left after `grace`.
///
/// # Errors
/// Names what would not even end on SIGKILL.
pub fn end(processes: &[Process], grace: Duration) -> Result<()> {
    for (signal, patience) in [(Signal::SIGTERM, grace), (Signal::SIGKILL, Duration::from_secs(5))] {
        for process in processes {
            process.signal(signal);
        }
        if poll(patience, || !processes.iter().any(Process::is_alive)) {
            return Ok(());
        }
    }
    let left: Vec<_> = processes.iter().filter(|p| p.is_alive()).map(|p| p.pid.to_string()).collect();
    bail!("process {} does not end, not even on SIGKILL; see `ps -fp {0}`", left.join(","))
}

/// Every running process that carries the mark of the stack in `dir`.
pub fn marked(dir: &Path) -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Process::running).filter(|process| process.is_marked(dir)).collect()
}

fn has_mark(environ: &[u8], dir: &Path) -> bool {
    environ.split(|byte| *byte == 0).any(|variable| {
        variable
            .strip_prefix(MARK.as_bytes())
            .and_then(|rest| rest.strip_prefix(b"="))
            .is_some_and(|value| OsStr::from_bytes(value) == dir.as_os_str())
    })
}

/// Asks until the answer is yes or the time is over; the last answer.
pub fn poll(patience: Duration, mut done: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// State and start time. The name in brackets may itself contain brackets and spaces, so the fields are counted from
/// the last closing one.
fn parse_stat(stat: &str) -> Option<(char, u64)> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};

    use proptest::prelude::*;

    use super::*;

    fn sleeper(command: &mut Command) -> Child {
        command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
    }

    #[test]
    fn knows_itself_and_not_a_reused_pid() {
        let me = Process::running(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(me.is_alive());
        assert!(!Process { start: me.start + 1, ..me }.is_alive());
        assert!(me.resident_kib().unwrap() > 100);
        assert_eq!(Process::running(i32::MAX), None);
    }

    #[test]
    fn names_with_brackets_do_not_shift_the_fields() {
        let rest = (4..=21).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        let stat = format!("77 (evil) S 9 (x) R {rest} 424242 23 24");
        assert_eq!(parse_stat(&stat), Some(('R', 424_242)));
        assert_eq!(parse_stat("77 (cut off) S 1 2"), None);
    }

    #[test]
    fn a_corrupt_pid_file_means_not_running() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pid");
        assert_eq!(Process::from_file(&path).unwrap(), None);
        for text in ["", "\n", "12", "12 \n", "-1 5\n", "0 5\n", "1 5\n", "12 34", "12 34 56\n", "\u{0}\n"] {
            fs::write(&path, text).unwrap();
            assert_eq!(Process::from_file(&path).unwrap(), None, "{text:?}");
        }
        let me = Process::running(i32::try_from(std::process::id()).unwrap()).unwrap();
        me.to_file(&path).unwrap();
        assert_eq!(Process::from_file(&path).unwrap(), Some(me));
    }

    #[test]
    fn ends_on_term_and_else_on_kill() {
        let mut meek = sleeper(Command::new("sleep").arg("600"));
        let mut stubborn = sleeper(Command::new("sh").args(["-c", "trap '' TERM; exec sleep 600"]));
        let both = [&meek, &stubborn].map(|c| Process::running(i32::try_from(c.id()).unwrap()).unwrap());
        // Wait until the shell has become sleep, so that the trap is set.
        assert!(
            poll(GRACE, || fs::read_to_string(format!("/proc/{}/comm", stubborn.id())).unwrap() == "sleep\n")
        );
        end(&both, Duration::from_millis(300)).unwrap();
        assert!(!both.iter().any(Process::is_alive));
        meek.wait().unwrap();
        stubborn.wait().unwrap();
    }

    #[test]
    fn finds_what_carries_the_mark_and_only_that() {
        let dir = tempfile::tempdir().unwrap();
        let mut ours = sleeper(Command::new("sleep").arg("600").env(MARK, dir.path()));
        let mut other =
            sleeper(Command::new("sleep").arg("600").env(MARK, dir.path().join("x")).arg0(dir.path()));
        // Until it has executed, a child still shows our own environment.
        assert!(poll(GRACE, || !marked(dir.path()).is_empty()));
        let found = marked(dir.path());
        assert_eq!(found.iter().map(|p| p.pid).collect::<Vec<_>>(), [i32::try_from(ours.id()).unwrap()]);
        for child in [&mut ours, &mut other] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    proptest! {
        #[test]
        fn reads_what_it_writes(pid in 2..i32::MAX, start: u64) {
            let process = Process { pid, start };
            prop_assert_eq!(format!("{process}\n").parse(), Ok(process));
        }

        #[test]
        fn never_takes_a_cut_off_file_for_whole(pid in 2..i32::MAX, start: u64, cut in 1usize..20) {
            let text = format!("{pid} {start}\n");
            let short = &text[..text.len().saturating_sub(cut)];
            prop_assert!(short.parse::<Process>().is_err());
        }

        #[test]
        fn never_panics(text in ".*") {
            let _ = text.parse::<Process>();
            let _ = parse_stat(&text);
            let _ = has_mark(text.as_bytes(), Path::new(&text));
        }
    }
}

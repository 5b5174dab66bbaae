//! The agent's requests to systemd, by the program `systemctl`.
//!
//! `systemctl` speaks D-Bus for us: that saves a D-Bus library with its own connection to keep alive, for a request now
//! and then. Every call has a deadline, and a call that outlives it is killed. A failure is an answer like any other:
//! it is shown and tried again, and nothing ends because of it.

use std::{collections::BTreeMap, ffi::OsStr, path::PathBuf, process::Stdio, time::Duration};

use tokio::{process::Command, time::timeout};
use tracing::debug;
use weaver_diagnostics::finding_text;

/// Longest time for one call.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// Longest time for the end of a unit: systemd's own limit, after which it kills, and a little.
const STOPPING: Duration = Duration::from_secs(100);
/// End of the path of the gate's drop-in: of the card's package, or linked by the owner of another machine.
const GATE_DROP_IN: &str = "/10-weaver.conf";
/// The most characters of the program's own message that are shown.
const MAX_MESSAGE: usize = 300;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SystemctlError {
    /// The program cannot be started.
    #[error("cannot run {program}: {why}; it belongs to the package systemd")]
    Program { program: String, why: String },
    /// It does not end.
    #[error(
        "`systemctl {call}` timed out after {} s; `sudo systemctl list-jobs` shows what it waits for",
        limit.as_secs()
    )]
    TooLong {
        call: String,
        /// How long it was waited for.
        limit: Duration,
    },
    #[error("`systemctl {call}` failed ({how}): {message}")]
    Refused { call: String, how: String, message: String },
    /// It gave an unexpected answer.
    #[error("`systemctl {call}` did not print the state of the unit")]
    NoState { call: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitState {
    /// `active`, `activating`, `inactive`, `failed`, …
    pub active: String,
    /// When it came into this state, in microseconds of the monotonic clock;
    /// absent where systemd does not say.
    pub since: Option<u64>,
    /// Whether the gate's drop-in is part of it: without, the unit starts whatever the agent has found. A systemd that
    /// does not list drop-ins counts as one that has it.
    pub is_gated: bool,
}

impl UnitState {
    /// Whether there is, or may be, a process of the unit: such a unit is not touched.
    pub fn may_run(&self) -> bool {
        !matches!(self.active.as_str(), "inactive" | "failed")
    }
}

/// When a unit last came into a state, in microseconds of the monotonic clock; `None` where it never did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitTimes {
    /// When its start began: systemd's `InactiveExitTimestampMonotonic`.
    pub begun: Option<u64>,
    pub active: Option<u64>,
    pub inactive: Option<u64>,
}

#[derive(Debug, Clone)]
pub struct Systemctl {
    program: PathBuf,
    deadline: Duration,
}

impl Systemctl {
    pub const fn new(program: PathBuf) -> Self {
        Self { program, deadline: DEADLINE }
    }

    /// Asks for the start of a unit without waiting for it; of one that runs,
    /// this changes nothing.
    ///
    /// # Errors
    /// The request could not be made.
    pub async fn start(&self, unit: &str) -> Result<(), SystemctlError> {
        self.call(&["start", "--no-block", unit]).await.map(drop)
    }

    /// Ends a unit and waits for that.
    ///
    /// # Errors
    /// The request could not be made, or the unit does not end.
    pub async fn stop(&self, unit: &str) -> Result<(), SystemctlError> {
        let patient = Self { deadline: STOPPING, ..self.clone() };
        patient.call(&["stop", unit]).await.map(drop)
    }

    /// Restarts this host, with an argument for its firmware where there is one; returns before that happens.
    ///
    /// # Errors
    /// The request could not be made.
    pub async fn reboot(&self, argument: Option<&str>) -> Result<(), SystemctlError> {
        let argument = argument.map(|argument| format!("--reboot-argument={argument}"));
        let words: Vec<_> = ["reboot"].into_iter().chain(argument.as_deref()).collect();
        self.call(&words).await.map(drop)
    }

    /// Has the unit files read again.
    ///
    /// # Errors
    /// The request could not be made.
    pub async fn reload(&self) -> Result<(), SystemctlError> {
        self.call(&["daemon-reload"]).await.map(drop)
    }

    /// The state of a unit.
    ///
    /// # Errors
    /// It could not be queried, or not understood.
    pub async fn state(&self, unit: &str) -> Result<UnitState, SystemctlError> {
        let call = ["show", "-p", "ActiveState,StateChangeTimestampMonotonic,DropInPaths", unit];
        let answer = self.call(&call).await?;
        parse(&answer).ok_or_else(|| SystemctlError::NoState { call: call.join(" ") })
    }

    /// When each of these units, by its name, came into its states; a unit that systemd does not know never did.
    ///
    /// # Errors
    /// They could not be queried.
    pub async fn times(&self, units: &[&str]) -> Result<BTreeMap<String, UnitTimes>, SystemctlError> {
        let properties =
            "Id,InactiveExitTimestampMonotonic,ActiveEnterTimestampMonotonic,InactiveEnterTimestampMonotonic";
        let answer = self.call(&[&["show", "-p", properties], units].concat()).await?;
        Ok(answer.split("\n\n").filter_map(parse_times).collect())
    }

    /// Whether a unit is started at boot; a systemd that does not answer starts none.
    pub async fn is_enabled(&self, unit: &str) -> bool {
        self.call(&["is-enabled", unit]).await.is_ok()
    }

    async fn call(&self, arguments: &[&str]) -> Result<String, SystemctlError> {
        let call = arguments.join(" ");
        let output = Command::new(&self.program)
            .args(["--no-ask-password", "--no-pager"].map(OsStr::new))
            .args(arguments)
            .env("LC_ALL", "C")
            // They are about this process, not about that one.
            .env_remove("NOTIFY_SOCKET")
            .env_remove("WATCHDOG_USEC")
            .env_remove("WATCHDOG_PID")
            .stdin(Stdio::null())
            // Ctrl-C stops the wait, and not the request.
            .process_group(0)
            .kill_on_drop(true)
            .output();
        let output = match timeout(self.deadline, output).await {
            Ok(Ok(output)) => output,
            Ok(Err(error)) => {
                let program = self.program.display().to_string();
                return Err(SystemctlError::Program { program, why: error.to_string() });
            }
            Err(_) => return Err(SystemctlError::TooLong { call, limit: self.deadline }),
        };
        let message = finding_text::cut(String::from_utf8_lossy(&output.stderr).trim(), MAX_MESSAGE);
        debug!("systemctl {call}: {}; {message}", output.status);
        if !output.status.success() {
            return Err(SystemctlError::Refused { call, how: output.status.to_string(), message });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

fn value<'a>(answer: &'a str, key: &str) -> Option<&'a str> {
    answer.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).map(str::trim)
}

/// Zero means "never".
fn moment(answer: &str, key: &str) -> Option<u64> {
    value(answer, key)?.parse().ok().filter(|moment| *moment > 0)
}

fn parse(answer: &str) -> Option<UnitState> {
    let active = value(answer, "ActiveState").filter(|state| !state.is_empty())?.to_owned();
    let is_gated = value(answer, "DropInPaths")
        .is_none_or(|paths| paths.split_whitespace().any(|path| path.ends_with(GATE_DROP_IN)));
    Some(UnitState { active, since: moment(answer, "StateChangeTimestampMonotonic"), is_gated })
}

fn parse_times(answer: &str) -> Option<(String, UnitTimes)> {
    let times = UnitTimes {
        begun: moment(answer, "InactiveExitTimestampMonotonic"),
        active: moment(answer, "ActiveEnterTimestampMonotonic"),
        inactive: moment(answer, "InactiveEnterTimestampMonotonic"),
    };
    Some((value(answer, "Id")?.to_owned(), times))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt as _};

    fn fake(script: &str, deadline: Duration) -> (tempfile::TempDir, Systemctl) {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("systemctl");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        (dir, Systemctl { program, deadline })
    }

    #[test]
    fn each_answer_of_systemctl_is_understood() {
        for (answer, want) in [
            ("ActiveState=activating\nStateChangeTimestampMonotonic=12\n", Some(("activating", Some(12)))),
            ("StateChangeTimestampMonotonic=0\nActiveState=inactive\n", Some(("inactive", None))),
            ("ActiveState=active\nStateChangeTimestampMonotonic=x\n", Some(("active", None))),
            ("ActiveState=\n", None),
            ("", None),
        ] {
            let state = parse(answer);
            assert_eq!(state.as_ref().map(|s| (s.active.as_str(), s.since)), want, "{answer}");
        }
    }

    #[test]
    fn only_a_unit_without_a_process_is_not_running() {
        for (active, may_run) in [
            ("inactive", false),
            ("failed", false),
            ("active", true),
            ("activating", true),
            ("deactivating", true),
            ("reloading", true),
            ("something-new", true),
        ] {
            let state = UnitState { active: active.to_owned(), since: None, is_gated: true };
            assert_eq!(state.may_run(), may_run, "{active}");
        }
    }

    #[tokio::test]
    async fn a_start_does_not_wait_for_the_unit() {
        let (dir, systemctl) = fake("echo \"$@\" >> \"$0.calls\"", DEADLINE);
        systemctl.start("a.service").await.unwrap();
        let calls = fs::read_to_string(dir.path().join("systemctl.calls")).unwrap();
        assert_eq!(calls, "--no-ask-password --no-pager start --no-block a.service\n");
    }

    #[tokio::test]
    async fn a_reboot_may_have_an_argument() {
        let (dir, systemctl) = fake("printf '%s|' \"$@\" >> \"$0.calls\"", DEADLINE);
        systemctl.reboot(None).await.unwrap();
        systemctl.reboot(Some("0 tryboot")).await.unwrap();
        let calls = fs::read_to_string(dir.path().join("systemctl.calls")).unwrap();
        let always = "--no-ask-password|--no-pager|reboot|";
        assert_eq!(calls, format!("{always}{always}--reboot-argument=0 tryboot|"));
    }

    #[tokio::test]
    async fn a_refusal_is_shown_in_its_own_words() {
        let (_dir, systemctl) = fake("printf 'Unit \\033[31ma not found.' >&2; exit 5", DEADLINE);
        let error = systemctl.start("a.service").await.unwrap_err().to_string();
        assert!(error.contains("start --no-block a.service") && error.contains("exit status: 5"), "{error}");
        assert!(error.contains("Unit \\u{1b}[31ma not found."), "{error}");
    }

    #[tokio::test]
    async fn one_that_hangs_is_given_up() {
        let (_dir, systemctl) = fake("exec sleep 600", Duration::from_millis(50));
        let error = systemctl.state("a.service").await.unwrap_err();
        assert!(matches!(error, SystemctlError::TooLong { .. }), "{error}");
        assert!(error.to_string().contains("list-jobs"), "{error}");
    }

    #[tokio::test]
    async fn a_missing_program_and_an_empty_answer_are_errors() {
        let missing = Systemctl::new("/nowhere/systemctl".into());
        let error = missing.start("a").await.unwrap_err().to_string();
        assert!(error.contains("/nowhere/systemctl") && error.contains("package systemd"), "{error}");
        let (_dir, silent) = fake("exit 0", DEADLINE);
        assert!(matches!(silent.state("a").await, Err(SystemctlError::NoState { .. })));
    }
}

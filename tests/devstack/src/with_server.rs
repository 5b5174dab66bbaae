//! A command inside a fresh, disposable stack: API server, agent, operator.
//!
//! Guarantees: a directory and a port of its own, the audit log on, no sample
//! applied; the command's exit code is passed on; nothing is left running,
//! however this program ends. Failure: the logs are kept and their path is printed; the database is not.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context, Result, anyhow, bail};

use crate::agent::{self, Gated, StackAgent};
use crate::choice::{ServerBinary, ServerOrigin, TEST_SERVER, TEST_SERVER_ORIGIN};
use crate::launch::{Lifetime, Started};
use crate::programs::BuiltPrograms;
use crate::server::{Server, ServerOptions};
use crate::server_files::NAMES;
use crate::signals::{self, ForwardedSignals};
use crate::steps::{Steps, say};
use crate::{files, up};

/// What the operator is given: times in seconds, since tests wait for what takes minutes in use.
const SHORT: [(&str, &str); 4] = [
    ("WEAVER_RETRY", "2"),
    ("WEAVER_CLEANUP_PATIENCE", "5"),
    ("WEAVER_WATCH", "15"),
    // Whichever port is free.
    ("WEAVER_METRICS", "127.0.0.1:0"),
];

/// Runs `command` inside a stack below `scenarios`.
///
/// # Errors
/// When the stack does not come up or the command cannot be started.
pub fn with_server(scenarios: &Path, programs: &BuiltPrograms, command: &[OsString]) -> Result<ExitCode> {
    let caught = ForwardedSignals::take()?;
    let dir = new_dir(scenarios)?;
    let data = tempfile::tempdir_in(files::scratch()).context("cannot make a directory for the database")?;
    std::os::unix::fs::symlink(data.path(), dir.join("data"))
        .map_err(|error| files::explained(&dir, error))?;
    let code = inside(&dir, programs, command, &caught);
    if matches!(code, Ok(0)) {
        fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    } else {
        eprintln!("the stack's logs are kept in {}", dir.join("logs").display());
    }
    code.map(ExitCode::from)
}

fn inside(
    dir: &Path,
    programs: &BuiltPrograms,
    command: &[OsString],
    caught: &ForwardedSignals,
) -> Result<u8> {
    let mut steps = Steps::begin();
    let binary = ServerBinary::choose(programs.source())?;
    steps.done("API server chosen", binary.version()?);
    let mut server = Server::start(&binary, ServerOptions::new(dir).tls_sans(NAMES).audit())?;
    steps.done("API server ready", format!("port {}, in {}", server.port(), dir.display()));

    let layout = server.layout().clone();
    let agent = StackAgent::new(programs, &layout, server.port());
    let mut started = agent.start(Lifetime::Bound, &SHORT)?;
    if let Gated::KnownBad(words) = agent.wait(started.process, agent::LIMIT)? {
        say(format_args!("{words}"));
        eprintln!("error: the gate is shut, so there is no operator to test");
        return Ok(up::KNOWN_BAD);
    }
    steps.done("operator running", "gate open");

    let status = run(&server, programs, command, caught);
    stop(&mut started, &mut server).context("cannot stop the disposable stack")?;
    Ok(code(status?, caught.received()))
}

fn run(
    server: &Server,
    programs: &BuiltPrograms,
    command: &[OsString],
    caught: &ForwardedSignals,
) -> Result<ExitStatus> {
    let (program, _) = command.split_first().ok_or_else(|| anyhow!("no command was given"))?;
    let layout = server.layout();
    let binary = server.binary();
    let origin = match binary.origin {
        ServerOrigin::Given => "given",
        ServerOrigin::Pinned => "pinned",
        ServerOrigin::Testbed => "testbed",
    };
    // Started from the main thread, whose end is this program's end.
    let mut wrapped = Command::new("setpriv");
    wrapped
        .args(["--pdeathsig", "TERM", "--"])
        .args(command)
        .env("WEAVER_TEST_DIR", layout.dir())
        .env("WEAVER_TEST_KUBECONFIG", layout.admin_kubeconfig())
        .env("WEAVER_TEST_AUDIT_LOG", layout.audit_log())
        .env("WEAVER_TEST_OPERATOR_LOG", layout.log("agent"))
        .env("WEAVER_TEST_AGENT_LOG", layout.log("agent"))
        .env("WEAVER_TEST_BIN_DIR", programs.bin_dir())
        // Kubectl's cache of what each server serves: a hundred of them else stay in the user's home.
        .env("KUBECACHEDIR", layout.dir().join("kube-cache"))
        .env(TEST_SERVER, &binary.path)
        .env(TEST_SERVER_ORIGIN, origin);
    let start = || wrapped.spawn().with_context(|| format!("cannot start {}", program.display()));
    let mut child = signals::unblocked(start)?;
    caught.tell(Some(child.id()));
    let status = child.wait().context("cannot wait for the command");
    caught.tell(None);
    status
}

/// The agent first, which ends its operator; then the API server.
fn stop(agent: &mut Started, server: &mut Server) -> Result<()> {
    let agent = agent.stop();
    server.stop().and(agent)
}

/// The command's own code; as in a shell if a signal ended it.
fn code(status: ExitStatus, received: Option<i32>) -> u8 {
    let code = match (status.code(), received.or(status.signal())) {
        (Some(0) | None, Some(signal)) => 128 + signal,
        (Some(code), _) => code,
        (None, None) => 1,
    };
    u8::try_from(code).unwrap_or(1)
}

/// The first free number below `scenarios`: short, since Unix sockets lie below.
fn new_dir(scenarios: &Path) -> Result<PathBuf> {
    files::make_dir(scenarios)?;
    for number in 1..100_000 {
        let dir = scenarios.join(number.to_string());
        match fs::create_dir(&dir) {
            Ok(()) => {
                return dir.canonicalize().with_context(|| format!("{} vanished", dir.display()));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(files::explained(&dir, error)),
        }
    }
    bail!("{} is full of kept stacks; remove it", scenarios.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_the_commands() {
        for (raw, received, expected) in
            [(0, None, 0), (7 << 8, None, 7), (9, None, 137), (0, Some(15), 143), (100 << 8, Some(2), 100)]
        {
            assert_eq!(code(ExitStatus::from_raw(raw), received), expected, "{raw} {received:?}");
        }
    }

    #[test]
    fn each_stack_has_a_number_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (new_dir(dir.path()).unwrap(), new_dir(dir.path()).unwrap());
        assert!(one.ends_with("1") && two.ends_with("2"));
        fs::remove_dir(&one).unwrap();
        assert_eq!(new_dir(dir.path()).unwrap(), one);
    }
}

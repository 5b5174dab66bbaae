//! `make up`: the whole chain, step by step.
//!
//! Guarantees: run twice it changes nothing and verifies again; after any of
//! its processes was killed it starts what is missing; a server other than the
//! one that `K3S_BIN` names is replaced; data is never removed.
//! Failure: a known-bad host or an unserved name ends with exit code 10 and
//! the remedy; everything else says which step failed, why, and where to look.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::agent::{self, AgentReport, Gated, StackAgent};
use crate::choice::ServerBinary;
use crate::copies;
use crate::down::end_all_but;
use crate::kubectl::Kubectl;
use crate::launch::Lifetime;
use crate::layout::{LOCK_PATIENCE, Layout};
use crate::process::{self, Process};
use crate::programs::BuiltPrograms;
use crate::server::{START_LIMIT, Server, ServerOptions};
use crate::server_files::{self, NAMES};
use crate::server_record::ServerRecord;
use crate::steps::{Steps, say};
use crate::{candidates, files, logs, ports, shell};

/// Exit code for known bad, as of the agent's own `check`.
pub const KNOWN_BAD: u8 = 10;

const COPY_LIMIT: Duration = Duration::from_mins(1);

/// Brings the stack in `dir` up, with `replicas` operators; a new server listens on `preferred` unless it is taken.
///
/// # Errors
/// Names the step that failed, and why.
pub fn up(dir: &Path, programs: &BuiltPrograms, preferred: u16, replicas: usize) -> Result<ExitCode> {
    let layout = Layout::create(dir)?;
    let _lock = layout.lock(LOCK_PATIENCE)?;
    files::require_space(layout.dir(), files::SPACE_NEEDED)?;
    let mut steps = Steps::begin();

    if !layout.config().exists() {
        // What the host must be fit for: it says that there is no kubelet.
        let names = NAMES.map(str::to_owned);
        files::replace(&layout.config(), server_files::config(&names).as_bytes(), 0o600)?;
    }
    if let Some(words) = StackAgent::new(programs, &layout, preferred).verdict(&["preflight"])? {
        return Ok(known_bad("a check of the host failed (see above); nothing was started", &words));
    }
    steps.done("host checked", "no check failed");

    let record = ensure_server(&layout, programs, preferred, &mut steps)?;
    let agent = StackAgent::new(programs, &layout, record.port);
    let process = ensure_agent(&agent, &layout, &mut steps)?;
    let operator = match agent.wait(process, agent::LIMIT)? {
        Gated::Running(operator) => operator,
        Gated::KnownBad(words) => {
            return Ok(known_bad(
                "the gate is shut and the operator was not started. The node agent keeps watching: \
                 mend the cause and run `make up` again (in this stack, `make down up` restarts the API server)",
                &words,
            ));
        }
    };
    let webhook = AgentReport::read(&layout)?.and_then(|report| report.webhook(&layout));
    let by =
        webhook.map_or(String::new(), |webhook| format!(", converted by the webhook, pid {}", webhook.pid));
    steps.done("definitions installed", format!("v1beta1 stored, v1alpha1 served{by}"));
    steps.done("gate open", "host fit, every configured name proven");
    steps.done("operator running", format!("pid {}", operator.pid));

    let kubectl = record.kubectl(&layout);
    let next_to = candidates::ensure(&layout, programs, &kubectl, replicas.saturating_sub(1))?;
    for process in &next_to {
        steps.done("another operator", format!("pid {}", process.pid));
    }
    let sample = programs.sample();
    let edits = if apply(&kubectl, &sample)? == SampleApplied::EditsKept { ", your edits kept" } else { "" };
    let file = sample.strip_prefix(programs.source()).unwrap_or(&sample);
    steps.done("sample applied", format!("{}{edits}", file.display()));
    let table = wait_for_copies(&kubectl, &sample, &layout)?;
    steps.done("copies there", "");

    if !next_to.is_empty() {
        say(format_args!("\n{}", candidates::status_text(&layout, programs)?.trim_end()));
    }
    shell::write(&layout, programs, &record, &kubectl)?;
    let command = dir.join("bin/kubectl");
    let (command, env) = (command.display(), dir.join("env"));
    let env = env.display();
    say(format_args!(
        "\n{table}\nTry next:\n  {command} -n team-a patch configmap settings -p '{{\"data\":{{\"log-level\":\"debug\"}}}}' \
         && {command} get configmap settings -n foo -o yaml\n  {command} get cms -A\n  \
         . {env} && weaver doctor\nSee it in a browser:\n  . {env} && weaver ui",
    ));
    Ok(ExitCode::SUCCESS)
}

fn known_bad(summary: &str, words: &str) -> ExitCode {
    say(format_args!("\n{}\n", words.trim_end()));
    eprintln!("error: {summary}");
    ExitCode::from(KNOWN_BAD)
}

/// The running API server, or a new one.
fn ensure_server(
    layout: &Layout,
    programs: &BuiltPrograms,
    preferred: u16,
    steps: &mut Steps,
) -> Result<ServerRecord> {
    let given = ServerBinary::given()?;
    let mut why = "without a healthy API server".to_owned();
    if let (Some(record), Some(process)) =
        (ServerRecord::read(layout)?, Process::from_file(&layout.pid_file("server"))?)
    {
        if let Some(other) = record.replaced_by(given.as_ref()) {
            why = format!("for K3S_BIN={} in place of {}", other.display(), record.binary.path.display());
        } else if is_healthy(&record, process, layout) {
            let (pid, port, version) = (process.pid, record.port, record.binary.version()?);
            steps.done("API server running", format!("already, pid {pid}, port {port}, {version}"));
            return Ok(record);
        }
    }
    let ended = end_all_but(None, layout)?;
    if ended > 0 {
        steps.done("remains ended", format!("{ended} processes, {why}"));
    }
    let binary = given.map_or_else(|| ServerBinary::choose(programs.source()), Ok)?;
    steps.done("API server chosen", binary.version()?);
    let port = choose_port(preferred)?;
    // A new pid must never stand next to the record of an old port.
    files::remove(&layout.server_record())?;
    let options = ServerOptions::new(layout.dir()).tls_sans(NAMES).port(port).detached();
    let mut server = Server::launch(&binary, options)?;
    let record = ServerRecord { port, binary };
    record.write(layout)?;
    steps.done("API server started", format!("pid {}, names {}", server.pid(), NAMES.join(", ")));
    if let Err(error) = server.wait_ready(START_LIMIT) {
        // Half a server would only be in the way of the next attempt.
        server.stop().context("the API server that did not become ready cannot be ended either")?;
        return Err(error);
    }
    steps.done("API server ready", format!("https://127.0.0.1:{port}"));
    Ok(record)
}

/// It may have been started a moment ago, by an `up` that was killed.
fn is_healthy(record: &ServerRecord, process: Process, layout: &Layout) -> bool {
    let kubectl = record.kubectl(layout);
    let patience = Duration::from_secs(20);
    process::poll(patience, || !process.is_alive() || kubectl.ready().is_ok()) && process.is_alive()
}

fn choose_port(preferred: u16) -> Result<u16> {
    let Some(port) = ports::first_free(preferred, ports::is_free) else {
        bail!("no port from {preferred} upwards is free on 127.0.0.1");
    };
    if port != preferred {
        let holder = ports::holder(preferred).map_or(String::new(), |holder| format!(" by {holder}"));
        say(format_args!("          port {preferred} is taken{holder}; using {port}"));
    }
    Ok(port)
}

/// The running agent, or a new one.
fn ensure_agent(agent: &StackAgent<'_>, layout: &Layout, steps: &mut Steps) -> Result<Process> {
    // A report that is none would stay so: the agent writes on change only.
    if let (Some(process), Ok(_)) = (agent.current()?, AgentReport::read(layout)) {
        steps.done("node agent running", format!("already, pid {}", process.pid));
        return Ok(process);
    }
    // An outdated agent, and the operator that a killed one left behind.
    let ended = end_all_but(Process::from_file(&layout.pid_file("server"))?, layout)?;
    let started = agent.start(Lifetime::Detached, &[])?;
    let healed = if ended > 0 { format!(", after ending {ended} old processes") } else { String::new() };
    steps.done("node agent started", format!("pid {}{healed}", started.process.pid));
    Ok(started.process)
}

/// Applies the sample. A server that has just started may not know every resource yet, so the last error
/// counts, not the first. What someone has edited since stays theirs; whether the copies follow is looked at
/// anyway.
fn apply(kubectl: &Kubectl, sample: &Path) -> Result<SampleApplied> {
    fs::metadata(sample).with_context(|| format!("cannot read {}", sample.display()))?;
    let file = sample.to_string_lossy();
    let arguments = ["apply", "--server-side", "--field-manager=weaver-devstack", "-f", &file];
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match kubectl.run(&arguments) {
            Ok(_) => return Ok(SampleApplied::Whole),
            Err(error) if format!("{error:#}").contains("Apply failed with") => {
                return Ok(SampleApplied::EditsKept);
            }
            Err(error) if Instant::now() >= deadline => {
                return Err(error.context(format!("cannot apply {}", sample.display())));
            }
            Err(_) => {}
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SampleApplied {
    Whole,
    EditsKept,
}

/// Waits for every copy that the sample asks for; the table of all copies.
fn wait_for_copies(kubectl: &Kubectl, sample: &Path, layout: &Layout) -> Result<String> {
    let file = sample.to_string_lossy();
    let deadline = Instant::now() + COPY_LIMIT;
    loop {
        let wanted = kubectl.json(&["get", "-f", &file])?;
        let copies = kubectl.json(&["get", "configmaps", "-A", "-l", copies::UID_LABEL])?;
        let missing = copies::missing(&wanted, &copies);
        if missing.is_empty() {
            return Ok(copies::table(&copies));
        }
        if Instant::now() >= deadline {
            bail!(
                "after {} s these copies are missing or differ from their source: {}. \
                 The resource says why: kubectl get cms -A -o yaml; {}",
                COPY_LIMIT.as_secs(),
                missing.join(", "),
                logs::tail(&layout.log("agent"), 15)
            );
        }
    }
}

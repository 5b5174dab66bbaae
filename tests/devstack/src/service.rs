//! The services of a Pi, as this stack runs them: what its `systemctl` does.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;

use crate::agent::{AgentReport, StackAgent};
use crate::launch::Lifetime;
use crate::layout::Layout;
use crate::process::{self, Process};
use crate::programs::BuiltPrograms;
use crate::server::{Server, ServerOptions};
use crate::server_files::NAMES;
use crate::server_record::ServerRecord;

/// What can be asked of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServiceVerb {
    /// Start it where it does not run.
    Start,
    /// End it.
    Stop,
    /// Both.
    Restart,
    /// Say whether it runs; exit code 3 where it does not.
    Status,
}

/// Does that with a service of the stack in `dir`.
///
/// # Errors
/// There is no such stack or service, or it cannot be ended or started.
pub fn service(dir: &Path, programs: &BuiltPrograms, verb: ServiceVerb, name: &str) -> Result<ExitCode> {
    let layout = Layout::existing(dir)?.with_context(|| format!("there is no stack in {}", dir.display()))?;
    let record = ServerRecord::read(&layout)?.context("nothing was started here yet: `make up`")?;
    let name = name.trim_end_matches(".service");
    let running = match name {
        "k3s" => Process::from_file(&layout.pid_file("server"))?,
        "weaver-node-agent" => Process::from_file(&layout.pid_file("agent"))?,
        "weaver-operator" => AgentReport::read(&layout)?.and_then(|report| report.operator(&layout)),
        "weaver-webhook" => AgentReport::read(&layout)?.and_then(|report| report.webhook(&layout)),
        _ => bail!(
            "Unit {name}.service not found: this stack has k3s, weaver-node-agent, weaver-operator, weaver-webhook"
        ),
    };
    let running = running.filter(Process::is_alive);
    if verb == ServiceVerb::Status {
        println!("{name}.service: {}", if running.is_some() { "active" } else { "inactive" });
        return Ok(ExitCode::from(if running.is_some() { 0 } else { 3 }));
    }
    if verb != ServiceVerb::Start
        && let Some(running) = running
    {
        process::end(&[running], process::GRACE)?;
    }
    let is_needed = verb != ServiceVerb::Stop && (verb == ServiceVerb::Restart || running.is_none());
    match name {
        "k3s" if is_needed => {
            let options = ServerOptions::new(layout.dir()).tls_sans(NAMES).port(record.port).detached();
            Server::launch(&record.binary, options)?;
        }
        "weaver-node-agent" if is_needed => {
            StackAgent::new(programs, &layout, record.port).start(Lifetime::Detached, &[])?;
        }
        // The agent starts its children again by itself.
        _ => {}
    }
    Ok(ExitCode::SUCCESS)
}

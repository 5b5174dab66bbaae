//! `make status`: what runs, and which copies there are.
//!
//! Changes nothing and takes no lock, so it also answers while `up` works.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use weaver_host::table::table;

use crate::agent::AgentReport;
use crate::candidates;
use crate::copies;
use crate::layout::Layout;
use crate::process::Process;
use crate::server_record::ServerRecord;
use crate::steps::say;

/// Exit code for a stack that does not run fully, as of systemctl.
const NOT_RUNNING: u8 = 3;

/// Prints the state of the stack in `dir`.
///
/// # Errors
/// When a pid file or the server's record cannot be read at all.
pub fn status(dir: &Path) -> Result<ExitCode> {
    let Some(layout) = Layout::existing(dir)? else {
        say(format_args!("nothing runs: there is no {}; `make up` starts everything", dir.display()));
        return Ok(ExitCode::from(NOT_RUNNING));
    };
    let server = Process::from_file(&layout.pid_file("server"))?;
    let agent = Process::from_file(&layout.pid_file("agent"))?;
    // A dead agent's report says nothing about now.
    let report = if agent.is_some() { AgentReport::read(&layout) } else { Ok(None) };
    let (report, damage) = match report {
        Ok(report) => (report, None),
        Err(error) => (None, Some(error)),
    };
    let operator = report.as_ref().and_then(|report| report.operator(&layout));
    let webhook = report.as_ref().and_then(|report| report.webhook(&layout));
    let fault = report.as_ref().and_then(AgentReport::definitions_fault);
    let about_webhook = if report.is_none() {
        ""
    } else {
        fault.map_or("definitions installed", |_| "definitions not installed")
    };
    let record = ServerRecord::read(&layout)?.filter(|_| server.is_some());

    let address =
        record.as_ref().map_or(String::new(), |record| format!("https://127.0.0.1:{}", record.port));
    let shut = report.as_ref().and_then(AgentReport::shut);
    let gate = if report.is_none() { "" } else { shut.map_or("gate open", |_| "gate shut") };
    let about_operator = if damage.is_some() { "report unreadable" } else { "" };
    let log = |name| layout.log(name).display().to_string();
    let mut rows = vec![
        ["PROCESS", "STATE", "PID", "RSS", "DETAIL", "LOG"].map(str::to_owned).to_vec(),
        row("API server", server, address, log("server")),
        row("node agent", agent, gate.to_owned(), log("agent")),
        row("webhook", webhook, about_webhook.to_owned(), log("agent")),
        row("operator", operator, about_operator.to_owned(), log("agent")),
    ];
    for (name, process) in candidates::running(&layout)? {
        rows.push(row(name, Some(process), "weaver status shows the leader".to_owned(), log(name)));
    }
    say(format_args!("{}", table(&rows, "  ")));
    if let Some(error) = damage {
        say(format_args!("{error:#}; `make up` starts the node agent again\n"));
    }
    if let Some(reason) = shut {
        say(format_args!("the gate is shut: {reason}\n"));
    }
    if let Some(reason) = fault {
        say(format_args!("the CRDs are not in order: {reason}\n"));
    }
    if let Some(record) = record {
        let kubectl = record.kubectl(&layout);
        say(match kubectl.json(&["get", "configmaps", "-A", "-l", copies::UID_LABEL]) {
            Ok(copies) => format!("{} copies\n{}", copies::count(&copies), copies::table(&copies).trim_end()),
            Err(error) => format!("the API server does not answer: {error:#}"),
        });
    }
    let all = server.is_some() && agent.is_some() && webhook.is_some() && operator.is_some();
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::from(NOT_RUNNING) })
}

fn row(name: &str, process: Option<Process>, detail: String, log: String) -> Vec<String> {
    let state = if process.is_some() { "running" } else { "stopped" };
    let pid = process.map_or("-".to_owned(), |process| process.pid.to_string());
    let rss = process.and_then(|process| process.resident_kib());
    let rss = rss.map_or("-".to_owned(), |kib| format!("{} MiB", kib.div_ceil(1024)));
    let detail = if detail.is_empty() { "-".to_owned() } else { detail };
    vec![name.to_owned(), state.to_owned(), pid, rss, detail, log]
}

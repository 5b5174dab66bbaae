//! The node agent: reads the host, lets `weaver-diagnostics` judge, shows the findings, and keeps the gate of the
//! operator.
//!
//! Guarantees: `check` and `preflight` change nothing; `preflight --gate` writes the block of k3s and the node's
//! report, and with `--offline-start` helps a node without a network; `repair` changes boot files on request,
//! `upgrade` and `rollback` the program k3s, `restore` its state, `data-disk` the disk that it is on, `update` our
//! packages; `page` shows what the others have published and writes nothing; `run` writes into its runtime directory,
//! with `--systemd` the same report, and in the cluster the manifests built into it, its node's `NodeReport` and three
//! labels of its Node; a known bad state keeps the gate shut, an unknown one never counts as bad; a verdict that turns
//! bad after the gate opened is reported and stops nothing.
//!
//! | modules | for |
//! |---|---|
//! | `args`, `host_args` | the commands and their flags |
//! | `host_root`, `host`, `facts`, `boot_files`, `k3s_files`, `k3s_version`, `override_file` | read the host; nothing is judged there |
//! | `host_checks`, `checks` | the list of checks before k3s starts; the same with the API server |
//! | `probe`, `join`, `k3d`, `slowness` | ask the API server, the server that is joined, the clusters of k3d |
//! | `findings`, `report`, `node_report`, `node_verdicts`, `serving_report`, `boot_steps`, `rounding`, `publish` | what was found: gathered, shown, in the report and the `NodeReport` |
//! | `preflight_gate`, `k3s_block`, `clock_wait`, `offline_start`, `dummy_interface` | `preflight --gate`: whether k3s may start |
//! | `run` | whether the operator may start; its credentials; the definitions |
//! | `boot_config` | `boot-config`: the host as `weaver.toml` asks |
//! | `repair`, `upgrade`, `update`, `backup`, `data_disk` | the commands that change the host: boot files and names, k3s, our packages and the kernel, the state of k3s, its disk |
//! | `card_page` | `page`: the last report for browsers |
//! | `copy_proof` | a copy that proves the operator after an upgrade |
//! | `fat_file`, `node_lock`, `systemctl`, `timer_record`, `record_version` | what these share: writes to the boot partition, one change at a time, systemd, records |
//! | `files` | paths for the documentation |

use std::io::Write as _;

use anyhow::Context as _;
use tracing_subscriber::{EnvFilter, filter::LevelFilter};
use weaver_host::log;

pub mod args;
pub mod backup;
mod boot_config;
pub mod boot_files;
mod boot_steps;
mod card_page;
mod checks;
mod clock_wait;
pub mod copy_proof;
mod data_disk;
mod dummy_interface;
mod facts;
mod fat_file;
pub mod files;
mod findings;
mod host;
mod host_args;
mod host_checks;
mod host_root;
pub(crate) mod join;
pub mod k3d;
mod k3s_block;
mod k3s_files;
mod k3s_version;
mod node_lock;
pub mod node_report;
mod node_verdicts;
mod offline_start;
mod override_file;
mod preflight_gate;
mod probe;
pub mod publish;
mod record_version;
mod repair;
pub mod report;
mod rounding;
pub mod run;
mod serving_report;
pub(crate) mod slowness;
pub mod systemctl;
mod timer_record;
pub mod update;
mod upgrade;

use args::{AgentArgs, AgentCommand, FindingsOutput, RepairWhat};

/// Runs one command and returns the exit code of the process.
///
/// # Errors
/// The program itself failed; a bad verdict is never an error.
pub async fn run_command(args: AgentArgs) -> anyhow::Result<u8> {
    match args.command {
        AgentCommand::Check { host, output, disk } => {
            let patience = host.probe_patience();
            let host = host.into();
            let mut findings = checks::check(&host, patience).await?.findings;
            findings.extend(checks::momentary(&host));
            if disk {
                findings.push(checks::card_speed(&host));
            }
            show(&findings, output)
        }
        AgentCommand::Preflight(args) => {
            let output = args.output;
            let findings = if args.gate {
                preflight_gate::run(args).await?
            } else {
                checks::preflight(&args.host.into()).findings
            };
            show(&findings, output)
        }
        AgentCommand::BootConfig(args) => Ok(boot_config::run(&args)),
        AgentCommand::Repair(args) => match args.what {
            None => repair::run(&args.files),
            Some(RepairWhat::Names(names)) => repair::names::run(names).await,
        },
        AgentCommand::Upgrade(args) => upgrade::upgrade(args).await,
        AgentCommand::Rollback(args) => upgrade::rollback(args).await,
        AgentCommand::Backup(args) => backup::command::run(args).await,
        AgentCommand::Restore(args) => backup::restore::run(args).await,
        AgentCommand::DataDisk(args) => data_disk::run(args).await,
        AgentCommand::Update(args) => update::update(args).await,
        AgentCommand::Page(args) => card_page::run(args).await.map(|()| weaver_diagnostics::exit_code::FINE),
        AgentCommand::Run(args) => run::run(args).await.map(|()| weaver_diagnostics::exit_code::FINE),
    }
}

fn show(findings: &[weaver_diagnostics::finding::Finding], output: FindingsOutput) -> anyhow::Result<u8> {
    let text = match output {
        FindingsOutput::Text => report::text(findings),
        FindingsOutput::Json => report::json(findings)?,
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        // A reader such as `head` that has seen enough does not change the verdict.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(weaver_diagnostics::exit_code::of(findings)),
    }
}

/// Logs to the journal with fields where systemd started us, else to standard error; `RUST_LOG` filters, the default is
/// `info`. Returns where the records go.
///
/// kube's client never logs, whatever the filter: its warning about an answer that it cannot parse repeats that answer,
/// and answers contain tokens. We log its errors with more context.
pub fn init_log() -> log::Sink {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into()).from_env_lossy();
    let filter = match "kube_client::client=off".parse() {
        Ok(directive) => filter.add_directive(directive),
        Err(_) => filter,
    };
    log::init(filter)
}

//! `weaver registry`: what k3s is to be told of a registry of one's own, and what is wrong with one. Changes nothing.

mod check;
mod client;
mod contents;
mod look;
mod trust;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use weaver_diagnostics::registry::{By, Registry, name};

use crate::stdout::{note, show};

#[derive(Subcommand)]
pub enum Verb {
    /// Print a registries.yaml for k3s
    ///
    /// Use --http against "http: server gave HTTP response to HTTPS client". The last error in a pod's event is that of
    /// containerd's own attempt over HTTPS, not of the configured endpoint.
    #[command(verbatim_doc_comment)]
    Config {
        /// Registry as written in image names: HOST or HOST:PORT
        #[arg(value_parser = name)]
        registry: String,
        /// The registry uses plain HTTP
        #[arg(long, conflicts_with = "ca_file")]
        http: bool,
        /// CA file, on each node, that signed the registry's certificate
        #[arg(long, value_name = "FILE")]
        ca_file: Option<PathBuf>,
    },
    /// Check a registry: HTTPS or HTTP, certificate, credentials, contents, ports of k3d
    ///
    /// Asks by HTTPS and by HTTP, as containerd would, and lists what is there. What it trusts is what this machine
    /// trusts: run it on a node to see what the node sees. Containers with registries are found by Docker's socket;
    /// without Docker they are left out. The credentials in --registries are sent to the registry if it asks for them,
    /// over verified HTTPS, or over plain HTTP where the file has it so; never to another host. Changes nothing.
    ///
    /// Exit status: 0 nothing is known to be wrong; 1 could not check; 2 wrong usage; 10 something is wrong.
    #[command(verbatim_doc_comment)]
    Check(check::Check),
}

pub async fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Config { registry, http, ca_file } => Ok(config(registry, http, ca_file)),
        Verb::Check(options) => check::run(&options).await,
    }
}

fn config(registry: String, http: bool, ca_file: Option<PathBuf>) -> ExitCode {
    let by = match ca_file {
        Some(file) => By::HttpsWithCa(file.display().to_string()),
        None if http => By::Http,
        None => By::Https,
    };
    let registry = Registry { name: registry, by };
    show(registry.config());
    for command in registry.commands() {
        note!("then: {command}");
    }
    ExitCode::SUCCESS
}

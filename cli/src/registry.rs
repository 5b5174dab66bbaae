//! `weaver registry`: prints a registries.yaml for a private registry, and checks one. Changes nothing.

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
pub enum RegistryVerb {
    /// Print a registries.yaml for k3s
    ///
    /// Use --http if a pod reports "http: server gave HTTP response to HTTPS client". The last error in the pod's
    /// event comes from containerd's fallback to HTTPS, not from the configured endpoint.
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
    /// Connects over HTTPS and HTTP, as containerd does, and lists the contents. Uses the CAs that this machine
    /// trusts: run it on a node to see what the node sees. Finds registry containers through the Docker socket, if
    /// there is one. Sends the credentials in --registries only if the registry asks for them, only over verified
    /// HTTPS (or plain HTTP if the file says so), and never to another host. Changes nothing.
    ///
    /// Exit status: 0 nothing is known to be wrong; 1 could not check; 2 wrong usage; 10 something is wrong.
    #[command(verbatim_doc_comment)]
    Check(check::CheckOptions),
}

pub async fn run(verb: RegistryVerb) -> anyhow::Result<ExitCode> {
    match verb {
        RegistryVerb::Config { registry, http, ca_file } => Ok(config(registry, http, ca_file)),
        RegistryVerb::Check(options) => check::run(&options).await,
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

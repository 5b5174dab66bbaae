//! `weaver registry`: what k3s is to be told of a registry of one's own. Prints, and changes nothing.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use weaver_diagnostics::registry::{By, Registry, name};

use crate::stdout::{note, show};

#[derive(Subcommand)]
pub enum Verb {
    /// Print k3s' registries.yaml for a registry
    ///
    /// "http: server gave HTTP response to HTTPS client" is cured by --http. The last error that an event shows is that of
    /// containerd's own attempt by HTTPS, and not of the endpoint that is configured.
    #[command(verbatim_doc_comment)]
    Config {
        /// As it stands in front of the images' names: HOST or HOST:PORT
        #[arg(value_parser = name)]
        registry: String,
        /// It speaks plain HTTP
        #[arg(long, conflicts_with = "ca_file")]
        http: bool,
        /// Its certificate is of the CA in this file of each node
        #[arg(long, value_name = "FILE")]
        ca_file: Option<PathBuf>,
    },
}

pub fn run(verb: Verb) -> ExitCode {
    let Verb::Config { registry, http, ca_file } = verb;
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

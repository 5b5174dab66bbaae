//! `weaver registry`: what k3s is to be told of a registry of one's own. Prints, and changes nothing.

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

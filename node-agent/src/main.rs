//! `weaver-node-agent`: proves the host fit for k3s and the names served, then
//! opens the gate for the operator. All logic is in the library.

use std::process::ExitCode;

use clap::Parser;
use weaver_diagnostics::exit_code;
use weaver_node_agent::{args::Args, run_command};

fn main() -> ExitCode {
    let args = Args::parse().resolve().unwrap_or_else(|error| error.exit());
    weaver_node_agent::init_log();
    // Before anything that might speak TLS: rustls picks none by itself.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("error: a TLS provider is already installed");
        return exit_code::INTERNAL.into();
    }
    let outcome = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run_command(args)));
    match outcome {
        Ok(code) => code.into(),
        Err(error) => {
            eprintln!("error: {error}");
            for cause in error.chain().skip(1) {
                eprintln!("  because: {cause}");
            }
            exit_code::INTERNAL.into()
        }
    }
}

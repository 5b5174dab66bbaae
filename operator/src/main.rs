//! `weaver-operator`: parse, run, print what went wrong.

use std::process::ExitCode;

use clap::Parser as _;
use weaver_operator::args::{Args, Verb};

#[tokio::main]
async fn main() -> ExitCode {
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("error: another TLS provider is installed already");
        return ExitCode::FAILURE;
    }
    let Args { verb } = Args::parse();
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_env_filter(weaver_operator::log_filter(std::env::var("RUST_LOG").ok().as_deref()))
        .init();
    let done = match verb {
        Verb::Run(options) => weaver_operator::run::run(options).await,
        Verb::Webhook(options) => weaver_operator::webhook::run(options).await.map_err(Into::into),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

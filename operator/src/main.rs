//! `weaver-operator`: parse, run, say what went wrong.
//!
//! Ends with 0 after a signal, with 1 after a failure that may pass, and with 2 after one that does not until
//! someone changes something: wrong flags, or a kubeconfig that no program could use. The units list 2 in
//! `RestartPreventExitStatus=`.

use std::process::ExitCode;

use weaver_diagnostics::exit_code;
use weaver_host::log;
use weaver_host::open_files;
use weaver_operator::NeedsHuman;
use weaver_operator::args::{OperatorArgs, OperatorVerb};
use weaver_operator::install;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("error: another TLS provider is installed already");
        return exit_code::INTERNAL.into();
    }
    // Exits with `exit_code::USAGE` by itself where the command line is wrong.
    let OperatorArgs { verb } = OperatorArgs::of_process();
    let sink = log::init(weaver_operator::log_filter(std::env::var("RUST_LOG").ok().as_deref()));
    open_files::raise_limit();
    let done = match verb {
        OperatorVerb::Run(options) => Box::pin(weaver_operator::run::run(options)).await,
        OperatorVerb::Webhook(options) => weaver_operator::webhook::run(options).await.map_err(Into::into),
        OperatorVerb::Install(options) => Box::pin(install::run(options)).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::last_word(sink, &error);
            if error.is::<NeedsHuman>() { exit_code::USAGE.into() } else { exit_code::INTERNAL.into() }
        }
    }
}

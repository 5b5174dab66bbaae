//! `weaver-node-agent`: checks the host and the served names, then
//! opens the gate for the operator. All logic is in the library.
//!
//! Ends with the code of the findings (`exit_code::of`), with 1 after a failure
//! that may pass, and with 2 after one that does not until someone changes
//! something: wrong flags, or a directory that cannot be used. The unit lists 2
//! in `RestartPreventExitStatus=`.

use std::process::ExitCode;

use weaver_diagnostics::{exit_code, finding_text::clean_lines};
use weaver_host::{
    log::{self, Sink},
    open_files,
};
use weaver_node_agent::{args::AgentArgs, run::NeedsHuman, run_command};

fn main() -> ExitCode {
    let args = AgentArgs::of_process();
    let sink = weaver_node_agent::init_log();
    // Before anything that might use TLS: rustls chooses no provider by itself.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        eprintln!("error: a TLS provider is already installed");
        return exit_code::INTERNAL.into();
    }
    open_files::raise_limit();
    let outcome = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run_command(args)));
    match outcome {
        Ok(code) => code.into(),
        Err(error) => {
            match sink {
                Sink::Journal => log::last_word(sink, &error),
                Sink::Stderr => {
                    // A terminal obeys nothing that a file or another program says.
                    eprintln!("error: {}", clean_lines(&error.to_string()));
                    for cause in error.chain().skip(1) {
                        eprintln!("  because: {}", clean_lines(&cause.to_string()));
                    }
                }
            }
            if error.is::<NeedsHuman>() { exit_code::USAGE.into() } else { exit_code::INTERNAL.into() }
        }
    }
}

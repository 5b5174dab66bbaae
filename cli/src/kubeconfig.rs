//! `weaver kubeconfig`: a kubeconfig with which another machine connects to this cluster, and what is wrong with one.
//!
//! Guarantees: it is exported only for a name that a handshake has just proven, except with `--insecure`, which names
//! its risk; the export contains the administrator's own credential, so it is written with mode 0600 and never part of
//! a message. Failure: nothing is written, and the message names the remedy.

mod account;
pub mod arguments;
mod authority;
mod choose;
mod deliver;
mod every;
mod export;
mod fetch;
pub mod file;
pub mod handshake;
pub mod judge;
mod k3d;
mod merge;
mod refusal;
mod remote;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use weaver_diagnostics::exit_code::USAGE;

use crate::stdout::{ErrorLines, refused};
use every::{ExportAll, export_all};
use export::{Export, export};
use fetch::{Fetch, fetch};
use judge::judge;
use merge::{KubeconfigMergeArgs, merge};
use refusal::KubeconfigRefusal;

#[derive(Subcommand)]
pub enum KubeconfigVerb {
    /// Print a kubeconfig for another machine, which reaches the API server as NAME
    ///
    /// Proves first, by a TLS handshake, that the API server's certificate is valid for NAME. The result contains the
    /// server, its CA and one credential, nothing else. Without --as-account this is the administrator's
    /// credential, which gives full control of the cluster.
    ///
    /// Exit status: 0 done; 1 a step failed, try again; 2 wrong usage; 10 refused, the message says what to do.
    #[command(verbatim_doc_comment)]
    Export(Export),
    /// Write one kubeconfig for each name in the API server's certificate
    ///
    /// Exit status: 0 done; 1 a step failed, try again; 2 wrong usage; 10 refused, the message says what to do.
    #[command(verbatim_doc_comment)]
    ExportAll(ExportAll),
    /// Export a kubeconfig on the Pi over ssh and merge it into the local one
    ///
    /// Runs `sudo -n weaver kubeconfig export NAME` on the Pi and uses only the CA and the credential of its
    /// answer. If NAME resolves here, it must lead to the same cluster. Replaces an existing entry only if it
    /// is an earlier export of the same server with the same CA; if the CA has changed, the message says how to
    /// check it. Keeps a backup of the kubeconfig next to it.
    ///
    /// Without HOST, offers the cards that `weaver find` lists; without a terminal, prints
    /// them with what to type. If the CA is another than the announced one, it is refused.
    ///
    /// Exit status: 0 done; 1 a step failed, try again; 2 wrong usage, or no terminal to choose on; 10 refused, the
    /// message says what to do.
    #[command(verbatim_doc_comment)]
    Fetch(Fetch),
    /// Merge an exported kubeconfig into the one that kubectl reads
    ///
    /// Replaces an existing entry only if it is an earlier export of the same server with the same CA; if the
    /// CA has changed, the message says how to check it. Keeps all other entries, and the current context
    /// unless --use is given. Keeps a backup of the kubeconfig next to it.
    ///
    /// Exit status: 0 done; 1 a step failed, try again; 2 wrong usage; 10 refused, the message says what to do.
    #[command(verbatim_doc_comment)]
    Merge(KubeconfigMergeArgs),
    /// Check a kubeconfig without connecting
    ///
    /// Checks the current context: server address, CA, verification, file permissions.
    ///
    /// Exit status: 0 usable; 1 the file could not be read; 2 wrong usage; 10 kubectl would refuse it.
    #[command(verbatim_doc_comment)]
    Lint {
        /// Kubeconfig [default: those of KUBECONFIG as kubectl reads them, else ~/.kube/config]
        file: Option<PathBuf>,
    },
}

pub async fn run(verb: KubeconfigVerb) -> anyhow::Result<ExitCode> {
    let done = match verb {
        KubeconfigVerb::Export(arguments) => export(&arguments).await,
        KubeconfigVerb::ExportAll(arguments) => export_all(&arguments).await,
        KubeconfigVerb::Fetch(arguments) => match arguments.target().await? {
            Some(target) => fetch(&arguments, &target).await,
            None => return Ok(USAGE.into()),
        },
        KubeconfigVerb::Merge(arguments) => merge(&arguments).await,
        KubeconfigVerb::Lint { file } => return judge(file),
    };
    match done.map_err(anyhow::Error::downcast::<KubeconfigRefusal>) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(Ok(KubeconfigRefusal(lines))) => Ok(refused(&ErrorLines(lines).into())),
        Err(Err(error)) => Err(error),
    }
}

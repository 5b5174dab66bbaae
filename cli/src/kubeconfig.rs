//! `weaver kubeconfig`: a kubeconfig by which another machine reaches this cluster, and what is wrong with one.
//!
//! Guarantees: it is exported only for a name that a handshake has just proven, but for `--insecure`, which says what it
//! costs; what leaves is the administrator's own credential, so it is written with mode 0600 and never part of a message.
//! Failure: nothing is written, and the message names the remedy.

mod account;
pub mod arguments;
mod authority;
mod deliver;
mod every;
mod export;
mod fetch;
pub mod file;
pub mod handshake;
mod judge;
mod merge;
mod refusal;
mod remote;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use crate::stdout::{Lines, failed};
use every::{ExportAll, export_all};
use export::{Export, export};
use fetch::{Fetch, fetch};
use judge::judge;
use merge::{Merge, merge};
use refusal::{REFUSED, Refusal};

#[derive(Subcommand)]
pub enum Verb {
    /// Print a kubeconfig for another machine, on which the server is called NAME
    ///
    /// A handshake proves first that the API server has a certificate for NAME. What is printed has the server, its
    /// CA and one credential, and no other setting. It is an administrator's credential: whoever has it has the
    /// cluster.
    ///
    /// Exit status: 0 done; 1 a step failed, try again; 2 wrong usage; 10 refused, see the way out.
    #[command(verbatim_doc_comment)]
    Export(Export),
    /// Write a kubeconfig for each name that the certificate has, ready to be carried away
    ///
    /// Exit status: 0 done; 1 a step failed, try again; 2 wrong usage; 10 refused, see the way out.
    #[command(verbatim_doc_comment)]
    ExportAll(ExportAll),
    /// Export on the Pi over ssh, and merge it here
    ///
    /// Runs `sudo -n weaver kubeconfig export NAME` there. The name must lead to the same cluster from here, where
    /// it leads anywhere. Of the answer, the CA and the credential are used and nothing else. An entry that exists is
    /// replaced only if it is an earlier export of the same server with the same CA: whether a CA that has changed is the
    /// node's, the message tells how to check. The kubeconfig that was there before is kept beside.
    ///
    /// Exit status: 0 done; 1 a step failed, try again; 2 wrong usage; 10 refused, see the way out.
    #[command(verbatim_doc_comment)]
    Fetch(Fetch),
    /// Merge a kubeconfig that was carried here into the one that kubectl reads
    ///
    /// An entry that exists is replaced only if it is an earlier export of the same server with the same CA: whether a CA
    /// that has changed is the node's, the message tells how to check. All else stays, and so does the current context
    /// without --use. The kubeconfig that was there before is kept beside.
    ///
    /// Exit status: 0 done; 1 a step failed, try again; 2 wrong usage; 10 refused, see the way out.
    #[command(verbatim_doc_comment)]
    Merge(Merge),
    /// Say what is wrong with a kubeconfig, without connecting
    ///
    /// Looks at the context in force: address of the server, CA, verification, who may read the file.
    ///
    /// Exit status: 0 nothing that kubectl would refuse; 1 it could not be read; 10 it cannot work.
    #[command(verbatim_doc_comment)]
    Lint {
        /// The kubeconfig [default: the first of KUBECONFIG, else ~/.kube/config]
        file: Option<PathBuf>,
    },
}

pub async fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    let done = match verb {
        Verb::Export(arguments) => export(&arguments).await,
        Verb::ExportAll(arguments) => export_all(&arguments).await,
        Verb::Fetch(arguments) => fetch(&arguments).await,
        Verb::Merge(arguments) => merge(&arguments).await,
        Verb::Lint { file } => return judge(file),
    };
    match done.map_err(anyhow::Error::downcast::<Refusal>) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(Ok(Refusal(lines))) => {
            failed("refused", &Lines(lines).into());
            Ok(ExitCode::from(REFUSED))
        }
        Err(Err(error)) => Err(error),
    }
}

//! Where an exported kubeconfig goes: to a file, into another, or to standard output.

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;
use weaver_diagnostics::kubeconfig_export::document::Document;

use super::{Export, file, refusal};
use crate::stdout::note;

/// Writes what was exported, and says where it is.
pub fn deliver(arguments: &Export, document: &Document, context: &str) -> anyhow::Result<()> {
    if let Some(path) = &arguments.merge {
        merged(path, document, context, arguments.switch, Timestamp::now())?;
    } else if let Some(path) = &arguments.output {
        file::write(path, document, arguments.force).map_err(told)?;
        note!("wrote {}: it holds {}", path.display(), credential(arguments));
    } else {
        let mut out = io::stdout().lock();
        out.write_all(document.to_yaml().as_bytes())
            .and_then(|()| out.flush())
            .context("writing the kubeconfig")?;
        if out.is_terminal() {
            note!("note: this is {}; clear the screen, and prefer --output FILE", credential(arguments));
        }
    }
    Ok(())
}

fn credential(arguments: &Export) -> &'static str {
    if arguments.as_account.is_some() { "a credential" } else { "an administrator's credential" }
}

/// Merges, and says what came of it.
pub fn merged(
    path: &Path,
    document: &Document,
    context: &str,
    switch: bool,
    now: Timestamp,
) -> anyhow::Result<()> {
    let merge = file::merge_into(path, document, switch, now).map_err(told)?;
    let path = path.display();
    for other in merge.redirected {
        note!(
            "note: context {other} of {path} uses a cluster or user that was called {context}, and now this one"
        );
    }
    match (merge.changed, merge.backup) {
        (false, _) => note!("{path} has context {context} already; nothing was written"),
        (true, None) => note!("wrote context {context} to {path}"),
        (true, Some(backup)) => {
            note!("wrote context {context} to {path}; the old file is {}", backup.display());
        }
    }
    if !switch {
        note!("use it with `kubectl --context {context}`, or make it the current one with --use");
    }
    Ok(())
}

pub fn told(error: file::FileError) -> anyhow::Error {
    if error.is_refusal() { refusal(error) } else { anyhow!(error.to_string()) }
}

//! Where an exported kubeconfig goes: to a file, into an existing kubeconfig, or to standard output.

use std::fs::canonicalize;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use weaver_diagnostics::kubeconfig_export::document::Document;
use weaver_diagnostics::shell::quoted;
use weaver_host::platform::private_note;

use super::file::{self, MergeOptions, default_kubeconfigs};
use super::refusal::refused_file;
use crate::stdout::note;

/// Where it goes; without any of it, to standard output.
#[derive(Args)]
pub struct Destination {
    /// Write to a new file with mode 0600 instead of standard output
    #[arg(long, value_name = "FILE", group = "file")]
    pub output: Option<PathBuf>,
    /// Replace the file of --output, or the existing entries of this context in the file of --merge
    #[arg(long, requires = "file")]
    pub force: bool,
    /// Merge into this kubeconfig; keeps all other entries and a backup next to it
    #[arg(long, value_name = "FILE", group = "file")]
    pub merge: Option<PathBuf>,
    /// Make the merged context the current one
    #[arg(long = "use", requires = "merge")]
    pub switch: bool,
}

/// Writes what was exported, and reports where. `credential` describes what it contains.
pub fn deliver(to: &Destination, document: &Document, context: &str, credential: &str) -> anyhow::Result<()> {
    if let Some(path) = &to.merge {
        merged(path, document, context, MergeOptions { switch: to.switch, force: to.force })?;
    } else if let Some(path) = &to.output {
        file::write(path, document, to.force).map_err(refused_file)?;
        note!("wrote {}: it holds {}", path.display(), credential);
        if let Some(more) = private_note(path) {
            note!("note: {more}");
        }
    } else {
        let mut out = io::stdout().lock();
        out.write_all(document.to_yaml().as_bytes())
            .and_then(|()| out.flush())
            .context("writing the kubeconfig")?;
        if out.is_terminal() {
            note!("note: this is {}; clear the screen, and prefer --output FILE", credential);
        }
    }
    Ok(())
}

pub fn merged(path: &Path, document: &Document, context: &str, how: MergeOptions) -> anyhow::Result<()> {
    let merge =
        file::merge_into(path, document, how, &read_next_to(path), Timestamp::now()).map_err(refused_file)?;
    let shown = path.display();
    match (merge.changed, merge.backup) {
        (false, _) => note!("{shown} already has context {context}; nothing was written"),
        (true, None) => note!("wrote context {context} to {shown}"),
        (true, Some(backup)) => {
            note!("wrote context {context} to {shown}; backup: {}", backup.display());
        }
    }
    if !how.switch {
        let context = quoted(context);
        let is_read = default_kubeconfigs().iter().any(|file| is_same(file, path));
        let file =
            if is_read { String::new() } else { format!(" --kubeconfig {}", quoted(&shown.to_string())) };
        note!("use it with `kubectl --context {context}{file}`, or make it the current context with --use");
    }
    Ok(())
}

/// The other files of KUBECONFIG, where this is one of them: kubectl reads all of them as one.
fn read_next_to(path: &Path) -> Vec<PathBuf> {
    let mut files = default_kubeconfigs();
    let before = files.len();
    files.retain(|file| !is_same(file, path));
    if files.len() < before { files } else { Vec::new() }
}

fn is_same(file: &Path, path: &Path) -> bool {
    file == path || canonicalize(file).is_ok_and(|file| canonicalize(path).is_ok_and(|path| file == path))
}

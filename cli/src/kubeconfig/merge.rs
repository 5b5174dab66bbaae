//! `weaver kubeconfig merge`: merges a kubeconfig that was copied here into the one that kubectl reads.
//!
//! Of the file, the server, the CA and the credential of its current context are merged and nothing else, all under the
//! context's name. Entries that would not work on this machine are refused: a raw k3s.yaml says 127.0.0.1, and is
//! always called `default`; a path leads elsewhere from here.

use std::fs::canonicalize;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use weaver_diagnostics::finding::{Finding, Severity};
use weaver_diagnostics::finding_text::cut;
use weaver_diagnostics::kubeconfig_export::lint::lint_for_use;
use weaver_diagnostics::kubeconfig_export::{ExportRequest, SourceContext};

use super::arguments::{entry_name, host};
use super::deliver::merged;
use super::file::{self, MergeOptions, default_kubeconfig};
use super::handshake::anchors;
use super::refusal::{refusal, refused_file};
use crate::stdout::note;

/// A message of a foreign file, in characters.
const LONGEST: usize = 400;

/// The name that k3s gives to its cluster, its user and its context.
const K3S_NAME: &str = "default";

#[derive(Args)]
pub struct KubeconfigMergeArgs {
    /// Exported kubeconfig
    file: PathBuf,
    /// Kubeconfig to merge into [default: the first of KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    /// Name of the cluster, user and context entries [default: as in FILE]
    #[arg(long, value_name = "NAME", value_parser = entry_name)]
    context: Option<String>,
    /// Replace any existing entries of this context and trust the new CA
    #[arg(long)]
    force: bool,
    /// Make the context the current one
    #[arg(long = "use")]
    switch: bool,
}

pub async fn merge(arguments: &KubeconfigMergeArgs) -> anyhow::Result<()> {
    let shown = arguments.file.display();
    if !arguments.file.exists() {
        return Err(refusal(format!(
            "{shown} does not exist: name a file that `weaver kubeconfig export` wrote"
        )));
    }
    let text = file::read(&arguments.file, "run this as its owner").map_err(refused_file)?;
    let read = SourceContext::read(&text);
    let is_raw = read.as_ref().is_ok_and(|source| source.context == K3S_NAME);
    let findings = lint_for_use(&text, None, false);
    let is_bad = |finding: &&Finding| finding.severity() == Severity::Fail || is_raw;
    if let Some(finding) = findings.iter().find(is_bad) {
        let remedy = finding.remedy.iter().map(|remedy| format!("; {}", remedy.explain));
        return Err(refusal(format!("{}{}", cut(&finding.message, LONGEST), remedy.collect::<String>())));
    }
    let source = read.map_err(refusal)?;
    let context = arguments.context.clone().unwrap_or_else(|| source.context.clone());
    if context == K3S_NAME {
        return Err(refusal(format!(
            "{shown} calls its context `{K3S_NAME}`, as every k3s does: two of them would collide; export \
             it on the Pi with `sudo weaver kubeconfig export NAME`, or give it a name with --context"
        )));
    }
    let context = entry_name(&context).map_err(|why| refusal(format!("{shown}: {why}; give --context")))?;
    let served = host(&source.server.host).map_err(|why| refusal(format!("{shown}: its server: {why}")))?;
    anchors(&source.ca_data).await.map_err(|why| refusal(format!("{shown}: {why}")))?;
    for finding in findings {
        note!("note: {}", cut(&finding.message, LONGEST));
    }
    let into = arguments.into.clone().or_else(default_kubeconfig).context("name a kubeconfig with --into")?;
    if canonicalize(&into).is_ok_and(|into| canonicalize(&arguments.file).is_ok_and(|file| file == into)) {
        return Err(refusal(format!("{shown} is the file to merge into")));
    }
    let wanted = ExportRequest {
        host: &served,
        port: None,
        context: &context,
        tls_server_name: source.tls_server_name.as_ref(),
        insecure: false,
        token: None,
    };
    let document = source.export(&wanted).map_err(refusal)?;
    merged(&into, &document, &context, MergeOptions { switch: arguments.switch, force: arguments.force })
}

//! `weaver kubeconfig merge`: a kubeconfig that was carried here, into the one that kubectl reads.
//!
//! What would not work on this machine is refused: a raw k3s.yaml says 127.0.0.1, and is called `default` like everybody's.

use std::fs::canonicalize;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use weaver_diagnostics::finding::{Finding, Severity};
use weaver_diagnostics::kubeconfig_export::K3S_KUBECONFIG;
use weaver_diagnostics::kubeconfig_export::document::Document;
use weaver_diagnostics::kubeconfig_export::lint::lint_for_use;

use super::deliver::{merged, told};
use super::{default_kubeconfig, file, refusal};

/// What k3s calls its cluster, its user and its context.
const K3S_CONTEXT: &str = "default";

#[derive(Args)]
pub struct Merge {
    /// The kubeconfig that was exported
    file: PathBuf,
    /// Merge into this one [default: the first of KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    into: Option<PathBuf>,
    /// Make its context the current one
    #[arg(long = "use")]
    switch: bool,
}

pub fn merge(arguments: &Merge) -> anyhow::Result<()> {
    let text = file::read(&arguments.file, "run this as its owner").map_err(told)?;
    let findings = lint_for_use(&text, Path::new(K3S_KUBECONFIG).exists());
    let document = Document::parse(&text).map_err(refusal)?;
    let context = document
        .current_context()
        .ok_or_else(|| refusal(format!("{} has no current context", arguments.file.display())))?;
    // What k3s writes for its own machine; a tunnel's has another name.
    let is_raw = context == K3S_CONTEXT;
    let is_bad = |finding: &&Finding| finding.severity == Severity::Fail || is_raw;
    if let Some(finding) = findings.iter().find(is_bad) {
        let remedy = finding.remedy.iter().map(|remedy| format!("; {}", remedy.explain));
        return Err(refusal(format!("{}{}", finding.message, remedy.collect::<String>())));
    }
    for finding in findings {
        eprintln!("note: {}", finding.message);
    }
    let into = arguments.into.clone().or_else(default_kubeconfig).context("name a kubeconfig with --into")?;
    if canonicalize(&into).is_ok_and(|into| canonicalize(&arguments.file).is_ok_and(|file| file == into)) {
        return Err(refusal(format!("{} is the file to merge into", arguments.file.display())));
    }
    merged(&into, &document, &context, arguments.switch, Timestamp::now())
}

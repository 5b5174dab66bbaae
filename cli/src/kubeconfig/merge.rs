//! `weaver kubeconfig merge`: a kubeconfig that was carried here, into the one that kubectl reads.
//!
//! Of the file, what its context in force names is merged and nothing else. What would not work on this machine is refused:
//! a raw k3s.yaml says 127.0.0.1, and is called `default` like everybody's; a path leads elsewhere from here.

use std::fs::canonicalize;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use jiff::Timestamp;
use weaver_diagnostics::finding::{Finding, Severity};
use weaver_diagnostics::kubeconfig_export::document::Document;
use weaver_diagnostics::kubeconfig_export::lint::lint_for_use;

use super::deliver::{merged, told};
use super::{default_kubeconfig, file, refusal};
use crate::stdout::note;

/// What k3s calls its cluster, its user and its context.
const K3S_NAME: &str = "default";

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
    let shown = arguments.file.display();
    if !arguments.file.exists() {
        return Err(refusal(format!(
            "{shown} is not there: name a file that `weaver kubeconfig export` wrote"
        )));
    }
    let text = file::read(&arguments.file, "run this as its owner").map_err(told)?;
    let findings = lint_for_use(&text, false);
    let document = Document::parse(&text).map_err(refusal)?;
    let only = document.in_force().ok_or_else(|| {
        refusal(format!("{shown} names no context in force, or none that is in it; export it on the Pi"))
    })?;
    let is_raw = only.names().iter().any(|name| name == K3S_NAME);
    let is_bad = |finding: &&Finding| finding.severity == Severity::Fail || is_raw;
    if let Some(finding) = findings.iter().find(is_bad) {
        let remedy = finding.remedy.iter().map(|remedy| format!("; {}", remedy.explain));
        return Err(refusal(format!("{}{}", finding.message, remedy.collect::<String>())));
    }
    if is_raw {
        return Err(refusal(format!(
            "{shown} calls its cluster, user or context `{K3S_NAME}`, as every k3s does: two of them would be one; export it \
             on the Pi with `sudo weaver kubeconfig export NAME`"
        )));
    }
    if let Some(key) = only.outside() {
        return Err(refusal(format!(
            "{shown} has `{key}`, which means a file or a program of another machine"
        )));
    }
    for finding in findings {
        note!("note: {}", finding.message);
    }
    let context = only.current_context().context("it names no context")?;
    let into = arguments.into.clone().or_else(default_kubeconfig).context("name a kubeconfig with --into")?;
    if canonicalize(&into).is_ok_and(|into| canonicalize(&arguments.file).is_ok_and(|file| file == into)) {
        return Err(refusal(format!("{shown} is the file to merge into")));
    }
    merged(&into, &only, &context, arguments.switch, Timestamp::now())
}

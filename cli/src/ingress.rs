//! `weaver ingress`: how Traefik, which k3s includes, treats Ingresses that were written for others.

use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use clap::Subcommand;
use weaver_diagnostics::exit_code;
use weaver_diagnostics::finding_text::{self, quoted};
use weaver_diagnostics::ingress::lint;
use weaver_diagnostics::text_file::TextFile;
use weaver_diagnostics::yaml_node::SyntaxError;

use crate::stdout::{note, print};

/// What all Ingresses of a cluster are worth.
const LIMIT: u64 = 64 * 1024 * 1024;

#[derive(Subcommand)]
pub enum IngressVerb {
    /// List annotations that Traefik ignores: `kubectl get ingress,ingressclass -A -o yaml | weaver ingress lint`
    ///
    /// Skips Ingresses of other controllers and prints their number to standard error. The class `traefik` belongs to
    /// Traefik; for other classes, the input must include the IngressClasses.
    ///
    /// Exit status: 0 none; 1 the input could not be read; 2 wrong usage; 10 found some.
    #[command(verbatim_doc_comment)]
    Lint {
        /// Manifests, or - for standard input
        #[arg(default_value = "-")]
        files: Vec<PathBuf>,
    },
}

pub fn run(verb: IngressVerb) -> anyhow::Result<ExitCode> {
    let IngressVerb::Lint { files } = verb;
    let mut any = false;
    for path in files {
        let shown = path.display().to_string();
        let mut text = String::new();
        let read = if shown == "-" {
            io::stdin().take(LIMIT).read_to_string(&mut text)
        } else {
            std::fs::File::open(&path).and_then(|file| file.take(LIMIT).read_to_string(&mut text))
        };
        read.with_context(|| format!("cannot read {shown}"))?;
        let file = TextFile::new(shown.clone(), text);
        let report = lint(&file).map_err(|error| refusal(&file, &error))?;
        for finding in &report.findings {
            any = true;
            print(&format!("{}\n", finding_text::text(finding)))?;
        }
        for (class, count) in &report.others {
            note!("{shown}: {count} of class {}, which is not Traefik's, not checked", quoted(class, 80));
        }
    }
    Ok(if any { exit_code::KNOWN_BAD.into() } else { ExitCode::SUCCESS })
}

fn refusal(file: &TextFile, error: &SyntaxError) -> anyhow::Error {
    let line = error.line.map_or_else(String::new, |line| format!(":{line}"));
    let remedy = if file.text.contains("{{") {
        "; a template of a chart is rendered first: `helm template CHART | weaver ingress lint`"
    } else {
        ""
    };
    anyhow!("{}{line}: no valid YAML: {}{remedy}", file.path, error.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_of_a_chart_is_refused_with_how_to_render_it() {
        for (text, is_template) in
            [("{{- if .Values.ingress }}\nkind: Ingress\n", true), ("kind: [\n", false)]
        {
            let file = TextFile::new("/i.yaml", text);
            let refusal = refusal(&file, &lint(&file).unwrap_err()).to_string();
            assert!(refusal.starts_with("/i.yaml:"), "{refusal}");
            assert_eq!(refusal.contains("`helm template CHART"), is_template, "{refusal}");
        }
    }
}

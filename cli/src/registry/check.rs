//! `weaver registry check`: the state of a registry, and what keeps k3s from pulling.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::Args;
use serde_json::json;
use weaver_diagnostics::exit_code;
use weaver_diagnostics::finding::Finding;
use weaver_diagnostics::finding_text;
use weaver_diagnostics::registries_yaml;
use weaver_diagnostics::registry::api::{Platform, image, platform, repository_name};
use weaver_diagnostics::registry::check::{document, judge};
use weaver_diagnostics::registry::configured::Configured;
use weaver_diagnostics::registry::name;
use weaver_diagnostics::text_file::TextFile;

use super::contents::Repository;
use super::look::{self, Question, RegistryContents};
use super::trust::RegistryTrust;
use crate::doctor::FindingsOutput;
use crate::stdout::{document as print_document, json_text, say, show};

/// More than any registries.yaml has.
const LARGEST: u64 = 1 << 20;

#[derive(Args)]
pub struct CheckOptions {
    /// Registry as written in image names: HOST or HOST:PORT
    #[arg(value_parser = name)]
    registry: String,
    /// Trust the CA in this file too, as `ca_file` in registries.yaml does
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// registries.yaml of k3s to check against this registry, with its credentials
    #[arg(long, value_name = "FILE")]
    registries: Option<PathBuf>,
    /// List the tags of this repository only
    #[arg(long, value_name = "NAME", value_parser = repository_name)]
    repository: Option<String>,
    /// Show the platforms that this image is built for, instead of listing repositories
    #[arg(long, value_name = "NAME:TAG", conflicts_with = "repository")]
    image: Option<String>,
    /// Platform that --image has to support
    #[arg(long, default_value = "linux/arm64", value_parser = platform)]
    platform: Platform,
    /// Maximum number of repositories whose tags are listed
    #[arg(long, default_value = "20", value_parser = clap::value_parser!(u16).range(0..=1000))]
    limit: u16,
    /// Time limit for the whole check, in seconds
    #[arg(long, default_value = "30", value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
    /// Output format
    #[arg(short, long, value_enum, default_value = "text")]
    output: FindingsOutput,
}

pub async fn run(options: &CheckOptions) -> anyhow::Result<ExitCode> {
    let question = match &options.image {
        Some(text) => {
            let image = image(text, &options.registry).map_err(|why| anyhow!("{why}"))?;
            Question::Image(image, options.platform.clone())
        }
        None => match &options.repository {
            Some(repository) => Question::Repository(repository.clone()),
            None => Question::All { with_tags: options.limit.into() },
        },
    };
    let (configured, mut findings) = configured(options)?;
    // What the nodes trust, if it is here.
    let of_nodes =
        configured.as_ref().and_then(|(_, configured)| configured.ca_file.as_ref()).map(PathBuf::from);
    let ca = options.ca.clone().or_else(|| of_nodes.filter(|file| file.exists()));
    let trust = RegistryTrust::new(ca.as_deref())?;
    let how = look::LookOptions {
        registry: options.registry.clone(),
        trust,
        ca: ca.map(|file| file.display().to_string()),
        configured,
        timeout: Duration::from_secs(options.timeout),
    };
    let (facts, contents) = look::look(how, &question).await?;
    findings.extend(judge(&facts));
    let code = exit_code::of(&findings);
    match options.output {
        FindingsOutput::Text => {
            say(format_args!("{}", facts.registry));
            facts.lines().iter().for_each(say);
            contents_shown(contents.as_ref());
            for finding in &findings {
                show(format!("\n{}", finding_text::text(finding)));
            }
            if findings.is_empty() && facts.reply().is_some() {
                say("nothing is wrong with it");
            }
        }
        FindingsOutput::Json => {
            let mut all = document(&facts);
            all["exitCode"] = json!(code);
            all["findings"] = json!(findings);
            match &contents {
                Some(RegistryContents { repositories, are_more, unlisted, error }) => {
                    all["repositories"] = json!(repositories);
                    all["complete"] = json!(!are_more && unlisted.is_empty());
                    all["unlisted"] = json!(unlisted);
                    all["error"] = json!(error);
                }
                None => all["repositories"] = json!(null),
            }
            print_document(&json_text(&all, "it")?)?;
        }
    }
    Ok(code.into())
}

/// The given file and its entry for this registry; and what is wrong with the file.
type OfFile = (Option<(String, Configured)>, Vec<Finding>);

fn configured(options: &CheckOptions) -> anyhow::Result<OfFile> {
    let Some(path) = &options.registries else { return Ok((None, Vec::new())) };
    let file = read(path)?;
    // Files that it names are those of a node, which may be another machine.
    let findings = registries_yaml::lint(&file, |_| true);
    let configured = Configured::read(&file.text, &options.registry).ok();
    Ok((configured.map(|configured| (file.path, configured)), findings))
}

fn read(path: &Path) -> anyhow::Result<TextFile> {
    let shown = path.display().to_string();
    let mut bytes = Vec::new();
    let file = File::open(path).with_context(|| {
        format!("cannot open {shown}; k3s' own is /etc/rancher/k3s/registries.yaml, which may need sudo")
    })?;
    file.take(LARGEST).read_to_end(&mut bytes).with_context(|| format!("cannot read {shown}"))?;
    let text = String::from_utf8(bytes).map_err(|_| anyhow!("{shown} is not UTF-8 text"))?;
    Ok(TextFile::new(shown, text))
}

fn contents_shown(contents: Option<&RegistryContents>) {
    let Some(RegistryContents { repositories, are_more, unlisted, error }) = contents else { return };
    if let Some(error) = error {
        say(format_args!("contents not listed: {error}"));
        return;
    }
    let number = repositories.len() + unlisted.len();
    let more = if *are_more { ", and more" } else { "" };
    let word = if number == 1 { "repository" } else { "repositories" };
    say(format_args!("{number} {word}{more}"));
    for Repository { name, tags, complete, error } in repositories {
        let tags = match error {
            Some(error) => error.clone(),
            None if tags.is_empty() => "no tags".to_owned(),
            None => tags.join(", "),
        };
        let more = if *complete { "" } else { ", …" };
        say(format_args!("  {name}: {tags}{more}"));
    }
    if !unlisted.is_empty() {
        say(format_args!("  and {} without their tags: see --limit and -o json", unlisted.len()));
    }
}

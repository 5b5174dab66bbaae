//! A release: the files next to its archives, packages and images, made from their directory.
//!
//! [`archive`] finds the archives among its files, [`notes`] cuts the release notes out of the changelog, [`krew`] and
//! [`formula`] describe where to fetch the command line from, [`provenance`] records the commit that all of it was
//! built from. Guarantees: the same directory and commit give the same bytes; `SHA256SUMS` comes last and lists every
//! file. Failure: the message names the file; no list is left then. `packaging/release.sh` calls it and signs the list.

pub mod archive;
pub mod formula;
pub mod krew;
pub mod notes;
pub mod provenance;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use weaver_devstack::download::sha256;
use weaver_devstack::files;
use weaver_devstack::steps::Steps;

use self::archive::archives;
use self::provenance::BuildFacts;
use crate::build::sbom;
use crate::build::tools::output;

const MODE: u32 = 0o644;
const SUMS: &str = "SHA256SUMS";
const OS_LIST: &str = "os-list.json";
/// Programs of a release, the package of each, and the program's name in a bill.
const PROGRAMS: [(&str, &str); 3] = [
    ("weaver-cli", "weaver"),
    ("weaver-node-agent", "weaver-node-agent"),
    ("weaver-operator", "weaver-operator"),
];

#[derive(Debug, Clone, clap::Args)]
pub struct ReleaseOptions {
    /// The checkout
    #[arg(long, default_value = ".")]
    source: PathBuf,
    /// The directory of the release
    #[arg(long)]
    dist: PathBuf,
    /// Its version
    #[arg(long)]
    version: String,
    /// Heading of its section in CHANGELOG.md [default: the version]
    #[arg(long)]
    notes: Option<String>,
    /// Where its files will be fetched from
    #[arg(long)]
    url: Option<String>,
    /// Who built it, as a URI
    #[arg(long)]
    builder: String,
    /// What the programs were built for, as Rust calls it
    #[arg(long = "target", required = true)]
    targets: Vec<String>,
}

/// Makes the files that are derived from the others, in this order: bills, notes, manifests, provenance, list.
///
/// # Errors
/// Names the file that could not be made or read.
pub fn run(options: &ReleaseOptions) -> Result<ExitCode> {
    let mut steps = Steps::begin();
    let ReleaseOptions { source, dist, version, notes: heading, url, .. } = options;
    files::remove(&dist.join(SUMS))?;
    let write = |name: &str, text: &str| files::replace(&dist.join(name), text.as_bytes(), MODE);
    let text = fs::read_to_string(source.join("CHANGELOG.md")).context("reading CHANGELOG.md")?;
    write("RELEASE-NOTES.md", &notes::cut(&text, version, heading.as_deref().unwrap_or(version))?)?;
    for (package, program) in PROGRAMS {
        let mut crates = Vec::new();
        for target in options.targets.iter().filter(|target| is_built_for(package, target)) {
            crates.extend(sbom::crates(source, target, &[package])?);
        }
        crates.sort();
        crates.dedup();
        write(&format!("{program}-{version}.cdx.json"), &sbom::of_program(program, version, &crates)?)?;
    }
    steps.done("bills of material", format_args!("of {} programs", PROGRAMS.len()));

    if let Some(url) = url {
        address(url, dist, version)?;
        steps.done("krew, Homebrew, Imager", format_args!("for {url}"));
    }

    let sums = sums(dist)?;
    ensure!(
        !archives(version, &sums).is_empty(),
        "{} holds no archive weaver-{version}-OS-PROCESSOR",
        dist.display()
    );
    let commit = output(Command::new("git").arg("-C").arg(source).args(["rev-parse", "HEAD"]))?;
    let rustc = output(Command::new("rustc").arg("--version"))?;
    let built = BuildFacts {
        version,
        url: url.as_deref(),
        commit: commit.trim(),
        builder: &options.builder,
        rustc: rustc.trim(),
    };
    write(provenance::NAME, &provenance::statement(&built, &sums)?)?;
    let lines: Vec<String> = self::sums(dist)?.iter().map(|(name, sum)| format!("{sum}  {name}")).collect();
    write(SUMS, &(lines.join("\n") + "\n"))?;
    steps.done(SUMS, format_args!("{} files of {}", lines.len(), commit.trim()));
    Ok(ExitCode::SUCCESS)
}

/// Whether a release has a package's program for this target: all but the command line run on nodes alone.
fn is_built_for(package: &str, target: &str) -> bool {
    package == "weaver-cli" || target.ends_with("-linux-gnu")
}

/// Makes the files that depend on the download address.
fn address(url: &str, dist: &Path, version: &str) -> Result<()> {
    let url = url.trim_end_matches('/');
    ensure!(
        (url.starts_with("https://") || url.starts_with("http://"))
            && !url.contains(|c: char| c.is_whitespace() || c.is_control() || "\"'\\#?".contains(c)),
        "RELEASE_URL={url}: the address of a directory, which begins with https:// and has neither blanks nor quotes"
    );
    let sums = sums(dist)?;
    let archives = archives(version, &sums);
    let write = |name: &str, text: &str| files::replace(&dist.join(name), text.as_bytes(), MODE);
    write("weaver.yaml", &krew::manifest(version, url, &archives))?;
    if let Some(text) = formula::formula(version, url, &archives) {
        write("weaver.rb", &text)?;
    }
    let path = dist.join(OS_LIST);
    if let Some(text) = files::read_if_there(&path)? {
        let list = moved(&text, url, &sums).with_context(|| format!("{}", path.display()))?;
        write(OS_LIST, &list)?;
    }
    Ok(())
}

/// The list for Raspberry Pi Imager, with the addresses that its images will have.
fn moved(list: &str, url: &str, sums: &BTreeMap<String, String>) -> Result<String> {
    let mut list: Value = serde_json::from_str(list).context("it is no JSON")?;
    let images = list["os_list"].as_array_mut().context("it lists no image")?;
    for image in images {
        let was = image["url"].as_str().context("an image has no url")?;
        let name = was.rsplit('/').next().unwrap_or(was).to_owned();
        let Some(sum) = sums.get(&name) else { bail!("{name} is not in the release") };
        ensure!(image["image_download_sha256"] == **sum, "{name} is another file than the list was made of");
        image["url"] = format!("{url}/{name}").into();
    }
    serde_json::to_string_pretty(&list).map(|text| text + "\n").context("writing it")
}

/// The SHA-256 of each file below a directory, by its path from there.
fn sums(dist: &Path) -> Result<BTreeMap<String, String>> {
    let mut sums = BTreeMap::new();
    let mut directories = vec![dist.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries =
            fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))?;
        for entry in entries {
            let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
            if kind.is_dir() {
                directories.push(path);
                continue;
            }
            ensure!(kind.is_file(), "{} is neither a file nor a directory", path.display());
            let name = path.strip_prefix(dist)?.to_str().context("a name that is no text")?;
            sums.insert(name.to_owned(), sha256(&path)?);
        }
    }
    Ok(sums)
}

#[cfg(test)]
mod tests;

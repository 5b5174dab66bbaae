//! Writes the Helm chart, `deploy/chart/`, and the table of its values, `docs/reference/chart.md`, from the
//! manifests in `deploy/`: `cargo run -p weaver-installer --example chart`, by `make generate`.
//!
//! No object of the chart is listed twice. How a manifest becomes a template:
//!
//! 1. [`manifests`] reads the files that kustomize applies, and what of them a value decides: the whole
//!    object (`when`, or one for each of a list), or a field of it, by its path ([`template::Hole`]).
//! 2. [`template`] puts a marker where the field is, writes the object as YAML, escapes each `{{` of a manifest, and
//!    replaces each marker by a template.
//! 3. [`settings`] has a row for each value: its default, which is the value in the manifests, its schema and its
//!    meaning. `values.yaml`, `values.schema.json` and the page are made of these rows.
//!
//! A path that is not in the manifest any more is an error here, and a value that no template reads is one in
//! the tests. Prints which files changed; fails before anything is written.

mod manifests;
mod pages;
mod settings;
mod template;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where the chart is, below the root of the repository.
const CHART: &str = "deploy/chart";

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0} has no deploy/: give the root of the repository")]
    NotTheRepository(PathBuf),
    #[error("{file}: {reason}")]
    Manifest { file: String, reason: String },
    #[error("{path} cannot be written: {source}")]
    Write { path: PathBuf, source: io::Error },
}

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match generate(&root) {
        Ok(changed) if changed.is_empty() => println!("nothing changed"),
        Ok(changed) => changed.iter().for_each(|file| println!("{file} changed")),
        Err(failure) => {
            eprintln!("chart: {failure}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Path below the root and content of every generated file.
fn files(root: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let read = |file: &str| {
        fs::read_to_string(root.join(file))
            .map_err(|error| Failure::Manifest { file: file.into(), reason: error.to_string() })
    };
    let manifests = manifests::read(read)?;
    let settings = settings::all(&manifests)?;
    let mut files = BTreeMap::new();
    for (name, text) in manifests.templates()? {
        files.insert(format!("{CHART}/templates/{name}"), text);
    }
    for (name, text) in pages::all(&settings) {
        files.insert(name, text);
    }
    Ok(files)
}

/// Writes what differs, removes templates that are of no manifest any more, and says which files these were.
fn generate(root: &Path) -> Result<Vec<String>, Failure> {
    if !root.join("deploy").is_dir() {
        return Err(Failure::NotTheRepository(root.to_owned()));
    }
    let mut changed = Vec::new();
    let files = files(root)?;
    for (file, text) in &files {
        let path = root.join(file);
        if fs::read(&path).is_ok_and(|found| found == text.as_bytes()) {
            continue;
        }
        replace(&path, text).map_err(|source| Failure::Write { path, source })?;
        changed.push(file.clone());
    }
    let templates = format!("{CHART}/templates");
    for entry in fs::read_dir(root.join(&templates)).into_iter().flatten().flatten() {
        let file = format!("{templates}/{}", entry.file_name().to_string_lossy());
        if !files.contains_key(&file) {
            fs::remove_file(entry.path()).map_err(|source| Failure::Write { path: entry.path(), source })?;
            changed.push(file);
        }
    }
    Ok(changed)
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let next_to = path.with_added_extension("new");
    fs::write(&next_to, text).and_then(|()| fs::rename(&next_to, path))
}

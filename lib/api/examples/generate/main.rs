//! Writes what is generated from the types: `deploy/crds/<plural>.yaml` for each definition, and
//! `docs/reference/api.md`.
//!
//! `cargo run -p weaver-api --example generate [ROOT]`, by `make generate`. Prints which files changed. Each file is
//! written to a temporary file and renamed, so it is never incomplete; an up-to-date file is not touched. After a
//! failure, files already written stay and the next run continues.

mod page;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use weaver_api::crds;

const USAGE: &str = "usage: generate [ROOT], the root of the repository";

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0} has no deploy/crds: give the root of the repository")]
    NotTheRepository(PathBuf),
    #[error("{file} cannot be written as YAML, mend the type in api/: {reason}")]
    Manifest { file: String, reason: String },
    #[error("{path} cannot be written, see to its rights and to free space: {source}")]
    Write { path: PathBuf, source: io::Error },
}

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let root =
        arguments.next().map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), PathBuf::from);
    if arguments.next().is_some() {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    match generate(&root) {
        Ok(changed) if changed.is_empty() => println!("nothing changed"),
        Ok(changed) => changed.iter().for_each(|file| println!("{file} changed")),
        Err(failure) => {
            eprintln!("generate: {failure}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Path below the root and content of every generated file.
fn files() -> Result<Vec<(String, String)>, Failure> {
    let definitions = crds::all();
    let mut files = vec![("docs/reference/api.md".to_owned(), page::reference(&definitions))];
    for crd in &definitions {
        let file = format!("deploy/crds/{}.yaml", crd.spec.names.plural);
        match crds::manifest(crd) {
            Ok(text) => files.push((file, text)),
            Err(error) => return Err(Failure::Manifest { file, reason: error.to_string() }),
        }
    }
    Ok(files)
}

/// Writes what differs and says which files that were.
fn generate(root: &Path) -> Result<Vec<String>, Failure> {
    if !root.join("deploy/crds").is_dir() {
        return Err(Failure::NotTheRepository(root.to_owned()));
    }
    let mut changed = Vec::new();
    for (file, text) in files()? {
        let path = root.join(&file);
        if fs::read(&path).is_ok_and(|found| found == text.as_bytes()) {
            continue;
        }
        replace(&path, &text).map_err(|source| Failure::Write { path, source })?;
        changed.push(file);
    }
    Ok(changed)
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let next_to = path.with_added_extension("new");
    fs::write(&next_to, text).and_then(|()| fs::rename(&next_to, path)).inspect_err(|_| {
        // The failure is what counts; a file that could not even be begun is not there to remove.
        let _ = fs::remove_file(&next_to);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A root with an empty `deploy/crds`, removed at the end.
    struct Root(PathBuf);

    impl Root {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("weaver-generate-{}-{test}", std::process::id()));
            fs::create_dir_all(path.join("deploy/crds")).unwrap();
            Self(path)
        }

        fn listed(&self, directory: &str) -> Vec<String> {
            let entries = fs::read_dir(self.0.join(directory)).unwrap();
            let mut names: Vec<String> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_differs_is_written_and_nothing_else() {
        let root = Root::new("differs");
        let all = generate(&root.0).unwrap();
        assert_eq!(all.len(), crds::all().len() + 1);
        assert_eq!(generate(&root.0).unwrap(), Vec::<String>::new());
        fs::write(root.0.join("docs/reference/api.md"), "stale").unwrap();
        assert_eq!(generate(&root.0).unwrap(), ["docs/reference/api.md"]);
        for (file, text) in files().unwrap() {
            assert_eq!(fs::read_to_string(root.0.join(file)).unwrap(), text);
        }
        assert_eq!(root.listed("docs/reference"), ["api.md"]);
    }

    #[test]
    fn a_place_that_is_not_the_repository_is_left_alone() {
        let root = Root::new("elsewhere");
        let said = generate(&root.0.join("deploy")).unwrap_err().to_string();
        assert!(said.ends_with("deploy has no deploy/crds: give the root of the repository"), "{said}");
        assert_eq!(root.listed("deploy"), ["crds"]);
    }

    #[test]
    fn a_file_that_cannot_be_replaced_is_named_and_nothing_is_left_next_to_it() {
        let root = Root::new("blocked");
        fs::create_dir_all(root.0.join("docs/reference/api.md/in-the-way")).unwrap();
        let said = generate(&root.0).unwrap_err().to_string();
        assert!(said.contains("docs/reference/api.md cannot be written, see to its rights"), "{said}");
        assert_eq!(root.listed("docs/reference"), ["api.md"]);
    }
}

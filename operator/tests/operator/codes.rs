//! Each record of the log has a code, and each code is used. docs/reference/log-codes.md is made from them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use weaver_host::log_code as host;
use weaver_installer::log_code as installer;
use weaver_operator::log_code as operator;

/// Those of the operator and of what it is built on, each with what it means.
fn all() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    operator::ALL.iter().chain(installer::ALL).chain(host::ALL)
}

/// Source of the operator, with what tests only use.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// How each record of a file begins, behind the macro's bracket.
fn records(source: &str) -> impl Iterator<Item = &str> {
    let code = source.split("#[cfg(test)]").next().unwrap();
    ["info!(", "warn!(", "error!("].into_iter().flat_map(move |name| {
        let places = code.match_indices(name).filter(|(at, _)| !code[..*at].ends_with(char::is_alphanumeric));
        places.map(move |(at, _)| code[at + name.len()..].trim_start())
    })
}

#[test]
fn each_record_from_info_upwards_has_a_code_and_each_code_is_used() {
    let mut used = BTreeSet::new();
    let crates = ["src", "../lib/host/src", "../lib/installer/src"]
        .map(|source| Path::new(env!("CARGO_MANIFEST_DIR")).join(source));
    for path in crates.iter().flat_map(|source| files(source)) {
        for begin in records(&fs::read_to_string(&path).unwrap()) {
            let code = begin.strip_prefix("code = log_code::").and_then(|rest| rest.split(',').next());
            let code = code.unwrap_or_else(|| panic!("{}: no code at {begin:.60}", path.display()));
            used.insert(code.to_lowercase().replace('_', "-"));
        }
    }
    let known: BTreeSet<String> = all().map(|(code, _)| (*code).to_owned()).collect();
    assert_eq!(used, known);
    assert_eq!(known.len(), all().count(), "one code twice");
}

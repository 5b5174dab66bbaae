//! docs/explanation/threat-model.md and the tests are checked against each other: a promise without a test, and an
//! attack that the page does not name, both fail here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// Every Rust source of the checkout below `directory`.
fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name());
        let skipped = ["target", ".git", ".run", "out"].iter().any(|skipped| name == *skipped);
        if path.is_dir() && !path.is_symlink() && !skipped {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Names of the tests in these sources: each function with an attribute that ends in `test`.
fn tests(paths: &[PathBuf]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in paths {
        let text = fs::read_to_string(path).unwrap();
        let mut marked = false;
        for line in text.lines().map(str::trim) {
            marked |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let function = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
            if let Some((name, _)) = function.and_then(|rest| rest.split_once('(')) {
                if marked {
                    names.insert(name.to_owned());
                }
                marked = false;
            }
        }
    }
    names
}

/// Names in backticks of the last cell of each row of the tables below `## What is promised`, by row.
fn promised(page: &str) -> Vec<(String, Vec<String>)> {
    let (_, part) = page.split_once("\n## What is promised\n").expect("the page has that part");
    let part = part.split("\n## ").next().unwrap();
    let rows = part.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| promise"));
    rows.map(|row| {
        let last = row.trim_end_matches('|').rsplit('|').next().unwrap();
        let names = last.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        (row.to_owned(), names)
    })
    .collect()
}

#[test]
fn each_promise_names_a_test_and_each_attack_stands_on_the_page() {
    let page = fs::read_to_string(root().join("docs/explanation/threat-model.md")).unwrap();
    let (mut all, mut attacks) = (Vec::new(), Vec::new());
    sources(&root(), &mut all);
    sources(&root().join("tests/adversary"), &mut attacks);
    let (all, mut unnamed) = (tests(&all), tests(&attacks));
    let rows = promised(&page);
    assert!(rows.len() > 20, "{} rows", rows.len());
    for (row, names) in rows {
        assert!(!names.is_empty(), "this promise has no test: {row}");
        for name in names {
            assert!(all.contains(&name), "there is no test `{name}`: {row}");
            unnamed.remove(&name);
        }
    }
    unnamed.remove("each_promise_names_a_test_and_each_attack_stands_on_the_page");
    assert!(unnamed.is_empty(), "attacks that docs/explanation/threat-model.md does not name: {unnamed:#?}");
}

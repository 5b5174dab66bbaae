//! docs/reference/files.md names every file of ours that the programs name.

use std::fs;
use std::path::Path;

use weaver_tests::monitoring::file;
use weaver_tests::source::{code, texts};

/// Folders that are ours on a host.
const OURS: [&str; 3] = ["/etc/weaver/", "/run/weaver/", "/var/lib/weaver/"];

/// Paths below [`OURS`] that a program's source has as a text, tests left out.
fn named(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "tests" {
            named(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !name.contains("tests") {
            let text = fs::read_to_string(&path).unwrap();
            let ours = texts(code(&text)).filter(|text| OURS.iter().any(|ours| text.starts_with(ours)));
            found.extend(ours.map(str::to_owned));
        }
    }
}

#[test]
fn each_file_of_ours_that_a_program_names_is_listed() {
    let page = file("docs/reference/files.md");
    let mut found = Vec::new();
    for source in ["node-agent", "operator", "cli", "lib/diagnostics", "lib/host", "lib/installer"] {
        named(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(source).join("src"), &mut found);
    }
    assert!(found.len() >= 8, "{found:?}");
    // The second of a row is named without its folder.
    let is_listed = |path: &str| {
        let (folder, name) = path.trim_end_matches('/').rsplit_once('/').unwrap();
        page.contains(path) || (page.contains(folder) && page.contains(&format!("`{name}`")))
    };
    let missing: Vec<&String> = found.iter().filter(|path| !is_listed(path)).collect();
    assert!(missing.is_empty(), "{missing:#?}");
}

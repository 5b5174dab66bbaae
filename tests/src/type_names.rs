//! One name of a type for one thing, across the crates that ship.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the sources of what ships are.
const FOLDERS: [&str; 4] = ["operator", "node-agent", "cli", "lib"];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn defines(text: &str, name: &str) -> bool {
    ["struct", "enum", "trait"].iter().any(|kind| {
        let definition = format!("\npub {kind} {name}");
        let mut rests = text.match_indices(&definition).map(|(at, _)| &text[at + definition.len()..]);
        rests.any(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

#[test]
fn a_definition_is_distinguished_from_a_longer_name_and_from_a_private_one() {
    assert!(defines("//! x\npub enum Step {", "Step") && defines("\npub struct Step<'a>(&'a str);", "Step"));
    assert!(!defines("\npub enum Steps {", "Step") && !defines("\nenum Step {", "Step"));
}

/// Each of these once named five types or more. What a second one is called says of what it is.
#[test]
fn a_name_of_a_type_is_not_used_for_other_things() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for folder in FOLDERS {
        sources(&root.join(folder), &mut files);
    }
    let texts: Vec<_> = files.iter().map(|file| (file, fs::read_to_string(file).unwrap())).collect();
    assert!(texts.len() > 300, "{}", texts.len());
    for name in ["Facts", "Place", "Report", "Role", "Seen", "Step"] {
        let defined = texts.iter().filter(|(_, text)| defines(text, name)).map(|(file, _)| *file);
        let defined: Vec<&PathBuf> = defined.collect();
        assert!(defined.len() <= 1, "{name}: {defined:?}");
    }
}

//! Kubernetes manifests on the boot partition, which become k3s' own.
//!
//! k3s applies each file below `server/manifests` when it starts and when the file changes, as an Addon that
//! is called like the file up to its first period; a file that is emptied has all deleted that it had made,
//! while one that is removed leaves it behind (<https://docs.k3s.io/installation/packaged-components>).
//!
//! Guarantees: a file with a fault changes nothing, and keeps no other from being applied; nothing is deleted
//! because the directory or a file's content is gone, which a damaged card may have lost, nor while a file
//! has a name that cannot be used, which it may have had otherwise before. No text of a file is repeated: it
//! may be a Secret.

use std::collections::BTreeMap;
use std::path::Path;

use super::plan::File;
use crate::finding::{Code, Finding, Place, Remedy};
use crate::yaml_node::{self, YamlNode, YamlValue};

/// The directory next to `weaver.toml`.
pub const DIRECTORY: &str = "manifests";
/// Below k3s' data directory, where it looks into directories too: all of this one is ours.
pub const OF_K3S: &str = "server/manifests/weaver-card";

/// How the files here begin, so that no Addon of theirs is one of k3s' own.
const PREFIX: &str = "weaver-card-";
/// Replaces a file that was removed from the card: an Addon without objects.
const EMPTY: &str = "# Removed from the card: k3s deletes what this file had made.\n";
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// A file of the directory: its name, and its text or why that cannot be read.
pub type OnCard = (String, Result<String, String>);

/// What follows from the files on the card.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CardManifests {
    /// Files to write where they differ.
    pub files: Vec<File>,
    pub findings: Vec<Finding>,
}

/// `made` are the names in k3s' directory, which is `target`.
pub fn plan(directory: &Path, on_card: &[OnCard], target: &Path, made: &[String]) -> CardManifests {
    let mut plan = CardManifests::default();
    let mut taken: BTreeMap<String, &str> = BTreeMap::new();
    let mut are_named = true;
    let file = |name: &str, content: &str| File {
        path: target.join(name).display().to_string(),
        mode: 0o600,
        content: content.to_owned(),
    };
    for (name, text) in on_card.iter().filter(|(name, _)| !is_left_out(name)) {
        let path = directory.join(name).display().to_string();
        let target = match target_name(name) {
            Ok(target) => target,
            Err(why) => {
                plan.findings.push(refused(Place::file(path), why, "rename the file"));
                are_named = false;
                continue;
            }
        };
        if let Some(other) = taken.insert(target.clone(), name) {
            let why = format!("{other} has the same name for k3s");
            plan.findings.push(refused(Place::file(path), &why, "rename one of the two"));
            continue;
        }
        let text = text.as_deref().map_err(|why| (Place::file(&path), why.clone()));
        match text.and_then(|text| judge(&path, text)) {
            Ok(text) => plan.files.push(file(&target, text)),
            Err((place, why)) => plan.findings.push(refused(place, &why, "correct the file")),
        }
    }
    let is_gone = |name: &&String| {
        name.starts_with(PREFIX) && name.strip_suffix(".yaml").is_some() && !taken.contains_key(*name)
    };
    if are_named && !taken.is_empty() {
        plan.files.extend(made.iter().filter(is_gone).map(|name| file(name, EMPTY)));
    }
    plan
}

/// That there are some on a card that joins another's cluster.
pub fn of_agent(directory: &Path) -> Finding {
    let why = "this card joins a server, and only a server applies manifests";
    refused(Place::file(directory.display().to_string()), why, "put them onto the server's card")
}

/// That there are so many files that none is looked at.
pub fn too_many(directory: &Path, most: usize) -> Finding {
    let why = format!("more than {most} files are in it");
    refused(Place::file(directory.display().to_string()), &why, "put several objects into one file")
}

fn refused(place: Place, why: &str, remedy: &str) -> Finding {
    let finding = Finding::new(Code::CardManifestRefused, format!("{place}: {why}; it is not applied"));
    finding.saw(place, why).remedy(Remedy::new(remedy))
}

/// What an editor or another system leaves, and notes: nothing that was to be applied.
fn is_left_out(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let has = |extension: &str| {
        lower.ends_with(&format!(".{extension}")) || lower.contains(&format!(".{extension}."))
    };
    name.starts_with('.') || !EXTENSIONS.iter().any(|extension| has(extension))
}

/// The name of the file for k3s.
fn target_name(name: &str) -> Result<String, &'static str> {
    let lower = name.to_ascii_lowercase();
    let stem = EXTENSIONS.iter().find_map(|extension| lower.strip_suffix(&format!(".{extension}")));
    // Windows hides the last part of `app.yaml.txt`.
    let stem = stem.ok_or("k3s takes only names that end in .yaml, .yml or .json")?;
    // The Addon's name ends at the first period, and two would share one.
    let stem = stem.replace(['.', '_'], "-");
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if stem.is_empty() || stem.len() > 200 || stem.ends_with('-') || !stem.chars().all(is_name) {
        return Err(
            "its name may have only letters, digits and hyphens: k3s creates an Addon with that name",
        );
    }
    Ok(format!("{PREFIX}{stem}.yaml"))
}

/// The text as it is, where each of its documents is an object.
fn judge<'t>(path: &str, text: &'t str) -> Result<&'t str, (Place, String)> {
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let whole = rest;
    let mut above = 0;
    let at = |line: Option<u64>, above: u64| match line {
        Some(line) => Place::line(path, line + above),
        None => Place::file(path),
    };
    if rest.trim().is_empty() {
        let why = "it is empty, as damaged files are: delete it, or write a comment into it";
        return Err((Place::file(path), why.to_owned()));
    }
    let is_json = rest.trim_start().starts_with('{');
    // k3s' parser divides at no other line, and ignores what is behind one.
    let divides =
        |line: &str| line.trim_end() == "..." || line.starts_with("--- ") && line.trim_end() != "---";
    if let Some((number, _)) = (1..).zip(rest.lines()).find(|(_, line)| divides(line)) {
        return Err((at(Some(number), 0), "documents are divided by a line of `---` alone".to_owned()));
    }
    if is_json {
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(rest);
        let error =
            |error: serde_json::Error| (at(Some(error.line() as u64), 0), "it is not valid JSON".to_owned());
        parsed.map_err(error)?;
    }
    while !rest.is_empty() {
        let document = yaml_node::first_document(rest);
        // Of a document that begins with its marker, so that lines count from it.
        // JSON may be indented with tabs, which YAML refuses.
        let parsed =
            if is_json { yaml_node::parse(&document.replace('\t', " ")) } else { yaml_node::parse(document) };
        let node = parsed.map_err(|error| (at(error.line, above), error.message))?;
        object(&node).map_err(|(line, why)| (at(Some(line), above), why))?;
        above += document.lines().count() as u64;
        rest = &rest[document.len()..];
    }
    Ok(whole)
}

/// What is missing of an object, and in which line.
fn object(node: &YamlNode) -> Result<(), (u64, String)> {
    if node.value == YamlValue::Null {
        return Ok(());
    }
    let is_text =
        |node: Option<&YamlNode>| node.and_then(YamlNode::as_str).is_some_and(|text| !text.is_empty());
    for field in ["apiVersion", "kind"] {
        if !is_text(node.get(field)) {
            return Err((node.line, format!("the object has no {field}")));
        }
    }
    if node.text("kind").is_some_and(|kind| kind.ends_with("List"))
        && let Some(items) = node.get("items")
    {
        return items.items().iter().try_for_each(object);
    }
    let name = node.get("metadata").and_then(|metadata| metadata.get("name"));
    if is_text(name) { Ok(()) } else { Err((node.line, "the object has no metadata.name".to_owned())) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const APP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {password: hunter2}\n";

    /// The files to write, `NAME=CONTENT`, and what is said.
    fn planned(on_card: &[(&str, &str)], made: &[&str]) -> (Vec<String>, Vec<String>) {
        let on_card: Vec<_> =
            on_card.iter().map(|(name, text)| ((*name).to_owned(), Ok((*text).to_owned()))).collect();
        let made: Vec<_> = made.iter().map(|&name| name.to_owned()).collect();
        let CardManifests { files, findings } =
            plan(Path::new("/boot/firmware/manifests"), &on_card, Path::new("/m"), &made);
        assert!(!format!("{findings:?}").contains("hunter2"));
        (
            files.into_iter().map(|file| format!("{}={}", file.path, file.content)).collect(),
            findings.into_iter().map(|finding| finding.message).collect(),
        )
    }

    #[test]
    fn each_file_becomes_one_of_k3s_under_a_name_of_its_own() {
        let json = "{\n\t\"apiVersion\": \"v1\", \"kind\": \"Namespace\", \"metadata\": {\"name\": \"x\"}\n}";
        let list =
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: x}}\n";
        let several = format!("# first\n---\n{APP}---\n\n---\n{APP}");
        for (name, text, want) in [
            ("app.yaml", APP, "/m/weaver-card-app.yaml"),
            ("APP.YML", APP, "/m/weaver-card-app.yaml"),
            ("app.v2.yaml", APP, "/m/weaver-card-app-v2.yaml"),
            ("my_app.json", json, "/m/weaver-card-my-app.yaml"),
            ("list.yaml", list, "/m/weaver-card-list.yaml"),
            ("several.yaml", &several, "/m/weaver-card-several.yaml"),
            ("empty.yaml", "# nothing yet\n", "/m/weaver-card-empty.yaml"),
        ] {
            assert_eq!(planned(&[(name, text)], &[]), (vec![format!("{want}={text}")], vec![]), "{name}");
        }
        let others =
            [("readme.txt", "hello"), ("._app.yaml", "x"), (".app.yaml.swp", "x"), ("Thumbs.db", "x")];
        assert_eq!(planned(&others, &[]), (vec![], vec![]));
        let windows = format!("\u{feff}{}", APP.replace('\n', "\r\n"));
        assert_eq!(planned(&[("app.yaml", &windows)], &[]).1, [""; 0]);
    }

    #[test]
    fn a_file_with_a_fault_is_named_and_the_others_are_applied() {
        for (name, text, want) in [
            ("a.yaml", "a: [\n", "/boot/firmware/manifests/a.yaml"),
            ("a.yaml", "apiVersion: v1\nkind: Pod\n", "a.yaml:1: the object has no metadata.name"),
            ("a.yaml", "kind: Pod\nmetadata: {name: x}\n", "a.yaml:1: the object has no apiVersion"),
            ("a.yaml", "hello\n", "a.yaml:1: the object has no apiVersion"),
            (
                "a.yaml",
                "apiVersion: v1\nkind: X\nmetadata: {name: a}\n---\nkind: Pod\n",
                "a.yaml:5: the object has no",
            ),
            (
                "a.yaml",
                "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod}\n",
                "a.yaml:4: the object has no metadata.name",
            ),
            ("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata:\n\tname: x\n", "a.yaml:"),
            ("a.json", "{\"a\": 1,\n}", "a.json:2: it is not valid JSON"),
            ("a.yaml", "", "a.yaml: it is empty"),
            ("a.yaml", " \n\r\n", "a.yaml: it is empty"),
            ("a.yaml", "apiVersion: v1\nkind: X\nmetadata: {name: a}\n...\n", "a.yaml:4: documents are"),
            ("a.yaml", "--- {apiVersion: v1, kind: X, metadata: {name: a}}\n", "a.yaml:1: documents are"),
            ("a.yaml.txt", APP, "k3s takes only names that end in"),
            ("my app.yaml", APP, "its name may have only letters"),
        ] {
            let (files, said) = planned(&[(name, text), ("good.yaml", APP)], &["weaver-card-a.yaml"]);
            let good = format!("/m/weaver-card-good.yaml={APP}");
            assert!(files.contains(&good), "{name}: {files:?}");
            assert!(
                said.is_empty() == want.is_empty() && said.iter().all(|said| said.contains(want)),
                "{name}: {said:?}"
            );
            assert_eq!(files.len(), 1, "{name}: what it had made stays: {files:?}");
        }
    }

    #[test]
    fn of_two_names_that_are_one_for_k3s_the_second_is_refused() {
        let (files, said) = planned(&[("app.yaml", APP), ("app.yml", APP)], &[]);
        assert_eq!(files.len(), 1);
        assert!(said[0].contains("app.yml: app.yaml has the same name"), "{said:?}");
    }

    #[test]
    fn what_left_the_card_is_emptied_and_what_is_not_ours_stays() {
        let made = ["weaver-card-app.yaml", "weaver-card-old.yaml", "mine.yaml"];
        let (files, said) = planned(&[("app.yaml", APP)], &made);
        assert_eq!(
            files,
            [format!("/m/weaver-card-app.yaml={APP}"), format!("/m/weaver-card-old.yaml={EMPTY}")]
        );
        assert_eq!(said, [""; 0]);
    }

    #[test]
    fn a_directory_that_lost_all_its_files_empties_nothing() {
        assert_eq!(planned(&[("readme.txt", "x")], &["weaver-card-app.yaml"]), (vec![], vec![]));
        let last = [("none.yaml", "# nothing any more\n")];
        let (files, _) = planned(&last, &["weaver-card-app.yaml", "weaver-card-x.yaml.skip"]);
        assert_eq!(files.len(), 2, "{files:?}");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_and_what_it_made_stays() {
        let on_card = [("app.yaml".to_owned(), Err("it is larger than 256 KiB".to_owned()))];
        let plan = plan(Path::new("/b"), &on_card, Path::new("/m"), &["weaver-card-app.yaml".to_owned()]);
        assert_eq!(plan.files, []);
        assert_eq!(plan.findings[0].message, "/b/app.yaml: it is larger than 256 KiB; it is not applied");
    }

    proptest! {
        #[test]
        fn never_panics(name in "[a-zA-Z._ -]{0,12}(\\.yaml|\\.json)?", text in "\\PC*|(---\n|apiVersion: v1\n|kind: A\n|metadata: |\\{name: x\\}|\\{|\t|- |\n|items:\n){0,16}") {
            let _ = planned(&[(&name, &text)], &[&name]);
        }
    }
}

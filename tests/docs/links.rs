//! Every page of the book is in its table of contents, and every link points to a page and to a heading of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Where a text may name a page of the book by its path.
const NAMES_PAGES: [&str; 8] =
    ["cli", "deploy", "image", "lib", "node-agent", "operator", "systemd", "tests"];

/// Pages outside the book whose links are checked as well.
const OUTSIDE: [&str; 3] = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Files below a folder, their paths relative to the repository.
fn files(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() && entry.file_name() != "target" {
            found.extend(files(&path));
        } else if kind.is_file() {
            found.push(path);
        }
    }
    found
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn is_page(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "md")
}

/// Without blocks and spans of code: nothing in them is a link or a heading.
fn prose(page: &str) -> String {
    let mut in_block = false;
    let lines = page.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        !is_fence && !in_block
    });
    lines.map(|line| line.to_owned() + "\n").collect()
}

fn without_code(prose: &str) -> String {
    prose.split('`').step_by(2).collect()
}

/// The name of a heading in an address, as mdBook and the code hosts make it.
fn slug(heading: &str) -> String {
    let text: String = heading.split("](").enumerate().fold(String::new(), |text, (at, part)| {
        // Of a link the text counts, not the target.
        text + if at == 0 { part } else { part.split_once(')').map_or("", |(_, rest)| rest) }
    });
    let kept = text.trim().chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

fn anchors(page: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let prose = prose(page);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    headings
        .map(|line| {
            let slug = slug(line.trim_start_matches('#'));
            let before = seen.entry(slug.clone()).and_modify(|count| *count += 1).or_default();
            if *before == 0 { slug } else { format!("{slug}-{before}") }
        })
        .collect()
}

/// Targets of the links of a page that are not of another host.
fn links(page: &str) -> Vec<String> {
    let text = without_code(&prose(page));
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains(':')).map(str::to_owned).collect()
}

/// `..` taken out, by the letters of the path alone.
fn joined(folder: &Path, target: &str) -> PathBuf {
    let mut path = PathBuf::new();
    for part in folder.join(target).components() {
        if part == Component::ParentDir {
            assert!(path.pop(), "{target} leaves the repository");
        } else {
            path.push(part);
        }
    }
    path
}

/// What is wrong with a link of this page, if anything is.
fn fault(page: &str, target: &str) -> Option<String> {
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let folder = Path::new(page).parent()?;
    let path = if file.is_empty() { PathBuf::from(page) } else { joined(folder, file) };
    let path = path.to_str()?;
    if page.starts_with("docs/") && !path.starts_with("docs/") {
        return Some(format!("{page}: {target} leaves the book: name the file as code"));
    }
    if !root().join(path).exists() {
        return Some(format!("{page}: {target} does not exist"));
    }
    let anchor = anchor?;
    (!anchors(&read(path)).contains(anchor)).then(|| format!("{page}: {path} has no heading {anchor}"))
}

/// The pages of the book.
pub fn pages() -> BTreeSet<String> {
    files("docs").into_iter().filter(|path| is_page(path) && path != "docs/SUMMARY.md").collect()
}

#[test]
fn headings_are_named_as_in_an_address() {
    assert_eq!(slug(" B-01 weaver-toml-invalid"), "b-01-weaver-toml-invalid");
    assert_eq!(slug(" `weaver node`: another k3s"), "weaver-node-another-k3s");
    assert_eq!(slug(" A [link](to.md), and more"), "a-link-and-more");
    let twice = "# One\n## Two\n```\n# no\n```\n## Two\n";
    assert_eq!(anchors(twice), ["one", "two", "two-1"].map(str::to_owned).into());
}

#[test]
fn the_table_of_contents_has_every_page_once() {
    let listed: Vec<String> =
        links(&read("docs/SUMMARY.md")).into_iter().map(|page| format!("docs/{page}")).collect();
    let set: BTreeSet<String> = listed.iter().cloned().collect();
    assert_eq!(set.len(), listed.len(), "a page is listed twice");
    assert_eq!(set, pages());
}

/// What a page lacks of a guide: it begins with what the reader has, and ends with how to see that it worked.
fn lacks(page: &str) -> Option<&'static str> {
    let prose = prose(page);
    if !prose.lines().nth(2).is_some_and(|line| line.starts_with("You have ")) {
        return Some("does not begin with `You have `");
    }
    let last = prose.lines().rfind(|line| line.starts_with("## "));
    (last != Some("## It worked when")).then_some("does not end with `## It worked when`")
}

#[test]
fn each_guide_says_what_its_reader_has_and_ends_with_how_to_see_that_it_worked() {
    let page = "# A\n\nYou have a Pi.\n\n## 1. Do it\n\n## It worked when\n";
    assert_eq!(lacks(page), None);
    assert_eq!(lacks(&page.replace("You have", "There is")), Some("does not begin with `You have `"));
    let end = Some("does not end with `## It worked when`");
    assert_eq!(lacks(&page.replace("worked", "failed")), end);
    assert_eq!(lacks(&(page.to_owned() + "\n## Clean up\n")), end);
    let guides = pages()
        .into_iter()
        .filter(|page| ["docs/how-to/", "docs/tutorials/"].iter().any(|of| page.starts_with(of)));
    let faults: Vec<String> =
        guides.filter_map(|page| lacks(&read(&page)).map(|lack| format!("{page} {lack}"))).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// For each row of the README's table of paths, what is typed on the page that it links.
const PATHS: [&str; 3] = ["| sudo dd of=", "sudo apt install ./", "kubectl apply -k deploy/kubernetes"];

#[test]
fn each_path_of_the_readme_leads_to_a_page_with_its_command() {
    let readme = read("README.md");
    let table = readme.split("| you have | start here |").nth(1).unwrap();
    let rows: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), PATHS.len(), "a row more is a command more in PATHS");
    for (row, command) in rows.into_iter().zip(PATHS) {
        let first = links(row).into_iter().next().unwrap_or_else(|| panic!("no link: {row}"));
        assert!(read(&first).contains(command), "{first} does not have `{command}`");
    }
}

#[test]
fn every_link_leads_to_a_page_and_a_heading() {
    let pages = pages().into_iter().chain(OUTSIDE.map(str::to_owned)).chain(["docs/SUMMARY.md".to_owned()]);
    let faults: Vec<String> = pages
        .flat_map(|page| {
            links(&read(&page)).into_iter().filter_map(|target| fault(&page, &target)).collect::<Vec<_>>()
        })
        .collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn every_page_that_is_named_elsewhere_exists() {
    let top = ["Cargo.toml", "Cross.toml", "Makefile"].map(str::to_owned);
    let of_folders = NAMES_PAGES.iter().flat_map(|folder| files(folder));
    let mut faults = Vec::new();
    let mut named = 0;
    for path in of_folders.chain(top).chain(OUTSIDE.map(str::to_owned)) {
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        // Not the path of an address, such as that of the Kubernetes documentation.
        for (at, _) in text.match_indices("docs/").filter(|(at, _)| {
            !text[..*at].ends_with(|c: char| c == '/' || c == '.' || c == '-' || c.is_alphanumeric())
        }) {
            let end = text[at..].find(|c: char| !c.is_alphanumeric() && !"/.-_#".contains(c));
            let target = text[at..end.map_or(text.len(), |end| at + end)].trim_end_matches(['.', '#']);
            if is_page(target.split('#').next().unwrap()) {
                named += 1;
                faults.extend(fault("README.md", target).map(|fault| format!("{path}: {fault}")));
            }
        }
    }
    assert!(named > 50, "{named}");
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn every_file_of_the_repository_that_a_page_names_exists() {
    let folders = NAMES_PAGES.map(|folder| format!("{folder}/"));
    let mut missing = Vec::new();
    let mut named = 0;
    for page in pages() {
        for span in prose(&read(&page)).split('`').skip(1).step_by(2) {
            let is_path = folders.iter().any(|folder| span.starts_with(folder))
                && span.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
            named += usize::from(is_path);
            if is_path && !root().join(span).exists() {
                missing.push(format!("{page}: {span}"));
            }
        }
    }
    assert!(named > 30, "{named}");
    assert!(missing.is_empty(), "{missing:#?}");
}

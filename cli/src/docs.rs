//! `weaver docs`: the book of this build, where there is no network.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use weaver_diagnostics::catalogue;
use weaver_host::table::table;

use crate::stdout::print;

const SUMMARY: &str = include_str!("../../docs/SUMMARY.md");
/// Path below `docs/` and text of each page, in the order of the book.
const PAGES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/pages.rs"));
/// Characters of a line that a search shows.
const SHOWN: usize = 100;

#[derive(Args)]
pub struct Docs {
    /// Page to print, such as `update` or `how-to/update` [default: list the pages]
    page: Option<String>,
    /// List the lines that contain this text, upper or lower case, and their pages
    #[arg(short, long, value_name = "TEXT", conflicts_with = "page")]
    search: Option<String>,
}

pub fn run(options: &Docs) -> Result<ExitCode> {
    let text = match (&options.page, &options.search) {
        (Some(wanted), _) => match find(wanted) {
            Some(text) => text.to_owned(),
            None => bail!("{}", unknown(wanted)),
        },
        (None, Some(text)) => match hits(text) {
            hits if hits.is_empty() => bail!("no page contains '{text}'"),
            hits => table(&hits, "  "),
        },
        (None, None) => contents(),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// A page's name, which is the end of its path.
fn name(path: &str) -> &str {
    let file = path.rsplit_once('/').map_or(path, |(_, file)| file);
    file.strip_suffix(".md").unwrap_or(file)
}

fn find(wanted: &str) -> Option<&'static str> {
    let wanted = wanted.strip_suffix(".md").unwrap_or(wanted);
    let is_wanted = |path: &str| name(path) == wanted || path.strip_suffix(".md") == Some(wanted);
    PAGES.iter().find(|(path, _)| is_wanted(path)).map(|(_, text)| *text)
}

fn unknown(wanted: &str) -> String {
    if let Some(code) = catalogue::find(wanted) {
        return format!("'{wanted}' is a code, not a page; `weaver explain {}` prints its entry", code.id());
    }
    let nearest =
        PAGES.iter().map(|(path, _)| (strsim::damerau_levenshtein(name(path), wanted), name(path))).min();
    let near = nearest.filter(|(distance, _)| *distance <= wanted.chars().count() / 3);
    let meant = near.map(|(_, name)| format!("; did you mean {name}?")).unwrap_or_default();
    format!(
        "there is no page '{wanted}'{meant} `weaver docs` lists the pages, `weaver docs --search TEXT` looks in them"
    )
}

/// Name and title of each page, by the parts of the book.
fn contents() -> String {
    let width = PAGES.iter().map(|(path, _)| name(path).len()).max().unwrap_or_default();
    let mut lines = Vec::new();
    for line in SUMMARY.lines() {
        // `- [Title](path.md)`; the first page is in no list.
        if let Some((title, path)) = line.strip_suffix(')').and_then(|link| link.split_once("](")) {
            lines.push(format!("  {:<width$}  {}", name(path), title.trim_start_matches(['-', ' ', '['])));
        } else if let Some(part) = line.strip_prefix("# ") {
            lines.extend([String::new(), part.to_owned()]);
        }
    }
    lines[1..].join("\n") + "\n"
}

fn hits(wanted: &str) -> Vec<Vec<String>> {
    let wanted = wanted.to_lowercase();
    let lines = PAGES.iter().flat_map(|(path, text)| text.lines().map(move |line| (name(path), line)));
    let found = lines.filter(|(_, line)| line.to_lowercase().contains(&wanted));
    found.map(|(page, line)| vec![page.to_owned(), line.trim().chars().take(SHOWN).collect()]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_page_is_listed_once_and_found_by_its_name_and_its_path() {
        assert!(PAGES.len() > 50);
        let names: BTreeSet<_> = PAGES.iter().map(|(path, _)| name(path)).collect();
        assert_eq!(names.len(), PAGES.len(), "a name stands for two pages");
        let contents = contents();
        for (path, text) in PAGES {
            assert_eq!(find(name(path)), Some(*text), "{path}");
            assert_eq!(find(path), Some(*text), "{path}");
            let lines = contents.lines().filter(|line| line.split_whitespace().next() == Some(name(path)));
            assert_eq!(lines.count(), 1, "{path}\n{contents}");
        }
    }

    #[test]
    fn what_is_no_page_leads_on() {
        assert!(unknown("updat").contains("did you mean update?"), "{}", unknown("updat"));
        assert!(unknown("n-01").contains("weaver explain N-01"), "{}", unknown("n-01"));
        assert!(!unknown("weather-forecast").contains("did you mean"), "{}", unknown("weather-forecast"));
    }

    #[test]
    fn a_search_names_page_and_line_whatever_its_case() {
        let found = hits("CGROUP_ENABLE=memory");
        assert!(found.iter().any(|row| row[0] == "codes"), "{found:?}");
        assert!(hits("no page says this, not even in parts").is_empty());
    }
}

//! `weaver docs`: the book of this build, where there is no network.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use weaver_book::{PARTS, find, pages};
use weaver_diagnostics::catalogue;
use weaver_host::table::table;

use crate::stdout::print;

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
            Some(page) => page.text.to_owned(),
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

fn unknown(wanted: &str) -> String {
    if let Some(code) = catalogue::find(wanted) {
        return format!("'{wanted}' is a code, not a page; `weaver explain {}` prints its entry", code.id());
    }
    let nearest = pages().map(|page| (strsim::damerau_levenshtein(page.name(), wanted), page.name())).min();
    let near = nearest.filter(|(distance, _)| *distance <= wanted.chars().count() / 3);
    let meant = near.map_or_else(|| ".".to_owned(), |(_, name)| format!("; did you mean {name}?"));
    format!(
        "there is no page '{wanted}'{meant} `weaver docs` lists the pages, `weaver docs --search TEXT` looks in them"
    )
}

/// Name and title of each page, by the parts of the book.
fn contents() -> String {
    let width = pages().map(|page| page.name().len()).max().unwrap_or_default();
    let mut lines = Vec::new();
    for (part, pages) in PARTS {
        if !part.is_empty() {
            lines.extend([String::new(), (*part).to_owned()]);
        }
        lines.extend(pages.iter().map(|page| format!("  {:<width$}  {}", page.name(), page.title)));
    }
    lines.join("\n") + "\n"
}

fn hits(wanted: &str) -> Vec<Vec<String>> {
    let wanted = wanted.to_lowercase();
    let lines = pages().flat_map(|page| page.text.lines().map(move |line| (page.name(), line)));
    let found = lines.filter(|(_, line)| line.to_lowercase().contains(&wanted));
    found.map(|(page, line)| vec![page.to_owned(), line.trim().chars().take(SHOWN).collect()]).collect()
}

#[cfg(test)]
mod tests {
    use weaver_book::Page;

    use super::*;

    #[test]
    fn each_page_is_listed_once() {
        let contents = contents();
        for name in pages().map(Page::name) {
            let lines = contents.lines().filter(|line| line.split_whitespace().next() == Some(name));
            assert_eq!(lines.count(), 1, "{name}\n{contents}");
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

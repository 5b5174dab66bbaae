//! The book of this build, where there is no network: the pages of `docs/` in Markdown, in the order of its table of
//! contents.

/// A page of the book.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Below `docs/`, such as `how-to/update.md`.
    pub path: &'static str,
    /// As the table of contents has it.
    pub title: &'static str,
    /// Markdown. Its links lead to other pages by relative paths.
    pub text: &'static str,
}

/// A part of the book; the first has no name, and the introduction alone.
pub type Part = (&'static str, &'static [Page]);

pub const PARTS: &[Part] = include!(concat!(env!("OUT_DIR"), "/parts.rs"));

/// All pages, in their order.
pub fn pages() -> impl Iterator<Item = &'static Page> {
    PARTS.iter().flat_map(|(_, pages)| *pages)
}

impl Page {
    /// The end of its path, without `.md`. No two pages have the same.
    pub fn name(&self) -> &'static str {
        let file = self.path.rsplit_once('/').map_or(self.path, |(_, file)| file);
        file.strip_suffix(".md").unwrap_or(file)
    }
}

/// The page of this name, or of this path with or without `.md`.
pub fn find(wanted: &str) -> Option<&'static Page> {
    let wanted = wanted.strip_suffix(".md").unwrap_or(wanted);
    pages().find(|page| page.name() == wanted || page.path.strip_suffix(".md") == Some(wanted))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_page_is_found_by_its_name_and_its_path() {
        let names: BTreeSet<_> = pages().map(Page::name).collect();
        assert!(names.len() > 50 && names.len() == pages().count(), "a name stands for two pages");
        for page in pages() {
            assert_eq!((find(page.name()), find(page.path)), (Some(page), Some(page)));
            assert!(format!("\n{}", page.text).contains("\n# ") && !page.title.is_empty(), "{}", page.path);
        }
        assert_eq!(find("weather-forecast"), None);
    }

    #[test]
    fn the_parts_are_those_of_the_table_of_contents() {
        assert_eq!((PARTS[0].0, PARTS[0].1.len()), ("", 1));
        let titles: Vec<&str> = PARTS[1..].iter().map(|(title, _)| *title).collect();
        assert_eq!(titles, ["Tutorials", "How-to", "Reference", "Explanation"]);
        assert!(PARTS[1..].iter().all(|(_, pages)| pages.len() > 2));
    }
}

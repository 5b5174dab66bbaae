//! A page of the documentation, a part of which a program writes: the part between `<!-- NAME: begin -->` and `<!--
//! NAME: end -->`, each on a line of its own. The rest of the page is not touched.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use weaver_devstack::files;

/// Replaces the part.
///
/// # Errors
/// When the page cannot be read or written, or has no such part; it stays as it is then.
pub fn replace(page: &Path, name: &str, part: &str) -> Result<()> {
    let text = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let (begin, end) = markers(name);
    let text = with_part(&text, name, part)
        .with_context(|| format!("{} has no lines {} and {}", page.display(), begin.trim(), end.trim()))?;
    files::replace(page, text.as_bytes(), 0o644)
}

/// A cell of a table, which ends at a bar and at the end of its line.
pub fn cell(text: impl AsRef<str>) -> String {
    text.as_ref().replace('|', "\\|").replace('\n', " ")
}

fn markers(name: &str) -> (String, String) {
    (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->\n"))
}

fn with_part(page: &str, name: &str, part: &str) -> Option<String> {
    let (begin, end) = markers(name);
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}{part}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_markers_is_replaced() {
        let (begin, end) = markers("matrix");
        assert_eq!(begin, "<!-- matrix: begin -->\n");
        let page = format!("before\n{begin}old\n{end}after\n");
        let new = format!("before\n{begin}new\n{end}after\n");
        assert_eq!(with_part(&page, "matrix", "new\n").unwrap(), new);
        assert_eq!(with_part(&page, "soak", "new\n"), None);
        assert_eq!(with_part(&format!("{end}{begin}"), "matrix", "new\n"), None);
    }

    #[test]
    fn a_page_without_markers_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let page = dir.path().join("page.md");
        fs::write(&page, "no markers\n").unwrap();
        let error = format!("{:#}", replace(&page, "soak", "new\n").unwrap_err());
        assert!(
            error.ends_with("page.md has no lines <!-- soak: begin --> and <!-- soak: end -->"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&page).unwrap(), "no markers\n");
    }

    #[test]
    fn a_cell_stays_in_its_row() {
        assert_eq!(cell("a | b\nc"), "a \\| b c");
    }
}

//! The few forms of Markdown that the page has.

/// Running text on one line. `<` outside code would begin a tag and hide what follows.
pub(super) fn inline(text: &str) -> String {
    let shown = |(index, part): (usize, &str)| {
        // Between two backticks is code.
        if index % 2 == 1 { part.to_owned() } else { part.replace('<', r"\<") }
    };
    let parts: Vec<String> = one_line(text).split('`').enumerate().map(shown).collect();
    parts.join("`")
}

/// A value as code, on one line.
pub(super) fn code(text: &str) -> String {
    let text = one_line(text);
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}

/// A table of cells that [`inline`] and [`code`] made; nothing where there are no rows.
pub(super) fn table(columns: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    // `|` would end the cell, within code too; outside a table the escape would be shown, so it is added here.
    let cell = |text: &String| match text.replace('|', r"\|") {
        text if text.is_empty() => " |".into(),
        text => format!(" {text} |"),
    };
    let mut lines = String::new();
    for cells in rows {
        lines.push('|');
        lines.extend(cells.iter().map(cell));
        lines.push('\n');
    }
    if lines.is_empty() {
        return lines;
    }
    format!("| {} |\n|{}\n{lines}", columns.join(" | "), "---|".repeat(columns.len()))
}

fn one_line(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_on_one_line_and_all_are_seen() {
        for (text, shown) in [
            ("one\n  two\n\nthree\n", "one two three"),
            ("as <name>, not `<name>`", r"as \<name>, not `<name>`"),
            ("an odd ` <x>", "an odd ` <x>"),
            ("", ""),
        ] {
            assert_eq!(inline(text), shown);
        }
    }

    #[test]
    fn code_is_fenced_by_what_it_does_not_hold() {
        for (text, shown) in [("a || <b>", "`a || <b>`"), ("a\n  + b", "`a + b`"), ("a`b", "`` a`b ``")] {
            assert_eq!(code(text), shown);
        }
    }

    #[test]
    fn bars_stay_in_their_cell() {
        let row = vec!["1".to_owned(), String::new(), code("a || b")];
        let shown = "| a | b | c |\n|---|---|---|\n| 1 | | `a \\|\\| b` |\n";
        assert_eq!(table(&["a", "b", "c"], [row].into_iter()), shown);
        assert_eq!(table(&["a", "b"], std::iter::empty()), "");
    }
}

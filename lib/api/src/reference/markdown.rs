//! Texts of a definition as Markdown.

/// Running text on one line. `<` outside code would begin a tag and hide what follows.
pub fn inline(text: &str) -> String {
    let shown = |(index, part): (usize, &str)| {
        // Between two backticks is code.
        if index % 2 == 1 { part.to_owned() } else { part.replace('<', r"\<") }
    };
    let parts: Vec<String> = one_line(text).split('`').enumerate().map(shown).collect();
    parts.join("`")
}

/// A value as code, on one line.
pub fn code(text: &str) -> String {
    let text = one_line(text);
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
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
}

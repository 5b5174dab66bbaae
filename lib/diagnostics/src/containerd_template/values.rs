//! Values and headers that TOML does not take. Pure.

/// Whether the line gives a value to a name.
pub(super) fn is_assignment(line: &str) -> bool {
    let name = line.split_once('=').map(|(name, _)| name.trim());
    name.is_some_and(|name| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    })
}

/// The first line whose value is a word without quotes. Of values that span lines, and of what an action
/// writes, nothing.
pub(super) fn bare_word(lines: &[(u64, &str)]) -> Option<u64> {
    let is_bare = |text: &str| {
        let value = text.split_once('=').filter(|_| is_assignment(text));
        let value = value.map_or("", |(_, value)| value.split('#').next().unwrap_or_default().trim());
        value.starts_with(|c: char| c.is_ascii_alphabetic())
            && !value.contains("{{")
            && value.parse::<toml_edit::Value>().is_err()
    };
    lines.iter().find(|(_, text)| !has_long_text(lines) && is_bare(text)).map(|(line, _)| *line)
}

/// In a text of many lines there may be anything.
fn has_long_text(lines: &[(u64, &str)]) -> bool {
    lines.iter().any(|(_, text)| ["\"\"\"", "'''"].iter().any(|quotes| text.contains(quotes)))
}

/// The first header of a table that does not end. A line of a list of lists begins with the same bracket.
pub(super) fn open_header(lines: &[(u64, &str)]) -> Option<u64> {
    let is_open = |text: &str| {
        text.starts_with('[') && !text.contains([']', ',', '=']) && !text.contains("{{") && text.len() > 1
    };
    let mut before = "";
    for (line, text) in lines.iter().filter(|(_, text)| !text.is_empty()) {
        if is_open(text) && !before.ends_with(['[', ',', '=']) && !has_long_text(lines) {
            return Some(*line);
        }
        before = text;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_without_quotes() {
        for (text, want) in [
            ("level = debug", true),
            ("level = debug # more", true),
            ("enable = yes", true),
            ("level = \"debug\"", false),
            ("enable = true # yes", false),
            ("limit = inf", false),
            ("size = 10", false),
            ("list = [", false),
            ("path = {{ .NodeConfig.A }}", false),
            ("path = a{{ .NodeConfig.A }}", false),
            ("[a.b]", false),
            ("'a = b',", false),
        ] {
            assert_eq!(bare_word(&[(1, text)]).is_some(), want, "{text}");
        }
        assert_eq!(bare_word(&[(1, "a = \"\"\""), (2, "b = c")]), None);
    }

    #[test]
    fn a_header_that_does_not_end() {
        for (lines, want) in [
            (&["[debug]", "[plugins.x", "  a = 1"][..], Some(2)),
            (&["[[a", "b = 1"], Some(1)),
            (&["[debug] # more", "a = [", "  [", "  \"b\"", "  ],", "]"], None),
            (&["a = [", "[\"b\"", "]", "]"], None),
            (&["[plugins.'{{ .X }}"], None),
            (&["a = \"\"\"", "[b", "\"\"\""], None),
        ] {
            let lines: Vec<_> = (1..).zip(lines.iter().copied()).collect();
            assert_eq!(open_header(&lines), want, "{lines:?}");
        }
    }
}

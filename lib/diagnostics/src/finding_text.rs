//! A finding as a user reads it. Control characters are shown and not obeyed.

use crate::finding::{Finding, Remedy};

/// Longest line of evidence. The remedy is never cut.
const EVIDENCE: usize = 400;
/// A message may list the served names, which are worth reading to the end.
const MESSAGE: usize = 8 * 1024;

/// The finding on lines of its own; the first begins with its code.
pub fn text(finding: &Finding) -> String {
    let severity = finding.severity().to_string().to_uppercase();
    let mut out = format!("{}  {severity:8}{}\n", finding.code.id(), finding.name);
    out.extend(["        ", &cut(&finding.message, MESSAGE), "\n"]);
    for evidence in &finding.evidence {
        out.extend(["        seen  ", &cut(&evidence.to_string(), EVIDENCE), "\n"]);
    }
    if let Some(remedy) = &finding.remedy {
        write_remedy(&mut out, remedy);
    }
    out
}

fn write_remedy(out: &mut String, remedy: &Remedy) {
    let mut explain = remedy.explain.lines();
    out.extend(["        do    ", &clean(explain.next().unwrap_or_default()), "\n"]);
    for line in explain {
        out.extend(["                ", &clean(line), "\n"]);
    }
    for command in &remedy.commands {
        out.extend(["              $ ", &clean(command), "\n"]);
    }
    for line in remedy.diff.iter().flat_map(|diff| diff.lines()) {
        out.extend(["              | ", &clean(line), "\n"]);
    }
}

/// Does a terminal obey this character, or does it hide or reorder the text around it? Control characters (C0, C1),
/// line and paragraph separators, bidirectional marks, and zero-width characters.
pub fn is_unprintable(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
        )
}

fn escaped(text: &str, is_kept: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unprintable(c) && !is_kept(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A foreign value on one line: files, annotations and answers may contain terminal sequences, which are shown and
/// not obeyed.
pub fn clean(text: &str) -> String {
    escaped(text, |_| false)
}

/// Text of our own, in which line feeds and tabs are ours.
pub fn clean_lines(text: &str) -> String {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

/// JSON that a terminal does not obey either: JSON itself escapes only what is below a space. Still the same document.
pub fn clean_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if c != '\n' && is_unprintable(c) {
            let mut units = [0; 2];
            shown.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// What someone else says, as evidence: quoted, cut, and nothing that looks like a command to type.
pub fn quoted(text: &str, longest: usize) -> String {
    format!("\"{}\"", cut(text, longest).replace('"', "\\\"").replace('$', "\\u{24}"))
}

/// What comes from a file, at most so many characters of it, on one line and without terminal sequences.
pub fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((end, _)) => clean(&text[..end]) + "…",
        None => clean(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Code, Place};

    #[test]
    fn the_first_line_begins_with_the_code_and_no_terminal_sequence_is_obeyed() {
        let finding = Finding::new(Code::NameInvalid, "bad \u{1b}[31mname")
            .saw(Place::line("/c.yaml", 2), "x".repeat(500))
            .remedy(Remedy::new("write:\n- pi").command("true"));
        let text = text(&finding);
        assert!(
            text.starts_with(
                "T-08  FAIL    name-invalid\n        bad \\u{1b}[31mname\n        seen  /c.yaml:2: xxx"
            ),
            "{text}"
        );
        assert!(text.ends_with("do    write:\n                - pi\n              $ true\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() < EVIDENCE + 20));
    }

    #[test]
    fn what_hides_or_reorders_text_is_shown_and_json_stays_the_same_document() {
        let hostile = "a\u{1b}\u{9b}\r\n\t\u{202e}\u{2066}\u{200b}\u{2028}\u{feff}\u{e0041}é 🦀";
        let shown = clean(hostile);
        assert!(!shown.contains(is_unprintable), "{shown:?}");
        assert_eq!(clean(&shown), shown);
        assert!(shown.starts_with("a\\u{1b}\\u{9b}\\r\\n\\t\\u{202e}") && shown.ends_with("é 🦀"), "{shown}");
        assert_eq!(clean_lines("a\tb\n\r"), "a\tb\n\\r");
        let json = clean_json(&serde_json::to_string(hostile).unwrap());
        assert!(!json.contains(is_unprintable), "{json:?}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), hostile);
        assert_eq!(quoted("$ curl \"x\"\ny", 9), r#""\u{24} curl \"x…""#);
    }

    #[test]
    fn evidence_is_cut_and_what_is_to_be_done_is_not() {
        let long = |c: &str| c.repeat(3000) + "END";
        let remedy = Remedy { diff: Some(long("d")), ..Remedy::new(long("e")).command(long("c")) };
        let finding =
            Finding::new(Code::NameNotServed, long("m")).saw(Place::file("/f"), long("s")).remedy(remedy);
        let shown = text(&finding);
        assert_eq!(shown.matches("END").count(), 4, "{shown}");
        assert!(!shown.contains("sEND") && shown.contains("s…\n"), "{shown}");
        let endless = Finding::new(Code::NameNotServed, "m".repeat(100_000));
        assert!(text(&endless).len() < 10_000);
    }
}

//! From bytes to a TOML document, going on after a mistake where that is safe.
//!
//! The parser stops at its first error. To tell every fault at once, what is
//! wrong is left out and the rest parsed again: mostly a line; a list that was
//! never closed, up to the line where the parser noticed; a section that is
//! there twice, whole. Otherwise one mistake would bring forth others.

use std::ops::Range;

use toml_edit::Document;

use super::{
    FILE_LIMIT,
    fault::{Fault, Faults, place},
};

/// No one corrects more at a time.
const MOST_ERRORS: usize = 32;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The text of a file, and how many bytes before it were skipped.
pub(super) fn text(file: &[u8]) -> Result<(&str, usize), Fault> {
    let whole =
        |message: String, remedy: &str| Fault { line: 1, column: 1, message, remedy: remedy.to_owned() };
    if file.len() > FILE_LIMIT {
        let message = format!("the file is larger than {} KiB and was not read", FILE_LIMIT / 1024);
        return Err(whole(message, "keep only the settings in it"));
    }
    if file.starts_with(b"\xff\xfe") || file.starts_with(b"\xfe\xff") {
        let message = "the file is UTF-16, not UTF-8".to_owned();
        return Err(whole(message, "save it again and choose UTF-8 as its encoding"));
    }
    let (text, skipped) = match file.strip_prefix(BYTE_ORDER_MARK) {
        Some(text) => (text, BYTE_ORDER_MARK.len()),
        None => (file, 0),
    };
    std::str::from_utf8(text).map(|text| (text, skipped)).map_err(|error| {
        let (line, column) = place(text, error.valid_up_to());
        Fault { line, column, ..whole("this is not UTF-8".to_owned(), "save the file again as UTF-8") }
    })
}

/// The document; without what is wrong, which is added to the faults. `None` where no document is left.
pub(super) fn document(text: &str, faults: &mut Faults<'_>) -> Option<Document<String>> {
    let mut rest = text.to_owned();
    for found in 0..=MOST_ERRORS {
        let error = match Document::parse(rest.clone()) {
            Ok(document) => return Some(document),
            Err(error) => error,
        };
        let at = error.span().map_or(0, |span| span.start).min(text.len());
        if found == MOST_ERRORS {
            faults.add_at(
                Some(&(at..at)),
                "not valid TOML; the rest was not checked",
                "correct the text before it",
            );
            return None;
        }
        let (wrong, remedy) = wrong_part(&rest, at, error.message());
        faults.add_at(Some(&(at..at)), format!("not TOML: {}", error.message()), remedy);
        let left = blank(&rest, &wrong);
        if left == rest {
            return None;
        }
        rest = left;
    }
    None
}

/// What to leave out, and what to do about it.
fn wrong_part(text: &str, at: usize, message: &str) -> (Range<usize>, String) {
    let line = line_around(text, at);
    let words = text.get(line.clone()).unwrap_or_default();
    if message.contains("duplicate key") {
        if !is_header(words) {
            return (line, "keep one of the two lines".to_owned());
        }
        let end = next_header(text, line.start).unwrap_or(text.len());
        return (line.start..end, "keep one of the two sections, with the keys of both".to_owned());
    }
    // A good beginning of something new is no mistake: what is above it was not ended.
    let is_new = is_header(words) || (is_assignment(words) && message.contains("missing comma"));
    let opener = lines(text)
        .take_while(|other| other.start < line.start)
        .filter(|other| is_assignment(&text[other.clone()]))
        .last();
    if let Some(opener) = opener.filter(|_| is_new) {
        let (number, _) = place(text.as_bytes(), opener.start);
        let end = next_header(text, opener.start).filter(|header| *header < line.start).unwrap_or(line.start);
        return (
            opener.start..end,
            format!("the list that begins on line {number} is not closed: end it with ]"),
        );
    }
    let remedy = "write it as `key = \"value\"`, lists as [\"a\", \"b\"]; remove what does not belong there";
    (line, remedy.to_owned())
}

/// Where the first header behind a byte begins.
fn next_header(text: &str, after: usize) -> Option<usize> {
    lines(text).find(|line| line.start > after && is_header(&text[line.clone()])).map(|line| line.start)
}

fn is_header(words: &str) -> bool {
    let words = words.split('#').next().unwrap_or_default().trim();
    let name = words.trim_start_matches('[').trim_end_matches(']');
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    words.starts_with('[') && words.ends_with(']') && !name.is_empty() && name.chars().all(is_part)
}

fn is_assignment(words: &str) -> bool {
    let name = words.split_once('=').map_or("", |(name, _)| name.trim());
    !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '"'))
}

/// The same text with spaces there, and every line where it was.
fn blank(text: &str, wrong: &Range<usize>) -> String {
    let spaces = text[wrong.clone()]
        .bytes()
        .map(|byte| if matches!(byte, b'\r' | b'\n') { char::from(byte) } else { ' ' });
    [&text[..wrong.start], &spaces.collect::<String>(), &text[wrong.end..]].concat()
}

/// The lines, without their ends.
fn lines(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    text.split('\n').map(move |line| {
        let range = start..start + line.len();
        start = range.end + 1;
        range
    })
}

/// The line around a byte.
fn line_around(text: &str, at: usize) -> Range<usize> {
    lines(text).find(|line| at <= line.end).unwrap_or(text.len()..text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(text: &str) -> (bool, Vec<u64>) {
        let mut faults = Faults::new(text);
        let found = document(text, &mut faults).is_some();
        (found, faults.into_sorted().into_iter().map(|fault| fault.line).collect())
    }

    #[test]
    fn errors_apart_from_each_other_are_reported_together() {
        assert_eq!(lines_of("a = 1\nb = \"x\n\nc = 3\nd = = 4\ne = 5\n"), (true, vec![2, 5]));
        assert_eq!(lines_of("a = 1\na = 2\nb = 3\nb = 4\n"), (true, vec![2, 4]));
        assert_eq!(
            lines_of("a = raspi\nb = 1.2.3.4/24\nc = 5\n"),
            (true, vec![1, 2]),
            "on lines side by side"
        );
    }

    #[test]
    fn one_mistake_does_not_bring_forth_others() {
        for (text, want) in [
            ("[api]\nnames = [\"a\",\n  \"b\"\n\n[ssh]\nkeys = [\"x\"]\n[time]\nservers = 1\n", 5),
            ("[api]\nnames = [\"a\",\n\n[ssh]\nkeys = [\"x\"]\n", 5),
            ("[k3s]\na = [\"x\"\nb = 1\n", 3),
            ("[api]\na = 1\n[api]\nb = 1\n[ssh]\n", 3),
            ("a = [\n", 1),
        ] {
            assert_eq!(lines_of(text), (true, vec![want]), "{text:?}");
        }
    }

    #[test]
    fn where_nothing_is_left_to_leave_out_there_is_no_document() {
        assert_eq!(lines_of("a = \"\"\"x\nb = 1\n"), (false, vec![3]));
    }

    #[test]
    fn a_list_that_is_not_closed_is_named_where_it_begins() {
        let text = "a = 1\nb = [\"x\"\n[ssh]\n";
        let mut faults = Faults::new(text);
        document(text, &mut faults).unwrap();
        assert!(faults.into_sorted()[0].remedy.contains("begins on line 2"));
    }

    #[test]
    fn what_is_no_text_is_one_fault() {
        let huge = vec![b'#'; FILE_LIMIT + 1];
        let (wide, broken) = (b"\xff\xfea\0".as_slice(), b"# ok\na = \"\xff\"".as_slice());
        for (file, line, says) in [(huge.as_slice(), 1, "64 KiB"), (wide, 1, "UTF-16"), (broken, 2, "UTF-8")]
        {
            let fault = text(file).unwrap_err();
            assert_eq!(fault.line, line, "{fault:?}");
            assert!(fault.message.contains(says), "{fault:?}");
        }
        assert!(text(&vec![b'#'; FILE_LIMIT]).is_ok());
        assert_eq!(text(b"\xef\xbb\xbfa").unwrap(), ("a", 3));
    }
}

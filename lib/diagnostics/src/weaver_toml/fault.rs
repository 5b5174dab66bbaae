//! Faults of `weaver.toml`: where, what, and what to write instead.

use std::ops::Range;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Line, from 1.
    pub line: u64,
    /// Column in characters, from 1.
    pub column: u64,
    /// What is wrong. Holds no secret.
    pub message: String,
    /// What to write instead.
    pub remedy: String,
}

/// What is wrong with a value, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mistake {
    pub message: String,
    pub remedy: String,
}

impl Mistake {
    pub fn new(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { message: message.into(), remedy: remedy.into() }
    }
}

/// The faults found so far in one text.
pub(super) struct Faults<'t> {
    text: &'t str,
    found: Vec<(usize, Mistake)>,
}

impl<'t> Faults<'t> {
    pub const fn new(text: &'t str) -> Self {
        Self { text, found: Vec::new() }
    }

    /// Adds a fault at the start of `span`, in bytes.
    pub fn add(&mut self, span: Option<&Range<usize>>, mistake: Mistake) {
        self.found.push((span.map_or(0, |span| span.start), mistake));
    }

    pub fn add_at(
        &mut self,
        span: Option<&Range<usize>>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.add(span, Mistake::new(message, remedy));
    }

    /// The value, or its mistake among the faults.
    pub fn take<T>(&mut self, span: Option<&Range<usize>>, judged: Result<T, Mistake>) -> Option<T> {
        judged.map_err(|mistake| self.add(span, mistake)).ok()
    }

    pub fn place(&self, span: Option<&Range<usize>>) -> (u64, u64) {
        place(self.text.as_bytes(), span.map_or(0, |span| span.start))
    }

    pub fn into_sorted(mut self) -> Vec<Fault> {
        self.found.sort_by_key(|(start, _)| *start);
        let text = self.text.as_bytes();
        let fault = |(start, Mistake { message, remedy })| {
            let (line, column) = place(text, start);
            Fault { line, column, message, remedy }
        };
        self.found.into_iter().map(fault).collect()
    }
}

/// Line and column, both from 1, of a byte of a text that may be no UTF-8.
pub(super) fn place(text: &[u8], at: usize) -> (u64, u64) {
    let before = text.get(..at).unwrap_or(text);
    let lines = before.split(|byte| *byte == b'\n');
    let last = lines.clone().next_back().unwrap_or_default();
    let column = String::from_utf8_lossy(last).chars().count() + 1;
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    (number(lines.count()), number(column))
}

/// A value as a message may repeat it: short, on one line, and nothing that looks like a secret.
pub(super) fn shown(value: &str) -> String {
    const LONGEST: usize = 60;
    let is_secret = value.contains("PRIVATE KEY") || (value.starts_with("K10") && value.contains("::"));
    if is_secret {
        return "the value (a secret, not repeated here)".to_owned();
    }
    let cut: String = value.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    let more = if value.chars().nth(LONGEST).is_some() { "…" } else { "" };
    format!("`{cut}{more}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_from_one_and_in_characters() {
        for (text, at, want) in [
            ("", 0, (1, 1)),
            ("abc", 2, (1, 3)),
            ("a\nb", 2, (2, 1)),
            ("a\r\nb = x", 7, (2, 5)),
            ("ü = x", 5, (1, 5)),
            ("a\n", 99, (2, 1)),
        ] {
            assert_eq!(place(text.as_bytes(), at), want, "{text:?} {at}");
        }
    }

    #[test]
    fn what_looks_like_a_secret_is_not_shown() {
        assert!(!shown("K10abcdef::server:hunter2").contains("hunter2"));
        assert!(!shown("-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2").contains("hunter2"));
        assert_eq!(shown("a\tb"), "`a\\tb`");
        assert_eq!(shown(&"x".repeat(99)).chars().count(), 63);
    }
}

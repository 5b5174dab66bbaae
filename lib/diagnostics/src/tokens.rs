//! Tokens and other secrets in what others print.
//!
//! A secret is found by the name in front of it ([`secret_name`]) or by its own form ([`known`]). More is removed
//! than needs to be: what is lost can be asked for, and what is given away cannot be taken back.

mod known;
mod line;
mod secret_name;

pub use known::without_tokens;
pub use line::without_secrets;

use secret_name::{Redacted, secret_name_field, value_field, without_value_at, without_values};

/// Lines of a private key at most; one of 8,192 bits has a hundred.
const KEY_LINES: usize = 128;

/// A quoted value that does not end on its line ends within so many, or is taken to end there.
const QUOTED_LINES: usize = 64;

/// The text as it may be given to others: no tokens, no private keys, nothing behind a name that sounds like a
/// secret's, no one in a URL. What is indented below such a name is removed, too.
pub fn redacted(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    // Lines that a private key may still have.
    let mut key_lines = 0_usize;
    // Below a name whose value is not, or not whole, on its line; behind a line that continues.
    let (mut below, mut continues) = (None, false);
    // The line above names a secret whose value is a field of its own.
    let mut named_above = false;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    // The last line of a quoted value, from 1.
    let mut quoted_to = 0;
    for (number, line) in (1..).zip(&lines) {
        let last = |mark: &str| line.rfind(mark);
        let begins = last("-----BEGIN").filter(|_| line.contains("PRIVATE KEY"));
        let ends = last("-----END");
        // Anyone can write such a mark: it hides no more than what looks like a key.
        let in_key = key_lines > 0 && (ends.is_some() || begins.is_some() || is_of_key(line));
        let is_end = ends.is_some() && line.contains("PRIVATE KEY");
        if is_end && !in_key && begins.is_none() {
            // Its beginning was cut off.
            let keys = kept.split_inclusive('\n').rev().take(KEY_LINES).take_while(|line| is_of_key(line));
            kept.truncate(kept.len() - keys.map(str::len).sum::<usize>());
        }
        if begins.is_some() || in_key || is_end {
            if !in_key {
                kept.push_str("(private key)\n");
            }
            key_lines = if begins > ends {
                KEY_LINES
            } else if in_key && ends.is_none() {
                key_lines - 1
            } else {
                0
            };
            continue;
        }
        key_lines = 0;
        let indent = line.len() - line.trim_start().len();
        let is_below = |above| {
            line.trim().is_empty() || indent > above || indent == above && line[indent..].starts_with("- ")
        };
        let outer = below.filter(|above| is_below(*above));
        let is_hidden = std::mem::take(&mut continues) || number <= quoted_to || outer.is_some();
        let name = secret_name_field(line);
        let paired = name.or(named_above.then_some(0)).and_then(|from| value_field(line, from));
        named_above = name.is_some() && paired.is_none();
        let Redacted { text, is_secret, is_open, quote } =
            paired.map_or_else(|| without_values(line), |begin| without_value_at(line, begin));
        if !is_hidden {
            kept.push_str(&text);
        }
        // A hidden line may itself begin a value that continues below.
        below =
            outer.or(is_open.then_some(indent)).map(|above| if is_open { above.min(indent) } else { above });
        continues = (is_secret || is_hidden) && line.trim_end().ends_with('\\');
        if let Some(quote) = quote {
            let end = lines[number..].iter().take(QUOTED_LINES).position(|line| line.contains(quote));
            quoted_to = quoted_to.max(end.map_or(0, |end| number + end + 1));
        }
    }
    kept
}

/// Could it be a line of a private key, behind whatever a log puts before it?
fn is_of_key(line: &str) -> bool {
    let line = line.trim();
    let word = line.rsplit(char::is_whitespace).next().unwrap_or_default();
    let word = word.trim_matches(|c: char| "\"',|\\".contains(c));
    let is_header = ["Proc-Type:", "DEK-Info:"].iter().any(|header| line.contains(header));
    // Words of prose are letters, too: behind a prefix only what is long, or ends as base64 does.
    let is_alone = word.len() + 4 >= line.len();
    let is_base64 = word.chars().all(|c| c.is_ascii_alphanumeric() || "+/=".contains(c));
    is_header || word == "(base64)" || is_base64 && (is_alone || word.len() >= 16 || word.ends_with('='))
}

#[cfg(test)]
mod tests;

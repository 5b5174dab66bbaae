//! Secrets that are known by their own form: tokens by their prefix, base64 by its content.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};

/// How tokens of others begin, and at least so many characters follow.
const PREFIXES: [(&str, usize); 30] = [
    ("hvs.", 8),
    ("hvb.", 8),
    ("hvr.", 8),
    ("AKIA", 12),
    ("ASIA", 12),
    ("ghp_", 8),
    ("gho_", 8),
    ("ghu_", 8),
    ("ghs_", 8),
    ("ghr_", 8),
    ("github_pat_", 8),
    ("glpat-", 8),
    ("gldt-", 8),
    ("glrt-", 8),
    ("xoxa-", 8),
    ("xoxb-", 8),
    ("xoxp-", 8),
    ("xoxr-", 8),
    ("xoxs-", 8),
    ("xapp-", 8),
    ("tskey-", 8),
    ("sk-", 16),
    ("sk_live_", 8),
    ("rk_live_", 8),
    ("npm_", 20),
    ("dckr_pat_", 8),
    ("AGE-SECRET-KEY-", 8),
    ("AIza", 30),
    ("ya29.", 8),
    ("whsec_", 8),
];
/// A word of so many letters that are all of base64 is no word: the lines of a PEM have 64.
const LONG: usize = 60;
/// Shorter text cannot be distinguished from a word.
const SHORT: usize = 12;
/// `-----BEGIN` in base64.
const PEM: &str = "LS0tLS1CRUdJTi";
/// It may be cut anywhere.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, NO_PAD.with_decode_allow_trailing_bits(true));

/// Without tokens, without what is in base64 and long, without who logs in by a URL.
pub(super) fn of_no_one(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for piece in without_tokens(text).split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        let space = &piece[word.len()..];
        let join = word.find("K10").filter(|at| word[*at..].contains("::"));
        match (join, login(word)) {
            _ if word.contains(PEM) => kept.push_str("(pem)"),
            (Some(at), _) => kept.extend([&word[..at], "(token)"]),
            (None, Some((from, to))) => kept.extend([&word[..from], "(removed)", &word[to..]]),
            (None, None) => kept.push_str(&without_base64(word)),
        }
        kept.push_str(space);
    }
    kept
}

/// Where in a word someone logs in by a URL. The digest of an image stands behind such a sign as well.
fn login(word: &str) -> Option<(usize, usize)> {
    let from = word.find("://")? + 3;
    let ends = |at: &usize| !word[at + 1..].starts_with("sha256:");
    let to = word[from..].rmatch_indices('@').map(|(at, _)| from + at).find(ends)?;
    Some((from, to))
}

/// The line without who logs in by a URL.
pub(super) fn without_logins(line: &str) -> Cow<'_, str> {
    if !line.split_whitespace().any(|word| login(word).is_some()) {
        return Cow::Borrowed(line);
    }
    let mut kept = String::with_capacity(line.len());
    for word in line.split_inclusive(char::is_whitespace) {
        match login(word) {
            Some((from, to)) => kept.extend([&word[..from], "(removed)", &word[to..]]),
            None => kept.push_str(word),
        }
    }
    Cow::Owned(kept)
}

fn is_base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '+' | '/')
}

/// Without what is in base64, and long or a login. Digests and paths are long as well, and have no capitals.
fn without_base64(word: &str) -> Cow<'_, str> {
    let is_one =
        |run: &str| run.len() >= LONG && run.contains(|c: char| c.is_ascii_uppercase()) || is_login(run);
    if !word.split(|c| !is_base64(c)).any(is_one) {
        return Cow::Borrowed(word);
    }
    let mut kept = String::with_capacity(word.len());
    for piece in word.split_inclusive(|c| !is_base64(c)) {
        let run = piece.trim_end_matches(|c| !is_base64(c));
        kept.extend([if is_one(run) { "(base64)" } else { run }, &piece[run.len()..]]);
    }
    Cow::Owned(kept)
}

/// `USER:PASSWORD`, or JSON, in base64: printable, with a colon in it.
fn is_login(run: &str) -> bool {
    let printable =
        |text: &String| text.contains(':') && text.chars().all(|c| matches!(c, ' '..='~' | '\n' | '\t'));
    decoded(run).as_ref().is_some_and(printable)
}

/// What is in base64 there, if it is text.
fn decoded(run: &str) -> Option<String> {
    if run.len() < SHORT {
        return None;
    }
    // One character after whole groups of four has no whole byte.
    let whole = &run.as_bytes()[..run.len() - usize::from(run.len() % 4 == 1)];
    String::from_utf8(BASE64.decode(whole).ok()?).ok()
}

/// Does a token begin somewhere in this word?
fn has_prefix(word: &str) -> bool {
    PREFIXES.iter().any(|(prefix, least)| {
        word.match_indices(prefix).any(|(at, _)| {
            let before = word[..at].chars().next_back();
            let is_begin = before.is_none_or(|c| !c.is_ascii_alphanumeric());
            let rest = &word[at + prefix.len()..];
            let of_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            // The short ones are parts of words as well.
            (is_begin || prefix.len() > 4)
                && rest.chars().take(*least).filter(|c| of_token(*c)).count() >= *least
        })
    })
}

/// The text without the tokens in it: of accounts (three parts in base64, the first a JSON object), of k3s
/// (`K10…`), and of others that are known by how they begin, also in base64.
pub fn without_tokens(text: &str) -> Cow<'_, str> {
    let of_token = |c: char| c.is_ascii_alphanumeric() || "-_.:+/=".contains(c);
    let is_known = |word: &str| {
        let account = word.find("eyJ").is_some_and(|at| word[at..].matches('.').count() >= 2);
        let join = word.find("K10").is_some_and(|at| word[at..].contains("::"));
        word.len() >= SHORT && (word.len() >= 20 && (account || join) || has_prefix(word))
    };
    let is_token = |word: &str| {
        let mut runs = word.split(|c| !is_base64(c));
        is_known(word) || runs.any(|run| decoded(run).is_some_and(|inner| is_known(&inner)))
    };
    let mut words = text.split(|c| !of_token(c));
    if !words.any(is_token) {
        return Cow::Borrowed(text);
    }
    let mut kept = String::with_capacity(text.len());
    for piece in text.split_inclusive(|c| !of_token(c)) {
        let word = piece.trim_end_matches(|c| !of_token(c));
        kept.push_str(if is_token(word) { "(token)" } else { word });
        kept.push_str(&piece[word.len()..]);
    }
    Cow::Owned(kept)
}

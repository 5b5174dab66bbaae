//! Secrets that stand behind a name: of a setting, a flag, a variable, a field, a header, an element.

use super::known::of_no_one;
use crate::weaver_toml::SECRET_OPTIONS;

/// For these the rest of the line is removed as well: what follows is a header, or has an unknown form.
pub(super) const STRONG: [&str; 15] = [
    "token",
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "secret",
    "psk",
    "key-data",
    "private-key",
    "api-key",
    "access-key",
    "authorization",
    "bearer",
    "cookie",
    "credential",
];
/// For these only the value is removed: they are parts of many names that are no secrets'.
const WEAK: [&str; 8] = ["key", "auth", "cred", "session", "pass", "signature", "sig", "jwt"];
/// How names end that are not those of secrets: of files, units, modes.
const HARMLESS_ENDS: [&str; 18] = [
    "file",
    "files",
    "dir",
    "path",
    "name",
    "mode",
    "controller",
    "controllers",
    "ttl",
    "count",
    "service",
    "scope",
    "slice",
    "socket",
    "target",
    "timer",
    "mount",
    "algorithm",
];
/// Words of prose, in front of a colon, and other words, that have one of the weak names in them.
const HARMLESS_WORDS: [&str; 17] = [
    "authority",
    "authorities",
    "author",
    "authors",
    "unauthorized",
    "authorized",
    "authorize",
    "authenticate",
    "authenticated",
    "keyboard",
    "keyring",
    "monkey",
    "bypass",
    "passed",
    "passes",
    "passing",
    "compass",
];

/// What is left of a line.
pub(super) struct Redacted {
    pub text: String,
    /// There was a secret in it, or the name of one.
    pub is_secret: bool,
    /// The value is below, or continues there.
    pub is_open: bool,
    /// The value continues until a line that has this.
    pub quote: Option<&'static str>,
}

/// A name with a sign or a space behind it, and whose value begins there.
struct SecretMatch {
    begin: usize,
    is_strong: bool,
}

/// The line without the values of secrets.
pub(super) fn without_values(line: &str) -> Redacted {
    let mut kept = Redacted { text: String::new(), is_secret: false, is_open: false, quote: None };
    let mut rest = line;
    while let Some(SecretMatch { begin, is_strong }) = secret_at(rest) {
        let value = &rest[begin..];
        let length = if is_strong { None } else { length(value) };
        let text = value.trim();
        kept.is_secret = true;
        kept.text.extend([&*of_no_one(&rest[..begin]), "(removed)"]);
        let Some(length) = length else {
            kept.text.push('\n');
            kept.is_open = text.is_empty() || text.starts_with(['|', '>', '[', '{', '!', '&', '\\']);
            kept.quote = unclosed(text);
            return kept;
        };
        rest = &value[length..];
    }
    kept.text.push_str(&of_no_one(rest));
    kept
}

/// Where a field `name` ends whose value sounds like a secret's name, as in `{name: DB_PASSWORD, value: …}`.
pub(super) fn secret_name_field(line: &str) -> Option<usize> {
    let lower = line.to_ascii_lowercase();
    lower.match_indices("name").find_map(|(at, key)| {
        let is_whole = !lower[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || "-_.".contains(c));
        let begin = at + key.len() + signed(&lower[at + key.len()..]).filter(|_| is_whole)?;
        let begin = begin + lower[begin..].len() - lower[begin..].trim_start_matches(QUOTES).len();
        let of_name = |c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c);
        let end = begin + lower[begin..].find(of_name).unwrap_or(lower.len() - begin);
        let (name, words) = (&line[begin..end], lower[begin..end].replace('_', "-"));
        let is_strong = STRONG.iter().any(|strong| words.contains(strong));
        let is_secret = is_strong || WEAK.iter().any(|weak| words.contains(weak));
        (is_secret && !is_harmless_name(name, is_strong)).then_some(end)
    })
}

/// Where the value of a field `value` begins, from there on.
pub(super) fn value_field(line: &str, from: usize) -> Option<usize> {
    let lower = line.to_ascii_lowercase();
    let begins = |(at, key): (usize, &str)| Some(at + key.len() + signed(&lower[at + key.len()..])?);
    lower.match_indices("value").filter(|(at, _)| *at >= from).find_map(begins)
}

const QUOTES: [char; 5] = ['"', '\'', '\\', ' ', '\t'];

/// The length of a sign behind a name, with the quotes in front of it.
fn signed(text: &str) -> Option<usize> {
    let sign = text.trim_start_matches(QUOTES);
    sign.starts_with([':', '=']).then(|| text.len() - sign.len() + 1)
}

/// A line whose value begins there and is a secret.
pub(super) fn without_value_at(line: &str, begin: usize) -> Redacted {
    let text = line[begin..].trim();
    Redacted {
        text: without_values(&line[..begin]).text + "(removed)\n",
        is_secret: true,
        is_open: text.is_empty() || text.starts_with(['|', '>', '&', '!']),
        quote: unclosed(text),
    }
}

/// How long a value is; `None` if it is all that is left of the line, and may continue.
pub(super) fn length(value: &str) -> Option<usize> {
    let text = value.trim_start_matches([':', '=', '>', ' ', '\t']);
    let sign = &value[..value.len() - text.len()];
    let quote = quote(text);
    if !quote.is_empty() {
        let inner = &text[quote.len()..];
        let end = value.len() - inner.len() + closing(inner, quote)? + quote.len();
        // Words of a shell that touch are one.
        let more = value[end..].find([' ', '\t', '\n', ',', ';', '&', ')', ']', '}', '<']);
        return Some(more.map_or(value.len(), |more| end + more));
    }
    let is_open = text.trim().is_empty() || text.starts_with(['|', '[', '{', '!', '&']);
    // Behind a space it may have spaces itself.
    if is_open || sign.ends_with([' ', '\t']) {
        return None;
    }
    Some(text.find(char::is_whitespace).map_or(value.len(), |end| value.len() - text.len() + end))
}

/// Where a quoted text ends: not at a quote with one more backslash, nor at one that is doubled.
fn closing(inner: &str, quote: &str) -> Option<usize> {
    let mut skipped = 0;
    inner.match_indices(quote).map(|(at, _)| at).find(|at| {
        if *at < skipped || inner[..*at].ends_with('\\') {
            return false;
        }
        let is_doubled = quote == "'" && inner[at + 1..].starts_with(quote);
        skipped = if is_doubled { at + 2 } else { 0 };
        !is_doubled
    })
}

/// The quote that a text begins with, with the backslashes in front of it.
fn quote(text: &str) -> &str {
    if text.starts_with("\"\"\"") || text.starts_with("'''") {
        return &text[..3];
    }
    let bare = text.trim_start_matches('\\');
    if bare.starts_with(['"', '\'', '`']) { &text[..=text.len() - bare.len()] } else { "" }
}

/// The quote of a value that does not end on its line.
fn unclosed(text: &str) -> Option<&'static str> {
    let text = text.trim_start_matches([':', '=', '>', ' ', '\t']);
    ["\"\"\"", "'''", "\"", "'"]
        .into_iter()
        .find(|quote| text.starts_with(quote))
        .filter(|quote| !text[quote.len()..].contains(quote))
}

/// The first secret of a line.
fn secret_at(line: &str) -> Option<SecretMatch> {
    let lower = line.to_ascii_lowercase().replace('_', "-");
    let of = |names: &[&'static str], is_strong: bool| -> Vec<(usize, usize, bool)> {
        let all = names.iter().flat_map(|name| lower.match_indices(*name));
        all.map(|(at, name)| (at, at + name.len(), is_strong)).collect()
    };
    let mut names = of(&STRONG, true);
    names.extend(of(SECRET_OPTIONS, true));
    names.extend(of(&WEAK, false));
    let found = names.into_iter().filter_map(|(at, end, is_strong)| found(line, &lower, at, end, is_strong));
    found.min_by_key(|found| (found.begin, !found.is_strong))
}

fn found(line: &str, lower: &str, at: usize, end: usize, is_strong: bool) -> Option<SecretMatch> {
    let of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let start = lower[..at].trim_end_matches(of_name).len();
    let rest = &lower[end..];
    let end_of_name = end + rest.len() - rest.trim_start_matches(of_name).len();
    let quotes: &[char] =
        if is_strong { &['"', '\'', '\\', ' ', '\t', ',', ']'] } else { &['"', '\'', '\\', ' ', '\t', ']'] };
    let behind = lower[end_of_name..].trim_start_matches(quotes);
    let begin = lower.len() - behind.len();
    let gap = begin - end_of_name;
    let is_element = lower[..start].ends_with('<') && behind.starts_with('>');
    let sign = ["%3a", "%3d", ":", "="].into_iter().find(|sign| behind.starts_with(sign)).unwrap_or_default();
    let sign = if is_element { ">" } else { sign };
    let is_flag = gap > 0
        && lower[..at].rsplit(char::is_whitespace).next().is_some_and(|word| {
            word.trim_start_matches(|c: char| "[](){}'\"`\\,".contains(c)).starts_with('-')
                && !word.contains('=')
        });
    // `Authorization: Bearer …` and `bearer …` have no sign between.
    let is_bearer = gap > 0 && lower[at..end] == *"bearer";
    let is_given = !sign.is_empty() || is_flag || is_bearer;
    let begin = begin + sign.len();
    let name = &line[start..end_of_name];
    let is_harmless = is_harmless_name(name, is_strong)
        || &lower[at..end] == "sig" && name.len() > end - at
        || is_harmless_value(&lower[begin..]);
    (is_given && !is_harmless).then_some(SecretMatch { begin, is_strong })
}

pub(super) fn is_harmless_name(name: &str, is_strong: bool) -> bool {
    let camel = name.char_indices().rev().find(|(_, c)| c.is_ascii_uppercase()).map(|(at, _)| at);
    let is_camel = camel.is_some_and(|at| name[..at].ends_with(|c: char| c.is_ascii_lowercase()));
    let parted = name.rfind(['-', '_', '.']).map(|at| at + 1);
    let last = parted.max(camel.filter(|_| is_camel));
    let ends = last.is_some_and(|at| HARMLESS_ENDS.contains(&name[at..].to_ascii_lowercase().as_str()));
    let lower = name.to_ascii_lowercase();
    let mut words = lower.split(['-', '_', '.']);
    let mut is_word =
        || words.all(|word| HARMLESS_WORDS.contains(&word) || !WEAK.iter().any(|weak| word.contains(weak)));
    ends || !is_strong && is_word()
}

/// Yes and no, and nothing at all, are no secrets, where that is the whole value and not how a passphrase begins.
fn is_harmless_value(value: &str) -> bool {
    let text = value.trim_start_matches([':', '=', '>', ' ', '\t']);
    let bare = text.trim_start_matches(['"', '\'', '\\']);
    let opened = &text[..text.len() - bare.len()];
    let end = bare.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(bare.len());
    let (word, rest) = bare.split_at(end);
    let is_closed = if opened.is_empty() {
        let is_last = rest.trim().is_empty() || rest.starts_with([')', ']', '}']);
        let next = rest.trim_start_matches([',', ';', ' ', '\t', '"', '\'']);
        // Behind a space or a comma the next name comes, and no more of a value.
        let is_named = next.find([':', '=']).is_some_and(|at| !next[..at].contains([' ', ',']));
        is_last
            || rest.starts_with([',', ';', ' ', '\t']) && (next.trim().is_empty() || is_named)
            || !value.starts_with([' ', '\t']) && rest.starts_with([' ', '\t'])
    } else {
        rest.starts_with(opened)
    };
    is_closed && ["true", "false", "unknown", "null", "nil", "none", "yes", "no"].contains(&word)
}

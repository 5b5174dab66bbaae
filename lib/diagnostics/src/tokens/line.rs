//! A line as it may be shown to its reader, who is to see what else it says.

use std::borrow::Cow;

use super::known::{without_logins, without_tokens};
use super::secret_name::{STRONG, is_harmless_name, length};

/// The line without tokens, without who logs in by a URL, and without what is assigned to a secret's name. What may be
/// given to others is [`super::redacted`].
pub fn without_secrets(line: &str) -> Cow<'_, str> {
    let mut kept = without_tokens(line);
    for without in [without_logins, without_assigned] {
        let changed = match without(&kept) {
            Cow::Owned(changed) => changed,
            Cow::Borrowed(_) => continue,
        };
        kept = Cow::Owned(changed);
    }
    kept
}

/// Bytes of a name on each side of what makes it that of a secret, and of the quotes behind it.
const LONGEST: usize = 64;

/// The line without what is assigned to the name of a secret: by `=`, as a field of JSON, or as a flag. In front of a
/// colon and of a space such names are words of prose.
fn without_assigned(line: &str) -> Cow<'_, str> {
    let lower = line.to_ascii_lowercase().replace('_', "-");
    let names = STRONG.iter().flat_map(|name| lower.match_indices(*name));
    let mut names: Vec<(usize, usize)> = names.map(|(at, name)| (at, at + name.len())).collect();
    names.sort_unstable();
    let (mut kept, mut done) = (String::new(), 0);
    for (at, end) in names {
        let Some(begin) = assigned_at(line, &lower, at, end).filter(|_| at >= done) else { continue };
        kept.extend([&line[done..begin], "(removed)"]);
        done = length(&line[begin..]).map_or(line.len(), |length| begin + length);
    }
    if done == 0 {
        return Cow::Borrowed(line);
    }
    kept.push_str(&line[done..]);
    Cow::Owned(kept)
}

/// Where the value begins that is assigned to a name with the secret's name at this place.
fn assigned_at(line: &str, lower: &str, at: usize, end: usize) -> Option<usize> {
    let of_name = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.');
    let bytes = lower.as_bytes();
    let start = at - bytes[..at].iter().rev().take(LONGEST).take_while(|c| of_name(c)).count();
    let end = end + bytes[end..].iter().take(LONGEST).take_while(|c| of_name(c)).count();
    if is_harmless_name(&line[at..end], true) {
        return None;
    }
    let quotes = bytes[end..].iter().take(LONGEST).take_while(|c| b"\"'\\ \t]".contains(c)).count();
    let sign = &lower[end + quotes..];
    let is_field = lower[end..end + quotes].contains(['"', '\''])
        && sign
            .strip_prefix(':')
            .is_some_and(|value| value.trim_start_matches([' ', '\\']).starts_with(['"', '\'']));
    let is_flag = lower[start..].starts_with("--") && lower[end..].starts_with(' ');
    if sign.starts_with('=') || is_field { Some(end + quotes + 1) } else { is_flag.then_some(end + 1) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_loses_its_secrets_and_nothing_else() {
        for (line, kept) in [
            (
                "Ignoring invalid endpoint URL 0=https://bot:hunter2@reg:x for docker.io",
                "Ignoring invalid endpoint URL 0=https://(removed)@reg:x for docker.io",
            ),
            ("mysql://me:hunter2@tcp(db)/k3s: refused", "mysql://(removed)@tcp(db)/k3s: refused"),
            ("postgres://me:p@ss/hunter2@db x", "postgres://(removed)@db x"),
            ("user=k3s password=hunter2 host=db", "user=k3s password=(removed) host=db"),
            ("password='hunter2 hunter2' host=db", "password=(removed) host=db"),
            ("Get \"https://x/y?token=hunter2&z=1\": EOF", "Get \"https://x/y?token=(removed) EOF"),
            ("K3S_TOKEN=hunter2 k3s", "K3S_TOKEN=(removed) k3s"),
            ("client_secret=hunter2 x", "client_secret=(removed) x"),
            ("k3s agent --token hunter2 --x", "k3s agent --token (removed) --x"),
            ("{\"password\":\"hunter2\",\"a\":1}", "{\"password\":(removed),\"a\":1}"),
            ("{\"password\": \"hunter2\", \"a\": 1}", "{\"password\":(removed), \"a\": 1}"),
        ] {
            assert_eq!(without_secrets(line), kept, "{line}");
            assert_eq!(without_secrets(kept), kept, "it stays so");
        }
        for line in [
            "initializing source docker://reg.lan/a@sha256:0f: pinging",
            "secrets \"token\": not found",
            "failed to normalize token; must be in format K10<CA-HASH>::<USERNAME>:<PASSWORD>",
            "--token-file=/x --secret-name=y",
            "https://pi:6443/api?timeout=30s",
            "me@pi: https",
        ] {
            assert_eq!(without_secrets(line), line);
        }
    }

    proptest! {
        #[test]
        fn wherever_a_login_or_a_value_stands_it_goes(before in "[ -~]{0,20}", after in "[ -~]{0,20}") {
            for planted in ["https://me:hunter2@x/y", "password=hunter2", "token=hunter2", "SECRET=hunter2"] {
                let text = format!("{before} {planted} {after}");
                prop_assert!(!without_secrets(&text).contains("hunter2"), "{text}");
            }
        }
    }
}

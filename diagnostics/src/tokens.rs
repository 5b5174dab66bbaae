//! Tokens and other secrets in what others print.

use std::borrow::Cow;

/// What stands in front of a secret, in the name of a setting, a flag or a field.
const KEYS: [&str; 13] = [
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
];
/// A word of so many letters that are all of base64 is no word: the lines of a PEM have 64.
const LONG: usize = 60;
/// `-----BEGIN` in base64.
const PEM: &str = "LS0tLS1CRUdJTi";

/// The text as it may be given to others: no tokens, no private keys, nothing behind a name that sounds like a secret's,
/// nobody in a URL. More goes than needs to: a line is cut where such a name stands, and what is indented below it goes too.
#[must_use]
pub fn redacted(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut in_key = false;
    // Below a name whose value is not, or not whole, on its line; behind a line that goes on.
    let (mut below, mut goes_on) = (None, false);
    for line in text.split_inclusive('\n') {
        let last = |mark: &str| line.rfind(mark);
        let begins = last("-----BEGIN").filter(|_| line.contains("PRIVATE KEY"));
        let ends = last("-----END");
        if ends.is_some() && !in_key && begins.is_none() && line.contains("PRIVATE KEY") {
            // Its beginning was cut off.
            kept.clear();
        }
        if begins.is_some() || in_key || (ends.is_some() && line.contains("PRIVATE KEY")) {
            if !in_key {
                kept.push_str("(private key)\n");
            }
            in_key = (in_key && ends.is_none()) || begins > ends;
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let is_below = |above| {
            line.trim().is_empty() || indent > above || indent == above && line[indent..].starts_with("- ")
        };
        if below.is_some_and(is_below) || std::mem::take(&mut goes_on) {
            goes_on = line.trim_end().ends_with('\\');
            continue;
        }
        below = None;
        let Some(at) = secret_at(line) else {
            kept.push_str(&of_nobody(line));
            continue;
        };
        let value = line[at..].trim();
        if value.is_empty() || value.starts_with(['|', '>', '[', '{', '!', '\\']) {
            below = Some(indent);
        }
        goes_on = line.trim_end().ends_with('\\');
        kept.extend([&*of_nobody(&line[..at]), "(removed)\n"]);
    }
    kept
}

/// Without tokens, without what is in base64 and long, without who logs in by a URL.
fn of_nobody(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for piece in without_tokens(text).split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        let space = &piece[word.len()..];
        let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
        let join = word.find("K10").filter(|at| word[*at..].contains("::"));
        let login = word.find("://").and_then(|at| Some((at + 3, at + 3 + word[at + 3..].rfind('@')?)));
        match (join, login) {
            _ if word.contains(PEM) => kept.push_str("(pem)"),
            _ if word.len() >= LONG && word.chars().all(is_base64) => kept.push_str("(base64)"),
            (Some(at), _) => kept.extend([&word[..at], "(token)"]),
            (None, Some((from, to))) => kept.extend([&word[..from], "(removed)", &word[to..]]),
            (None, None) => kept.push_str(word),
        }
        kept.push_str(space);
    }
    kept
}

/// Where a line's secret begins: behind a name that says so.
fn secret_at(line: &str) -> Option<usize> {
    let lower = line.to_ascii_lowercase().replace('_', "-");
    let ends = KEYS.iter().flat_map(|key| lower.match_indices(key).map(|(at, key)| (at, at + key.len())));
    ends.filter_map(|(at, end)| {
        let of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        let rest = &lower[end..];
        let name = rest.len() - rest.trim_start_matches(of_name).len();
        let gap =
            rest[name..].len() - rest[name..].trim_start_matches(['"', '\'', '\\', ' ', '\t', ',']).len();
        let begin = end + name + gap;
        let is_given = lower[begin..].starts_with([':', '=']);
        let is_flag = gap > 0
            && lower[..at].rsplit(char::is_whitespace).next().is_some_and(|word| {
                word.trim_start_matches(|c: char| "[](){}'\"`\\,".contains(c)).starts_with('-')
            });
        // `Authorization: Bearer …` and `bearer …` have no sign between.
        let is_bearer = gap > 0 && lower[at..end] == *"bearer";
        (is_given || is_flag || is_bearer).then_some(begin + usize::from(is_given))
    })
    .min()
}

/// The text without the tokens in it: of accounts (three parts in base64, the first a JSON object) and of k3s (`K10…`).
#[must_use]
pub fn without_tokens(text: &str) -> Cow<'_, str> {
    let of_token = |c: char| c.is_ascii_alphanumeric() || "-_.:+/=".contains(c);
    let is_token = |word: &str| {
        let account = word.find("eyJ").is_some_and(|at| word[at..].matches('.').count() >= 2);
        let join = word.find("K10").is_some_and(|at| word[at..].contains("::"));
        word.len() >= 20 && (account || join)
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ACCOUNT: &str = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ0ZWFtIn0.c2ln-bmF0_dXJl";
    const JOIN: &str = "K1004d1fe2a::server:5f6c9a";

    #[test]
    fn tokens_go_and_the_rest_stays() {
        for (text, kept) in [
            (format!("Authorization: Bearer {ACCOUNT}"), "Authorization: Bearer (token)"),
            (format!("--token={JOIN}, and so on"), "(token), and so on"),
            (format!("\"{ACCOUNT}\" \"{JOIN}\""), "\"(token)\" \"(token)\""),
            ("x509: certificate is valid for a, not b".to_owned(), "x509: certificate is valid for a, not b"),
            ("eyJ is how they begin, K10 those of k3s".to_owned(), "eyJ is how they begin, K10 those of k3s"),
        ] {
            assert_eq!(without_tokens(&text), kept);
        }
    }

    #[test]
    fn what_may_be_given_to_others() {
        let key = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQ\n-----END EC PRIVATE KEY-----\n";
        for (text, kept) in [
            (format!("a\n{key}b\n"), "a\n(private key)\nb\n"),
            (
                "x {\"pem\": \"-----BEGIN PRIVATE KEY-----\\nMHc\\n-----END PRIVATE KEY-----\"}\ny"
                    .to_owned(),
                "(private key)\ny",
            ),
            ("client-key-data: c2VjcmV0\n".to_owned(), "client-key-data:(removed)\n"),
            ("{\"token\":\"hunter2\",\"a\":1}\n".to_owned(), "{\"token\":(removed)\n"),
            ("  password = hunter2".to_owned(), "  password =(removed)\n"),
            ("Authorization: Bearer abc\n".to_owned(), "Authorization:(removed)\n"),
            ("curl -H bearer hunter2\n".to_owned(), "curl -H bearer (removed)\n"),
            ("k3s server --agent-token hunter2 --x\n".to_owned(), "k3s server --agent-token (removed)\n"),
            ("etcd-s3-secret-key: hunter2\n".to_owned(), "etcd-s3-secret-key:(removed)\n"),
            ("aws_secret_access_key\t= hunter2\n".to_owned(), "aws_secret_access_key\t=(removed)\n"),
            ("secretKey: hunter2\n".to_owned(), "secretKey:(removed)\n"),
            ("a: postgres://me:hunter2@db/x b\n".to_owned(), "a: postgres://(removed)@db/x b\n"),
            ("tls.key: LS0tLS1CRUdJTiBFQw==\n".to_owned(), "tls.key: (pem)\n"),
            ("  password: |\n    hunter2\n    more\n  next: 1\n".to_owned(), "  password:(removed)\n  next: 1\n"),
            ("password: |2-\n  hunter2\n\n  more\nb\n".to_owned(), "password:(removed)\nb\n"),
            ("tokens:\n- hunter2\n- more\nb\n".to_owned(), "tokens:(removed)\nb\n"),
            ("\"tokens\": [\n  \"hunter2\"\n],\n".to_owned(), "\"tokens\":(removed)\n],\n"),
            ("'--token' \\\n'hunter2' \\\n\nb\n".to_owned(), "'--token' \\(removed)\nb\n"),
            ("run [\"--token\",\"hunter2\"]\n".to_owned(), "run [\"--token\",\"(removed)\n"),
            ("x postgres://me:hun,t'er2@db/x\n".to_owned(), "x postgres://(removed)@db/x\n"),
            ("join K10c0ffee::server:p@ss!word now\n".to_owned(), "join (token) now\n"),
            (format!("  {}\nb\n", "QUJD".repeat(16)), "  (base64)\nb\n"),
            ("MHcCAQ\n-----END EC PRIVATE KEY-----\nb\n".to_owned(), "(private key)\nb\n"),
            (
                "a\n-----END CERTIFICATE----------BEGIN EC PRIVATE KEY-----\nMHcCAQ\n-----END EC PRIVATE KEY-----\n".to_owned(),
                "a\n(private key)\n",
            ),
            ("K3S_TOKEN=hunter2 k3s\n".to_owned(), "K3S_TOKEN=(removed)\n"),
            ("minting a token of a/b\n".to_owned(), "minting a token of a/b\n"),
            ("Secret team-a/settings is there\n".to_owned(), "Secret team-a/settings is there\n"),
            (format!("got {ACCOUNT}\n"), "got (token)\n"),
        ] {
            assert_eq!(redacted(&text), kept);
        }
    }

    proptest! {
        #[test]
        fn no_secret_behind_a_key_is_left(
            before in "[ -~]{0,20}", more in "[a-zA-Z_.-]{0,8}", sign in "[ \t\"]{0,2}[:=] ?\"?", after in "[ -\\[\\]-~]{0,20}",
        ) {
            for key in KEYS {
                let text = format!("{before}{key}{more}{sign}hunter2{after}\nnext line\n");
                let kept = redacted(&text);
                prop_assert!(!kept.contains("hunter2"), "{kept}");
                prop_assert!(kept.ends_with("next line\n"));
            }
        }

        #[test]
        fn wherever_a_token_stands_it_goes(before in "[ -~]{0,20}", after in "[ -~]{0,20}") {
            for token in [ACCOUNT, JOIN] {
                let text = format!("{before} {token} {after}");
                prop_assert!(!without_tokens(&text).contains(token));
            }
        }
    }
}

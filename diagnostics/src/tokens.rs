//! Tokens and other secrets in what others print.

use std::borrow::Cow;

/// What stands in front of a secret, as a key of a setting or of an object.
const KEYS: [&str; 10] = [
    "token",
    "password",
    "passwd",
    "passphrase",
    "secret",
    "psk",
    "key-data",
    "private-key",
    "authorization",
    "bearer",
];

/// The text as it may be given to others: no tokens, no private keys, nothing behind a key that sounds like a secret's.
/// More goes than needs to: a line is cut where such a key stands.
#[must_use]
pub fn redacted(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut in_key = false;
    for line in text.split_inclusive('\n') {
        let is_begin = line.contains("-----BEGIN") && line.contains("PRIVATE KEY");
        if is_begin && !in_key {
            kept.push_str("(private key)\n");
        }
        // A key on one line, as in JSON, has its end there too.
        let ends = line.contains("-----END");
        if is_begin || in_key {
            in_key = !ends;
            continue;
        }
        match secret_at(line) {
            Some(at) => kept.extend([&without_tokens(&line[..at]), "(removed)\n"]),
            None => kept.push_str(&without_tokens(line)),
        }
    }
    kept
}

/// Where a line's secret begins: behind a key that says so.
fn secret_at(line: &str) -> Option<usize> {
    let lower = line.to_ascii_lowercase();
    let ends = KEYS.iter().flat_map(|key| lower.match_indices(key).map(|(at, key)| at + key.len()));
    ends.filter_map(|end| {
        let rest = &line[end..];
        let sign = rest.find(|c: char| !matches!(c, '"' | '\'' | '\\' | ' ' | '_' | '-'))?;
        let is_given = rest[sign..].starts_with([':', '=']);
        // `Authorization: Bearer …` and `bearer …` have no sign between.
        (is_given || lower[..end].ends_with("bearer")).then_some(end + if is_given { sign + 1 } else { 0 })
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
            ("curl -H bearer hunter2\n".to_owned(), "curl -H bearer(removed)\n"),
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
        fn no_secret_behind_a_key_is_left(before in "[ -~]{0,20}", sign in "[:=] ?\"?", after in "[ -~]{0,20}") {
            for key in KEYS {
                let text = format!("{before}{key}{sign}hunter2{after}\nnext line\n");
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

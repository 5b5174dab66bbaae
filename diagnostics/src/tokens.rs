//! Tokens in what others print.

use std::borrow::Cow;

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

    proptest! {
        #[test]
        fn wherever_a_token_stands_it_goes(before in "[ -~]{0,20}", after in "[ -~]{0,20}") {
            for token in [ACCOUNT, JOIN] {
                let text = format!("{before} {token} {after}");
                prop_assert!(!without_tokens(&text).contains(token));
            }
        }
    }
}

//! The token with which a node joins a server of k3s: whether k3s would take it, and whether it proves whose server
//! that is.
//!
//! `K10<hash>::<credentials>`, the hash being that of the server's CA. k3s takes credentials alone too, and
//! then believes any server that answers. Nothing here repeats the token.

/// Hexadecimal digits of a SHA-256.
const HASH_LENGTH: usize = 64;

/// What a token is to who joins by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form<'t> {
    /// It has the hash of the server's CA, in hexadecimal digits.
    Whole(&'t str),
    /// It has none: k3s joins any server that answers.
    Short,
    /// k3s refuses it, for this reason.
    Broken(&'static str),
}

/// Looks at a token without white space around it.
pub fn form(token: &str) -> Form<'_> {
    let Some(rest) = token.strip_prefix("K10") else { return Form::Short };
    let Some((hash, credentials)) = rest.split_once("::") else {
        return Form::Broken("begins with K10 and has no `::`");
    };
    if !are_credentials(credentials) {
        return Form::Broken("has no credential after `::`");
    }
    if hash.is_empty() {
        return Form::Short;
    }
    if hash.len() != HASH_LENGTH || !hash.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Form::Broken("has no 64 hexadecimal digits between K10 and `::`");
    }
    Form::Whole(hash)
}

/// `user:password`, or a bootstrap token: six characters, a dot, sixteen characters.
fn are_credentials(text: &str) -> bool {
    if let Some((_, password)) = text.split_once(':') {
        return !password.is_empty();
    }
    let is_part =
        |part: &str, length| part.len() == length && part.bytes().all(|c| c.is_ascii_alphanumeric());
    text.split_once('.').is_some_and(|(id, secret)| is_part(id, 6) && is_part(secret, 16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_a_token_with_a_hash_proves_whose_server_it_is() {
        let hash = "0123456789abcdef".repeat(4);
        for credentials in ["server:hunter2", "node:hunter2", ":hunter2", "abcdef.0123456789abcdef"] {
            assert_eq!(form(&format!("K10{hash}::{credentials}")), Form::Whole(&hash), "{credentials}");
            assert_eq!(form(&format!("K10::{credentials}")), Form::Short, "{credentials}");
        }
        for short in ["hunter2", "abcdef.0123456789abcdef", "k10", "a::b", ""] {
            assert_eq!(form(short), Form::Short, "{short}");
        }
    }

    #[test]
    fn what_k3s_refuses_is_broken() {
        let hash = "0".repeat(64);
        for (token, why) in [
            ("K10".to_owned(), "no `::`"),
            (format!("K10{hash}"), "no `::`"),
            (format!("K10{hash}:server:hunter2"), "no `::`"),
            (format!("K10{hash}::"), "no credential"),
            (format!("K10{hash}::server"), "no credential"),
            (format!("K10{hash}::server:"), "no credential"),
            (format!("K10{hash}::abcdef.short"), "no credential"),
            ("K10XX::server:hunter2".to_owned(), "no 64 hexadecimal digits"),
            (format!("K10{}::server:hunter2", &hash[1..]), "no 64 hexadecimal digits"),
            (format!("K10{}::server:hunter2", "x".repeat(64)), "no 64 hexadecimal digits"),
        ] {
            let Form::Broken(found) = form(&token) else { panic!("{token}: {:?}", form(&token)) };
            assert!(found.contains(why), "{token}: {found}");
        }
    }

    proptest! {
        #[test]
        fn a_hash_that_is_reported_stands_in_the_token(token in "K10[0-9a-fx]{62,66}:{0,3}[a-z:.]{0,12}|\\PC*") {
            if let Form::Whole(hash) = form(&token) {
                let whole = format!("K10{hash}::");
                prop_assert!(token.starts_with(&whole) && hash.len() == 64);
            }
        }
    }
}

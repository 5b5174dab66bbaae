//! Patterns of `rewrite`, which are Go's regular expressions. Pure.
//!
//! Go's syntax and that of the parser here differ in what is rare; only what both refuse is a fault.

use regex_syntax::ast::ErrorKind;
use regex_syntax::ast::parse::Parser;

/// Why Go does not compile a pattern, if that is known.
pub(super) fn fault(pattern: &str) -> Option<&'static str> {
    let error = Parser::new().parse(pattern).err()?;
    match error.kind() {
        ErrorKind::GroupUnclosed => Some("a group has no end: write `)`"),
        ErrorKind::GroupUnopened => Some("a `)` has no `(` before it"),
        // A brace that repeats nothing is one to Go.
        ErrorKind::RepetitionMissing if !pattern[error.span().start.offset..].starts_with('{') => {
            Some("a `*`, `+` or `?` has nothing before it that it repeats; write `.*` for any text")
        }
        ErrorKind::UnsupportedLookAround => Some("it looks ahead or behind, which Go does not know"),
        ErrorKind::UnsupportedBackreference => Some("it refers to an earlier group, which Go does not know"),
        ErrorKind::EscapeUnexpectedEof => Some("it ends with a single backslash"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_go_compiles_and_what_it_does_not() {
        for (pattern, want) in [
            ("^rancher/(.*)", None),
            ("(.*)", None),
            ("^library/([a-z0-9._-]+)$", None),
            ("(?P<name>.*)", None),
            ("^v[[]", None),
            ("{a}", None),
            (r"\Qa(b\E", None),
            ("", None),
            ("^rancher/(.*", Some("a group has no end")),
            ("^rancher/.*)", Some("a `)` has no `(`")),
            ("*", Some("a `*`, `+` or `?` has nothing")),
            ("^(?!rancher/)(.*)", Some("it looks ahead or behind")),
            (r"(a)\1", Some("it refers to an earlier group")),
            ("a\\", Some("it ends with a single backslash")),
        ] {
            let found = fault(pattern);
            assert_eq!(found.is_some(), want.is_some(), "{pattern}: {found:?}");
            assert!(found.unwrap_or_default().starts_with(want.unwrap_or_default()), "{pattern}: {found:?}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(pattern in "\\PC*|[(){}*+?\\[\\]\\\\|ab]{0,12}") {
            let _ = fault(&pattern);
        }
    }
}

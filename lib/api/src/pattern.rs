//! Patterns of names: `*` stands for any number of characters, `?` for one.
//!
//! A pattern may be a tenant's, so a match is bounded: at most the pattern's length times the name's comparisons.

/// A pattern of names of namespaces, as the API server checks it: what a name may have, and one wildcard at least. One
/// without is a name.
pub const NAME_PATTERN: &str = "^([a-z0-9][-a-z0-9]*)?[*?]([-a-z0-9*?]*[a-z0-9*?])?$";

/// Does `pattern` match the whole of `name`? Byte by byte, since names are ASCII.
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut seen) = (0, 0);
    // Only the last `*` is ever tried with more: what an earlier one could take, the last one can take too.
    let mut last: Option<(usize, usize)> = None;
    while let Some(byte) = name.get(seen) {
        match pattern.get(at) {
            Some(b'*') => {
                last = Some((at + 1, seen));
                at += 1;
            }
            Some(wanted) if *wanted == b'?' || wanted == byte => (at, seen) = (at + 1, seen + 1),
            _ => {
                let Some((behind, taken)) = last else { return false };
                last = Some((behind, taken + 1));
                (at, seen) = (behind, taken + 1);
            }
        }
    }
    pattern.iter().skip(at).all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;

    use super::*;

    /// What is meant, without a thought for time.
    fn naive(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => (0..=name.len()).any(|taken| naive(rest, &name[taken..])),
            ([b'?', rest @ ..], [_, name @ ..]) => naive(rest, name),
            ([wanted, rest @ ..], [byte, name @ ..]) => wanted == byte && naive(rest, name),
            _ => false,
        }
    }

    #[test]
    fn a_pattern_matches_whole_names() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "kube-system", true),
            ("?", "", false),
            ("?", "a", true),
            ("?", "ab", false),
            ("app-*", "app-", true),
            ("app-*", "app-1", true),
            ("app-*", "app", false),
            ("app-*", "my-app-1", false),
            ("app-?", "app-10", false),
            ("app-??", "app-10", true),
            ("*-app", "my-app", true),
            ("*-app", "my-app-1", false),
            ("*-app", "-app", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("*a?", "aab", true),
            ("**a**", "bab", true),
            ("*ab", "aab", true),
            ("a*a", "a", false),
            ("team-?-*-dev", "team-a-web-dev", true),
            ("team-?-*-dev", "team-a-dev", false),
            ("", "", true),
            ("", "a", false),
            ("app.*", "app-1", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    /// Where each `*` would be tried with each length, this would outlast the universe.
    #[test]
    fn no_pattern_is_expensive() {
        let name = "a".repeat(63);
        let begun = Instant::now();
        for length in 1..31 {
            let pattern = format!("{}b", format!("*{}", "a".repeat(length)).repeat(62 / (length + 1)));
            assert!(pattern.len() <= 63 && !matches(&pattern, &name), "{pattern}");
        }
        assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
    }

    proptest! {
        #[test]
        fn it_matches_what_a_naive_reference_matches(pattern in "[ab*?]{0,8}", name in "[ab]{0,8}") {
            prop_assert_eq!(matches(&pattern, &name), naive(pattern.as_bytes(), name.as_bytes()));
        }
    }
}

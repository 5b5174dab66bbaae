//! The order of Debian's versions (deb-version(7)).

use std::cmp::Ordering;
use std::iter::Peekable;
use std::str::Bytes;

/// Which of the two is newer.
pub fn compare(a: &str, b: &str) -> Ordering {
    let ((epoch_a, a), (epoch_b, b)) = (epoch(a), epoch(b));
    let ((upstream_a, revision_a), (upstream_b, revision_b)) = (revision(a), revision(b));
    epoch_a
        .cmp(&epoch_b)
        .then_with(|| part(upstream_a, upstream_b))
        .then_with(|| part(revision_a, revision_b))
}

fn epoch(version: &str) -> (u64, &str) {
    let split = version.split_once(':').and_then(|(epoch, rest)| Some((epoch.parse().ok()?, rest)));
    split.unwrap_or((0, version))
}

fn revision(version: &str) -> (&str, &str) {
    version.rsplit_once('-').unwrap_or((version, "0"))
}

/// By turns what is no digit, and a number.
fn part(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.bytes().peekable(), b.bytes().peekable());
    while a.peek().is_some() || b.peek().is_some() {
        loop {
            let (left, right) = (weight(&mut a), weight(&mut b));
            if left != right {
                return left.cmp(&right);
            }
            if left == 0 {
                break;
            }
            a.next();
            b.next();
        }
        match number(&mut a).cmp(&number(&mut b)) {
            Ordering::Equal => {}
            unequal => return unequal,
        }
    }
    Ordering::Equal
}

/// `~` comes before the end, the end and digits before letters, letters before the rest.
fn weight(text: &mut Peekable<Bytes<'_>>) -> i32 {
    match text.peek() {
        None => 0,
        Some(byte) if byte.is_ascii_digit() => 0,
        Some(b'~') => -1,
        Some(byte) if byte.is_ascii_alphabetic() => i32::from(*byte),
        Some(byte) => i32::from(*byte) + 256,
    }
}

/// Its digits without leading zeros, by their count and then by themselves.
fn number(text: &mut Peekable<Bytes<'_>>) -> (usize, Vec<u8>) {
    let mut digits = Vec::new();
    while let Some(digit) = text.next_if(u8::is_ascii_digit) {
        if digit != b'0' || !digits.is_empty() {
            digits.push(digit);
        }
    }
    (digits.len(), digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Each was asked of `dpkg --compare-versions`.
    #[test]
    fn as_dpkg_has_it() {
        for (a, b, want) in [
            ("0.1.0", "0.1.0", Ordering::Equal),
            ("0.1.0", "0.1.0+newer", Ordering::Less),
            ("0.1.0~rc1", "0.1.0", Ordering::Less),
            ("0.1.0~rc1", "0.1.0~rc2", Ordering::Less),
            ("0.1.0~~", "0.1.0~", Ordering::Less),
            ("0.9.0", "0.10.0", Ordering::Less),
            ("0.010", "0.10", Ordering::Equal),
            ("1:0.1", "2.0", Ordering::Greater),
            ("1.0-1", "1.0-2", Ordering::Less),
            ("1.0", "1.0-0", Ordering::Equal),
            ("1.0", "1.0-1", Ordering::Less),
            ("1.0a", "1.0+", Ordering::Less),
            ("1.0a", "1.0", Ordering::Greater),
            ("", "0", Ordering::Equal),
            ("18446744073709551616", "9", Ordering::Greater),
        ] {
            assert_eq!(compare(a, b), want, "{a} {b}");
            assert_eq!(compare(b, a), want.reverse(), "{b} {a}");
        }
    }

    proptest! {
        #[test]
        fn it_is_an_order(a in "[0-2a:~.+-]{0,6}", b in "[0-2a:~.+-]{0,6}", c in "[0-2a:~.+-]{0,6}") {
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
                prop_assert!(compare(&a, &c).is_le());
            }
        }
    }
}

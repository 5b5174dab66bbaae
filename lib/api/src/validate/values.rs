//! Rules on a single piece of text. Each says what is wrong as a sentence that follows the value.

use jiff::Timestamp;

use crate::names::{LABEL_MAX, SUBDOMAIN_MAX, dns_label, dns_subdomain};
use crate::template::sample;

/// A rule: `Err` says what is wrong and what would be right.
pub(super) type ValueRule = fn(&str) -> Result<(), String>;

/// Most characters of a label's value, and of the part of a key behind its `/`.
const LABEL_VALUE_MAX: usize = 63;
/// Most characters of an annotation's value in `spec.targets.annotations`.
const ANNOTATION_VALUE_MAX: usize = 4_096;
/// The same in `spec.generate.annotations`, of which there are 500 times as many.
const ANNOTATION_TEMPLATE_MAX: usize = 256;

/// Name of a namespace.
pub(super) fn namespace(name: &str) -> Result<(), String> {
    dns_label(name).map_err(|fault| fault.to_string())
}

/// Pattern of names of namespaces: [`crate::pattern::NAME_PATTERN`].
pub(super) fn name_pattern(pattern: &str) -> Result<(), String> {
    length(pattern, 1, LABEL_MAX)?;
    if dns_label(pattern).is_ok() {
        return Err("has no `*` or `?`: move it to spec.targets.namespaces".into());
    }
    // A pattern is valid if it is a valid name with a letter for each wildcard.
    if pattern.contains(['*', '?']) && dns_label(&pattern.replace(['*', '?'], "a")).is_ok() {
        return Ok(());
    }
    Err("is not a pattern of names, nor is a regular expression one: lower-case letters, digits, `-`, `*` for \
         any number of characters and `?` for one, without `-` at the beginning and the end"
        .into())
}

/// Name of a ConfigMap, a Secret or a ServiceAccount.
pub(super) fn object_name(name: &str) -> Result<(), String> {
    dns_subdomain(name).map_err(|fault| fault.to_string())
}

/// Part of a name in front of another one: [`crate::names::PREFIX_PATTERN`].
pub(super) fn name_prefix(part: &str) -> Result<(), String> {
    length(part, 1, LABEL_MAX)?;
    let message = "is not how a name can begin: lower-case letters, digits, `-` and `.`, beginning with a letter or \
                 digit, and a letter or digit on either side of each `.`";
    dns_subdomain(&format!("{part}a")).map_err(|_| message.to_owned())
}

/// Part of a name behind another one: [`crate::names::SUFFIX_PATTERN`].
pub(super) fn name_suffix(part: &str) -> Result<(), String> {
    length(part, 1, LABEL_MAX)?;
    let message = "is not how a name can end: lower-case letters, digits, `-` and `.`, ending with a letter or digit, \
                 and a letter or digit on either side of each `.`";
    dns_subdomain(&format!("a{part}")).map_err(|_| message.to_owned())
}

/// Key of a ConfigMap or a Secret: [`crate::schema::KEY_PATTERN`].
pub(super) fn data_key(key: &str) -> Result<(), String> {
    length(key, 1, SUBDOMAIN_MAX)?;
    let allowed = |byte: u8| is_word(byte) || byte == b'.';
    if key.bytes().all(allowed) && !key.starts_with("..") && key != "." {
        return Ok(());
    }
    Err("is not a valid key: letters, digits, `-`, `_` and `.`, and not `.` alone or `..` at the beginning"
        .into())
}

/// Value of a label: [`crate::schema::LABEL_VALUE_PATTERN`].
pub(super) fn label_value(value: &str) -> Result<(), String> {
    length(value, 0, LABEL_VALUE_MAX)?;
    if value.is_empty() || is_qualified_word(value) {
        return Ok(());
    }
    Err("is not a valid label value: letters, digits, `-`, `_` and `.`, beginning and ending with a letter \
         or digit, or nothing"
        .into())
}

/// Group and version as manifests have them: `apps/v1`, or `v1` of the core group.
pub(super) fn api_version(text: &str) -> Result<(), String> {
    let (group, version) = match text.split_once('/') {
        Some((group, version)) => (Some(group), version),
        None => (None, text),
    };
    let is_version =
        dns_label(version).is_ok() && version.starts_with(|first: char| first.is_ascii_lowercase());
    if is_version && group.is_none_or(|group| dns_subdomain(group).is_ok()) {
        return Ok(());
    }
    Err("is not an API version: write a group, `/` and a version, such as apps/v1, or v1 alone for the core group"
        .into())
}

/// Name of a kind.
pub(super) fn kind(text: &str) -> Result<(), String> {
    length(text, 1, LABEL_MAX)?;
    let bytes = text.as_bytes();
    let is_word = bytes.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let ends = bytes[0].is_ascii_alphabetic() && bytes.last().is_some_and(u8::is_ascii_alphanumeric);
    if is_word && ends {
        Ok(())
    } else {
        Err("is not the name of a kind, such as Deployment: not its plural, nor a part of it".into())
    }
}

/// Value of an annotation.
pub(super) fn annotation_value(value: &str) -> Result<(), String> {
    length(value, 0, ANNOTATION_VALUE_MAX)
}

/// Key of a label: a name of at most 63 characters, behind a DNS subdomain and `/` if it has a prefix.
pub(super) fn label_key(key: &str) -> Result<(), String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if is_qualified_word(name)
        && name.len() <= LABEL_VALUE_MAX
        && prefix.is_none_or(|prefix| dns_subdomain(prefix).is_ok())
    {
        return Ok(());
    }
    Err("is not a valid key: at most 63 letters, digits, `-`, `_` and `.`, beginning and ending with a letter \
         or digit, after a DNS name and `/` if it has a prefix"
        .into())
}

/// Key of an annotation: as that of a label, but capitals may be in the prefix too.
pub(super) fn annotation_key(key: &str) -> Result<(), String> {
    label_key(&key.to_ascii_lowercase())
}

/// What may be in a template.
const PLACEHOLDERS: &str = "{{n}}, {{padded}} and {{hash}} are replaced, and nothing else is in two braces";

/// Template of an account's name: [`crate::template::NAME_TEMPLATE`].
pub(super) fn name_template(text: &str) -> Result<(), String> {
    length(text, 1, LABEL_MAX)?;
    dns_label(&sample(text)).map_err(|fault| format!("{fault}; {PLACEHOLDERS}"))
}

/// Template of a key: [`crate::template::KEY_TEMPLATE`].
pub(super) fn key_template(text: &str) -> Result<(), String> {
    length(text, 1, LABEL_MAX)?;
    data_key(&sample(text)).map_err(|fault| format!("{fault}; {PLACEHOLDERS}"))
}

/// Template of a label's value: [`crate::template::LABEL_TEMPLATE`].
pub(super) fn label_template(text: &str) -> Result<(), String> {
    length(text, 0, LABEL_VALUE_MAX)?;
    label_value(&sample(text)).map_err(|fault| format!("{fault}; {PLACEHOLDERS}"))
}

/// Template of an annotation's value: [`crate::template::TEXT_TEMPLATE`].
pub(super) fn annotation_template(text: &str) -> Result<(), String> {
    length(text, 0, ANNOTATION_TEMPLATE_MAX)?;
    if sample(text).contains("{{") {
        Err(format!("has an unknown placeholder: {PLACEHOLDERS}"))
    } else {
        Ok(())
    }
}

/// One for whom a token is meant.
pub(super) fn audience(name: &str) -> Result<(), String> {
    length(name, 1, SUBDOMAIN_MAX)
}

/// A point in time as RFC 3339 writes it, `2026-01-31T08:00:00Z` or with an offset, without leap seconds.
///
/// # Errors
/// What is wrong, as a sentence that follows the value.
pub(super) fn date_time(text: &str) -> Result<Timestamp, String> {
    let wrong = "is not a point in time: write it as RFC 3339 does, such as 2026-01-31T08:00:00Z";
    // jiff reads more forms than RFC 3339 has, and the API server fewer seconds.
    let parts = (text.get(..10), text.get(10..11), text.get(11..19), text.get(19..));
    let (Some(date), Some("T" | "t"), Some(time), Some(rest)) = parts else { return Err(wrong.into()) };
    let digits = |text: &str, form: &str| {
        text.len() == form.len()
            && text.bytes().zip(form.bytes()).all(|(byte, form)| match form {
                b'0' => byte.is_ascii_digit(),
                _ => byte == form,
            })
    };
    let zone = match rest.strip_prefix('.') {
        Some(fraction) if fraction.starts_with(|first: char| first.is_ascii_digit()) => {
            fraction.trim_start_matches(|digit: char| digit.is_ascii_digit())
        }
        Some(_) => return Err(wrong.into()),
        None => rest,
    };
    let has_zone = matches!(zone, "Z" | "z")
        || zone.strip_prefix(['+', '-']).is_some_and(|offset| digits(offset, "00:00"));
    if digits(date, "0000-00-00") && digits(time, "00:00:00") && !time.ends_with(":60") && has_zone {
        text.parse().map_err(|_| wrong.to_owned())
    } else {
        Err(wrong.into())
    }
}

fn length(text: &str, least: usize, most: usize) -> Result<(), String> {
    match text.chars().count() {
        0 if least > 0 => Err("is empty".into()),
        found if found > most => Err(format!("has {found} characters; at most {most} are allowed")),
        _ => Ok(()),
    }
}

/// Letters, digits, `-`, `_`, `.`, with a letter or digit at both ends.
fn is_qualified_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().all(|&byte| is_word(byte) || byte == b'.')
        && [bytes.first(), bytes.last()].iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_of_data_are_those_that_kubernetes_stores() {
        for good in ["a", "A_b-c.d", ".hidden", "-", &"k".repeat(253)] {
            assert_eq!(data_key(good), Ok(()), "{good}");
        }
        for bad in ["", ".", "..", "..data", "a/b", "a b", "ä", &"k".repeat(254)] {
            assert!(data_key(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn patterns_are_names_with_a_wildcard() {
        for good in ["*", "?", "app-*", "*-app", "a?b", "**", "?-?", &"*".repeat(63)] {
            assert_eq!(name_pattern(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "app",
            "-*",
            "*-",
            "App-*",
            "app-.*",
            "app-[a-z]*",
            "app*,b*",
            "a*b\n",
            "ä*",
            &"*".repeat(64),
        ] {
            assert!(name_pattern(bad).is_err(), "{bad}");
        }
        let fault = |pattern| name_pattern(pattern).unwrap_err();
        assert_eq!(fault("app"), "has no `*` or `?`: move it to spec.targets.namespaces");
        assert!(fault("app-(a|b)").contains("regular expression"), "{}", fault("app-(a|b)"));
    }

    #[test]
    fn values_of_labels_may_be_empty_and_begin_and_end_with_a_letter_or_digit() {
        for good in ["", "a", "1.2-3_4", &"v".repeat(63)] {
            assert_eq!(label_value(good), Ok(()), "{good}");
        }
        for bad in ["-a", "a.", "a b", "ä", &"v".repeat(64)] {
            assert!(label_value(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn keys_of_labels_have_one_prefix_at_most() {
        let longest =
            format!("{}/{}", ["p".repeat(63).as_str(); 4].join(".").split_at(253).0, "n".repeat(63));
        for good in ["tier", "example.com/tier", "A.b_c", &longest] {
            assert_eq!(label_key(good), Ok(()), "{good}");
        }
        assert_eq!(longest.len(), 317);
        for bad in ["", "/a", "a/", "a/b/c", "Example.com/a", "-a", "ä", &"n".repeat(64)] {
            assert!(label_key(bad).is_err(), "{bad}");
        }
        assert_eq!(annotation_key("Example.com/a"), Ok(()));
    }

    #[test]
    fn a_time_is_written_as_rfc_3339_says() {
        for good in [
            "2026-01-31T08:00:00Z",
            "2026-01-31t08:00:00z",
            "2026-01-31T08:00:00.123456789+02:00",
            "2024-02-29T23:59:59-23:59",
            "0000-01-01T00:00:00Z",
        ] {
            assert!(date_time(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn what_is_no_point_in_time_is_refused() {
        for bad in [
            "",
            "tomorrow",
            "2026-01-31",
            "2026-01-31T08:00:00",
            "2026-01-31 08:00:00Z",
            "2026-01-31T08:00Z",
            "2026-01-31T08:00:00+0200",
            "2026-01-31T08:00:00Z[UTC]",
            "2026-01-31T08:00:00.Z",
            "2026-01-31T08:00:00,5Z",
            "2026-02-30T08:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T08:00:60Z",
            "+002026-01-31T08:00:00Z",
            "2026-01-31T08:00:00äZ",
            "２026-01-31T08:00:00Z",
        ] {
            assert!(date_time(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_stands_around_a_name_makes_another_one(
            part in "[-.a]{0,5}", name in "[a-z0-9.-]{1,5}",
        ) {
            let valid = dns_subdomain(&name).is_ok();
            for (around, rule) in [
                ([part.as_str(), ""], name_prefix as ValueRule),
                (["", part.as_str()], name_suffix as ValueRule),
            ] {
                let with = |name: &str| dns_subdomain(&around.join(name)).is_ok();
                let accepted = rule(&part).is_ok();
                prop_assert!(!accepted || !valid || with(&name), "{around:?} {name}");
                prop_assert!(accepted || part.is_empty() || !with("a"), "{around:?}");
            }
        }
    }
}

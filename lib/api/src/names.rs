//! The rules Kubernetes has for names of objects and namespaces.
//!
//! Source: <https://kubernetes.io/docs/concepts/overview/working-with-objects/names/>.

/// Most characters of a DNS label.
pub const LABEL_MAX: usize = 63;
/// Most characters of a DNS subdomain.
pub const SUBDOMAIN_MAX: usize = 253;
/// [`dns_label`] as the API server checks it.
pub const LABEL_PATTERN: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// [`dns_subdomain`] as the API server checks it.
pub const SUBDOMAIN_PATTERN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// What, before a name that [`dns_subdomain`] accepts, makes another one.
pub const PREFIX_PATTERN: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)*([a-z0-9][-a-z0-9]*)?$";
/// What makes one behind it.
pub const SUFFIX_PATTERN: &str = r"^([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// What is wrong with a name, as a sentence that follows it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NameFault {
    /// The name has no characters.
    #[error("is empty")]
    Empty,
    /// Longer than Kubernetes stores.
    #[error("has {length} characters; at most {max} are allowed")]
    TooLong {
        /// Number of characters in the name.
        length: usize,
        /// Greatest number of characters that is allowed.
        max: usize,
    },
    /// A character that such a name may not have, or not at that position.
    #[error(
        "is not a valid name: lower-case letters, digits and `-`{dots}, beginning and ending with a letter or digit"
    )]
    Form {
        /// `" and `.`"` where dots are allowed.
        dots: &'static str,
    },
}

/// Checks a DNS label (RFC 1123, at most 63 characters): what a namespace is called.
///
/// # Errors
/// The first rule that `name` breaks.
pub fn dns_label(name: &str) -> Result<(), NameFault> {
    bounded(name, LABEL_MAX)?;
    if is_label(name) { Ok(()) } else { Err(NameFault::Form { dots: "" }) }
}

/// Checks a DNS subdomain (RFC 1123, at most 253 characters): what a `ConfigMap` or a `ServiceAccount` is called.
///
/// # Errors
/// The first rule that `name` breaks.
pub fn dns_subdomain(name: &str) -> Result<(), NameFault> {
    bounded(name, SUBDOMAIN_MAX)?;
    if name.split('.').all(is_label) { Ok(()) } else { Err(NameFault::Form { dots: " and `.`" }) }
}

fn bounded(name: &str, max: usize) -> Result<(), NameFault> {
    match name.chars().count() {
        0 => Err(NameFault::Empty),
        length if length > max => Err(NameFault::TooLong { length, max }),
        _ => Ok(()),
    }
}

fn is_label(label: &str) -> bool {
    let alphanumeric = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = label.as_bytes();
    matches!((bytes.first(), bytes.last()), (Some(&first), Some(&last)) if alphanumeric(first) && alphanumeric(last))
        && bytes.iter().all(|&b| alphanumeric(b) || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_subdomains_are_distinguished() {
        for (name, label, subdomain) in [
            ("a", true, true),
            ("team-a", true, true),
            ("0", true, true),
            ("kube-root-ca.crt", false, true),
            ("", false, false),
            ("-a", false, false),
            ("a-", false, false),
            ("Team", false, false),
            ("a..b", false, false),
            ("a/b", false, false),
            ("ä", false, false),
        ] {
            assert_eq!(dns_label(name).is_ok(), label, "label {name:?}");
            assert_eq!(dns_subdomain(name).is_ok(), subdomain, "subdomain {name:?}");
        }
    }

    #[test]
    fn the_limits_are_kubernetes_own() {
        assert_eq!(dns_label(&"a".repeat(63)), Ok(()));
        assert_eq!(dns_label(&"a".repeat(300)), Err(NameFault::TooLong { length: 300, max: 63 }));
        assert_eq!(dns_subdomain(&"a".repeat(253)), Ok(()));
        assert!(dns_subdomain(&"a".repeat(254)).is_err());
    }
}

//! Our groups and versions are called as Kubernetes wants it.
//!
//! The order of versions is kube's ([`kube::core::Version::priority`]): the API server prefers stable over beta
//! over alpha, then the higher number, and names of another form come last. Only the checks are here: kube also
//! reads `v1beta` and `v1beta+2` as beta versions, which the API server puts last, and says nothing about groups.

use std::cmp::Reverse;

use kube::core::Version;
use proptest::prelude::*;

use crate::names::{NameFault, dns_subdomain};

/// What is wrong with the name of a group or of a version.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
enum VersionFault {
    /// The group is no DNS name.
    #[error("API group {group:?} {fault}")]
    GroupName {
        /// The group as it was given.
        group: String,
        /// The rule it breaks.
        fault: NameFault,
    },
    /// The API server demands a dot, so that groups are names of domains.
    #[error("API group {0:?} has no dot: use a domain that is yours, such as \"weaver.example.com\"")]
    GroupWithoutDot(String),
    /// The version has another form and would be ordered by its letters, behind all others.
    #[error("API version {0:?} has another form than `v1`, `v1beta1` or `v1alpha1`")]
    Form(String),
}

/// Checks the name of an API group: a DNS subdomain with a dot, so lower case and without `_`.
fn check_group(group: &str) -> Result<(), VersionFault> {
    dns_subdomain(group).map_err(|fault| VersionFault::GroupName { group: group.to_owned(), fault })?;
    if group.contains('.') { Ok(()) } else { Err(VersionFault::GroupWithoutDot(group.to_owned())) }
}

/// Checks the name of an API version: `v[0-9]+((alpha|beta)[0-9]+)?`, numbers below 2³² and without leading
/// zeros: `v01` and `v1` would be two names of one rank.
fn check_version(version: &str) -> Result<(), VersionFault> {
    let canonical = match Version::parse(version) {
        Version::Stable(major) => Some(format!("v{major}")),
        Version::Beta(major, Some(minor)) => Some(format!("v{major}beta{minor}")),
        Version::Alpha(major, Some(minor)) => Some(format!("v{major}alpha{minor}")),
        Version::Beta(_, None) | Version::Alpha(_, None) | Version::Nonconformant(_) => None,
    };
    if canonical.as_deref() == Some(version) { Ok(()) } else { Err(VersionFault::Form(version.to_owned())) }
}

const IN_ORDER: [&str; 10] =
    ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"];

proptest! {
    #[test]
    fn any_shuffle_sorts_back(mut names in Just(IN_ORDER.to_vec()).prop_shuffle()) {
        names.sort_by_key(|name| Reverse(Version::parse(name).priority()));
        prop_assert_eq!(names, IN_ORDER);
    }

    #[test]
    fn what_passes_is_what_kubernetes_orders_by_number(name in "v?[0-9]{0,2}(alpha|beta|gamma)?[+0-9]{0,2}") {
        let by_number = kubernetes_orders_by_number(&name);
        let passes = check_version(&name).is_ok();
        // The check is stricter about leading zeros only.
        prop_assert!(!passes || by_number, "{name}");
        prop_assert!(passes || !by_number || has_leading_zero(&name), "{name}");
    }
}

/// `^v([\d]+)(?:(alpha|beta)([\d]+))?$`, as in k8s.io/apimachinery/pkg/version.
fn kubernetes_orders_by_number(name: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.strip_prefix('v').is_some_and(|rest| {
        number(rest)
            || ["alpha", "beta"].into_iter().any(|stage| {
                rest.split_once(stage).is_some_and(|(major, minor)| number(major) && number(minor))
            })
    })
}

fn has_leading_zero(name: &str) -> bool {
    let mut numbers = name.split(|letter: char| !letter.is_ascii_digit());
    numbers.any(|number| number.len() > 1 && number.starts_with('0'))
}

#[test]
fn versions_of_another_form_are_refused_by_name() {
    for good in ["v1", "v10", "v1alpha1", "v12beta34"] {
        assert_eq!(check_version(good), Ok(()), "{good}");
    }
    for bad in [
        "",
        "v",
        "1",
        "V1",
        "v1Beta1",
        "v1beta",
        "v1alpha",
        "v1beta+2",
        "v01",
        "v1gamma1",
        "v1.2",
        "v4294967296",
        "foo1",
    ] {
        assert_eq!(check_version(bad), Err(VersionFault::Form(bad.into())), "{bad}");
    }
    let said = check_version("v1beta").unwrap_err().to_string();
    assert_eq!(said, "API version \"v1beta\" has another form than `v1`, `v1beta1` or `v1alpha1`");
}

#[test]
fn groups_with_capitals_underscores_or_no_dot_are_refused() {
    for good in ["weaver.example.com", "a.b", "apps.k3s-x.io"] {
        assert_eq!(check_group(good), Ok(()), "{good}");
    }
    for bad in ["Weaver.example.com", "my_group.example.com", "a..b", ".a.b", "a.b.", "a b.c"] {
        let said = check_group(bad).unwrap_err().to_string();
        assert!(said.starts_with(&format!("API group {bad:?} is not a valid name: lower-case")), "{said}");
    }
    assert_eq!(check_group("").unwrap_err().to_string(), "API group \"\" is empty");
    assert!(check_group(&format!("{}.x", "a".repeat(252))).unwrap_err().to_string().contains("254"));
    assert_eq!(check_group("weaver"), Err(VersionFault::GroupWithoutDot("weaver".into())));
}

#[test]
fn the_definitions_keep_these_rules() {
    let definitions = crate::crds::all();
    assert!(!definitions.is_empty());
    for crd in definitions {
        assert_eq!(check_group(&crd.spec.group), Ok(()));
        for version in crd.spec.versions {
            assert_eq!(check_version(&version.name), Ok(()));
        }
    }
}

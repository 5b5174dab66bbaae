//! Versions of Config Weaver's parts, and which part is too old for the newest one. Pure.
//!
//! docs/reference/versions.md promises that parts one minor version apart work together, and nothing beyond: the parts
//! that are further behind the newest one are named, so that they are updated first.

use std::cmp::Ordering;
use std::fmt;

use semver::Version;
use serde::Serialize;

/// Characters of a version: more than any of ours has, and it is printed.
const LONGEST: usize = 64;

/// A part of Config Weaver, such as `operator`, and its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartVersion {
    pub part: String,
    pub version: Version,
}

impl PartVersion {
    /// The part, unless what it says is no version of ours.
    pub fn new(part: impl Into<String>, version: &str) -> Option<Self> {
        Some(Self { part: part.into(), version: parse(version)? })
    }
}

/// A version such as `0.2.0-rc.1`.
pub fn parse(text: &str) -> Option<Version> {
    Version::parse(text).ok().filter(|_| text.len() <= LONGEST)
}

/// A part that is more than one minor version behind the newest one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionGap {
    pub part: String,
    pub version: String,
    pub newest_part: String,
    pub newest_version: String,
}

impl fmt::Display for VersionGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, version, newest_part, newest_version } = self;
        write!(f, "{part} {version} is more than one minor version behind {newest_part} {newest_version}")
    }
}

/// The parts that are too far behind the newest of all; of several newest ones the first is named.
pub fn gaps(parts: &[PartVersion]) -> Vec<VersionGap> {
    let newest = parts.iter().rev().max_by(|a, b| a.version.cmp_precedence(&b.version));
    let Some(newest) = newest else { return Vec::new() };
    let behind = parts.iter().filter(|part| is_too_far(&part.version, &newest.version));
    let gap = |PartVersion { part, version }: &PartVersion| VersionGap {
        part: part.clone(),
        version: version.to_string(),
        newest_part: newest.part.clone(),
        newest_version: newest.version.to_string(),
    };
    behind.map(gap).collect()
}

/// Nothing is promised across major versions.
const fn is_too_far(older: &Version, newer: &Version) -> bool {
    older.major != newer.major || newer.minor.abs_diff(older.minor) > 1
}

/// What a release is, seen from a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ReleaseAge {
    Newer,
    Same,
    Older,
}

impl ReleaseAge {
    pub fn of(release: &Version, own: &Version) -> Self {
        match release.cmp_precedence(own) {
            Ordering::Greater => Self::Newer,
            Ordering::Equal => Self::Same,
            Ordering::Less => Self::Older,
        }
    }
}

/// The parts that are older than this release.
pub fn older_than(release: &Version, parts: &[PartVersion]) -> Vec<String> {
    let older = parts.iter().filter(|part| ReleaseAge::of(release, &part.version) == ReleaseAge::Newer);
    older.map(|part| part.part.clone()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARTS: [&str; 4] = ["weaver", "operator", "node a", "node b"];

    fn parts(versions: [&str; 4]) -> Vec<PartVersion> {
        PARTS.iter().zip(versions).filter_map(|(part, version)| PartVersion::new(*part, version)).collect()
    }

    #[test]
    fn a_part_more_than_one_minor_version_behind_the_newest_is_named() {
        for (versions, newest, behind) in [
            (["0.2.0", "0.2.0", "0.2.0", "0.2.0"], "", &[][..]),
            // One minor version up and down, and any patch or pre-release.
            (["0.2.0", "0.3.0", "0.3.9", "0.2.1"], "", &[]),
            (["0.3.0", "0.2.9", "0.2.0-rc.1", "0.3.0-rc.1"], "", &[]),
            (["0.3.0", "0.2.0", "0.4.0", "0.3.0"], "node a 0.4.0", &["operator 0.2.0"]),
            (["0.4.0", "0.2.0", "0.2.1", "0.4.0"], "weaver 0.4.0", &["operator 0.2.0", "node a 0.2.1"]),
            (["0.2.0", "0.4.0", "0.4.0", "0.3.0"], "operator 0.4.0", &["weaver 0.2.0"]),
            (["0.2.0", "0.4.0-rc.1", "0.3.0", "0.3.0"], "operator 0.4.0-rc.1", &["weaver 0.2.0"]),
            (["0.9.0", "0.10.0", "0.11.0", "0.11.0"], "node a 0.11.0", &["weaver 0.9.0"]),
            // Another major version.
            (["0.9.0", "1.0.0", "1.0.0", "1.0.0"], "operator 1.0.0", &["weaver 0.9.0"]),
            (["2.1.0", "1.1.0", "2.1.0", "2.0.0"], "weaver 2.1.0", &["operator 1.1.0"]),
            // What is no version says nothing.
            (["0.4.0", "latest", "", "v0.1.0"], "", &[]),
            (["", "", "", ""], "", &[]),
        ] {
            let found = gaps(&parts(versions));
            let shown: Vec<_> = found.iter().map(|gap| format!("{} {}", gap.part, gap.version)).collect();
            assert_eq!(shown, behind, "{versions:?}");
            for gap in found {
                assert_eq!(format!("{} {}", gap.newest_part, gap.newest_version), newest, "{versions:?}");
            }
        }
    }

    #[test]
    fn what_is_older_than_a_release_is_named() {
        let parts = parts(["0.2.0", "0.3.0-rc.1", "0.3.0", "0.3.1"]);
        let older = |release: &str| older_than(&parse(release).unwrap(), &parts);
        assert_eq!(older("0.3.0"), ["weaver", "operator"]);
        assert_eq!(older("0.4.0"), PARTS);
        assert!(older("0.2.0").is_empty());
        assert!(older("0.1.0+later").is_empty());
    }

    #[test]
    fn a_release_is_newer_the_same_or_older() {
        for (release, own, age) in [
            ("0.3.0", "0.2.9", ReleaseAge::Newer),
            ("0.10.0", "0.9.0", ReleaseAge::Newer),
            ("0.2.0", "0.2.0-rc.1", ReleaseAge::Newer),
            ("0.2.0-rc.10", "0.2.0-rc.9", ReleaseAge::Newer),
            ("0.2.0", "0.2.0", ReleaseAge::Same),
            ("0.2.0-rc.1", "0.2.0", ReleaseAge::Older),
        ] {
            assert_eq!(
                ReleaseAge::of(&parse(release).unwrap(), &parse(own).unwrap()),
                age,
                "{release} {own}"
            );
        }
    }

    #[test]
    fn what_is_no_version_is_none() {
        let long = format!("0.1.0-{}", "a".repeat(LONGEST));
        for text in
            ["", "v0.1.0", "0.1", "0.1.0 ", "0.01.0", "0.1.0-\u{1b}[2J", "99999999999999999999.0.0", &long]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_two_parts_that_are_further_apart_go_unnoticed(minors in prop::array::uniform4(0..6_u64)) {
            let versions = minors.map(|minor| format!("0.{minor}.0"));
            let [a, b, c, d] = &versions;
            let found = gaps(&parts([a, b, c, d]));
            let apart = minors.iter().max().unwrap() - minors.iter().min().unwrap() > 1;
            prop_assert_eq!(!found.is_empty(), apart);
        }
    }
}

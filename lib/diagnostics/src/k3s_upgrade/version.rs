//! Versions of k3s, and from which one may go to which.

use std::fmt;
use std::str::FromStr;

/// Such as `v1.36.4+k3s1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    text: String,
    major: u32,
    minor: u32,
}

/// It is no version of a k3s.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is not a k3s version, such as v1.36.4+k3s1")]
pub struct NoVersion;

impl FromStr for Version {
    type Err = NoVersion;

    fn from_str(text: &str) -> Result<Self, NoVersion> {
        // It becomes a part of an address; semver takes nothing in it but letters, digits, dots, hyphens and `+`.
        let parsed = text.strip_prefix('v').and_then(|text| semver::Version::parse(text).ok());
        let parsed = parsed.filter(|parsed| !parsed.build.is_empty()).ok_or(NoVersion)?;
        let number = |number: u64| u32::try_from(number).map_err(|_| NoVersion);
        Ok(Self { text: text.to_owned(), major: number(parsed.major)?, minor: number(parsed.minor)? })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Why one must not go from one version to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Skew {
    /// The older one may not be able to read what the newer one has stored.
    Down,
    /// More than one minor version at once; the next one to go to.
    TooFar {
        /// Such as `v1.37`.
        next: String,
    },
    /// A kubelet must not be newer than its API server.
    AheadOfServer,
}

impl Version {
    /// N of v1.N.
    pub const fn minor(&self) -> u32 {
        self.minor
    }

    /// The version in what `k3s --version` says.
    ///
    /// # Errors
    /// It says something else, of which the first line is repeated.
    pub fn of_output(said: &str) -> Result<Self, String> {
        let first = said.lines().next().unwrap_or_default();
        let version = first.strip_prefix("k3s version ").and_then(|rest| rest.split_whitespace().next());
        version
            .and_then(|version| version.parse().ok())
            .ok_or_else(|| format!("`--version` printed {first:?} and not `k3s version v…`"))
    }

    /// Whether this version may follow `from`: within a minor version either way, else one up.
    ///
    /// # Errors
    /// Why not.
    pub fn after(&self, from: &Self) -> Result<(), Skew> {
        if (self.major, self.minor) < (from.major, from.minor) {
            return Err(Skew::Down);
        }
        if self.major != from.major || self.minor - from.minor > 1 {
            let next = format!("v{}.{}", from.major, from.minor.saturating_add(1));
            return Err(Skew::TooFar { next });
        }
        Ok(())
    }

    /// Whether a node of this version may be in the cluster of such a server.
    ///
    /// # Errors
    /// It is newer by a minor version.
    pub fn under(&self, server: &Self) -> Result<(), Skew> {
        let is_ahead = (self.major, self.minor) > (server.major, server.minor);
        if is_ahead { Err(Skew::AheadOfServer) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_a_version() {
        for good in ["v1.36.4+k3s1", "v1.37.0-rc2+k3s1", "v1.36.3+testbed1", "v1.36.4+k3s1-arm64"] {
            assert_eq!(version(good).to_string(), good);
        }
        for bad in [
            "",
            "v",
            "1.36.4+k3s1",
            "v1.36.4",
            "v1.36+k3s1",
            "v1.36.4.5+k3s1",
            "v1.36.x+k3s1",
            "v1.36.4+",
            "v1.36.4+k3s1/../..",
            "v1.+36.4+k3s1",
            "v1.36.4-+k3s1",
            "k3s-arm64",
            "v99999999999.1.1+k3s1",
        ] {
            assert_eq!(bad.parse::<Version>(), Err(NoVersion), "{bad}");
        }
    }

    #[test]
    fn what_a_k3s_says_of_itself() {
        let said = "k3s version v1.36.4+k3s1 (0a1b2c3d)\ngo version go1.26.1\n";
        assert_eq!(Version::of_output(said), Ok(version("v1.36.4+k3s1")));
        for said in ["", "Kubernetes v1.36.4\n", "k3s version \n", "k3s version dev\n"] {
            let why = Version::of_output(said).unwrap_err();
            assert!(why.contains("and not `k3s version v…`"), "{why}");
        }
    }

    #[test]
    fn which_may_follow_which() {
        let too_far = |next: &str| Err(Skew::TooFar { next: next.to_owned() });
        for (from, to, want) in [
            ("v1.36.4+k3s1", "v1.36.4+k3s2", Ok(())),
            ("v1.36.4+k3s1", "v1.36.2+k3s1", Ok(())),
            ("v1.36.4+k3s1", "v1.37.0+k3s1", Ok(())),
            ("v1.36.4+k3s1", "v1.38.0+k3s1", too_far("v1.37")),
            ("v1.36.4+k3s1", "v2.0.0+k3s1", too_far("v1.37")),
            ("v1.36.4+k3s1", "v1.35.9+k3s1", Err(Skew::Down)),
            ("v2.0.0+k3s1", "v1.99.0+k3s1", Err(Skew::Down)),
        ] {
            assert_eq!(version(to).after(&version(from)), want, "{from} {to}");
        }
    }

    #[test]
    fn a_kubelet_is_never_newer_than_its_server() {
        for (node, server, want) in [
            ("v1.36.9+k3s1", "v1.36.4+k3s1", Ok(())),
            ("v1.35.0+k3s1", "v1.36.4+k3s1", Ok(())),
            ("v1.37.0+k3s1", "v1.36.4+k3s1", Err(Skew::AheadOfServer)),
        ] {
            assert_eq!(version(node).under(&version(server)), want, "{node} {server}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC{0,40}") {
            let _ = text.parse::<Version>();
            let _ = Version::of_output(&text);
        }

        #[test]
        fn there_is_a_way_up_and_none_back(major in 0..3u32, a in 0..50u32, b in 0..50u32) {
            let (from, to) = (version(&format!("v{major}.{a}.0+k3s1")), version(&format!("v{major}.{b}.0+k3s1")));
            prop_assert_eq!(to.after(&from).is_ok(), b == a || b == a + 1);
            // Who may go both ways stays within a minor version.
            prop_assert_eq!(to.after(&from).is_ok() && from.after(&to).is_ok(), a == b);
        }
    }
}

//! Names of packages: requested, expected, installed.
//!
//! `image/packages` lists what is requested and why; `image/packages.installed` what that installs. Any added or
//! missing name stops the build, so that nothing gets onto the card unreviewed; versions may change.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebianPackage {
    pub name: String,
    pub version: String,
    /// `arm64` or `all`.
    pub architecture: String,
    /// The source package and its version.
    pub source: (String, String),
    /// SHA-256 of its file, where the archive's lists had it.
    pub sha256: Option<String>,
}

/// The names in a list with comments.
pub fn asked(list: &str) -> impl Iterator<Item = &str> {
    list.lines().map(|line| line.split('#').next().unwrap_or_default().trim()).filter(|name| !name.is_empty())
}

/// Reads the output of dpkg and the archive's lists.
///
/// # Errors
/// A line without the expected columns.
pub fn installed(packages: &str, hashes: &str) -> Result<Vec<DebianPackage>> {
    let hash_of = |name: &str, version: &str| {
        hashes.lines().find_map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
            [n, v, hash] if (n, v) == (name, version) => Some(hash.to_owned()),
            _ => None,
        })
    };
    packages
        .lines()
        .map(|line| match line.split('\t').collect::<Vec<_>>()[..] {
            [name, version, architecture, source, source_version] => Ok(DebianPackage {
                name: name.to_owned(),
                version: version.to_owned(),
                architecture: architecture.to_owned(),
                source: (source.to_owned(), source_version.to_owned()),
                sha256: hash_of(name, version),
            }),
            _ => bail!("{line:?} has not five columns"),
        })
        .collect::<Result<_>>()
        .context("reading the list of installed packages")
}

/// The kernel's packages have its version in their names, which moves.
fn known_as(name: &str) -> &str {
    const KERNELS: [(&str, &str); 4] = [
        ("linux-base-", "linux-base-VERSION"),
        ("linux-binary-", "linux-binary-VERSION"),
        ("linux-image-", "linux-image-VERSION"),
        ("linux-modules-", "linux-modules-VERSION"),
    ];
    let is_version = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    let known = KERNELS.iter().find(|(begin, _)| name.strip_prefix(begin).is_some_and(is_version));
    known.map_or(name, |(_, known)| known)
}

/// Compares the names.
///
/// # Errors
/// Every name that is new or missing, and what to do.
pub fn compare(expected: &str, installed: &[DebianPackage]) -> Result<()> {
    let wanted: BTreeSet<&str> = asked(expected).collect();
    let found: BTreeSet<&str> = installed.iter().map(|package| known_as(&package.name)).collect();
    let new: Vec<_> = found.difference(&wanted).copied().collect();
    let missing: Vec<_> = wanted.difference(&found).copied().collect();
    if new.is_empty() && missing.is_empty() {
        return Ok(());
    }
    bail!(
        "the installed packages are not those of image/packages.installed: new: [{}], missing: [{}]; find out \
         why, and when it is meant, add or remove these names there",
        new.join(" "),
        missing.join(" ")
    )
}

/// `out/packages.lock`: name, version, architecture and hash of each package, by tabs.
pub fn lock(installed: &[DebianPackage]) -> String {
    let line = |package: &DebianPackage| {
        let DebianPackage { name, version, architecture, sha256, .. } = package;
        format!("{name}\t{version}\t{architecture}\t{}\n", sha256.as_deref().unwrap_or("-"))
    };
    installed.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DPKG: &str = "a\t1\tarm64\ta\t1\nlib\t2+b1\tall\tsrc\t2\n";

    #[test]
    fn a_new_kernel_is_no_new_package() {
        let found = installed("linux-image-6.12.107+deb13-arm64\t1\tarm64\tlinux\t1\n", "").unwrap();
        assert!(compare("linux-image-VERSION\n", &found).is_ok());
        assert_eq!(known_as("linux-image-arm64"), "linux-image-arm64");
        assert_eq!(known_as("linux-modules-7.3.4+deb13-arm64"), "linux-modules-VERSION");
        assert_eq!(known_as("linux-base"), "linux-base");
    }

    #[test]
    fn a_list_has_names_and_reasons() {
        let list = "# head\na # why\n\n  b\n";
        assert_eq!(asked(list).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn names_must_be_those_expected_and_versions_may_move() {
        let found = installed(DPKG, "a\t1\tff\nlib\t1\tee\n").unwrap();
        assert_eq!(found[0].sha256.as_deref(), Some("ff"));
        assert_eq!(found[1].sha256, None, "the hash of another version is not its own");
        assert!(compare("a\nlib\n", &found).is_ok());
        let error = compare("a\nb\n", &found).unwrap_err().to_string();
        assert!(error.contains("new: [lib], missing: [b]"), "{error}");
        assert_eq!(lock(&found), "a\t1\tarm64\tff\nlib\t2+b1\tall\t-\n");
        assert!(installed("a\t1\n", "").is_err());
    }
}

//! Release notes: the section of one version of the changelog.

use anyhow::{Result, ensure};

/// The section below the heading `## HEADING`, which may be followed by a date, under the name of the version.
///
/// # Errors
/// There is no such section, two of them, or nothing in it.
pub fn cut(changelog: &str, version: &str, heading: &str) -> Result<String> {
    let is_ours = |line: &str| {
        let rest = line.strip_prefix("## ").and_then(|line| line.trim().strip_prefix(heading));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let found = changelog.lines().filter(|line| is_ours(line)).count();
    ensure!(
        found == 1,
        "CHANGELOG.md has {found} sections `## {heading}`, and a release needs one: `make version VERSION={version}` \
         makes it of what is below `## Unreleased`"
    );
    let section = changelog.lines().skip_while(|line| !is_ours(line)).skip(1);
    let section: Vec<&str> = section.take_while(|line| !line.starts_with("## ")).collect();
    let section = section.join("\n");
    ensure!(!section.trim().is_empty(), "the section `## {heading}` of CHANGELOG.md is empty");
    Ok(format!("# Config Weaver {version}\n\n{}\n", section.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "# Changelog\n\n## Unreleased\n\n- c\n\n## 0.2.0 (2026-12-01)\n\n### CLI\n\n- b\n\n## 0.2.0-rc.1\n\n- a\n";

    #[test]
    fn a_section_ends_where_the_next_begins() {
        assert_eq!(cut(LOG, "0.2.0", "0.2.0").unwrap(), "# Config Weaver 0.2.0\n\n### CLI\n\n- b\n");
        assert_eq!(cut(LOG, "0.2.0-rc.1", "0.2.0-rc.1").unwrap(), "# Config Weaver 0.2.0-rc.1\n\n- a\n");
        assert_eq!(cut(LOG, "0.3.0", "Unreleased").unwrap(), "# Config Weaver 0.3.0\n\n- c\n");
    }

    #[test]
    fn a_version_without_notes_is_no_release() {
        let empty = "## 1.0.0\n\n## 0.9.0\n\n- a\n";
        let twice = "## 1.0.0\n\n- a\n\n## 1.0.0\n\n- b\n";
        for (log, version, why) in [
            (LOG, "0.2", "0 sections"),
            (LOG, "0.3.0", "0 sections"),
            (empty, "1.0.0", "empty"),
            (twice, "1.0.0", "2 sections"),
        ] {
            let said = cut(log, version, version).unwrap_err().to_string();
            assert!(said.contains(why), "{version}: {said}");
        }
    }
}

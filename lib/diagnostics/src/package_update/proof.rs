//! Is what ran before the update running again?

use super::dpkg::InstalledPackage;
use super::plan::PackageVersion;

/// Units whose state before an update is that after it. What a socket starts is not among them.
pub const UNITS: [&str; 3] = [AGENT, "weaver-webhook.socket", OPERATOR];
/// The unit that writes the node's report.
pub const AGENT: &str = "weaver-node-agent.service";
pub const OPERATOR: &str = "weaver-operator.service";

/// What was seen at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenPackages {
    pub installed: Vec<InstalledPackage>,
    /// The states of the units that are wanted, in systemd's word or in words why it is not known.
    pub units: Vec<(String, String)>,
    /// Whether the agent has written a report since its restart; `None` where it did not run before.
    pub reported: Option<bool>,
}

/// What is not as it must be, in words; nothing: it is proven.
pub fn missing(packages: &[PackageVersion], seen: &SeenPackages) -> Vec<String> {
    let mut missing = Vec::new();
    for PackageVersion { name, version } in packages {
        match seen.installed.iter().find(|installed| installed.name == *name) {
            Some(there) if there.version == *version && there.is_whole => {}
            Some(there) if there.version == *version => missing.push(format!("{name} is not configured")),
            Some(there) => missing.push(format!("{name} is {} instead of {version}", there.version)),
            None => missing.push(format!("{name} is not installed")),
        }
    }
    let units = seen.units.iter().filter(|(_, state)| state != "active");
    missing.extend(units.map(|(unit, state)| format!("{unit} is {state}")));
    if seen.reported == Some(false) {
        missing.push("the node agent has not written its report".to_owned());
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_that_is_missing_is_named() {
        let packages =
            ["a", "b"].map(|name| PackageVersion { name: name.to_owned(), version: "2".to_owned() });
        let installed = |name: &str, version: &str, is_whole| InstalledPackage {
            name: name.to_owned(),
            version: version.to_owned(),
            is_whole,
            kib: 0,
        };
        let both = || vec![installed("a", "2", true), installed("b", "2", true)];
        let unit = |state: &str| vec![(AGENT.to_owned(), state.to_owned())];
        for (installed, units, reported, want) in [
            (both(), unit("active"), Some(true), &[][..]),
            (both(), Vec::new(), None, &[]),
            (
                both(),
                unit("failed"),
                Some(false),
                &["weaver-node-agent.service is failed", "the node agent has not written its report"],
            ),
            (
                vec![installed("a", "1", true), installed("b", "2", false)],
                unit("active"),
                None,
                &["a is 1 instead of 2", "b is not configured"],
            ),
            (vec![installed("a", "2", true)], unit("active"), Some(true), &["b is not installed"]),
        ] {
            assert_eq!(missing(&packages, &SeenPackages { installed, units, reported }), want);
        }
    }
}

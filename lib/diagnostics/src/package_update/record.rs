//! What is written down of an update, and what it says to who finds one that was cut off.

use serde::{Deserialize, Serialize};

use super::dpkg::InstalledPackage;
use super::plan::PackageVersion;
use crate::finding::{Code, Finding, Place};
pub use crate::k3s_upgrade::record::UpgradePhase;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateRecord {
    /// When it began, by a clock that may be wrong.
    pub begun: String,
    pub from: Vec<PackageVersion>,
    pub to: Vec<PackageVersion>,
    /// The units that ran before.
    pub units: Vec<String>,
    /// The names that k3s served before; `None` where it was not well, or is not there.
    pub names: Option<Vec<String>>,
    /// The old versions could not read what the new ones store.
    #[serde(default)]
    pub one_way: bool,
    /// The timer began it, and no user.
    #[serde(default)]
    pub by_timer: bool,
    /// A signal ended the proof: nothing speaks against the new versions.
    #[serde(default)]
    pub stopped: bool,
    /// How far it came.
    pub phase: UpgradePhase,
}

/// What to do about an interrupted update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateResume {
    /// It had come to its end.
    Nothing,
    /// No package was replaced yet.
    Forget,
    /// Someone has installed other versions meanwhile.
    LeaveAlone,
    /// Some are new, or one is in parts: install the new ones.
    Install,
    /// The new ones are there: prove them.
    Prove,
    /// The old ones shall be there again, and are not.
    GoBack,
    /// The old ones are there again: prove them.
    ProveOld,
}

impl UpdateRecord {
    /// What to do if these are installed.
    pub fn resume(&self, installed: &[InstalledPackage]) -> UpdateResume {
        let find = |name: &str| installed.iter().find(|there| there.name == name);
        let has = |wanted: &[PackageVersion]| {
            wanted.iter().all(|PackageVersion { name, version }| {
                find(name).is_some_and(|there| there.version == *version && there.is_whole)
            })
        };
        let is_other = self.from.iter().zip(&self.to).any(|(from, to)| {
            find(&from.name).is_none_or(|there| there.version != from.version && there.version != to.version)
        });
        match self.phase {
            UpgradePhase::Done | UpgradePhase::WentBack => UpdateResume::Nothing,
            _ if is_other => UpdateResume::LeaveAlone,
            UpgradePhase::Forward if has(&self.from) => UpdateResume::Forget,
            UpgradePhase::Forward if has(&self.to) => UpdateResume::Prove,
            UpgradePhase::Forward => UpdateResume::Install,
            UpgradePhase::Back if has(&self.from) => UpdateResume::ProveOld,
            UpgradePhase::Back => UpdateResume::GoBack,
        }
    }

    /// The version that it went from, and that it went to.
    pub fn versions(&self) -> (&str, &str) {
        (first(&self.from), first(&self.to))
    }

    /// A warning where the update was cut off and no process finishes it now; `place` is where this is written.
    pub fn judge(&self, is_under_way: bool, place: Place) -> Option<Finding> {
        if self.phase.is_end() || is_under_way {
            return None;
        }
        let (from, to) = self.versions();
        let message = format!("an update of Config Weaver from {from} to {to} was interrupted");
        Some(Finding::new(Code::UpdateInterrupted, message).saw(place, format!("begun {}", self.begun)))
    }
}

fn first(packages: &[PackageVersion]) -> &str {
    packages.first().map_or("unknown", |package| package.version.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packages(version: &str) -> Vec<PackageVersion> {
        ["config-weaver", "weaver"]
            .map(|name| PackageVersion { name: name.to_owned(), version: version.to_owned() })
            .to_vec()
    }

    fn record(phase: UpgradePhase) -> UpdateRecord {
        let (from, to) = (packages("1"), packages("2"));
        UpdateRecord {
            begun: "now".to_owned(),
            from,
            to,
            units: Vec::new(),
            names: None,
            one_way: false,
            by_timer: false,
            stopped: false,
            phase,
        }
    }

    #[test]
    fn every_place_where_it_can_be_cut_off() {
        let installed = |versions: &str| -> Vec<_> {
            let states = versions.split(' ').zip(["config-weaver", "weaver"]);
            let there = states.filter(|(version, _)| *version != "-");
            there
                .map(|(version, name)| InstalledPackage {
                    name: name.to_owned(),
                    version: version.trim_end_matches('!').to_owned(),
                    is_whole: !version.ends_with('!'),
                    kib: 0,
                })
                .collect()
        };
        for (phase, versions, want) in [
            (UpgradePhase::Done, "2 2", UpdateResume::Nothing),
            (UpgradePhase::WentBack, "1 1", UpdateResume::Nothing),
            (UpgradePhase::Forward, "1 1", UpdateResume::Forget),
            (UpgradePhase::Forward, "1! 1", UpdateResume::Install),
            (UpgradePhase::Forward, "2 1", UpdateResume::Install),
            (UpgradePhase::Forward, "2 2!", UpdateResume::Install),
            (UpgradePhase::Forward, "2 2", UpdateResume::Prove),
            (UpgradePhase::Forward, "3 2", UpdateResume::LeaveAlone),
            (UpgradePhase::Forward, "- 2", UpdateResume::LeaveAlone),
            (UpgradePhase::Back, "2 2", UpdateResume::GoBack),
            (UpgradePhase::Back, "2 1!", UpdateResume::GoBack),
            (UpgradePhase::Back, "1 1!", UpdateResume::GoBack),
            (UpgradePhase::Back, "1 1", UpdateResume::ProveOld),
            (UpgradePhase::Back, "3 3", UpdateResume::LeaveAlone),
        ] {
            assert_eq!(record(phase).resume(&installed(versions)), want, "{phase:?} {versions}");
        }
    }

    #[test]
    fn one_that_was_cut_off_is_reported() {
        let place = || Place::file("/r");
        assert_eq!(record(UpgradePhase::Done).judge(false, place()), None);
        assert_eq!(record(UpgradePhase::Forward).judge(true, place()), None);
        let finding = record(UpgradePhase::Back).judge(false, place()).unwrap();
        assert_eq!(finding.message, "an update of Config Weaver from 1 to 2 was interrupted");
        let text = serde_json::to_string(&record(UpgradePhase::Back)).unwrap();
        assert_eq!(serde_json::from_str::<UpdateRecord>(&text).unwrap(), record(UpgradePhase::Back));
    }
}

//! What is written down of an upgrade, and what it says to who finds one that was cut off.

use serde::{Deserialize, Serialize};

use super::UpgradeRequest;
use crate::finding::{Code, Finding, Place};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct K3sBuild {
    /// What it says of itself, or `unknown`.
    pub version: String,
    pub sha256: String,
}

/// How far it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpgradePhase {
    /// The new program is installed and verified.
    Forward,
    /// The old one is put back and proven.
    Back,
    /// The new one was proven.
    Done,
    /// The old one was.
    WentBack,
}

impl UpgradePhase {
    /// Whether nothing is left to do.
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Done | Self::WentBack)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpgradeRecord {
    /// When it began, by a clock that may be wrong.
    pub begun: String,
    pub from: K3sBuild,
    pub to: K3sBuild,
    /// The names that were served before.
    pub names: Vec<String>,
    /// The program to install is the kept one, of which there is no other copy.
    #[serde(default)]
    pub to_the_one_before: bool,
    /// How far it came.
    pub phase: UpgradePhase,
}

/// What to do about an interrupted upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpgradeResume {
    /// It had come to its end.
    Nothing,
    /// The program was not replaced yet.
    Forget,
    /// Another program was installed meanwhile.
    LeaveAlone,
    /// The new program is in place: restart and prove it.
    Prove,
    /// The new program is in place and must not stay.
    GoBack,
    /// The old one is in place again: restart and prove it.
    ProveOld,
}

impl UpgradeRecord {
    /// What to do if the installed program has this hash.
    pub fn resume(&self, installed: &str, request: UpgradeRequest) -> UpgradeResume {
        let is_new = installed == self.to.sha256;
        let is_old = installed == self.from.sha256;
        match (self.phase, request) {
            (UpgradePhase::Done | UpgradePhase::WentBack, _) => UpgradeResume::Nothing,
            _ if !is_new && !is_old => UpgradeResume::LeaveAlone,
            (UpgradePhase::Forward, _) if !is_new => UpgradeResume::Forget,
            (UpgradePhase::Forward, UpgradeRequest::Upgrade) => UpgradeResume::Prove,
            // That one is what was asked for, and is asked for again.
            (UpgradePhase::Forward, UpgradeRequest::RollBack) if self.to_the_one_before => {
                UpgradeResume::Prove
            }
            // Who asks for the one before has given up on the new one.
            (UpgradePhase::Forward, UpgradeRequest::RollBack) => UpgradeResume::GoBack,
            (UpgradePhase::Back, _) if is_new => UpgradeResume::GoBack,
            (UpgradePhase::Back, _) => UpgradeResume::ProveOld,
        }
    }

    /// A warning where the upgrade was cut off and no process finishes it now; `place` is where this is written.
    pub fn judge(&self, is_under_way: bool, place: Place) -> Option<Finding> {
        let Self { begun, from, to, phase, .. } = self;
        if phase.is_end() || is_under_way {
            return None;
        }
        let message = format!("an upgrade of k3s from {} to {} was interrupted", from.version, to.version);
        Some(Finding::new(Code::UpgradeInterrupted, message).saw(place, format!("begun {begun}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(phase: UpgradePhase) -> UpgradeRecord {
        let build = |sha256: &str| K3sBuild { version: "v1.36.4+k3s1".to_owned(), sha256: sha256.to_owned() };
        let (from, to) = (build("old"), build("new"));
        UpgradeRecord { begun: String::new(), from, to, names: Vec::new(), to_the_one_before: false, phase }
    }

    #[test]
    fn every_place_where_it_can_be_cut_off() {
        use UpgradeRequest::{RollBack, Upgrade};
        for (phase, installed, request, want) in [
            (UpgradePhase::Done, "new", Upgrade, UpgradeResume::Nothing),
            (UpgradePhase::WentBack, "old", RollBack, UpgradeResume::Nothing),
            (UpgradePhase::Forward, "old", Upgrade, UpgradeResume::Forget),
            (UpgradePhase::Forward, "old", RollBack, UpgradeResume::Forget),
            (UpgradePhase::Forward, "new", Upgrade, UpgradeResume::Prove),
            (UpgradePhase::Forward, "new", RollBack, UpgradeResume::GoBack),
            (UpgradePhase::Back, "new", Upgrade, UpgradeResume::GoBack),
            (UpgradePhase::Back, "old", Upgrade, UpgradeResume::ProveOld),
            (UpgradePhase::Back, "old", RollBack, UpgradeResume::ProveOld),
            (UpgradePhase::Forward, "other", Upgrade, UpgradeResume::LeaveAlone),
            (UpgradePhase::Back, "other", RollBack, UpgradeResume::LeaveAlone),
        ] {
            assert_eq!(record(phase).resume(installed, request), want, "{phase:?} {installed} {request:?}");
        }
    }

    #[test]
    fn who_asks_again_for_the_one_before_gets_that_one() {
        use UpgradeRequest::{RollBack, Upgrade};
        for (phase, installed, request, want) in [
            (UpgradePhase::Forward, "old", RollBack, UpgradeResume::Forget),
            (UpgradePhase::Forward, "new", RollBack, UpgradeResume::Prove),
            (UpgradePhase::Forward, "new", Upgrade, UpgradeResume::Prove),
            (UpgradePhase::Back, "new", RollBack, UpgradeResume::GoBack),
            (UpgradePhase::Back, "old", RollBack, UpgradeResume::ProveOld),
        ] {
            let record = UpgradeRecord { to_the_one_before: true, ..record(phase) };
            assert_eq!(record.resume(installed, request), want, "{phase:?} {installed} {request:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let text = serde_json::to_string(&record(UpgradePhase::WentBack)).unwrap();
        assert!(text.contains(r#""phase":"went-back""#), "{text}");
        assert_eq!(serde_json::from_str::<UpgradeRecord>(&text).unwrap(), record(UpgradePhase::WentBack));
    }
}

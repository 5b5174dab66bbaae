//! What is written down of a trial, and what a boot says of it.

use serde::{Deserialize, Serialize};

use crate::finding::{Code, Finding, Place};
use crate::package_update::plan::PackageVersion;

/// Why a kernel was refused that never ran, or ran and was gone.
const NO_TRIAL: &str = "the trial did not start, or did not come back: this board was restarted with the old kernel. A \
    kernel without Raspberry Pi's driver for `reboot \"0 tryboot\"`, such as Debian's, cannot ask the firmware for it";
const CUT_OFF: &str = "this board was restarted before the new kernel was verified";
const NOT_ASKED: &str = "the preparation was interrupted";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelTrial {
    /// When it began, by a clock that may be wrong.
    pub begun: String,
    /// The kernel that ran before, and the one that is tried, as `uname -r` has them.
    pub from: String,
    pub to: String,
    /// What is installed where it is proven.
    pub packages: Vec<PackageVersion>,
    /// The units that ran before.
    pub units: Vec<String>,
    /// The names that k3s served before; `None` where it was not well, or is not there.
    pub names: Option<Vec<String>>,
    /// The boot in which the trial was asked for: `/proc/sys/kernel/random/boot_id`.
    pub boot: String,
    /// How far it came.
    pub phase: TrialPhase,
    /// Why the kernel was refused.
    #[serde(default)]
    pub refused: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrialPhase {
    /// Its files are being put in place, of which no start takes one.
    Staged,
    /// They are all there, and the restart is asked for.
    Asked,
    /// It runs on trial.
    Trying,
    /// It is proven: it is made what each start takes, and installed.
    Keeping,
    /// It is installed; remains of the trial may be there.
    Kept,
    /// It is not to be started again; remains may be there.
    Refused,
}

/// What a boot shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialFacts {
    pub boot: String,
    /// The kernel that runs.
    pub running: String,
    /// Whether this start is one on trial, where the firmware says.
    pub is_trial: Option<bool>,
}

/// What to do about a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialStep {
    /// Ask for the restart, or wait for it.
    Restart,
    /// Prove the kernel that runs.
    Judge,
    /// Make it what each start takes, and install it.
    Keep,
    /// Write down why it is refused, and remove what was put in place.
    Refuse(&'static str),
    /// It is refused, and runs: start the old one.
    GoBack,
    /// It has ended: remove what was put in place, where it is there.
    Tidy,
}

impl KernelTrial {
    pub fn step(&self, seen: &TrialFacts) -> TrialStep {
        // A firmware that says nothing: no regular start takes this kernel before it is proven.
        let is_tried = seen.running == self.to && seen.is_trial != Some(false);
        match self.phase {
            TrialPhase::Keeping => TrialStep::Keep,
            // Where the firmware says nothing, its owner may have installed it since: each start would be undone.
            TrialPhase::Refused if is_tried && seen.is_trial.is_some() => TrialStep::GoBack,
            TrialPhase::Kept | TrialPhase::Refused => TrialStep::Tidy,
            TrialPhase::Staged | TrialPhase::Asked | TrialPhase::Trying if is_tried => TrialStep::Judge,
            TrialPhase::Asked if seen.boot == self.boot => TrialStep::Restart,
            TrialPhase::Staged => TrialStep::Refuse(NOT_ASKED),
            TrialPhase::Asked => TrialStep::Refuse(NO_TRIAL),
            TrialPhase::Trying => TrialStep::Refuse(CUT_OFF),
        }
    }

    /// Whether it has come to its end.
    pub const fn has_ended(&self) -> bool {
        matches!(self.phase, TrialPhase::Kept | TrialPhase::Refused)
    }

    /// How it ended, for the next one who tries a kernel.
    pub fn last_words(&self) -> Option<String> {
        let why = self.refused.as_deref()?;
        Some(format!("The last trial, of kernel {}, begun {}, was refused: {why}.", self.to, self.begun))
    }

    /// A warning where it has not ended and no process works on it; `place` is where this is written.
    pub fn judge(&self, is_under_way: bool, place: Place) -> Option<Finding> {
        if self.has_ended() || is_under_way {
            return None;
        }
        let message = format!("a trial of kernel {} has not ended", self.to);
        Some(Finding::new(Code::UpdateInterrupted, message).saw(place, format!("begun {}", self.begun)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(phase: TrialPhase) -> KernelTrial {
        KernelTrial {
            begun: "now".to_owned(),
            from: "1".to_owned(),
            to: "2".to_owned(),
            packages: vec![PackageVersion { name: "linux-image-2".to_owned(), version: "2-1".to_owned() }],
            units: Vec::new(),
            names: None,
            boot: "a".to_owned(),
            phase,
            refused: None,
        }
    }

    #[test]
    fn each_boot_says_what_to_do() {
        for (phase, boot, running, is_trial, want) in [
            (TrialPhase::Staged, "a", "1", None, TrialStep::Refuse(NOT_ASKED)),
            (TrialPhase::Staged, "b", "1", Some(false), TrialStep::Refuse(NOT_ASKED)),
            (TrialPhase::Asked, "a", "1", Some(false), TrialStep::Restart),
            (TrialPhase::Asked, "b", "2", Some(true), TrialStep::Judge),
            (TrialPhase::Asked, "b", "2", None, TrialStep::Judge),
            // The firmware fell back, or never had the request.
            (TrialPhase::Asked, "b", "1", Some(true), TrialStep::Refuse(NO_TRIAL)),
            (TrialPhase::Asked, "b", "1", Some(false), TrialStep::Refuse(NO_TRIAL)),
            (TrialPhase::Asked, "b", "1", None, TrialStep::Refuse(NO_TRIAL)),
            // Its owner installed it meanwhile.
            (TrialPhase::Asked, "b", "2", Some(false), TrialStep::Refuse(NO_TRIAL)),
            (TrialPhase::Trying, "b", "2", Some(true), TrialStep::Judge),
            (TrialPhase::Trying, "c", "1", Some(false), TrialStep::Refuse(CUT_OFF)),
            (TrialPhase::Keeping, "b", "2", Some(true), TrialStep::Keep),
            (TrialPhase::Keeping, "c", "1", Some(false), TrialStep::Keep),
            (TrialPhase::Keeping, "c", "2", Some(false), TrialStep::Keep),
            (TrialPhase::Kept, "c", "2", Some(false), TrialStep::Tidy),
            (TrialPhase::Refused, "b", "2", Some(true), TrialStep::GoBack),
            (TrialPhase::Refused, "c", "1", Some(false), TrialStep::Tidy),
            (TrialPhase::Refused, "c", "2", Some(false), TrialStep::Tidy),
            (TrialPhase::Refused, "c", "2", None, TrialStep::Tidy),
        ] {
            let seen = TrialFacts { boot: boot.to_owned(), running: running.to_owned(), is_trial };
            assert_eq!(trial(phase).step(&seen), want, "{phase:?} {seen:?}");
        }
    }

    #[test]
    fn one_that_has_not_ended_is_reported_and_a_refusal_is_remembered() {
        let place = || Place::file("/r");
        for phase in [TrialPhase::Staged, TrialPhase::Asked, TrialPhase::Trying, TrialPhase::Keeping] {
            let finding = trial(phase).judge(false, place()).unwrap();
            assert_eq!(finding.message, "a trial of kernel 2 has not ended");
            assert_eq!(trial(phase).judge(true, place()), None);
        }
        for phase in [TrialPhase::Kept, TrialPhase::Refused] {
            assert_eq!(trial(phase).judge(false, place()), None);
        }
        let mut refused = trial(TrialPhase::Refused);
        assert_eq!(refused.last_words(), None);
        refused.refused = Some(CUT_OFF.to_owned());
        assert!(
            refused
                .last_words()
                .unwrap()
                .starts_with("The last trial, of kernel 2, begun now, was refused: ")
        );
        let text = serde_json::to_string(&refused).unwrap();
        assert!(text.contains(r#""phase":"refused""#), "{text}");
        assert_eq!(serde_json::from_str::<KernelTrial>(&text).unwrap(), refused);
    }
}

//! What is written down of a restore, and what it says to who finds one that was cut off.

use serde::{Deserialize, Serialize};

use crate::finding::{Code, Finding, Place, Remedy};

/// A file or directory that is swapped in, by its paths on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathSwap {
    pub target: String,
    /// Where the restored one is until then.
    pub restored: String,
    /// Where that which was there is kept.
    pub kept: String,
    /// Whether it belongs on a FAT, onto which it is written: nothing else of it may ever be there.
    pub is_on_fat: bool,
}

/// A path below one that is swapped in, which stays as it was: it is moved back from where that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathReturn {
    pub target: String,
    pub kept: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestorePhase {
    /// Everything is on the disk and is being swapped in.
    Swap,
    /// Everything is swapped in.
    Done,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreRecord {
    /// When it began, by a clock that may be wrong.
    pub begun: String,
    /// The node that the backup is of.
    pub node: String,
    /// When the backup was made.
    pub made: String,
    pub swaps: Vec<PathSwap>,
    /// The volumes that this node has, and that the backup has left out as a whole.
    #[serde(default)]
    pub returns: Vec<PathReturn>,
    /// What is of no use any more: k3s makes it again.
    pub stale: Vec<String>,
    /// The boot in which it began: in the same one k3s may run by now, and only `--resume` stops it.
    #[serde(default)]
    pub boot: String,
    pub phase: RestorePhase,
}

impl RestoreRecord {
    /// A failure until everything is swapped in, also while a process does that: k3s would start on a state of which a
    /// part is restored. `place` is where this is written.
    pub fn judge(&self, is_under_way: bool, place: Place) -> Option<Finding> {
        if self.phase == RestorePhase::Done {
            return None;
        }
        let how = if is_under_way { "is under way" } else { "was interrupted" };
        let message = format!("the restore of {}'s backup of {} {how}", self.node, self.made);
        let finding =
            Finding::new(Code::RestoreInterrupted, message).saw(place, format!("begun {}", self.begun));
        Some(if is_under_way {
            finding.remedy(Remedy::new("wait until it has finished: it starts k3s"))
        } else {
            finding
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn one_that_is_not_complete_is_a_failure_and_only_one_that_was_cut_off_is_to_be_resumed() {
        let swap = PathSwap {
            target: "/a".to_owned(),
            restored: "/a.restored".to_owned(),
            kept: "/a.before-restore".to_owned(),
            is_on_fat: false,
        };
        let record = |phase| RestoreRecord {
            begun: "2026-11-27T08:00:00Z".to_owned(),
            node: "raspi".to_owned(),
            made: "2026-11-26T08:00:00Z".to_owned(),
            swaps: vec![swap.clone()],
            returns: vec![PathReturn { target: "/a/b".to_owned(), kept: "/a.before-restore/b".to_owned() }],
            stale: vec!["/b".to_owned()],
            boot: String::new(),
            phase,
        };
        let text = serde_json::to_string(&record(RestorePhase::Swap)).unwrap();
        assert_eq!(serde_json::from_str::<RestoreRecord>(&text).unwrap(), record(RestorePhase::Swap));
        let judged = |phase, is_under_way| record(phase).judge(is_under_way, Place::file("/x"));
        for (is_under_way, how, resumes) in [(false, "was interrupted", true), (true, "is under way", false)]
        {
            let found = judged(RestorePhase::Swap, is_under_way).unwrap();
            assert_eq!(found.severity(), Severity::Fail, "it keeps k3s from starting");
            assert!(found.message.ends_with(how), "{}", found.message);
            assert!(!found.code.title().contains("interrupted"), "it is for both");
            let commands = found.remedy.unwrap().commands;
            let is_named = commands.iter().any(|command| *command == "sudo weaver node restore --resume");
            assert_eq!(is_named, resumes, "{commands:?}");
            assert_eq!(judged(RestorePhase::Done, is_under_way), None);
        }
    }
}

//! Updates by timer: which version is not tried again, and what is said where one failed.

use serde::{Deserialize, Serialize};

use crate::finding::{Code, Finding, Place};

/// What became of the last one, as it is written down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastUpdate {
    /// When one was last installed, or nothing was newer, in seconds since 1970.
    pub made: Option<i64>,
    /// What the last attempt could not do.
    pub failure: Option<String>,
    /// The version that could not be verified on this host: the timer skips it and takes the next one.
    pub unproven: Option<String>,
}

/// How an attempt of the timer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attempt {
    /// A newer version is installed and proven, or there is none.
    Newest,
    /// The newest is the one that was not proven before.
    LeftOut,
    /// This version was not proven: the old one is installed again, or could not be.
    Unproven { version: String, is_back: bool },
    /// Nothing was installed, or it was stopped before it was proven, for this reason; the timer tries again.
    Failed(String),
}

impl LastUpdate {
    /// What is written down after an attempt, which ended then.
    #[must_use]
    pub fn after(self, attempt: Attempt, now: i64) -> Self {
        match attempt {
            Attempt::Newest => Self { made: Some(now), failure: None, unproven: None },
            Attempt::LeftOut => Self { made: Some(now), ..self },
            Attempt::Unproven { version, is_back } => {
                let then = if is_back {
                    "the version before is installed again"
                } else {
                    "nor was the version before"
                };
                let failure = Some(format!("{version} could not be verified, {then}"));
                Self { made: Some(now), failure, unproven: Some(version) }
            }
            // It is tried again the next time that the timer looks.
            Attempt::Failed(why) => Self { failure: Some(why), ..self },
        }
    }

    /// A warning where the last attempt failed; `place` is where updates are configured.
    pub fn judge(&self, place: Place) -> Option<Finding> {
        let failure = self.failure.as_ref()?;
        let message = format!("the automatic update of Config Weaver failed: {failure}");
        Some(Finding::at(Code::AutomaticUpdateFailed, place, &message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_796_000_000;

    #[test]
    fn a_version_that_was_not_proven_is_left_out_until_one_is() {
        let unproven = Attempt::Unproven { version: "0.2".to_owned(), is_back: true };
        let bad = LastUpdate::default().after(unproven, NOW);
        let said = bad.judge(Place::file("/x")).unwrap().message;
        assert!(
            said.ends_with("failed: 0.2 could not be verified, the version before is installed again"),
            "{said}"
        );
        // Neither a look that finds the same version nor a source that does not answer makes it good.
        let left_out = bad.after(Attempt::LeftOut, NOW + 1);
        assert_eq!((left_out.unproven.as_deref(), left_out.made), (Some("0.2"), Some(NOW + 1)));
        assert!(left_out.judge(Place::file("/x")).is_some());
        let failed = left_out.after(Attempt::Failed("no server".to_owned()), NOW + 2);
        assert_eq!((failed.unproven.as_deref(), failed.made), (Some("0.2"), Some(NOW + 1)), "due again");
        assert!(failed.judge(Place::file("/x")).unwrap().message.ends_with("failed: no server"));
        let good = failed.after(Attempt::Newest, NOW + 3);
        assert_eq!(
            (good.clone(), good.judge(Place::file("/x"))),
            (LastUpdate { made: Some(NOW + 3), ..LastUpdate::default() }, None)
        );
    }
}

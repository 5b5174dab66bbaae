//! Backups by timer: when one is due, and what is said where none was made.

use serde::{Deserialize, Serialize};

use crate::finding::{Code, Finding, Place};

const HOUR: i64 = 3_600;
/// The timer looks once an hour, some minutes sooner or later.
const SLACK: i64 = HOUR / 2;
/// How long after a boot, or after its time, a backup may still be under way.
const GRACE: i64 = 3 * HOUR;

/// How often one is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    Hourly,
    Daily,
    Weekly,
}

impl When {
    /// Each with its name.
    pub const ALL: [(&'static str, Self); 3] =
        [("hourly", Self::Hourly), ("daily", Self::Daily), ("weekly", Self::Weekly)];

    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, when)| when)
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hourly => "hourly",
            Self::Daily => "daily",
            Self::Weekly => "weekly",
        }
    }

    const fn seconds(self) -> i64 {
        match self {
            Self::Hourly => HOUR,
            Self::Daily => 24 * HOUR,
            Self::Weekly => 7 * 24 * HOUR,
        }
    }

    /// Whether another one is due, where the last was made then (in seconds since 1970). One from the future tells that a
    /// clock was wrong, so it counts for nothing.
    #[must_use]
    pub const fn is_due(self, made: Option<i64>, now: i64) -> bool {
        match made {
            Some(made) => now < made - SLACK || now >= made + self.seconds() - SLACK,
            None => true,
        }
    }
}

/// What became of the last ones, as it is written down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastBackup {
    /// When one was last made, in seconds since 1970.
    pub made: Option<i64>,
    /// Why none was made since.
    pub failure: Option<String>,
}

/// What is known of the backups that were asked for.
#[derive(Debug, Clone)]
pub struct Schedule {
    pub when: When,
    /// Where they are asked for.
    pub place: Place,
    /// `None` where there was no attempt.
    pub last: Option<LastBackup>,
    /// In seconds since 1970.
    pub now: i64,
    /// Seconds since the boot.
    pub uptime: i64,
}

impl Schedule {
    /// A warning where a backup failed, or is long overdue.
    #[must_use]
    pub fn judge(&self) -> Option<Finding> {
        let last = self.last.as_ref();
        let made = last.and_then(|last| last.made);
        let since = made.map_or_else(
            || "none was made yet".to_owned(),
            |made| format!("the last one is {} hours old", (self.now - made) / HOUR),
        );
        let warns = |why: &str| {
            let what = format!("{} backups are asked for, and {why}; {since}", self.when.name());
            Some(Finding::at(Code::BackupOverdue, self.place.clone(), &what))
        };
        if let Some(failure) = last.and_then(|last| last.failure.as_deref()) {
            return warns(&format!("the last attempt failed: {failure}"));
        }
        // What was off cannot have made one.
        let is_overdue = made.is_none_or(|made| self.now > made + self.when.seconds() + GRACE);
        if is_overdue && self.uptime > GRACE { warns("weaver-backup.timer has made none") } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_796_000_000;
    const DAY: i64 = 24 * HOUR;

    #[test]
    fn one_is_due_when_the_last_is_old_enough_or_from_the_future() {
        for (when, made, expected) in [
            (When::Daily, None, true),
            (When::Daily, Some(NOW), false),
            (When::Daily, Some(NOW - 23 * HOUR), false),
            // An hour's timer that is some minutes early does not wait for another hour.
            (When::Daily, Some(NOW - DAY + 600), true),
            (When::Hourly, Some(NOW - HOUR + 600), true),
            (When::Hourly, Some(NOW - SLACK + 1), false),
            (When::Weekly, Some(NOW - 2 * DAY), false),
            (When::Weekly, Some(NOW - 7 * DAY), true),
            (When::Weekly, Some(NOW + 60), false),
            (When::Weekly, Some(NOW + DAY), true),
        ] {
            assert_eq!(when.is_due(made, NOW), expected, "{when:?} {made:?}");
        }
        for (name, when) in When::ALL {
            assert_eq!((when.name(), When::of(name)), (name, Some(when)));
        }
    }

    #[test]
    fn a_failure_is_told_at_once_and_silence_after_a_while() {
        let made = |seconds| Some(LastBackup { made: Some(NOW - seconds), failure: None });
        let failed =
            Some(LastBackup { made: None, failure: Some("nothing is mounted at /mnt/usb".to_owned()) });
        for (last, uptime, said) in [
            (made(HOUR), 9 * HOUR, None),
            (made(DAY + HOUR), 9 * HOUR, None),
            (made(DAY + GRACE + 1), 9 * HOUR, Some("has made none; the last one is 27 hours old")),
            // The board was off.
            (made(30 * DAY), HOUR, None),
            (None, HOUR, None),
            (None, 9 * HOUR, Some("has made none; none was made yet")),
            (failed, 60, Some("the last attempt failed: nothing is mounted at /mnt/usb; none was made yet")),
        ] {
            let schedule = Schedule { when: When::Daily, place: Place::file("/x"), last, now: NOW, uptime };
            let found = schedule.judge();
            assert_eq!(found.is_some(), said.is_some(), "{schedule:?}");
            if let Some((found, said)) = found.zip(said) {
                assert!(found.message.contains(said), "{}", found.message);
            }
        }
    }
}

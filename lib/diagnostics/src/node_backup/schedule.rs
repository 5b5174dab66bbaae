//! Backups by timer: when one is due, and what is said where none was made.

use serde::{Deserialize, Serialize};

use crate::finding::{Code, Finding, Place};
use crate::when::{HOUR, When};

/// How long after a boot, or after its time, one may still be under way: an hour longer than the unit may run.
const GRACE: i64 = 7 * HOUR;

/// What became of the last ones, as it is written down.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LastBackup {
    /// Where to, and with what in it: one for another disk counts for nothing.
    pub asked: String,
    /// When one was last made, in seconds since 1970.
    pub made: Option<i64>,
    /// The stamp of the first that this card made there.
    pub first: Option<String>,
    /// When an attempt began that has not ended.
    pub begun: Option<i64>,
    /// What the last attempt could not do.
    pub failure: Option<String>,
}

/// What is known of the backups that were asked for.
#[derive(Debug, Clone)]
pub struct Schedule {
    /// `None` where it cannot be read how often.
    pub when: Option<When>,
    /// Where they are asked for.
    pub place: Place,
    pub last: LastBackup,
    /// In seconds since 1970.
    pub now: i64,
    /// Seconds since the boot.
    pub uptime: i64,
}

impl Schedule {
    /// A warning where a backup failed, or is long overdue.
    pub fn judge(&self) -> Option<Finding> {
        let LastBackup { made, begun, failure, .. } = &self.last;
        let finding = |what: &str| Some(Finding::at(Code::BackupOverdue, self.place.clone(), what));
        let Some(when) = self.when else {
            return finding("WEAVER_BACKUP_WHEN is not hourly, daily or weekly, so no backup is made");
        };
        let since = match made.map(|made| (self.now - made) / HOUR) {
            None => "none was made yet".to_owned(),
            Some(hours @ 0..) => format!("the last one is {hours} hours old"),
            Some(_) => "the last one has a date in the future".to_owned(),
        };
        let warns =
            |why: &str| finding(&format!("{} backups are asked for, and {why}; {since}", when.name()));
        if let Some(failure) = failure {
            return warns(&format!("the last attempt failed: {failure}"));
        }
        // What was off cannot have made one.
        let is_overdue =
            made.is_none_or(|made| self.now > made + when.seconds() + GRACE) && self.uptime > GRACE;
        match begun {
            _ if !is_overdue => None,
            Some(_) => warns("the last attempt did not end"),
            None => warns("weaver-backup.timer has made none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_796_000_000;
    const DAY: i64 = 24 * HOUR;

    #[test]
    fn a_failure_is_reported_at_once_and_silence_after_a_while() {
        let made = |seconds| LastBackup { made: Some(NOW - seconds), ..LastBackup::default() };
        let failed =
            LastBackup { failure: Some("no other disk is mounted".to_owned()), ..LastBackup::default() };
        let killed = LastBackup { begun: Some(NOW - DAY), ..made(2 * DAY) };
        for (when, last, uptime, said) in [
            (Some(When::Daily), made(HOUR), DAY, None),
            (Some(When::Daily), made(DAY + HOUR), DAY, None),
            (
                Some(When::Daily),
                made(DAY + GRACE + 1),
                DAY,
                Some("has made none; the last one is 31 hours old"),
            ),
            // The board was off.
            (Some(When::Daily), made(30 * DAY), HOUR, None),
            (Some(When::Daily), LastBackup::default(), HOUR, None),
            (Some(When::Daily), LastBackup::default(), DAY, Some("timer has made none; none was made yet")),
            (Some(When::Daily), killed, DAY, Some("did not end; the last one is 48 hours old")),
            (
                Some(When::Weekly),
                failed.clone(),
                60,
                Some("failed: no other disk is mounted; none was made yet"),
            ),
            (
                Some(When::Weekly),
                LastBackup { made: Some(NOW + DAY), ..failed },
                60,
                Some("the last one has a date in the future"),
            ),
            (None, made(HOUR), 60, Some("WEAVER_BACKUP_WHEN is not")),
        ] {
            let schedule = Schedule { when, place: Place::file("/x"), last, now: NOW, uptime };
            let found = schedule.judge();
            assert_eq!(found.is_some(), said.is_some(), "{schedule:?}");
            if let Some((found, said)) = found.zip(said) {
                assert!(found.message.contains(said), "{}", found.message);
            }
        }
    }
}

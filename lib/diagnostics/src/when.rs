//! How often a timer does something, and whether it is due. Pure.

/// In seconds.
pub const HOUR: i64 = 3_600;
/// A timer looks once an hour or once a day, some minutes sooner or later.
const SLACK: i64 = HOUR / 2;

/// How often something is done.
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

    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, when)| when)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Hourly => "hourly",
            Self::Daily => "daily",
            Self::Weekly => "weekly",
        }
    }

    /// The time between two of them, in seconds.
    pub const fn seconds(self) -> i64 {
        match self {
            Self::Hourly => HOUR,
            Self::Daily => 24 * HOUR,
            Self::Weekly => 7 * 24 * HOUR,
        }
    }

    /// Whether it is due again, where it was last done then (in seconds since 1970). A time in the future means that a
    /// clock was wrong, so it is ignored.
    pub const fn is_due(self, made: Option<i64>, now: i64) -> bool {
        match made {
            Some(made) => now < made - SLACK || now >= made + self.seconds() - SLACK,
            None => true,
        }
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
}

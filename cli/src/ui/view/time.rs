//! Times as a user reads them: how long ago, and the exact one.

use jiff::Timestamp;

/// How far `then` is from `now`, in the largest unit that is precise enough.
pub fn distance(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - then.as_second();
    let amount = match seconds.unsigned_abs() {
        0..5 => return "now".to_owned(),
        some => amount(some),
    };
    if seconds > 0 { format!("{amount} ago") } else { format!("in {amount}") }
}

/// How long something has been so; 0 where a clock is ahead of ours.
pub fn duration(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - since.as_second();
    amount(seconds.max(0).unsigned_abs())
}

/// A number of seconds in the largest unit that is precise enough.
pub fn amount(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}

pub fn exact(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_said_in_the_unit_that_says_enough() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        for (seconds, expected) in [
            (0, "now"),
            (4, "now"),
            (-4, "now"),
            (5, "5 s ago"),
            (119, "119 s ago"),
            (120, "2 min ago"),
            (7_199, "119 min ago"),
            (7_200, "2 h ago"),
            (172_800, "2 days ago"),
            (-90, "in 90 s"),
            (-3_600, "in 60 min"),
        ] {
            let then = Timestamp::from_second(1_000_000 - seconds).unwrap();
            assert_eq!(distance(then, now), expected, "{seconds}");
        }
        let since = |seconds: i64| duration(Timestamp::from_second(1_000_000 - seconds).unwrap(), now);
        for (seconds, expected) in [(-60, "0 s"), (0, "0 s"), (7, "7 s"), (119, "119 s"), (7_200, "2 h")] {
            assert_eq!(since(seconds), expected, "{seconds}");
        }
        for far in [Timestamp::MIN, Timestamp::MAX] {
            assert!(distance(far, now).contains(" days"), "{far}");
        }
        assert_eq!(exact(now), "1970-01-12 13:46:40 UTC");
    }
}

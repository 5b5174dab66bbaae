//! Times as a person reads them: how long ago, and the exact one.

use jiff::Timestamp;

/// How far `then` is from `now`, in the largest unit that says enough.
pub fn distance(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second() - then.as_second();
    let amount = match seconds.unsigned_abs() {
        0..5 => return "now".to_owned(),
        some @ 5..120 => format!("{some} s"),
        some @ 120..7_200 => format!("{} min", some / 60),
        some @ 7_200..172_800 => format!("{} h", some / 3_600),
        some => format!("{} days", some / 86_400),
    };
    if seconds > 0 { format!("{amount} ago") } else { format!("in {amount}") }
}

/// The exact time.
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
        for far in [Timestamp::MIN, Timestamp::MAX] {
            assert!(distance(far, now).contains(" days"), "{far}");
        }
        assert_eq!(exact(now), "1970-01-12 13:46:40 UTC");
    }
}

//! How often a line about one resource is logged that its tenant can cause again and again. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// No other line follows the first one for so long; then the interval doubles.
const FIRST: Duration = Duration::from_mins(1);
const LONGEST: Duration = Duration::from_hours(1);

/// When the next line is due, and how many were left out since the last.
#[derive(Debug, Default)]
pub struct Quiet {
    due: Option<Instant>,
    interval: Duration,
    left_out: u64,
}

impl Quiet {
    /// Is a line logged `now`? Then how many were left out before it. What was quiet for an interval begins again.
    pub fn passes(&mut self, now: Instant) -> Option<u64> {
        if self.due.is_some_and(|due| now < due) {
            self.left_out += 1;
            return None;
        }
        let is_calm = self.due.is_none_or(|due| now >= due + self.interval);
        self.interval = if is_calm { FIRST } else { self.interval.saturating_mul(2).min(LONGEST) };
        self.due = Some(now + self.interval);
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_each_second_for_a_day_is_a_few_dozen_lines_and_none_is_uncounted() {
        let (begun, mut quiet) = (Instant::now(), Quiet::default());
        let (mut logged, mut left_out) = (0, 0);
        for second in 0..86_400 {
            if let Some(before) = quiet.passes(begun + Duration::from_secs(second)) {
                logged += 1;
                left_out += before;
            }
        }
        assert!((20..40).contains(&logged), "{logged}");
        assert_eq!(logged + left_out + quiet.left_out, 86_400);
        let after = begun + Duration::from_hours(30);
        assert!(quiet.passes(after).is_some_and(|left_out| left_out > 0), "the first after a pause");
        assert_eq!(quiet.passes(after + FIRST), Some(0), "the interval is the first again");
    }
}

//! Rate limit on the writes of one resource: a token bucket. Pure.
//!
//! A source that changes ten times a second, or a tool that rewrites a copy as often as the operator does, causes a
//! bounded number of fan-outs: a burst, then a few a second. The last state is always written, only later.
//! Reconciliations that write nothing are cheap and not counted.

use std::time::Duration;

use tokio::time::Instant;

/// Fan-outs of a sync that may follow each other at once.
const BURST: f64 = 20.0;
/// The same a second, after that.
const PER_SECOND: f64 = 2.0;

/// What one resource has left.
pub struct RateLimit {
    burst: f64,
    per_second: f64,
    left: f64,
    as_of: Option<Instant>,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self::new(BURST, PER_SECOND)
    }
}

impl RateLimit {
    /// So many reconciliations that write at once, and so many a second after that.
    pub fn new(burst: f64, per_second: f64) -> Self {
        Self { burst, per_second, left: burst, as_of: None }
    }

    /// May there be a reconciliation at `now` that writes?
    ///
    /// # Errors
    /// How long to wait for it.
    pub fn allows(&mut self, now: Instant) -> Result<(), Duration> {
        let idle = self.as_of.map_or(Duration::ZERO, |before| now.saturating_duration_since(before));
        self.left = (self.left + idle.as_secs_f64() * self.per_second).min(self.burst);
        self.as_of = Some(now);
        if self.left < 1.0 {
            return Err(Duration::from_secs_f64((1.0 - self.left) / self.per_second));
        }
        Ok(())
    }

    pub fn spend(&mut self) {
        self.left -= 1.0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn take(rate_limit: &mut RateLimit, now: Instant) -> Result<(), Duration> {
        rate_limit.allows(now).inspect(|()| rate_limit.spend())
    }

    #[test]
    fn after_a_burst_there_are_a_few_reconciliations_a_second_and_after_a_rest_a_burst_again() {
        let (mut rate_limit, start) = (RateLimit::default(), Instant::now());
        for _ in 0..20 {
            assert_eq!(take(&mut rate_limit, start), Ok(()));
        }
        assert_eq!(take(&mut rate_limit, start), Err(Duration::from_millis(500)));
        let later = start + Duration::from_millis(500);
        assert_eq!(take(&mut rate_limit, later), Ok(()));
        assert!(take(&mut rate_limit, later).is_err());
        let rested = later + Duration::from_mins(1);
        assert_eq!((0..30).filter(|_| take(&mut rate_limit, rested).is_ok()).count(), 20);
    }

    proptest! {
        #[test]
        fn no_one_waits_longer_than_a_reconciliation_takes_to_come_back(gaps in proptest::collection::vec(0u64..400, 1..200)) {
            let (mut rate_limit, mut now) = (RateLimit::default(), Instant::now());
            let start = now;
            let mut taken = 0.0;
            for gap in gaps {
                now += Duration::from_millis(gap);
                match take(&mut rate_limit, now) {
                    Ok(()) => taken += 1.0,
                    Err(wait) => {
                        prop_assert!(wait <= Duration::from_millis(501));
                        now += wait + Duration::from_millis(1);
                        prop_assert_eq!(take(&mut rate_limit, now), Ok(()));
                        taken += 1.0;
                    }
                }
            }
            prop_assert!(taken <= BURST + (now - start).as_secs_f64() * PER_SECOND + 0.001);
        }
    }
}

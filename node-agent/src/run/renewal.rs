//! When the operator's token is renewed, and what a renewal has to do. Pure.
//!
//! Two clocks count: the monotonic one schedules the renewals, the wall clock is the one by which the API server
//! validates the token. Where they diverge, because the wall clock was set, the token is renewed early.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::credentials::OperatorToken;

/// Pause before a renewal is tried again, and the shortest renewal interval that the lifetime of a token can cause.
const AGAIN: Duration = Duration::from_secs(10);
/// How far in the future the API server accepts a token's start.
const LEEWAY: Duration = Duration::from_secs(30);

/// The token in use.
#[derive(Debug)]
pub struct Renewal {
    /// When the next attempt is made.
    pub at: Instant,
    /// Why the last attempt failed, if it did.
    pub failure: Option<String>,
    minted: Instant,
    expires: Timestamp,
    lifetime: Duration,
}

impl Renewal {
    /// For a token minted now.
    pub fn of(token: &OperatorToken, interval: Duration, now: Instant) -> Self {
        Self {
            at: now + renew_after(token.lifetime, interval),
            failure: None,
            minted: now,
            expires: token.expires,
            lifetime: token.lifetime,
        }
    }

    /// Notes a failed attempt; `true` where its reason is new.
    pub fn failed(&mut self, why: String, now: Instant) -> bool {
        self.at = now + AGAIN;
        let is_new = self.failure.as_ref() != Some(&why);
        self.failure = Some(why);
        is_new
    }

    /// Whether the next attempt applies the manifests first: a renewal fails
    /// when someone deleted what it needs.
    pub const fn must_install(&self) -> bool {
        self.failure.is_some()
    }

    /// Whether the wall clock was set so far that the token is about to be refused: little of its lifetime is left, or
    /// it has not begun.
    pub fn is_out_of_time(&self, now: Instant, clock: Timestamp) -> bool {
        if self.failure.is_some() || now < self.minted + AGAIN {
            return false;
        }
        let left = Duration::try_from(self.expires.duration_since(clock)).unwrap_or_default();
        left < self.lifetime / 5 || left > self.lifetime + LEEWAY
    }
}

/// At the interval, and never later than at 80 % of the lifetime; a token with almost no lifetime does not make the
/// agent mint without a pause.
fn renew_after(lifetime: Duration, interval: Duration) -> Duration {
    interval.min((lifetime * 4 / 5).max(AGAIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn renewal(lifetime: u64, now: Instant) -> Renewal {
        let lifetime = seconds(lifetime);
        let token = OperatorToken { secret: "t".into(), lifetime, expires: Timestamp::UNIX_EPOCH + lifetime };
        Renewal::of(&token, seconds(1_800), now)
    }

    #[test]
    fn renewal_comes_at_the_interval_or_at_80_percent() {
        for (lifetime, interval, want) in
            [(21_600, 1_800, 1_800), (600, 1_800, 480), (600, 1, 1), (0, 1_800, 10)]
        {
            assert_eq!(
                renew_after(seconds(lifetime), seconds(interval)),
                seconds(want),
                "{lifetime} {interval}"
            );
        }
    }

    #[test]
    fn after_a_failure_the_manifests_are_applied_and_only_news_is_reported() {
        let now = Instant::now();
        let mut renewal = renewal(600, now);
        assert!(!renewal.must_install());
        assert!(renewal.failed("404".into(), now));
        assert!(renewal.must_install());
        assert_eq!(renewal.at, now + AGAIN);
        assert!(!renewal.failed("404".into(), now));
        assert!(renewal.failed("403".into(), now));
    }

    #[test]
    fn a_clock_that_was_set_brings_the_renewal_forward() {
        let now = Instant::now();
        let fresh = renewal(21_600, now);
        let later = now + seconds(30);
        for (clock, want) in [
            (30, false),
            (17_000, false),
            (17_281, true),
            (21_600, true),
            (1_000_000, true),
            (-29, false),
            (-31, true),
            (-1_000_000, true),
        ] {
            let clock = Timestamp::from_second(clock).unwrap();
            assert_eq!(fresh.is_out_of_time(later, clock), want, "{clock}");
            assert!(!fresh.is_out_of_time(now + seconds(5), clock), "not at once again");
        }
    }

    #[test]
    fn a_failed_renewal_keeps_its_own_interval() {
        let now = Instant::now();
        let mut failed = renewal(600, now);
        failed.failed("404".into(), now);
        assert!(!failed.is_out_of_time(now + seconds(60), Timestamp::MAX));
    }
}

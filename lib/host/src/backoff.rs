//! How long to wait before something is tried again. Pure but for the chance in [`jittered`].
//!
//! Chance keeps many that failed, or were started, together from asking one API server together.

use std::time::Duration;

/// Pause after the first failure of a reconciliation.
const FIRST: Duration = Duration::from_secs(1);

/// The pause after the `failures`-th failure in a row (from 1): doubling from one second up to `longest`, and
/// up to a quarter shorter by `chance` (0..1).
pub fn pause(failures: u32, longest: Duration, chance: f64) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let full = FIRST.saturating_mul(1 << doublings).min(longest);
    earlier(full, 0.25, chance)
}

/// The time to the next comparison of an unchanged resource: up to a tenth earlier than `period`.
pub fn resync(period: Duration, chance: f64) -> Duration {
    earlier(period, 0.1, chance)
}

fn earlier(pause: Duration, share: f64, chance: f64) -> Duration {
    pause.mul_f64(1.0 - share * chance.clamp(0.0, 1.0))
}

/// The pause, up to a tenth longer or shorter.
pub fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.9 + 0.2 * fastrand::f64())
}

/// Pauses of one loop, which double with each.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    first: Duration,
    next: Duration,
}

impl Backoff {
    pub const fn new(first: Duration) -> Self {
        Self { first, next: first }
    }

    /// This time's pause; the next is twice as long. Never longer than `longest`.
    pub fn next(&mut self, longest: Duration) -> Duration {
        let pause = self.next.min(longest);
        self.next = pause.saturating_mul(2);
        pause
    }

    /// The next pause is the first again.
    pub const fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let longest = Duration::from_mins(1);
        let seconds: Vec<u64> = (1..9).map(|failures| pause(failures, longest, 0.0).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn pauses_of_a_loop_double_up_to_the_longest_and_begin_again() {
        let seconds = Duration::from_secs;
        let mut pauses = Backoff::new(seconds(1));
        for want in [1, 2, 4, 8, 10, 10] {
            assert_eq!(pauses.next(seconds(10)), seconds(want));
        }
        pauses.reset();
        assert_eq!(pauses.next(seconds(10)), seconds(1));
        assert_eq!(Backoff::new(seconds(30)).next(seconds(10)), seconds(10));
    }

    #[test]
    fn no_two_nodes_keep_step() {
        let pause = Duration::from_secs(30);
        let drawn: std::collections::BTreeSet<_> = (0..50).map(|_| jittered(pause)).collect();
        assert!(drawn.len() > 1);
        assert!(drawn.iter().all(|drawn| pause.mul_f64(0.9) <= *drawn && *drawn <= pause.mul_f64(1.1)));
    }

    proptest! {
        #[test]
        fn a_pause_is_never_zero_nor_longer_than_the_longest(failures: u32, longest in 1u64..3_600, chance in 0.0..1.0) {
            let pause = pause(failures, Duration::from_secs(longest), chance);
            prop_assert!(pause >= Duration::from_millis(750) && pause <= Duration::from_secs(longest));
        }
    }
}

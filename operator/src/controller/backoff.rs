//! How long to wait before a failed visit is repeated.

use std::time::Duration;

const FIRST: Duration = Duration::from_secs(1);

/// The pause after the `failures`-th failure in a row (from 1): doubling from one second up to `longest`, and
/// up to a quarter shorter by `chance` (0..1), so that many resources that failed together do not return
/// together.
#[must_use]
pub fn pause(failures: u32, longest: Duration, chance: f64) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    let full = FIRST.saturating_mul(1 << doublings).min(longest);
    full.mul_f64(1.0 - 0.25 * chance.clamp(0.0, 1.0))
}

/// The time to the next comparison of an unchanged resource: up to a tenth earlier than `period`.
#[must_use]
pub fn resync(period: Duration, chance: f64) -> Duration {
    period.mul_f64(1.0 - 0.1 * chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn b11_b30_pauses_double_up_to_the_longest() {
        let longest = Duration::from_mins(1);
        let seconds: Vec<u64> = (1..9).map(|failures| pause(failures, longest, 0.0).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    proptest! {
        #[test]
        fn a_pause_is_never_zero_nor_longer_than_the_longest(failures: u32, longest in 1u64..3_600, chance in 0.0..1.0) {
            let pause = pause(failures, Duration::from_secs(longest), chance);
            prop_assert!(pause >= Duration::from_millis(750) && pause <= Duration::from_secs(longest));
        }
    }
}

//! Pauses between rounds that have to do with nobody's clock: many nodes that were started together must not ask one
//! API server together.

use std::time::Duration;

/// The pause, up to a tenth longer or shorter.
#[must_use]
pub fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.9 + 0.2 * fastrand::f64())
}

/// Pauses that grow, and begin anew.
#[derive(Debug, Clone, Copy)]
pub struct Growing {
    first: Duration,
    next: Duration,
}

impl Growing {
    /// From `first` on.
    #[must_use]
    pub const fn new(first: Duration) -> Self {
        Self { first, next: first }
    }

    /// This time's pause; the next is twice as long. Never longer than `longest`.
    pub fn next(&mut self, longest: Duration) -> Duration {
        let pause = self.next.min(longest);
        self.next = pause * 2;
        jittered(pause)
    }

    /// The next pause is the first again.
    pub const fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew() {
        let seconds = Duration::from_secs;
        let mut pauses = Growing::new(seconds(1));
        for want in [1, 2, 4, 8, 10, 10] {
            let (pause, want) = (pauses.next(seconds(10)), seconds(want));
            assert!(want.mul_f64(0.9) <= pause && pause <= want.mul_f64(1.1), "{want:?} {pause:?}");
        }
        pauses.reset();
        assert!(pauses.next(seconds(10)) <= seconds(2));
        assert!(Growing::new(seconds(30)).next(seconds(10)) <= seconds(11));
    }

    #[test]
    fn no_two_nodes_keep_step() {
        let pause = Duration::from_secs(30);
        let drawn: std::collections::BTreeSet<_> = (0..50).map(|_| jittered(pause)).collect();
        assert!(drawn.len() > 1);
    }
}

//! How long an answer is used. Pure.
//!
//! A right that was granted is judged again by each request, so that answer harms no one. One that was refused hides a
//! namespace, and an API server that has just started refuses what it grants a moment later. But most answers about many
//! namespaces are refusals for good, and are not to be asked for again all the time.

use std::time::Duration;

/// How long a refusal is used that was given for the first time.
const FIRST_REFUSAL: Duration = Duration::from_secs(30);

/// An answer, and how often it was the same before.
#[derive(Debug)]
pub(super) struct Answered<T> {
    pub(super) answer: T,
    repeated: u32,
}

impl<T: PartialEq> Answered<T> {
    /// The answer that follows the one `before`, where that is remembered.
    pub(super) fn after(answer: T, before: Option<&Self>) -> Self {
        let same = before.filter(|before| before.answer == answer);
        Self { answer, repeated: same.map_or(0, |before| before.repeated.saturating_add(1)) }
    }

    /// How long it is used, if it says that what is asked for is `granted` or not, and an answer is used `longest`.
    pub(super) fn lasts(&self, granted: bool, longest: Duration) -> Duration {
        if granted {
            return longest;
        }
        FIRST_REFUSAL.saturating_mul(1 << self.repeated.min(16)).min(longest)
    }
}

/// How long it is kept, to be compared with the next one, where it is used `longest`.
pub(super) fn kept(longest: Duration) -> Duration {
    longest.saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_used_for_longer_each_time_that_it_is_repeated_and_a_grant_at_once() {
        let longest = Duration::from_secs(290);
        let (mut before, mut seconds) = (None, Vec::new());
        for answer in [false, false, false, false, false, false, true, false] {
            let answered = Answered::after(answer, before.as_ref());
            seconds.push(answered.lasts(answer, longest).as_secs());
            before = Some(answered);
        }
        assert_eq!(seconds, [30, 60, 120, 240, 290, 290, 290, 30]);
        let first = Answered::after(false, None);
        assert_eq!(
            first.lasts(false, Duration::from_secs(5)),
            Duration::from_secs(5),
            "no longer than a grant"
        );
    }
}

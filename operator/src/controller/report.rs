//! What was reported of a resource last, and whether a new status is worth a write.

use std::time::Duration;

use tokio::time::Instant;

/// The status that was written last, and the resourceVersion of the object that was judged then.
pub struct Reported<S> {
    written: Option<(Option<String>, S)>,
    at: Option<Instant>,
}

impl<S> Default for Reported<S> {
    fn default() -> Self {
        Self { written: None, at: None }
    }
}

impl<S: Clone + PartialEq> Reported<S> {
    /// The status that the object has. A visit that is handed the state of the visit before has it from a cache that has
    /// not seen the write yet; `read` is what that cache shows.
    #[must_use]
    pub fn before(&self, version: Option<&str>, read: S) -> S {
        match &self.written {
            Some((judged, written)) if judged.as_deref() == version => written.clone(),
            _ => read,
        }
    }

    /// Is `now` to be written? Each write is an event, and the visit that follows may fail in other words: with a port, an
    /// id or a time of somebody else's in them. Without an end to it, no back-off would ever be waited for: so of a visit
    /// that `fails`, other words alone are written no more often than each `pause`.
    #[must_use]
    pub fn is_due(
        &self,
        before: &S,
        now: &S,
        fails: bool,
        without_words: fn(&S) -> S,
        pause: Duration,
    ) -> bool {
        let only_words = || fails && without_words(now) == without_words(before);
        now != before && !(self.at.is_some_and(|at| at.elapsed() < pause) && only_words())
    }

    /// It was written, of the object in this state.
    pub fn wrote(&mut self, version: Option<String>, status: S) {
        self.written = Some((version, status));
        self.at = Some(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that counts, and words.
    type Status = (u8, &'static str);

    #[tokio::test(start_paused = true)]
    async fn words_that_change_with_each_failure_are_written_now_and_then() {
        let (pause, bare): (_, fn(&Status) -> Status) = (Duration::from_mins(1), |status| (status.0, ""));
        let mut reported = Reported::default();
        assert!(reported.is_due(&(0, ""), &(1, "port 1"), true, bare, pause));
        reported.wrote(Some("7".into()), (1, "port 1"));
        assert!(!reported.is_due(&(1, "port 1"), &(1, "port 1"), true, bare, pause));
        assert!(!reported.is_due(&(1, "port 1"), &(1, "port 2"), true, bare, pause));
        assert!(reported.is_due(&(1, "port 1"), &(2, "port 2"), true, bare, pause), "a change that counts");
        assert!(reported.is_due(&(1, "port 1"), &(1, "well"), false, bare, pause), "a visit that ended well");
        tokio::time::advance(pause).await;
        assert!(reported.is_due(&(1, "port 1"), &(1, "port 2"), true, bare, pause));
        assert_eq!(reported.before(Some("7"), (0, "old")), (1, "port 1"), "the cache is behind");
        assert_eq!(reported.before(Some("8"), (3, "new")), (3, "new"));
    }
}

//! Targets that could not be written, and when each is tried again. Pure, but for the bytes that all of it may take.
//!
//! A reconciliation with another cause, such as an edit of the source, skips targets that failed a moment ago for a
//! reason that the edit does not remove. So a thousand refused targets cost one retry each, not one for each event.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use weaver_copies::object::ObjectKey;
use weaver_host::backoff;

use super::execute::TargetState;

/// Bytes of all targets that are remembered here. What does not fit is tried in each reconciliation.
const MOST: usize = 16 << 20;
/// Bytes of one, besides its names and words.
const EACH: usize = 256;
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// Copies of one resource that could not be written, by key.
#[derive(Default)]
pub struct Backoffs(BTreeMap<ObjectKey, TargetBackoff>);

struct TargetBackoff {
    state: TargetState,
    /// Digest of the copy that was refused for what it is.
    rejected: Option<String>,
    failures: u32,
    until: Instant,
    _room: Room,
}

/// So many bytes of the [`MOST`] of which these are kept; given back when it is dropped.
struct Room(&'static AtomicUsize, usize);

impl Room {
    fn take(all: &'static AtomicUsize, bytes: usize) -> Option<Self> {
        let fits = |kept: usize| Some(kept + bytes).filter(|kept| *kept <= MOST);
        all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok().map(|_| Self(all, bytes))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl Backoffs {
    /// What became of the target when it was tried last, if it is not to be tried `now` with the copy of `digest`.
    #[must_use]
    pub fn backed_off(&self, key: &ObjectKey, digest: &str, now: Instant) -> Option<&TargetState> {
        let backoff = self.0.get(key).filter(|backoff| now < backoff.until)?;
        // What was refused for what it is may be accepted for what it has become.
        let mended = backoff.rejected.as_ref().is_some_and(|rejected| rejected != digest);
        (!mended).then_some(&backoff.state)
    }

    /// Notes what became of a target `now`; the pause grows up to `longest`, also of one that was skipped.
    pub fn note(
        &mut self,
        key: &ObjectKey,
        state: &TargetState,
        digest: &str,
        now: Instant,
        longest: Duration,
    ) {
        if !state.backs_off() {
            self.0.remove(key);
            return;
        }
        let failures = self.0.remove(key).map_or(0, |before| before.failures).saturating_add(1);
        let bytes = EACH + key.namespace.len() + key.name.len() + state.words().len();
        let Some(room) = Room::take(&KEPT, bytes) else { return };
        // A little shorter than that of the reconciliation which is to try again.
        let until = now + backoff::pause(failures, longest, 1.0).mul_f64(0.9);
        let rejected = matches!(state, TargetState::Rejected(_)).then(|| digest.to_owned());
        let backoff = TargetBackoff { state: state.clone(), rejected, failures, until, _room: room };
        self.0.insert(key.clone(), backoff);
    }

    /// Those of other copies are not of interest any more.
    pub fn retain(&mut self, of_interest: impl Fn(&ObjectKey) -> bool) {
        self.0.retain(|key, _| of_interest(key));
    }

    /// Everything is tried again: something has changed that may have cured it.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use weaver_api::kind::ObjectKind;

    use super::super::outcome::tests::{forbidden, synced};
    use super::*;

    fn at(namespace: &str) -> ObjectKey {
        ObjectKey { kind: ObjectKind::CONFIG_MAP, namespace: namespace.to_owned(), name: "settings".into() }
    }

    const LONGEST: Duration = Duration::from_mins(1);

    #[test]
    fn what_failed_is_tried_again_after_growing_pauses_and_forgotten_when_it_works() {
        let (mut backoffs, mut now) = (Backoffs::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..8 {
            backoffs.note(&at("foo"), &forbidden(), "d", now, LONGEST);
            let pause = (1..100)
                .find(|s| backoffs.backed_off(&at("foo"), "d", now + Duration::from_secs(*s)).is_none());
            pauses.push(pause.unwrap());
            now += LONGEST;
        }
        assert_eq!(pauses, [1, 2, 3, 6, 11, 22, 41, 41]);
        assert!(backoffs.backed_off(&at("bar"), "d", now).is_none());
        backoffs.note(&at("foo"), &synced(), "d", now, LONGEST);
        assert!(backoffs.backed_off(&at("foo"), "d", now).is_none());
    }

    #[test]
    fn what_is_remembered_of_all_targets_has_a_limit_and_is_given_back() {
        static ALL: AtomicUsize = AtomicUsize::new(0);
        let first = Room::take(&ALL, MOST - 1).unwrap();
        assert!(Room::take(&ALL, 2).is_none());
        drop(first);
        assert!(Room::take(&ALL, MOST).is_some());
    }

    #[test]
    fn what_was_refused_for_its_content_is_tried_with_another_and_a_missing_right_is_not() {
        let now = Instant::now();
        let rejected = TargetState::Rejected("too long".into());
        for (state, tried) in [(rejected, true), (forbidden(), false)] {
            let mut backoffs = Backoffs::default();
            backoffs.note(&at("foo"), &state, "before", now, LONGEST);
            assert_eq!(backoffs.backed_off(&at("foo"), "before", now), Some(&state));
            assert_eq!(backoffs.backed_off(&at("foo"), "after", now).is_none(), tried, "{state:?}");
            backoffs.forget();
            assert!(backoffs.backed_off(&at("foo"), "before", now).is_none());
        }
    }
}

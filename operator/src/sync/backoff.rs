//! Targets that could not be written, and when each is tried again. Pure, but for the bytes that all of it may take.
//!
//! A reconciliation with another cause, such as an edit of the source, skips targets that failed a moment ago for a
//! reason that the edit does not remove. So a thousand refused targets cost one retry each, not one for each event.
//! A tenant that is refused at ever more targets takes that from no other one: each has a part of the memory for it.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use tokio::time::Instant;
use weaver_copies::object::ObjectKey;
use weaver_host::backoff;
use weaver_tenant::budget::{MemoryBudget, MemoryPermit, MemoryShare};

use super::execute::TargetState;

/// Bytes of all targets that are remembered here, or twice as much where many tenants have some ([`MemoryBudget`]). What
/// does not fit is tried in each reconciliation.
const MOST: usize = 8 << 20;
/// Bytes of one, besides its names and words.
const EACH: usize = 256;
static BUDGET: LazyLock<MemoryBudget> = LazyLock::new(|| MemoryBudget::new(MOST));

/// What is remembered of the targets of resources in this namespace is taken from it.
pub fn share(tenant: &str) -> Arc<MemoryShare> {
    BUDGET.share(tenant)
}

/// In how many groups those of one resource are tried again within one pause: else a thousand targets that failed one
/// after the other would be due one after the other, each in a reconciliation of its own.
const GROUPS: u32 = 8;

/// Copies of one resource that could not be written, by key.
pub struct Backoffs {
    targets: BTreeMap<ObjectKey, TargetBackoff>,
    /// From here groups are counted.
    epoch: Instant,
    /// How much shorter its pauses are than those of other resources.
    chance: f64,
}

impl Default for Backoffs {
    fn default() -> Self {
        Self::new(Instant::now(), fastrand::f64())
    }
}

struct TargetBackoff {
    state: TargetState,
    /// Digest of the copy that was refused for what it is.
    rejected: Option<String>,
    failures: u32,
    until: Instant,
    _permit: MemoryPermit,
}

impl Backoffs {
    const fn new(epoch: Instant, chance: f64) -> Self {
        Self { targets: BTreeMap::new(), epoch, chance }
    }

    /// What became of the target when it was tried last, if it is not to be tried `now` with the copy of `digest`.
    pub fn backed_off(&self, key: &ObjectKey, digest: &str, now: Instant) -> Option<&TargetState> {
        let backoff = self.targets.get(key).filter(|backoff| now < backoff.until)?;
        // What was refused for what it is may be accepted for what it has become.
        let mended = backoff.rejected.as_ref().is_some_and(|rejected| rejected != digest);
        (!mended).then_some(&backoff.state)
    }

    /// Notes what became of a target that was tried until `now`; the pause grows up to `longest`. One that was skipped is
    /// not noted: its pause ends when it was to end, however often others cause a reconciliation.
    pub fn note(
        &mut self,
        key: &ObjectKey,
        state: &TargetState,
        digest: &str,
        now: Instant,
        longest: Duration,
        share: &Arc<MemoryShare>,
    ) {
        if !state.backs_off() {
            self.targets.remove(key);
            return;
        }
        let failures = self.targets.remove(key).map_or(0, |before| before.failures).saturating_add(1);
        let bytes = EACH + key.namespace.len() + key.name.len() + state.words().len();
        let Some(permit) = share.take(bytes) else { return };
        let until = self.next_group(now, backoff::pause(failures, longest, self.chance));
        let rejected = matches!(state, TargetState::Rejected(_)).then(|| digest.to_owned());
        let backoff = TargetBackoff { state: state.clone(), rejected, failures, until, _permit: permit };
        self.targets.insert(key.clone(), backoff);
    }

    /// The end of a pause that begins `now`, with those of other targets that end soon before it.
    fn next_group(&self, now: Instant, pause: Duration) -> Instant {
        let (end, apart) = ((now + pause).duration_since(self.epoch), pause / GROUPS);
        let group = end.as_nanos().next_multiple_of(apart.as_nanos().max(1));
        self.epoch + Duration::from_nanos_u128(group)
    }

    /// How long after `now` the first target is to be tried again. Those that were due when the pass `began`, and are
    /// still here, are not tried: their source is gone, or cannot be read.
    pub fn first_due(&self, began: Instant, now: Instant) -> Option<Duration> {
        let due = self.targets.values().map(|backoff| backoff.until).filter(|until| *until > began).min()?;
        Some(due.saturating_duration_since(now))
    }

    /// Those of other copies are not of interest any more.
    pub fn retain(&mut self, of_interest: impl Fn(&ObjectKey) -> bool) {
        self.targets.retain(|key, _| of_interest(key));
    }

    /// Everything is tried again: something has changed that may have cured it.
    pub fn forget(&mut self) {
        self.targets.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weaver_api::kind::ObjectKind;

    use super::super::outcome::tests::{forbidden, synced};
    use super::*;

    fn at(namespace: &str) -> ObjectKey {
        ObjectKey { kind: ObjectKind::CONFIG_MAP, namespace: namespace.to_owned(), name: "settings".into() }
    }

    const LONGEST: Duration = Duration::from_mins(1);

    fn share() -> Arc<MemoryShare> {
        MemoryBudget::new(MOST).share("team-a")
    }

    /// With pauses of full length.
    fn backoffs() -> (Backoffs, Instant) {
        let now = Instant::now();
        (Backoffs::new(now, 0.0), now)
    }

    #[test]
    fn what_failed_is_tried_again_after_growing_pauses_and_forgotten_when_it_works() {
        let (mut backoffs, mut now) = backoffs();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            backoffs.note(&at("foo"), &forbidden(), "d", now, LONGEST, &share());
            let waits = (1..100)
                .find(|s| backoffs.backed_off(&at("foo"), "d", now + Duration::from_secs(*s)).is_none());
            pauses.push(waits.unwrap());
            now += LONGEST;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert!(backoffs.backed_off(&at("bar"), "d", now).is_none());
        backoffs.note(&at("foo"), &synced(), "d", now, LONGEST, &share());
        assert!(backoffs.backed_off(&at("foo"), "d", now).is_none());
    }

    #[test]
    fn a_tenant_that_is_refused_everywhere_leaves_each_other_one_its_backoffs() {
        let budget = MemoryBudget::new(64 << 10);
        let (greedy, other) = (budget.share("greedy"), budget.share("other"));
        let (mut refused, start) = backoffs();
        for number in 0..1_000 {
            refused.note(&at(&number.to_string()), &forbidden(), "d", start, LONGEST, &greedy);
        }
        assert!((100..300).contains(&refused.targets.len()), "{}", refused.targets.len());
        let mut others = Backoffs::new(start, 0.0);
        for number in 0..50 {
            others.note(&at(&number.to_string()), &forbidden(), "d", start, LONGEST, &other);
        }
        assert_eq!(others.targets.len(), 50);
        drop((refused, others));
        assert_eq!(budget.used(), 0, "it is given back");
    }

    #[test]
    fn the_first_of_those_that_wait_says_when_the_resource_is_due() {
        let (mut backoffs, start) = backoffs();
        let after = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(backoffs.first_due(start, start), None);
        for (namespace, failures) in [("foo", 5), ("bar", 3)] {
            for _ in 0..failures {
                backoffs.note(&at(namespace), &forbidden(), "d", start, LONGEST, &share());
            }
        }
        assert_eq!(backoffs.first_due(start, after(1)), Some(Duration::from_secs(3)));
        // It became due during the pass.
        assert_eq!(backoffs.first_due(after(3), after(6)), Some(Duration::ZERO));
        // It was due, and was not tried.
        assert_eq!(backoffs.first_due(after(6), after(7)), Some(Duration::from_secs(9)));
    }

    #[test]
    fn targets_that_failed_one_after_the_other_are_tried_again_in_a_few_groups() {
        let (mut backoffs, start) = backoffs();
        let mut due = BTreeSet::new();
        for number in 0..1000_u32 {
            let key = at(&format!("target-{number}"));
            let failed = start + Duration::from_millis(57) * number;
            for _ in 0..7 {
                backoffs.note(&key, &forbidden(), "d", failed, LONGEST, &share());
            }
            let until = backoffs.targets[&key].until;
            assert!(until >= failed + LONGEST && until < failed + LONGEST + LONGEST / GROUPS);
            due.insert(until);
        }
        assert!(due.len() <= GROUPS as usize + 1, "{due:?}");
    }

    #[test]
    fn what_was_refused_for_its_content_is_tried_with_another_and_a_missing_right_is_not() {
        let now = Instant::now();
        let rejected = TargetState::Rejected("too long".into());
        for (state, tried) in [(rejected, true), (forbidden(), false)] {
            let mut backoffs = Backoffs::new(now, 0.0);
            backoffs.note(&at("foo"), &state, "before", now, LONGEST, &share());
            assert_eq!(backoffs.backed_off(&at("foo"), "before", now), Some(&state));
            assert_eq!(backoffs.backed_off(&at("foo"), "after", now).is_none(), tried, "{state:?}");
            backoffs.forget();
            assert!(backoffs.backed_off(&at("foo"), "before", now).is_none());
        }
    }
}

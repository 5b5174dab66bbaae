//! When a candidate takes the Lease, and how long a leader may write. Pure.

use std::fmt;
use std::time::Duration;

use weaver_api::lease::{Candidacy, LeaseRecord, Me};

/// The times of a Lease, all parts of one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timing {
    /// After so long without a change others take over.
    pub expiry: Duration,
    /// A leader renews so long after the last success: slow enough for an SD card.
    pub renew: Duration,
    /// And tries again so often; so often a candidate looks.
    pub retry: Duration,
    /// A leader that could not renew writes nothing any more after so long.
    pub fence: Duration,
    /// Longest time for one write: one that began at the last moment is given up when others take over.
    pub deadline: Duration,
    /// So often a candidate says that it is still there.
    pub announce: Duration,
}

impl Timing {
    /// The parts of an expiry; of 60 s: 40, 10, 55 and 5.
    pub fn of(expiry: Duration) -> Self {
        Self {
            expiry,
            renew: expiry * 2 / 3,
            retry: expiry / 6,
            fence: expiry * 11 / 12,
            deadline: expiry / 12,
            announce: expiry * 10,
        }
    }
}

/// Is what is `found` older than what was there? Then someone has restored a backup of the API server, and what
/// is known of anything may never have been.
pub fn went_back(known: &LeaseRecord, found: &LeaseRecord) -> bool {
    known.version.zip(found.version).is_some_and(|(known, found)| found < known)
}

/// Longest list of candidates: those that were killed on other machines cannot be recognised as gone.
const LISTED: usize = 16;

/// What a candidate does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LeaseStep {
    /// It takes the Lease, in exactly the state that it has seen.
    Take(TakeoverReason),
    /// It looks again after this time.
    Wait(Duration),
}

/// Why the Lease is taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TakeoverReason {
    Absent,
    /// Its holder has given it back.
    Released,
    /// Its holder was a process of this machine that is gone.
    Gone,
    /// It was not renewed for its whole duration.
    Expired,
    /// This process has it already: the answer to an attempt was lost.
    Mine,
}

impl fmt::Display for TakeoverReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "there was no lease",
            Self::Released => "it was free",
            Self::Gone => "the process that held it is gone",
            Self::Expired => "it was not renewed in time",
            Self::Mine => "it was held already",
        })
    }
}

/// Who of a list outranks `me`, and is not known to run no more.
pub fn outranking<'a>(
    candidates: &'a [Candidacy],
    me: &Me,
    is_gone: impl Fn(&str) -> bool,
) -> Option<&'a Candidacy> {
    let higher = candidates.iter().filter(|other| other.priority > me.priority && other.holder != me.name);
    higher.filter(|other| !is_gone(&other.holder)).max_by_key(|other| other.priority)
}

/// Candidates that stay on the list when `me` renews the Lease: not `me`, none that is gone, and none that had its turn
/// and did not take it. One that is still alive adds itself again.
pub fn staying(candidates: &[Candidacy], me: &Me, is_gone: impl Fn(&str) -> bool) -> Vec<Candidacy> {
    let stays = |other: &&Candidacy| {
        other.holder != me.name && other.priority <= me.priority && !is_gone(&other.holder)
    };
    candidates.iter().filter(stays).cloned().collect()
}

/// The list with `mine` on it; `None`, where it says that already. What was said before is replaced when `renew`.
pub fn announced(candidates: &[Candidacy], mine: &Candidacy, renew: bool) -> Option<Vec<Candidacy>> {
    let is_mine = |other: &Candidacy| other.holder == mine.holder;
    let said = candidates.iter().any(|other| is_mine(other) && other.priority == mine.priority);
    let others: Vec<_> = candidates.iter().filter(|other| !is_mine(other)).cloned().collect();
    let newest = &others[others.len().saturating_sub(LISTED - 1)..];
    (renew || !said).then(|| newest.iter().chain([mine]).cloned().collect())
}

/// What a candidate has seen of the Lease, and since when.
#[derive(Debug, Default)]
pub struct Candidate {
    seen: Option<(String, Duration)>,
}

impl Candidate {
    /// Judges what is found `now`, which is a time of this machine's own clock that counts suspension.
    /// `is_gone` says of a holder whether it is known to run no more. Anyone who is outranked by another
    /// candidate leaves what is free to that one for a few looks.
    pub fn judge(
        &mut self,
        found: Option<&LeaseRecord>,
        me: &Me,
        is_gone: impl Fn(&str) -> bool,
        now: Duration,
        timing: &Timing,
    ) -> LeaseStep {
        // One that was seen and is not there any more was deleted, and its holder may not know of it yet.
        if found.is_none() && self.seen.is_none() {
            return LeaseStep::Take(TakeoverReason::Absent);
        }
        let candidates = found.map(|found| found.candidates.as_slice()).unwrap_or_default();
        let first_in_line = outranking(candidates, me, &is_gone).is_none();
        if first_in_line && found.is_some_and(|found| found.is_released) {
            return LeaseStep::Take(TakeoverReason::Released);
        }
        if let Some(holder) = found.and_then(|found| found.holder.as_ref()) {
            if *holder == me.name {
                return LeaseStep::Take(TakeoverReason::Mine);
            }
            if first_in_line && is_gone(holder) {
                return LeaseStep::Take(TakeoverReason::Gone);
            }
        }
        let renewal = found.map(|found| found.renewal.as_str()).unwrap_or_default();
        let since = match &self.seen {
            Some((seen, since)) if seen == renewal => *since,
            _ => {
                self.seen = Some((renewal.to_owned(), now));
                now
            }
        };
        // Its holder may have been started with another time.
        let theirs = found.and_then(|found| found.expiry).unwrap_or_default();
        // No one writes by one that was given back: who comes first needs a look or two for it, not the whole time.
        let is_free = found.is_some_and(|found| found.is_released);
        let patience = if is_free { timing.retry * 3 } else { timing.expiry.max(theirs) };
        let left = patience.saturating_sub(now.saturating_sub(since));
        if left.is_zero() {
            LeaseStep::Take(TakeoverReason::Expired)
        } else {
            LeaseStep::Wait(left.min(timing.retry))
        }
    }
}

#[cfg(test)]
mod tests;

//! Acquires the Lease, renews it, and releases it.
//!
//! A candidate reads it every ten seconds; a leader renews it every forty. A leader that cannot renew
//! retries: once the API server is back and no one else has taken over, it continues. A leader that has lost
//! the Lease must exit, since its parts may no longer write; restarted, it is a candidate.
//!
//! Candidates are listed in the Lease. A leader that finds one of higher priority there at a renewal finishes
//! its work and releases the Lease, and all other candidates leave it to that one.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};
use weaver_api::OPERATOR_NAMESPACE;
use weaver_client::call::{CallError, call, lookup};

use super::fence::{Fence, since_boot};
use super::holder::ProcessIdentity;
use super::plan::{Candidate, LeaseStep, Timing, announced, outranking, staying, went_back};
use crate::health::{LoopHeartbeat, ProcessHealth};
use crate::log_code;
use weaver_api::lease::{Candidacy, LeaseRecord, Me, NAME, held, released, with_candidates};

/// Why leadership ended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Ending {
    #[error("{0} has taken over the lease")]
    Lost(String),
    /// Someone of higher priority asks for it, and is to have it when all that was begun is done.
    #[error("{0} has a higher priority and takes over the lease")]
    Yielded(String),
    /// The Lease is older than it was: so is all else, and what watches have shown may never have been. A
    /// watch that continues from what it saw last would be kept waiting until the API server has come so far
    /// again, in silence.
    #[error("the API server has an older state (was a backup restored?): restarting")]
    WentBack,
}

/// Whom a candidate waits for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Holder<'a> {
    pub name: &'a str,
    pub priority: i32,
}

/// The way to the Lease, as one process; a clone is of the same one.
#[derive(Clone)]
pub struct Leases {
    api: Api<Lease>,
    me: Me,
    origin: ProcessIdentity,
    timing: Timing,
    fence: Fence,
    health: ProcessHealth,
}

pub struct HeldLease {
    leases: Leases,
    lease: Lease,
    /// When the renewal was sent that succeeded last.
    renewed: Duration,
    heartbeat: LoopHeartbeat,
}

/// What came of an attempt to take it.
enum LeaseAttempt {
    /// It is taken, by a request that was sent then.
    Taken(Box<Lease>, Duration),
    /// It is another's, or left to another; look again then.
    Held(Box<Lease>, Duration),
    /// There is none, or it has changed meanwhile.
    Again(Duration),
}

impl Leases {
    /// For this process; its origin recognises other processes of this machine. `client` passes no fence; the fence of
    /// all other clients is opened and closed. `health` gets the heartbeat of this loop.
    pub fn new(
        client: Client,
        (name, origin): (String, ProcessIdentity),
        priority: i32,
        timing: Timing,
        fence: Fence,
        health: ProcessHealth,
    ) -> Self {
        let me = Me { name, priority, version: env!("CARGO_PKG_VERSION").to_owned() };
        Self { api: Api::namespaced(client, OPERATOR_NAMESPACE), me, origin, timing, fence, health }
    }

    /// Waits until this process is the leader, and reports by `waits_for` which holder it waits for, whenever that
    /// changes.
    ///
    /// # Errors
    /// If the Lease may not be read or written: retrying does not help.
    pub async fn acquire(self, mut waits_for: impl FnMut(Holder<'_>)) -> Result<HeldLease, CallError> {
        let heartbeat = self.health.heartbeat("keeping the lease", self.timing.expiry);
        let (mut candidate, mut reported, mut announced) = (Candidate::default(), None, None);
        loop {
            heartbeat.beat();
            let pause = match self.try_once(&mut candidate).await {
                Ok(LeaseAttempt::Taken(lease, renewed)) => {
                    self.fence.open_until(renewed + self.timing.fence);
                    return Ok(HeldLease { leases: self, lease: *lease, renewed, heartbeat });
                }
                Ok(LeaseAttempt::Held(lease, pause)) => {
                    let record = LeaseRecord::of(&lease);
                    if let Some(name) = record.holder.as_ref().filter(|name| reported.as_ref() != Some(*name))
                    {
                        waits_for(Holder { name, priority: record.priority });
                        reported = Some(name.clone());
                    }
                    self.announce(&lease, &record.candidates, &mut announced).await;
                    pause
                }
                Ok(LeaseAttempt::Again(pause)) => pause,
                // Not found is the namespace.
                Err(error @ (CallError::Forbidden(_) | CallError::Rejected(_) | CallError::NotFound(_))) => {
                    return Err(error);
                }
                Err(error) => {
                    warn!(code = log_code::LEASE_UNREACHABLE, %error, "the lease cannot be read, retrying");
                    self.timing.retry
                }
            };
            sleep(pause).await;
        }
    }

    /// One look and, where it is free, one attempt.
    async fn try_once(&self, candidate: &mut Candidate) -> Result<LeaseAttempt, CallError> {
        let found = lookup(self.api.get(NAME)).await?;
        let record = found.as_ref().map(LeaseRecord::of);
        let is_gone = |holder: &str| self.origin.is_gone(holder);
        let why = match candidate.judge(record.as_ref(), &self.me, is_gone, since_boot(), &self.timing) {
            LeaseStep::Take(why) => why,
            LeaseStep::Wait(pause) => {
                return Ok(found
                    .map_or(LeaseAttempt::Again(pause), |lease| LeaseAttempt::Held(Box::new(lease), pause)));
            }
        };
        let sent = since_boot();
        // With an empty list: who is there puts itself on it again with its next look, and who was killed
        // elsewhere does not.
        match self.write(found.as_ref(), &[]).await {
            Ok(lease) => {
                info!(
                    code = log_code::LEASE_TAKEN, %why, lease = NAME, me = %self.me.name, priority = self.me.priority,
                    "became the leader"
                );
                Ok(LeaseAttempt::Taken(Box::new(lease), sent))
            }
            // Someone else was faster.
            Err(CallError::Conflict(_)) => Ok(LeaseAttempt::Again(self.timing.retry)),
            Err(CallError::NotFound(_)) if found.is_some() => Ok(LeaseAttempt::Again(self.timing.retry)),
            Err(error) => Err(error),
        }
    }

    /// Puts itself on the list of candidates, and says now and then that it is still there. A look later there
    /// is another chance, so nothing is done about a failure.
    async fn announce(&self, lease: &Lease, candidates: &[Candidacy], last: &mut Option<Duration>) {
        let now = since_boot();
        let renew = last.is_none_or(|last| now.saturating_sub(last) >= self.timing.announce);
        let at = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let mine = Candidacy { holder: self.me.name.clone(), priority: self.me.priority, at };
        let Some(candidates) = announced(candidates, &mine, renew) else { return };
        let lease = with_candidates(lease, &candidates);
        if self.replace(&lease).await.is_ok() {
            *last = Some(now);
        }
    }

    /// Takes itself off the list of candidates, where it is on it; and releases the Lease that it was about to take, if
    /// that request was done although its answer was not awaited.
    pub async fn withdraw(&self) {
        let withdrawn = timeout(self.timing.deadline, async {
            let Some(lease) = lookup(self.api.get(NAME)).await? else { return Ok(()) };
            let record = LeaseRecord::of(&lease);
            if self.holds(&record) {
                return self.replace(&released(&lease)).await.map(drop);
            }
            let listed = record.candidates;
            let others: Vec<_> =
                listed.iter().filter(|other| other.holder != self.me.name).cloned().collect();
            if others.len() < listed.len() {
                self.replace(&with_candidates(&lease, &others)).await?;
            }
            Ok::<_, CallError>(())
        });
        if !matches!(withdrawn.await, Ok(Ok(()))) {
            debug!("this process could not be removed from the list of candidates");
        }
    }

    /// Candidates that stay on the list of a Lease that this process holds.
    fn staying(&self, lease: Option<&Lease>) -> Vec<Candidacy> {
        let listed = lease.map(LeaseRecord::of).map(|record| record.candidates).unwrap_or_default();
        staying(&listed, &self.me, |holder| self.origin.is_gone(holder))
    }

    async fn give_back(&self, lease: &Lease) -> Result<(), CallError> {
        match self.replace(&released(lease)).await {
            // A renewal whose answer was lost.
            Err(CallError::Conflict(_)) => {
                let found = lookup(self.api.get(NAME)).await?;
                if let Some(mine) = found.filter(|found| self.holds(&LeaseRecord::of(found))) {
                    self.replace(&released(&mine)).await?;
                }
                Ok(())
            }
            done => done.map(drop),
        }
    }

    /// Is this process the holder?
    fn holds(&self, record: &LeaseRecord) -> bool {
        record.holder.as_ref() == Some(&self.me.name)
    }

    /// Replaces exactly the version that this was made from.
    async fn replace(&self, lease: &Lease) -> Result<Lease, CallError> {
        call(self.api.replace(NAME, &PostParams::default(), lease)).await
    }

    /// Writes the Lease as this process' once more, with those of its list who stay.
    async fn renewed(&self, before: Option<&Lease>) -> Result<Lease, CallError> {
        self.in_time(self.write(before, &self.staying(before))).await
    }

    /// One request of a renewal: until another attempt is due.
    async fn in_time<T>(&self, request: impl Future<Output = Result<T, CallError>>) -> Result<T, CallError> {
        let late = |_| CallError::Late(format!("no answer within {} s", self.timing.retry.as_secs()));
        timeout(self.timing.retry, request).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
    }

    /// Writes the Lease with this process as the holder, replacing `before`.
    async fn write(&self, before: Option<&Lease>, candidates: &[Candidacy]) -> Result<Lease, CallError> {
        let lease = held(before, &self.me, candidates, self.timing.expiry, Timestamp::now());
        match before {
            None => call(self.api.create(&PostParams::default(), &lease)).await,
            Some(_) => self.replace(&lease).await,
        }
    }
}

impl HeldLease {
    /// Renews for as long as it can; ends when another process is the leader, or should be.
    pub async fn keep(&mut self) -> Ending {
        let mut failed = false;
        loop {
            self.heartbeat.beat();
            let timing = self.leases.timing;
            let (begun, due) = (since_boot(), self.renewed + timing.renew);
            let left = due.saturating_sub(begun);
            if !failed && !left.is_zero() {
                // The pause does not count suspension, and so is no longer than this.
                sleep(left.min(timing.retry)).await;
                continue;
            }
            match self.renew(failed).await {
                Ok(None) => failed = false,
                Ok(Some(ending)) => {
                    if !matches!(ending, Ending::Yielded(_)) {
                        self.leases.fence.close();
                    }
                    return ending;
                }
                Err(error) => {
                    if !failed {
                        warn!(code = log_code::LEASE_NOT_RENEWED, %error, "the lease could not be renewed, retrying");
                    }
                    failed = true;
                    sleep(timing.retry.saturating_sub(since_boot().saturating_sub(begun))).await;
                }
            }
        }
    }

    /// Renews once. `is_in_doubt`: the last attempt failed, and may have been done all the same; so it is looked at
    /// first, since by what is known here the write would be refused.
    ///
    /// Each request has a time of its own: a server that takes as long as one of them may is slow, and three of them in
    /// the time of one would never be done, for as long as it is.
    async fn renew(&mut self, is_in_doubt: bool) -> Result<Option<Ending>, CallError> {
        let leases = &self.leases;
        let mut sent = since_boot();
        let attempt = if is_in_doubt {
            None
        } else {
            match leases.renewed(Some(&self.lease)).await {
                // Someone has changed or deleted it; the next read shows the holder.
                Err(CallError::Conflict(_) | CallError::NotFound(_)) => None,
                done => Some(done?),
            }
        };
        let written = if let Some(written) = attempt {
            written
        } else {
            let found = leases.in_time(lookup(leases.api.get(NAME))).await?;
            if let Some(ending) = found.as_ref().and_then(|found| self.ending(&LeaseRecord::of(found))) {
                return Ok(Some(ending));
            }
            sent = since_boot();
            leases.renewed(found.as_ref()).await?
        };
        let known = LeaseRecord::of(&self.lease);
        self.lease = written;
        // One that was in no backup is made again.
        if went_back(&known, &LeaseRecord::of(&self.lease)) {
            return Ok(Some(Ending::WentBack));
        }
        self.renewed = sent;
        self.leases.fence.open_until(sent + self.leases.timing.fence);
        Ok(None)
    }

    /// Why this is the end, where it is.
    fn ending(&self, found: &LeaseRecord) -> Option<Ending> {
        if went_back(&LeaseRecord::of(&self.lease), found) {
            return Some(Ending::WentBack);
        }
        let Leases { me, origin, .. } = &self.leases;
        if let Some(holder) = found.holder.as_ref().filter(|holder| **holder != me.name) {
            return Some(Ending::Lost(holder.clone()));
        }
        let higher = outranking(&found.candidates, me, |holder| origin.is_gone(holder))?;
        Some(Ending::Yielded(higher.holder.clone()))
    }

    /// Gives it back, so that another takes over at once. Nothing is written after that; and while a write that
    /// was given up may yet be done, it is left to expire.
    pub async fn release(self) {
        let Self { leases, lease, .. } = self;
        if !leases.fence.drain().await {
            warn!(
                code = log_code::LEASE_NOT_RELEASED,
                "a write that timed out may still be applied: the lease is left to expire"
            );
            return;
        }
        match timeout(leases.timing.deadline, leases.give_back(&lease)).await {
            Ok(Ok(())) => info!(code = log_code::LEASE_RELEASED, lease = NAME, "released the lease"),
            Ok(Err(error)) => {
                warn!(code = log_code::LEASE_NOT_RELEASED, %error, "the lease could not be released; it expires");
            }
            Err(_) => {
                warn!(
                    code = log_code::LEASE_NOT_RELEASED,
                    "the lease could not be released in time; it expires"
                );
            }
        }
    }
}

#[cfg(test)]
#[path = "hold_tests.rs"]
mod tests;

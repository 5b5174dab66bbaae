//! Acquires the Lease, renews it, and gives it back.
//!
//! A candidate looks every ten seconds; a leader writes every forty. One that cannot renew tries again and again: when the
//! API server is back and nobody else has taken over, it goes on. One that has lost the Lease is to end, since what its
//! parts were doing is not theirs any more; whoever starts it again has a candidate.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};
use weaver_api::OPERATOR_NAMESPACE;

use super::fence::{Fence, since_boot};
use super::holder::{Beside, this_process};
use super::plan::{Candidate, Step, Timing};
use super::record::{NAME, Record, held, released};
use crate::tenant::call::{CallError, call, lookup};

/// Another process leads.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{holder} has taken over the lease: what was begun here is theirs now")]
pub struct Lost {
    /// Who.
    pub holder: String,
}

/// The way to the Lease, as one process.
pub struct Leases {
    api: Api<Lease>,
    me: String,
    beside: Beside,
    timing: Timing,
    fence: Fence,
}

/// The Lease, held.
pub struct Held {
    leases: Leases,
    lease: Lease,
    /// When the renewal was sent that succeeded last.
    renewed: Duration,
}

impl Leases {
    /// For this process. `client` passes no fence; the one of all others is opened and closed.
    #[must_use]
    pub fn new(client: Client, timing: Timing, fence: Fence) -> Self {
        let (me, beside) = this_process();
        Self { api: Api::namespaced(client, OPERATOR_NAMESPACE), me, beside, timing, fence }
    }

    /// Waits until this process leads, and tells by `waits_for` whom it waits for, whenever that changes.
    ///
    /// # Errors
    /// If the Lease may not be read or written: time does not cure that.
    pub async fn acquire(self, mut waits_for: impl FnMut(&str)) -> Result<Held, CallError> {
        let (mut candidate, mut told) = (Candidate::default(), None);
        loop {
            let pause = match self.try_once(&mut candidate).await {
                Ok(Ok((lease, renewed))) => {
                    self.fence.open_until(renewed + self.timing.fence);
                    return Ok(Held { leases: self, lease, renewed });
                }
                Ok(Err((holder, pause))) => {
                    if !holder.is_empty() && told.as_ref() != Some(&holder) {
                        waits_for(&holder);
                        told = Some(holder);
                    }
                    pause
                }
                // Not found is the namespace.
                Err(error @ (CallError::Forbidden(_) | CallError::Rejected(_) | CallError::NotFound(_))) => {
                    return Err(error);
                }
                Err(error) => {
                    warn!(%error, "the lease cannot be looked at, trying again");
                    self.timing.retry
                }
            };
            sleep(pause).await;
        }
    }

    /// One look and, where it is free, one attempt; else who holds it, and when to look again.
    async fn try_once(
        &self,
        candidate: &mut Candidate,
    ) -> Result<Result<(Lease, Duration), (String, Duration)>, CallError> {
        let found = lookup(self.api.get(NAME)).await?;
        let record = found.as_ref().map(Record::of);
        let is_gone = |holder: &str| self.beside.is_gone(holder);
        let why = match candidate.judge(record.as_ref(), &self.me, is_gone, since_boot(), &self.timing) {
            Step::Take(why) => why,
            Step::Wait(pause) => {
                let holder = record.and_then(|record| record.holder).unwrap_or_default();
                return Ok(Err((holder, pause)));
            }
        };
        let sent = since_boot();
        match self.write(found.as_ref()).await {
            Ok(lease) => {
                info!(%why, lease = NAME, me = %self.me, "leading");
                Ok(Ok((lease, sent)))
            }
            // Somebody else was faster.
            Err(CallError::Conflict(_)) => Ok(Err((String::new(), self.timing.retry))),
            Err(CallError::NotFound(_)) if found.is_some() => Ok(Err((String::new(), self.timing.retry))),
            Err(error) => Err(error),
        }
    }

    async fn give_back(&self, lease: &Lease) -> Result<(), CallError> {
        let params = PostParams::default();
        match call(self.api.replace(NAME, &params, &released(lease))).await {
            // A renewal whose answer was lost.
            Err(CallError::Conflict(_)) => {
                let found = lookup(self.api.get(NAME)).await?;
                let is_mine = |found: &Lease| Record::of(found).holder.as_deref() == Some(&self.me);
                if let Some(mine) = found.filter(is_mine) {
                    call(self.api.replace(NAME, &params, &released(&mine))).await?;
                }
                Ok(())
            }
            done => done.map(|_| ()),
        }
    }

    /// Writes the Lease as this process', in the place of `before`.
    async fn write(&self, before: Option<&Lease>) -> Result<Lease, CallError> {
        let lease = held(before, &self.me, self.timing.expiry, Timestamp::now());
        let params = PostParams::default();
        match before {
            None => call(self.api.create(&params, &lease)).await,
            Some(_) => call(self.api.replace(NAME, &params, &lease)).await,
        }
    }
}

impl Held {
    /// Renews for as long as it can; ends when another process leads.
    pub async fn keep(&mut self) -> Lost {
        let mut failed = false;
        loop {
            let timing = self.leases.timing;
            let (begun, due) = (since_boot(), self.renewed + timing.renew);
            let left = due.saturating_sub(begun);
            if !failed && !left.is_zero() {
                // The pause does not count suspension, and so is no longer than this.
                sleep(left.min(timing.retry)).await;
                continue;
            }
            let renewed = timeout(timing.retry, self.renew()).await.unwrap_or_else(|_| {
                Err(CallError::Transient(format!("no answer within {} s", timing.retry.as_secs())))
            });
            match renewed {
                Ok(None) => failed = false,
                Ok(Some(lost)) => {
                    self.leases.fence.close();
                    return lost;
                }
                Err(error) => {
                    if !failed {
                        warn!(%error, "the lease could not be renewed, trying again");
                    }
                    failed = true;
                    sleep(timing.retry.saturating_sub(since_boot().saturating_sub(begun))).await;
                }
            }
        }
    }

    async fn renew(&mut self) -> Result<Option<Lost>, CallError> {
        let sent = since_boot();
        let written = match self.leases.write(Some(&self.lease)).await {
            // Somebody has changed or deleted it; whose it is now stands there.
            Err(CallError::Conflict(_) | CallError::NotFound(_)) => {
                let found = lookup(self.leases.api.get(NAME)).await?;
                let holder = found.as_ref().map(Record::of).and_then(|record| record.holder);
                if let Some(holder) = holder.filter(|holder| *holder != self.leases.me) {
                    return Ok(Some(Lost { holder }));
                }
                self.leases.write(found.as_ref()).await
            }
            done => done,
        };
        self.lease = written?;
        self.renewed = sent;
        self.leases.fence.open_until(sent + self.leases.timing.fence);
        Ok(None)
    }

    /// Gives it back, so that another takes over at once. Nothing is written after that; and while a write that was given up
    /// may yet be done, it is left to expire.
    pub async fn release(self) {
        let Self { leases, lease, .. } = self;
        if !leases.fence.drain().await {
            warn!("a write may yet be done that was given up: the lease is left to expire");
            return;
        }
        match timeout(leases.timing.deadline, leases.give_back(&lease)).await {
            Ok(Ok(())) => info!(lease = NAME, "given back"),
            Ok(Err(error)) => warn!(%error, "the lease could not be given back; it expires"),
            Err(_) => warn!("the lease could not be given back in time; it expires"),
        }
    }
}

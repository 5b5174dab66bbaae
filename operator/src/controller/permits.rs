//! Concurrency limits of reconciliations: one for each tenant, and one for all together.
//!
//! A tenant whose thousand targets wait for a webhook that never answers delays only its own resources. A
//! reconciliation takes the permit of its tenant before it waits for the common limit, so at most `PER_TENANT` of one
//! tenant are in that queue, which is served in order.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::health::Reconciliations;

/// Reconciliations at once for the resources of one namespace.
const PER_TENANT: usize = 2;
/// Reconciliations at once for all.
const OVERALL: usize = 32;

pub struct Permits {
    waiting: AtomicI64,
    inside: Arc<Mutex<Inside>>,
    overall: Arc<Semaphore>,
    tenants: Mutex<HashMap<String, Weak<Semaphore>>>,
}

/// Reconciliations that have a permit.
#[derive(Default)]
struct Inside {
    /// Since when, by the order in which they came.
    since: BTreeMap<u64, Instant>,
    came: u64,
    left: Option<Instant>,
}

/// Lets one reconciliation run; dropping it lets another one.
pub struct Permit {
    inside: Arc<Mutex<Inside>>,
    came: u64,
    // Given back in this order: first to all, then to the own.
    _overall: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    // The tenant's limit lives as long as it is used or waited for.
    _tenant: Arc<Semaphore>,
}

impl Default for Permits {
    fn default() -> Self {
        Self {
            waiting: AtomicI64::new(0),
            inside: Arc::default(),
            overall: Arc::new(Semaphore::new(OVERALL)),
            tenants: Mutex::default(),
        }
    }
}

impl Permits {
    /// How many reconciliations wait for a permit.
    #[must_use]
    pub fn waiting(&self) -> i64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Waits for a permit for a reconciliation of a resource in the namespace `tenant`.
    #[expect(clippy::expect_used, reason = "no semaphore of this file is ever closed")]
    pub async fn enter(&self, tenant: &str) -> Permit {
        let limit = {
            let mut tenants = self.tenants.lock();
            let limit = tenants.get(tenant).and_then(Weak::upgrade).unwrap_or_else(|| {
                tenants.retain(|_, limit| limit.strong_count() > 0);
                Arc::new(Semaphore::new(PER_TENANT))
            });
            tenants.insert(tenant.to_owned(), Arc::downgrade(&limit));
            limit
        };
        let waits = Waits::begin(&self.waiting);
        let own = limit.clone().acquire_owned().await.expect("a limit is never closed");
        let overall = self.overall.clone().acquire_owned().await.expect("the overall limit is never closed");
        drop(waits);
        let came = enter(&self.inside);
        Permit { inside: self.inside.clone(), came, _overall: overall, _own: own, _tenant: limit }
    }

    /// The reconciliations in numbers.
    #[must_use]
    pub fn reconciliations(&self) -> Reconciliations {
        let inside = self.inside.lock();
        let first = inside.since.values().next();
        Reconciliations {
            waiting: self.waiting(),
            running: inside.since.len(),
            longest_seconds: first.map(|since| since.elapsed().as_secs()),
            ended_seconds_ago: inside.left.map(|left| left.elapsed().as_secs()),
        }
    }
}

fn enter(inside: &Mutex<Inside>) -> u64 {
    let mut inside = inside.lock();
    inside.came += 1;
    let came = inside.came;
    inside.since.insert(came, Instant::now());
    came
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut inside = self.inside.lock();
        inside.since.remove(&self.came);
        inside.left = Some(Instant::now());
    }
}

/// Counts who waits, for as long as it does.
struct Waits<'a>(&'a AtomicI64);

impl<'a> Waits<'a> {
    fn begin(waiting: &'a AtomicI64) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_tenant_at_its_limit_leaves_permits_for_others() {
        let permits = Permits::default();
        let mut held: Vec<_> = Vec::new();
        for _ in 0..PER_TENANT {
            held.extend(permits.enter("slow").now_or_never());
        }
        assert_eq!(held.len(), PER_TENANT);
        let mut waiting: Vec<_> = (0..1_000).map(|_| Box::pin(permits.enter("slow"))).collect();
        for reconciled in &mut waiting {
            assert!(reconciled.now_or_never().is_none());
        }
        let other = permits.enter("other").now_or_never();
        assert!(other.is_some(), "no one else waits");
        assert_eq!((permits.waiting(), permits.reconciliations().running), (1_000, PER_TENANT + 1));
        held.pop();
        assert!((&mut waiting[0]).now_or_never().is_some(), "in order");
    }

    #[tokio::test]
    async fn all_together_are_bounded_and_an_unused_limit_is_forgotten() {
        let permits = Permits::default();
        let names: Vec<String> = (0..OVERALL).map(|tenant| tenant.to_string()).collect();
        let mut held: Vec<_> = names.iter().filter_map(|name| permits.enter(name).now_or_never()).collect();
        assert_eq!(held.len(), OVERALL);
        assert!(permits.enter("more").now_or_never().is_none());
        held.pop();
        assert!(permits.enter("more").now_or_never().is_some());
        held.clear();
        drop(permits.enter("last").await);
        assert!(permits.tenants.lock().len() <= 2);
    }
}

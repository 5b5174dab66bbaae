//! What is remembered of each resource between reconciliations. All of it can be lost: a restart costs a few reads.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;
use weaver_tenant::Account;

use super::own_status::OwnStatus;
use super::quiet::Quiet;
use crate::watch::ResourceRef;

pub struct StateEntry<T> {
    /// Whose memory this is.
    pub resource: ResourceRef,
    /// Held during a reconciliation.
    pub state: AsyncMutex<T>,
    /// What this process wrote of its status, also while a reconciliation holds the rest.
    pub own_status: Mutex<OwnStatus>,
    /// Failed reconciliations in a row.
    failures: AtomicU32,
    /// How often they were forgiven.
    forgiven: AtomicU32,
    account: Mutex<Option<Account>>,
    /// What its last reconcile reported ([`super::report::readiness`]): of a resource of which only the name is kept,
    /// nothing else has it.
    readiness: Mutex<Option<&'static str>>,
    log: Mutex<BTreeMap<&'static str, Quiet>>,
}

impl<T> StateEntry<T> {
    /// Counts a failed reconciliation and returns how many there were in a row.
    pub fn failed(&self) -> u32 {
        self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Forgets the failures: something has changed that may have cured them.
    pub fn reset_failures(&self) {
        self.failures.store(0, Ordering::Relaxed);
        self.forgiven.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the failures were forgiven.
    pub fn forgiven(&self) -> u32 {
        self.forgiven.load(Ordering::Relaxed)
    }

    /// Whether a failure of this kind is logged now, and if so how many before it were not. A failure of one
    /// kind, which may be a race that the next try wins, does not hide another.
    pub fn logs(&self, kind: &'static str) -> Option<u64> {
        let mut log = self.log.lock();
        log.entry(kind).or_default().passes(Instant::now())
    }

    /// Notes which account the resource uses.
    pub fn uses(&self, account: &Account) {
        *self.account.lock() = Some(account.clone());
    }

    /// Notes which of [`crate::metrics::READY`] is reported of the resource.
    pub fn reports(&self, readiness: &'static str) {
        *self.readiness.lock() = Some(readiness);
    }
}

/// Memory of all resources, by uid.
#[derive(Default)]
pub struct States<T>(Mutex<HashMap<String, Arc<StateEntry<T>>>>);

impl<T: Default> States<T> {
    pub fn entry(&self, uid: &str, resource: &ResourceRef) -> Arc<StateEntry<T>> {
        self.0
            .lock()
            .entry(uid.to_owned())
            .or_insert_with(|| {
                Arc::new(StateEntry {
                    resource: resource.clone(),
                    state: AsyncMutex::default(),
                    own_status: Mutex::default(),
                    failures: AtomicU32::new(0),
                    forgiven: AtomicU32::new(0),
                    account: Mutex::default(),
                    readiness: Mutex::default(),
                    log: Mutex::default(),
                })
            })
            .clone()
    }

    /// Forgets a resource that is gone; its watches end with it.
    pub fn forget(&self, uid: &str) {
        self.0.lock().remove(uid);
    }

    /// Forgets every resource but the living.
    pub fn retain(&self, living: &BTreeSet<String>) {
        self.0.lock().retain(|uid, _| living.contains(uid));
    }

    /// Forgets the failures of one resource.
    pub fn reset_failures(&self, uid: &str) {
        if let Some(entry) = self.0.lock().get(uid) {
            entry.reset_failures();
        }
    }

    /// What was last reported of a resource; `None` before its first reconcile.
    pub fn readiness(&self, uid: &str) -> Option<&'static str> {
        self.0.lock().get(uid).and_then(|entry| *entry.readiness.lock())
    }

    pub fn accounts(&self) -> BTreeSet<Account> {
        self.0.lock().values().filter_map(|entry| entry.account.lock().clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_failure_of_another_kind_is_logged_at_once() {
        let resource = ResourceRef { namespace: "team-a".into(), name: "sync".into() };
        let entry = States::<()>::default().entry("uid", &resource);
        let logged = ["conflict", "forbidden", "conflict", "forbidden"].map(|kind| entry.logs(kind));
        assert_eq!(logged, [Some(0), Some(0), None, None]);
    }
}

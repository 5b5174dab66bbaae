//! What is remembered of each resource between visits. All of it can be lost: a restart costs a few reads.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;
use weaver_api::v1beta1::ConfigMapSyncStatus;

use super::pace::Pace;
use super::plan::Verified;
use super::setback::Setbacks;
use super::watches::Watches;
use crate::tenant::Account;
use crate::tenant::object::Place;
use crate::watch::SyncRef;

/// Whether leftovers of an earlier life have been looked for.
#[derive(Debug, Default, PartialEq)]
pub enum Search {
    /// Not yet, and the resource itself may show that there are none.
    #[default]
    Open,
    /// They are to be, whatever it shows.
    Due,
    /// They have been, as the account with this uid.
    Done(String),
}

/// Memory of one resource.
#[derive(Default)]
pub struct SyncState {
    /// Watches that this resource uses.
    pub watches: Watches,
    /// Copies whose content is known, and the state in which it is.
    pub verified: BTreeMap<Place, Verified>,
    /// Targets that could not be written.
    pub setbacks: Setbacks,
    /// How often the failures had been forgiven when the setbacks were noted.
    pub forgiven: u32,
    /// The namespace with which the next visit begins: an outdated one ended before it.
    pub resume_at: Option<String>,
    /// How often its copies may be written.
    pub pace: Pace,
    /// The fresh look that was asked for last.
    pub sync_now: Option<String>,
    /// Have leftovers of an earlier life been looked for?
    pub search: Search,
    /// Copies that are not wanted any more and may still be there.
    pub leftovers: BTreeSet<Place>,
    /// The status last written, and the resourceVersion of the object that was judged then. A visit that is
    /// handed that same state again has it from a cache that has not seen the write yet.
    pub reported: Option<(Option<String>, ConfigMapSyncStatus)>,
    /// What was last logged of an object that cannot be understood, and its generation then.
    pub not_understood: Option<(Option<i64>, Vec<String>)>,
    /// The upstream operator's finalizer has been removed already, from the state of this resourceVersion. Where
    /// it comes back, that operator runs still, and removing it each time would never end.
    pub upgraded: Option<String>,
    /// When a status was written last.
    pub reported_at: Option<Instant>,
    /// Generation of the last visit.
    pub generation: Option<i64>,
    /// When the deletion was first seen.
    pub deleting_since: Option<Instant>,
}

impl SyncState {
    /// Nothing of what is known of copies is taken for granted any more.
    pub fn look_afresh(&mut self) {
        self.leftovers.extend(std::mem::take(&mut self.verified).into_keys());
        self.search = Search::Due;
    }
}

/// One resource's entry.
pub struct Entry {
    /// Whose memory this is.
    pub sync: SyncRef,
    /// Held during a visit.
    pub state: AsyncMutex<SyncState>,
    /// Failed visits in a row.
    failures: AtomicU32,
    /// How often they were forgiven.
    forgiven: AtomicU32,
    account: Mutex<Option<Account>>,
}

impl Entry {
    /// Counts a failed visit and tells how many there were in a row.
    pub fn failed(&self) -> u32 {
        self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Forgets the failures: something has changed that may have cured them.
    pub fn forgive(&self) {
        self.failures.store(0, Ordering::Relaxed);
        self.forgiven.fetch_add(1, Ordering::Relaxed);
    }

    /// How often the failures were forgiven.
    pub fn forgiven(&self) -> u32 {
        self.forgiven.load(Ordering::Relaxed)
    }

    /// Notes which account the resource uses.
    pub fn uses(&self, account: &Account) {
        *self.account.lock().unwrap_or_else(PoisonError::into_inner) = Some(account.clone());
    }
}

/// Memory of all resources, by uid.
#[derive(Default)]
pub struct States(Mutex<HashMap<String, Arc<Entry>>>);

impl States {
    /// The entry of the resource with this uid.
    pub fn entry(&self, uid: &str, sync: &SyncRef) -> Arc<Entry> {
        self.lock()
            .entry(uid.to_owned())
            .or_insert_with(|| {
                Arc::new(Entry {
                    sync: sync.clone(),
                    state: AsyncMutex::default(),
                    failures: AtomicU32::new(0),
                    forgiven: AtomicU32::new(0),
                    account: Mutex::default(),
                })
            })
            .clone()
    }

    /// Forgets a resource that is gone; its watches end with it.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Forgets every resource but the living.
    pub fn retain(&self, living: &BTreeSet<String>) {
        self.lock().retain(|uid, _| living.contains(uid));
    }

    /// Forgets the failures of one resource.
    pub fn forgive(&self, sync: &SyncRef) {
        for entry in self.lock().values().filter(|entry| entry.sync == *sync) {
            entry.forgive();
        }
    }

    /// Accounts in use.
    #[must_use]
    pub fn accounts(&self) -> BTreeSet<Account> {
        self.lock()
            .values()
            .filter_map(|entry| entry.account.lock().unwrap_or_else(PoisonError::into_inner).clone())
            .collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Entry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

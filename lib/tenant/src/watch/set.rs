//! Watches as accounts: one per (account uid, kind, namespace, selector), metadata-only, shared and counted.
//!
//! Who needs a watch holds an [`Interest`]; dropping the last one ends the task and the request. A watch is authorised
//! only when it starts, so each lasts a bounded time and starts again: that bounds how long a revoked right can still
//! read. A watch that is refused stays in the set, is tried again with back-off, and wakes its users when it works at
//! last; a user waits for it no longer than [`SETTLE`].
//!
//! Bounded for each namespace of accounts: how many watches there are, and what they keep ([`WatchLimits`]). What is
//! not watched for that reason must be compared from time to time.
//!
//! kube's `reflector::Store` would keep every object; here the consumer says what is kept of one, which users a change
//! concerns, and nothing is shown of a watch that is not [`WatchState::Up`].

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use kube::Resource as _;
use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::backoff::{LONGEST_DENIED, WatchBackoff, with_backoff};
use super::consumer::{Consumer, KindOf};
use super::followed::{Followed, Meta, WatchEnd};
use super::kept::{NamespacedName, Share, WatchLimits};
use super::key::{Sight, WatchKey, WatchSelector, WatchState};
use super::list_watch::{ListWatch, events};
use super::users::WatchUser;
use crate::client::TenantClient;

/// Objects in a page of a list that is too long to be read at once.
const PAGE: u32 = 500;

/// How long [`Interest::settled`] waits.
pub const SETTLE: Duration = Duration::from_secs(5);

/// A watch and one user of it. Dropping it ends the interest; dropping the last ends the watch.
pub struct Interest<C: Consumer> {
    watched: Arc<Watched<C>>,
    user: User<C>,
}

type User<C> = WatchUser<<C as Consumer>::User>;

/// A watch in use.
struct Watched<C: Consumer> {
    inner: Arc<Followed<C>>,
    task: AbortHandle,
}

/// Watches in use, and some that ended.
struct Open<C: Consumer> {
    watches: HashMap<Arc<WatchKey<KindOf<C>>>, Weak<Watched<C>>>,
    /// How many there are when those that ended are removed next.
    prune_at: usize,
}

/// All watches that one consumer has, of all accounts.
pub struct WatchSet<C: Consumer> {
    open: Mutex<Open<C>>,
    /// By namespace of the account.
    shares: Mutex<HashMap<String, Weak<Share>>>,
    /// How many interests there were.
    joined: AtomicU64,
    consumer: Arc<C>,
    limits: WatchLimits,
    length: Duration,
    longest_pause: Duration,
}

impl<C: Consumer> WatchSet<C> {
    /// `length`: how long one watch lasts. `longest_pause`: between two tries of one that fails; after a
    /// refusal it may be five minutes. `limits`: for the accounts of each namespace.
    #[must_use]
    pub fn new(consumer: C, length: Duration, longest_pause: Duration, limits: WatchLimits) -> Self {
        Self {
            open: Mutex::new(Open { watches: HashMap::new(), prune_at: 0 }),
            shares: Mutex::default(),
            joined: AtomicU64::new(0),
            consumer: Arc::new(consumer),
            limits,
            length,
            longest_pause,
        }
    }

    /// Has a user reconciled.
    pub fn wake(&self, user: C::User) {
        self.consumer.wake(user);
    }

    /// Joins the watch `key`, opening it as `tenant` if it is not open; `None` where the accounts of that
    /// namespace have as many as they may, or keep as much.
    pub fn join(
        &self,
        key: WatchKey<KindOf<C>>,
        tenant: &TenantClient,
        user: &C::User,
    ) -> Option<Interest<C>> {
        let mut open = self.open.lock();
        let watched = if let Some(watched) = open.watches.get(&key).and_then(Weak::upgrade) {
            watched
        } else {
            let share = self.share(&key.account.namespace);
            if share.has_most_watches() || !share.may_take(key.selector.bytes()) {
                return None;
            }
            let key = Arc::new(key);
            let watched = Arc::new(self.start(&key, share, tenant));
            open.insert(key, &watched);
            watched
        };
        let user = (user.clone(), self.joined.fetch_add(1, Ordering::Relaxed));
        watched.inner.users().insert(user.clone(), BTreeSet::new());
        Some(Interest { watched, user })
    }

    /// Is this watch open?
    #[must_use]
    pub fn is_open(&self, key: &WatchKey<KindOf<C>>) -> bool {
        self.open.lock().watches.get(key).is_some_and(|watched| watched.strong_count() > 0)
    }

    /// How many watches the accounts of `namespace` have.
    #[must_use]
    pub fn watches_of(&self, namespace: &str) -> usize {
        let shares = self.shares.lock();
        let share = shares.get(namespace).and_then(Weak::upgrade);
        share.map_or(0, |share| share.watches.load(Ordering::Relaxed))
    }

    /// The state of each watch.
    #[must_use]
    pub fn states(&self) -> Vec<WatchState> {
        let open = self.open.lock();
        let watches = open.watches.values().filter_map(Weak::upgrade);
        watches.map(|watched| *watched.inner.state.borrow()).collect()
    }

    fn start(&self, key: &Arc<WatchKey<KindOf<C>>>, share: Arc<Share>, tenant: &TenantClient) -> Watched<C> {
        let backoff = WatchBackoff::of_tenant(self.longest_pause, share.lists.clone());
        let inner = Arc::new(Followed::new(key.clone(), share, backoff, self.consumer.clone()));
        let (labels, fields) = match &key.selector {
            WatchSelector::All => (None, None),
            WatchSelector::Labels(selector) => (Some(selector.clone()), None),
            WatchSelector::Name(name) => (None, Some(format!("metadata.name={name}"))),
        };
        // From the API server's own memory: on k3s' database a list that must be up to date was seen to wait
        // for a second. Nothing is done on what is shown here alone, and what came since follows as events.
        let mut of = ListWatch {
            path: Meta::<C>::url_path(&key.kind, key.namespace.as_deref()),
            labels,
            fields,
            page: None,
            length: u32::try_from(self.length.as_secs()).unwrap_or(290),
        };
        let (access, follower) = (tenant.access.clone(), inner.clone());
        let task = tokio::spawn(async move {
            loop {
                let started = follower.clone();
                let events =
                    events::<Meta<C>, _>(access.clone(), of.clone(), move || started.started_again());
                let events = with_backoff(events, follower.backoff.clone());
                match follower.follow(Box::pin(events), of.page.is_some()).await {
                    WatchEnd::ListTooLong => of.page = Some(PAGE),
                    WatchEnd::TooMuch => sleep(LONGEST_DENIED).await,
                }
            }
        })
        .abort_handle();
        Watched::new(inner, task)
    }

    /// What the watches for accounts of `namespace` use together.
    fn share(&self, namespace: &str) -> Arc<Share> {
        let mut shares = self.shares.lock();
        if let Some(share) = shares.get(namespace).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::new(Share::new(self.limits));
        shares.insert(namespace.to_owned(), Arc::downgrade(&share));
        share
    }
}

impl<C: Consumer> Open<C> {
    /// Of those that ended, there are never more than of the others: so removing them costs no insertion much.
    fn insert(&mut self, key: Arc<WatchKey<KindOf<C>>>, watched: &Arc<Watched<C>>) {
        if self.watches.len() >= self.prune_at {
            self.watches.retain(|_, watched| watched.strong_count() > 0);
            self.prune_at = self.watches.len() * 2 + 64;
        }
        self.watches.insert(key, Arc::downgrade(watched));
    }
}

impl<C: Consumer> Interest<C> {
    /// Waits until the watch is up or has failed, [`SETTLE`] at most.
    pub async fn settled(&self) -> WatchState {
        let inner = &self.watched.inner;
        inner.awaited_by.fetch_add(1, Ordering::SeqCst);
        let mut state = inner.state.subscribe();
        // Both failures leave the state to be read: the wait was too long, or the watch is gone.
        let _ = timeout(SETTLE, state.wait_for(|state| *state != WatchState::Listing)).await;
        inner.awaited_by.fetch_sub(1, Ordering::SeqCst);
        *inner.state.borrow()
    }

    /// Which watch it is.
    #[must_use]
    pub fn key(&self) -> &WatchKey<KindOf<C>> {
        &self.watched.inner.key
    }

    /// What the watch shows of that object.
    #[must_use]
    pub fn see(&self, namespace: &str, name: &str) -> Sight<C::Kept> {
        let inner = &self.watched.inner;
        if *inner.state.borrow() != WatchState::Up {
            return Sight::Unknown;
        }
        let key = (namespace.to_owned(), name.to_owned());
        inner.objects().get(&key).map_or(Sight::Absent, |kept| Sight::Present(kept.clone()))
    }

    /// The objects that are `wanted`, as last seen.
    #[must_use]
    pub fn those(&self, wanted: impl Fn(&C::Kept) -> bool) -> Vec<(NamespacedName, C::Kept)> {
        let objects = self.watched.inner.objects();
        let those = objects.iter().filter(|(_, kept)| wanted(kept));
        those.map(|(key, kept)| (key.clone(), kept.clone())).collect()
    }

    /// Has a watch that was refused tried again soon: the account was granted what it lacked.
    pub fn try_again(&self) {
        let inner = &self.watched.inner;
        if *inner.state.borrow() == WatchState::Refused {
            inner.backoff.again.notify_one();
        }
    }

    /// Has the user woken too when something happens to these objects, whomever else they concern. Replaces what was
    /// said before.
    pub fn wait_for(&self, objects: BTreeSet<NamespacedName>) {
        self.watched.inner.users().insert(self.user.clone(), objects);
    }
}

impl<C: Consumer> Drop for Interest<C> {
    fn drop(&mut self) {
        self.watched.inner.users().remove(&self.user);
    }
}

impl<C: Consumer> Watched<C> {
    fn new(inner: Arc<Followed<C>>, task: AbortHandle) -> Self {
        inner.share.add(inner.key.selector.bytes());
        Self { inner, task }
    }
}

impl<C: Consumer> Drop for Watched<C> {
    fn drop(&mut self) {
        self.inner.share.remove(self.inner.key.selector.bytes());
        self.task.abort();
    }
}

#[cfg(test)]
mod tests;

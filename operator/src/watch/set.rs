//! The tenants' watches: one per (account uid, namespace, what), shared and counted.
//!
//! Whoever needs a watch holds an [`Interest`]; dropping the last one ends the task and closes the connection. A watch
//! is authorised only when it starts, so each lasts a bounded time and starts again: that bounds how long a revoked
//! right can still read. A watch that is refused stays in the set, is tried again with back-off, and wakes its users
//! when it works at last; nobody waits for it longer than [`SETTLE`].
//!
//! Bounded for each tenant namespace: how many watches there are, and what they keep ([`super::held`]). What is not watched for that reason is compared from time to time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tracing::debug;
use weaver_api::marks::{Owner, SYNC_UID_LABEL};
use weaver_client::call::is_too_large;

use super::backoff::{LONGEST_DENIED, Patience, patient};
use super::held::{Held, Objects, Share, Spot, TooMuch};
use super::key::{WatchKey, WatchState, What};
use super::merge::is_refused;
use super::triggers::{ResourceRef, Triggers};
use crate::metrics::WATCH_STATES;
use crate::sync::plan::Seen;
use crate::tenant::TenantClient;
use crate::tenant::object::Object;

/// How long a visit waits for the watches it has just opened.
pub const SETTLE: Duration = Duration::from_secs(5);

/// A watch and one user of it. Dropping it ends the interest; dropping the last ends the watch.
pub struct Interest {
    watched: Arc<Watched>,
    user: User,
}

/// A user, and which of its interests it is: a resource that was made anew under the same name has one beside the one of
/// its predecessor, which ends later.
type User = (ResourceRef, u64);

/// A watch in use.
struct Watched {
    inner: Arc<Inner>,
    task: AbortHandle,
}

/// What kube's watcher says.
type Told = Result<Event<PartialObjectMeta<Object>>, watcher::Error>;

struct Inner {
    key: WatchKey,
    state: watch::Sender<WatchState>,
    /// Visits that wait for the first answer, and so need not be woken by it.
    awaited_by: AtomicUsize,
    objects: Mutex<Objects>,
    share: Arc<Share>,
    patience: Patience,
    /// With the places that each waits for: another's copy stands there.
    users: Mutex<BTreeMap<User, BTreeSet<Spot>>>,
    triggers: Triggers,
}

/// Watches in use, and some that ended.
#[derive(Default)]
struct Open {
    watches: HashMap<WatchKey, Weak<Watched>>,
    /// How many there are when those that ended are removed next.
    prune_at: usize,
}

/// All watches of all tenants.
pub struct WatchSet {
    open: Mutex<Open>,
    /// By tenant namespace.
    shares: Mutex<HashMap<String, Weak<Share>>>,
    /// How many interests there were.
    joined: AtomicU64,
    triggers: Triggers,
    length: Duration,
    longest_pause: Duration,
}

impl WatchSet {
    /// `length`: how long one watch lasts. `longest_pause`: between two tries of one that fails.
    #[must_use]
    pub fn new(triggers: Triggers, length: Duration, longest_pause: Duration) -> Self {
        Self {
            open: Mutex::default(),
            shares: Mutex::default(),
            joined: AtomicU64::new(0),
            triggers,
            length,
            longest_pause,
        }
    }

    /// Has a resource visited.
    pub fn wake(&self, resource: ResourceRef) {
        self.triggers.fire(resource);
    }

    /// Joins the watch `key`, opening it as `tenant` if it is not open; `None` where the tenant has as many as one may.
    pub fn join(&self, key: WatchKey, tenant: &TenantClient, user: &ResourceRef) -> Option<Interest> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = if let Some(watched) = open.watches.get(&key).and_then(Weak::upgrade) {
            watched
        } else {
            let share = self.share(&key.account.namespace);
            if share.has_most_watches() {
                return None;
            }
            let watched = Arc::new(self.start(&key, share, tenant));
            open.insert(key, &watched);
            watched
        };
        let user = (user.clone(), self.joined.fetch_add(1, Ordering::Relaxed));
        watched.inner.users().insert(user.clone(), BTreeSet::new());
        Some(Interest { watched, user })
    }

    /// How many there are in each state.
    #[must_use]
    pub fn states(&self) -> Vec<(&'static str, i64)> {
        let mut counts = WATCH_STATES.map(|state| (state, 0));
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for watched in open.watches.values().filter_map(Weak::upgrade) {
            let index = match *watched.inner.state.borrow() {
                WatchState::Opening => 0,
                WatchState::Synced => 1,
                WatchState::Refused => 2,
                WatchState::Failing | WatchState::Full => 3,
            };
            counts[index].1 += 1;
        }
        counts.to_vec()
    }

    fn start(&self, key: &WatchKey, share: Arc<Share>, tenant: &TenantClient) -> Watched {
        let patience = Patience::of_tenant(self.longest_pause, share.lists.clone());
        let inner = Arc::new(Inner::new(key.clone(), share, patience, self.triggers.clone()));
        let length = u32::try_from(self.length.as_secs()).unwrap_or(290);
        // From the API server's own memory: on k3s' database a list that must be up to date was seen to wait for a second.
        // Nothing is done on what is shown here alone, and what came since follows as events. Pages are not had from there:
        // asked for them, kube asks for no version.
        let config =
            watcher::Config { page_size: None, ..watcher::Config::default() }.any_semantic().timeout(length);
        let config = match &key.what {
            What::Copies => config.labels(SYNC_UID_LABEL),
            What::Object(name) => config.fields(&format!("metadata.name={name}")),
        };
        let objects: Api<PartialObjectMeta<Object>> = match &key.namespace {
            Some(namespace) => tenant.namespaced(&key.kind, namespace),
            None => tenant.all(&key.kind),
        };
        let follower = inner.clone();
        let task = tokio::spawn(async move {
            loop {
                let events = watcher::watcher(objects.clone(), config.clone());
                follower.follow(patient(events, follower.patience.clone())).await;
                sleep(LONGEST_DENIED).await;
            }
        })
        .abort_handle();
        Watched::new(inner, task)
    }

    /// What the watches for accounts of `namespace` use together.
    fn share(&self, namespace: &str) -> Arc<Share> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(namespace).and_then(Weak::upgrade) {
            return share;
        }
        shares.retain(|_, share| share.strong_count() > 0);
        let share = Arc::default();
        shares.insert(namespace.to_owned(), Arc::downgrade(&share));
        share
    }
}

impl Open {
    /// Of those that ended, there are never more than of the others: so removing them costs no insertion much.
    fn insert(&mut self, key: WatchKey, watched: &Arc<Watched>) {
        if self.watches.len() >= self.prune_at {
            self.watches.retain(|_, watched| watched.strong_count() > 0);
            self.prune_at = self.watches.len() * 2 + 64;
        }
        self.watches.insert(key, Arc::downgrade(watched));
    }
}

impl Interest {
    /// Waits until the watch is established or has failed, [`SETTLE`] at most.
    pub async fn settled(&self) -> WatchState {
        let inner = &self.watched.inner;
        inner.awaited_by.fetch_add(1, Ordering::SeqCst);
        let mut state = inner.state.subscribe();
        // Both failures leave the state to be read: the wait was too long, or the watch is gone.
        let _ = timeout(SETTLE, state.wait_for(|state| *state != WatchState::Opening)).await;
        inner.awaited_by.fetch_sub(1, Ordering::SeqCst);
        *inner.state.borrow()
    }

    /// Which watch it is.
    #[must_use]
    pub fn key(&self) -> &WatchKey {
        &self.watched.inner.key
    }

    /// What the watch shows of that object. One that is not established shows nothing: what it knew last may be
    /// long gone.
    #[must_use]
    pub fn see(&self, namespace: &str, name: &str) -> Seen {
        let inner = &self.watched.inner;
        if *inner.state.borrow() != WatchState::Synced {
            return Seen::Unknown;
        }
        let spot = (namespace.to_owned(), name.to_owned());
        inner.objects().get(&spot).map_or(Seen::Nothing, Held::seen)
    }

    /// Has a watch that was refused tried again soon: the account was granted what it lacked.
    pub fn try_again(&self) {
        let inner = &self.watched.inner;
        if *inner.state.borrow() == WatchState::Refused {
            inner.patience.again.notify_one();
        }
    }

    /// Has the user woken too when something happens at these places, whose copies are another's. Replaces what was
    /// said before.
    pub fn wait_for(&self, places: BTreeSet<Spot>) {
        self.watched.inner.users().insert(self.user.clone(), places);
    }

    /// The objects that are `wanted`, as last seen.
    #[must_use]
    pub fn those(&self, wanted: impl Fn(&ObjectMeta) -> bool) -> Vec<Arc<ObjectMeta>> {
        let objects = self.watched.inner.objects();
        objects.iter().map(|held| &held.meta).filter(|meta| wanted(meta)).cloned().collect()
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        self.watched.inner.users().remove(&self.user);
    }
}

impl Watched {
    fn new(inner: Arc<Inner>, task: AbortHandle) -> Self {
        inner.share.watches.fetch_add(1, Ordering::Relaxed);
        Self { inner, task }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.inner.share.watches.fetch_sub(1, Ordering::Relaxed);
        self.task.abort();
    }
}

impl Inner {
    fn new(key: WatchKey, share: Arc<Share>, patience: Patience, triggers: Triggers) -> Self {
        Self {
            key,
            state: watch::Sender::new(WatchState::Opening),
            awaited_by: AtomicUsize::new(0),
            objects: Mutex::new(Objects::new(share.clone())),
            share,
            patience,
            users: Mutex::default(),
            triggers,
        }
    }

    /// Follows `events` until there is more to keep than there may be.
    async fn follow(&self, events: impl Stream<Item = Told>) {
        let mut events = std::pin::pin!(events);
        let mut listed = Objects::new(self.share.clone());
        while let Some(event) = events.next().await {
            if self.take(event, &mut listed) == Err(TooMuch) {
                debug!(watch = ?self.key, "more than a tenant's watches may keep");
                self.objects().clear();
                self.turn(WatchState::Full);
                return;
            }
        }
    }

    fn take(&self, event: Told, listed: &mut Objects) -> Result<(), TooMuch> {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => {
                let replace = self.objects().bytes();
                if let Some((spot, held)) = self.hold(object) {
                    listed.put(spot, held, replace)?;
                }
            }
            Ok(Event::InitDone) => {
                *self.objects() = std::mem::replace(listed, Objects::new(self.share.clone()));
                // A list after the first may hold news whatever the state was.
                if self.turn(WatchState::Synced) == WatchState::Synced {
                    self.wake_all();
                }
            }
            Ok(Event::Apply(object)) => {
                if let Some((spot, held)) = self.hold(object) {
                    let before = self.objects().put(spot.clone(), held.clone(), 0)?;
                    self.wake(&spot, [before, Some(held)]);
                }
            }
            Ok(Event::Delete(object)) => {
                if let Some((spot, held)) = self.hold(object) {
                    let before = self.objects().remove(&spot);
                    self.wake(&spot, [before, Some(held)]);
                }
            }
            Err(error) => {
                debug!(%error, watch = ?self.key, "watch failed, trying again");
                self.turn(if is_refused(&error) {
                    WatchState::Refused
                } else if is_too_large(&error) {
                    WatchState::Full
                } else {
                    WatchState::Failing
                });
            }
        }
        Ok(())
    }

    /// What is kept of an object, and its place. Whole only what an update may be built from: a copy that a resource of this
    /// tenant made, and the one object that is watched by its name.
    fn hold(&self, object: PartialObjectMeta<Object>) -> Option<(Spot, Held)> {
        let meta = object.metadata;
        let is_ours = || Owner::of(&meta).is_some_and(|owner| owner.namespace == self.key.account.namespace);
        let may_be_whole = self.key.what != What::Copies || is_ours();
        Some(((meta.namespace.clone()?, meta.name.clone()?), Held::of(meta, may_be_whole)))
    }

    /// Enters a state and tells which it was. All users learn of a change, but for the visits that await it.
    fn turn(&self, now: WatchState) -> WatchState {
        let before = self.state.send_replace(now);
        let awaited = before == WatchState::Opening && self.awaited_by.load(Ordering::SeqCst) > 0;
        if before != now && !awaited {
            self.wake_all();
        }
        before
    }

    /// Wakes the users that the object's marks name, now or before, and those that wait for its place; all, where it
    /// is a source.
    fn wake(&self, spot: &Spot, states: [Option<Held>; 2]) {
        let owners: Vec<ResourceRef> = states
            .into_iter()
            .flatten()
            .filter_map(|held| Owner::of(&held.meta))
            .map(|owner| ResourceRef { namespace: owner.namespace, name: owner.name })
            .collect();
        let is_source = self.key.what != What::Copies;
        let users = self.users();
        let woken = users
            .iter()
            .filter(|((user, _), waits)| is_source || owners.contains(user) || waits.contains(spot));
        for ((user, _), _) in woken {
            self.triggers.fire(user.clone());
        }
    }

    fn wake_all(&self) {
        for (user, _) in self.users().keys() {
            self.triggers.fire(user.clone());
        }
    }

    fn objects(&self) -> std::sync::MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn users(&self) -> std::sync::MutexGuard<'_, BTreeMap<User, BTreeSet<Spot>>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "set_tests.rs"]
mod tests;

//! The tenants' watches: one per (account uid, namespace, what), shared and counted.
//!
//! Whoever needs a watch holds an [`Interest`]; dropping the last one ends the task and closes the connection. A watch
//! is authorised only when it starts, so each lasts a bounded time and starts again: that bounds how long a revoked
//! right can still read. A watch that is refused stays in the set, is tried again with back-off, and wakes its users
//! when it works at last; nobody waits for it longer than [`SETTLE`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use backon::ExponentialBuilder;
use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event, ExponentialBackoff};
use kube::runtime::{WatchStreamExt as _, watcher as watch_events};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tracing::debug;
use weaver_api::marks::{Owner, SYNC_UID_LABEL};
use weaver_api::v1beta1::SourceKind;

use super::{ResourceRef, Triggers, is_refused};
use crate::metrics::WATCH_STATES;
use crate::sync::plan::Seen;
use crate::tenant::object::Object;
use crate::tenant::{Account, TenantClient};

/// Pause after the first failure of a watch.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);

/// Growing pauses between two tries of a watch, up to `longest`, for ever.
#[must_use]
pub fn backoff(longest: Duration) -> ExponentialBackoff {
    let growing = ExponentialBuilder::default().with_min_delay(SHORTEST_PAUSE).with_max_delay(longest);
    ExponentialBackoff::from(growing.with_jitter().without_max_times())
}

/// How long a visit waits for the watches it has just opened.
pub const SETTLE: Duration = Duration::from_secs(5);

/// What a watch is on; always metadata.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum What {
    /// Everything there that carries our label.
    Copies,
    /// One object by name, so that a Role with `resourceNames` is enough.
    Object(String),
}

/// Identity of a watch. The account's uid is part of it: a recreated account gets new watches.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct WatchKey {
    /// As whom.
    pub account: Account,
    /// Uid of that account.
    pub uid: String,
    /// On objects of this kind.
    pub kind: SourceKind,
    /// Where; `None`: in all namespaces.
    pub namespace: Option<String>,
    /// On which of them.
    pub what: What,
}

/// How a watch is doing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WatchState {
    /// Not answered yet.
    Opening,
    /// Established: what it knows is complete.
    Synced,
    /// 403: the tenant may not `list` or `watch` here.
    Refused,
    /// Failing for another reason, tried again.
    Failing,
}

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

struct Inner {
    key: WatchKey,
    state: watch::Sender<WatchState>,
    /// Visits that wait for the first answer, and so need not be woken by it.
    awaited_by: AtomicUsize,
    objects: Mutex<Objects>,
    /// With the places that each waits for: another's copy stands there.
    users: Mutex<BTreeMap<User, BTreeSet<Spot>>>,
    triggers: Triggers,
}

/// Namespace and name of an object.
type Spot = (String, String);
type Objects = BTreeMap<Spot, Arc<ObjectMeta>>;

/// All watches of all tenants.
pub struct WatchSet {
    open: Mutex<HashMap<WatchKey, Weak<Watched>>>,
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
        Self { open: Mutex::default(), joined: AtomicU64::new(0), triggers, length, longest_pause }
    }

    /// Has a resource visited.
    pub fn wake(&self, resource: ResourceRef) {
        self.triggers.fire(resource);
    }

    /// Joins the watch `key`, opening it as `tenant` if it is not open.
    pub fn join(&self, key: WatchKey, tenant: &TenantClient, user: &ResourceRef) -> Interest {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let watched = open.get(&key).and_then(Weak::upgrade).unwrap_or_else(|| {
            let watched = Arc::new(self.start(&key, tenant));
            open.retain(|_, watched| watched.strong_count() > 0);
            open.insert(key, Arc::downgrade(&watched));
            watched
        });
        let user = (user.clone(), self.joined.fetch_add(1, Ordering::Relaxed));
        watched.inner.users().insert(user.clone(), BTreeSet::new());
        Interest { watched, user }
    }

    /// How many there are in each state.
    #[must_use]
    pub fn states(&self) -> Vec<(&'static str, i64)> {
        let mut counts = WATCH_STATES.map(|state| (state, 0));
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for watched in open.values().filter_map(Weak::upgrade) {
            let index = match *watched.inner.state.borrow() {
                WatchState::Opening => 0,
                WatchState::Synced => 1,
                WatchState::Refused => 2,
                WatchState::Failing => 3,
            };
            counts[index].1 += 1;
        }
        counts.to_vec()
    }

    fn start(&self, key: &WatchKey, tenant: &TenantClient) -> Watched {
        let inner = Arc::new(Inner {
            key: key.clone(),
            state: watch::Sender::new(WatchState::Opening),
            awaited_by: AtomicUsize::new(0),
            objects: Mutex::default(),
            users: Mutex::default(),
            triggers: self.triggers.clone(),
        });
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
        let objects = match &key.namespace {
            Some(namespace) => tenant.metas(key.kind, namespace),
            None => tenant.all_metas(key.kind),
        };
        let events = watch_events(objects, config).backoff(backoff(self.longest_pause));
        let follower = inner.clone();
        let task = tokio::spawn(async move {
            let mut events = std::pin::pin!(events);
            let mut listed = BTreeMap::new();
            while let Some(event) = events.next().await {
                follower.take(event, &mut listed);
            }
        })
        .abort_handle();
        Watched { inner, task }
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
        inner.objects().get(&spot).map_or(Seen::Nothing, |meta| Seen::Object(meta.clone()))
    }

    /// Has the user woken too when something happens at these places, whose copies are another's. Replaces what was
    /// said before.
    pub fn wait_for(&self, places: BTreeSet<Spot>) {
        self.watched.inner.users().insert(self.user.clone(), places);
    }

    /// The objects that are `wanted`, as last seen.
    #[must_use]
    pub fn those(&self, wanted: impl Fn(&ObjectMeta) -> bool) -> Vec<Arc<ObjectMeta>> {
        self.watched.inner.objects().values().filter(|meta| wanted(meta)).cloned().collect()
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        self.watched.inner.users().remove(&self.user);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Inner {
    fn take(&self, event: Result<Event<PartialObjectMeta<Object>>, watcher::Error>, listed: &mut Objects) {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => {
                listed.extend(slim(object));
            }
            Ok(Event::InitDone) => {
                *self.objects() = std::mem::take(listed);
                // A list after the first may hold news whatever the state was.
                if self.turn(WatchState::Synced) == WatchState::Synced {
                    self.wake_all();
                }
            }
            Ok(Event::Apply(object)) => {
                if let Some((spot, meta)) = slim(object) {
                    let before = self.objects().insert(spot.clone(), meta.clone());
                    self.wake(&spot, [before.as_deref(), Some(&*meta)]);
                }
            }
            Ok(Event::Delete(object)) => {
                if let Some((spot, meta)) = slim(object) {
                    let before = self.objects().remove(&spot);
                    self.wake(&spot, [before.as_deref(), Some(&*meta)]);
                }
            }
            Err(error) => {
                debug!(%error, watch = ?self.key, "watch failed, trying again");
                self.turn(if is_refused(&error) { WatchState::Refused } else { WatchState::Failing });
            }
        }
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
    fn wake(&self, spot: &Spot, states: [Option<&ObjectMeta>; 2]) {
        let owners: Vec<ResourceRef> = states
            .into_iter()
            .flatten()
            .filter_map(Owner::of)
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

/// Place and metadata without `managedFields`, which are often half of it and never read.
fn slim(object: PartialObjectMeta<Object>) -> Option<(Spot, Arc<ObjectMeta>)> {
    let mut meta = object.metadata;
    meta.managed_fields = None;
    Some(((meta.namespace.clone()?, meta.name.clone()?), Arc::new(meta)))
}

#[cfg(test)]
#[path = "set_tests.rs"]
mod tests;

//! One watch: what its events show, which state it is in, and whom a change wakes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{Stream, StreamExt as _};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::{self, Event};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tracing::debug;
use weaver_client::call::is_too_large;

use super::backoff::{WatchBackoff, is_refused};
use super::consumer::{Concerned, Consumer, KindOf};
use super::kept::{NamespacedName, Share, TooMuch, WatchedObjects};
use super::key::{WatchKey, WatchState};
use super::users::WatchUsers;

/// An object as a watch shows it.
pub(super) type Meta<C> = PartialObjectMeta<<C as Consumer>::Object>;

/// What a list and a watch yield.
pub(super) type Item<C> = Result<Event<Meta<C>>, watcher::Error>;

/// A watch as its events say, for all its users.
pub(super) struct Followed<C: Consumer> {
    pub(super) key: Arc<WatchKey<KindOf<C>>>,
    pub(super) state: watch::Sender<WatchState>,
    /// Users that wait for the first answer, and so need not be woken by it.
    pub(super) awaited_by: AtomicUsize,
    objects: Mutex<WatchedObjects<C::Kept>>,
    pub(super) share: Arc<Share>,
    pub(super) backoff: WatchBackoff,
    users: Mutex<WatchUsers<C::User>>,
    consumer: Arc<C>,
}

/// Why events are not followed any more.
pub(super) enum WatchEnd {
    /// The first list is longer than what is read of one answer.
    ListTooLong,
    /// There is more to keep than there may be.
    TooMuch,
}

impl<C: Consumer> Followed<C> {
    pub(super) fn new(
        key: Arc<WatchKey<KindOf<C>>>,
        share: Arc<Share>,
        backoff: WatchBackoff,
        consumer: Arc<C>,
    ) -> Self {
        Self {
            key,
            state: watch::Sender::new(WatchState::Listing),
            awaited_by: AtomicUsize::new(0),
            objects: Mutex::new(WatchedObjects::new(share.clone())),
            share,
            backoff,
            users: Mutex::default(),
            consumer,
        }
    }

    /// Follows `events` until they lead nowhere. A list that is too long although it is read in pages is a failure.
    pub(super) async fn follow(
        &self,
        mut events: impl Stream<Item = Item<C>> + Send + Unpin,
        in_pages: bool,
    ) -> WatchEnd {
        let mut listed = WatchedObjects::new(self.share.clone());
        while let Some(event) = events.next().await {
            if !in_pages && event.as_ref().is_err_and(|error| is_too_large(error)) {
                return WatchEnd::ListTooLong;
            }
            if self.take(event, &mut listed) == Err(TooMuch) {
                debug!(watch = ?self.key, "the watches of these accounts are over their memory limit");
                self.objects().clear();
                self.turn(WatchState::TooLarge);
                break;
            }
        }
        WatchEnd::TooMuch
    }

    pub(super) fn take(&self, event: Item<C>, listed: &mut WatchedObjects<C::Kept>) -> Result<(), TooMuch> {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => {
                let replace = self.objects().bytes();
                if let Some((key, kept)) = self.keep(object) {
                    let bytes = self.consumer.bytes(&kept);
                    listed.put(key, kept, bytes, replace)?;
                }
            }
            Ok(Event::InitDone) => {
                listed.fit();
                *self.objects() = std::mem::replace(listed, WatchedObjects::new(self.share.clone()));
                // A list after the first may have changes whatever the state was.
                if self.turn(WatchState::Up) == WatchState::Up {
                    self.wake_all();
                }
            }
            Ok(Event::Apply(object)) => {
                if let Some((key, kept)) = self.keep(object) {
                    let bytes = self.consumer.bytes(&kept);
                    let before = self.objects().put(key.clone(), kept.clone(), bytes, 0)?;
                    if before.as_ref() != Some(&kept) {
                        self.wake(&key, &[before, Some(kept)]);
                    }
                }
            }
            Ok(Event::Delete(object)) => {
                if let Some((key, kept)) = self.keep(object) {
                    let before = self.objects().remove(&key);
                    self.wake(&key, &[before, Some(kept)]);
                }
            }
            Err(error) => {
                debug!(%error, watch = ?self.key, "watch failed, retrying");
                self.turn(if is_refused(&error) {
                    WatchState::Refused
                } else if is_too_large(&error) {
                    WatchState::TooLarge
                } else {
                    WatchState::Failed
                });
            }
        }
        Ok(())
    }

    /// The watch after the list has started, after a failure perhaps: what is kept is complete, or will be by events.
    pub(super) fn started_again(&self) {
        self.turn(WatchState::Up);
    }

    fn keep(&self, object: Meta<C>) -> Option<(NamespacedName, C::Kept)> {
        let meta = object.metadata;
        let key = (meta.namespace.clone().unwrap_or_default(), meta.name.clone()?);
        Some((key, self.consumer.keep(&self.key, meta)))
    }

    /// Enters a state and returns the previous one. All users learn of a change, but for those that await it.
    fn turn(&self, now: WatchState) -> WatchState {
        let before = self.state.send_replace(now);
        let awaited = before == WatchState::Listing && self.awaited_by.load(Ordering::SeqCst) > 0;
        if before != now && !awaited {
            self.wake_all();
        }
        before
    }

    /// Wakes the users whom the object concerns or concerned, and those that wait for it.
    fn wake(&self, key: &NamespacedName, states: &[Option<C::Kept>; 2]) {
        let mut concerned = Vec::new();
        for kept in states.iter().flatten() {
            match self.consumer.concerned(&self.key, kept) {
                Concerned::All => return self.wake_all(),
                Concerned::These(users) => concerned.extend(users),
            }
        }
        for user in self.users().woken(&concerned, key) {
            self.consumer.wake(user);
        }
    }

    fn wake_all(&self) {
        for user in self.users().all() {
            self.consumer.wake(user.clone());
        }
    }

    pub(super) fn objects(&self) -> MutexGuard<'_, WatchedObjects<C::Kept>> {
        self.objects.lock()
    }

    pub(super) fn users(&self) -> MutexGuard<'_, WatchUsers<C::User>> {
        self.users.lock()
    }
}

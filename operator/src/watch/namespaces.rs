//! Which namespaces exist and which are going: the operator's own watch, metadata only.
//!
//! It wakes (a namespace appears: whoever names it is visited) and it tells where a watch is worth opening, where
//! leftovers are looked for, and whether a deleted resource goes with its namespace. It never decides which targets
//! are tried, and what it knows never reaches a status: a tenant learns of a namespace only from answers to its
//! own requests.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event;
use tokio::sync::watch;
use tracing::warn;

/// Existing namespaces.
pub struct Namespaces {
    known: Mutex<BTreeMap<String, Life>>,
    synced: watch::Sender<bool>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Life {
    Active,
    Terminating,
}

impl Default for Namespaces {
    fn default() -> Self {
        Self { known: Mutex::default(), synced: watch::Sender::new(false) }
    }
}

impl Namespaces {
    /// Follows `events` until they end; `changed` is told each namespace that appeared or vanished.
    pub async fn follow<S>(&self, events: S, changed: impl Fn(&str))
    where
        S: Stream<Item = Result<Event<PartialObjectMeta<Namespace>>, kube::runtime::watcher::Error>>,
    {
        let mut events = std::pin::pin!(events);
        let mut listed = BTreeMap::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    listed.extend(entry(&object));
                }
                Ok(Event::InitDone) => {
                    let before = self.replace(std::mem::take(&mut listed));
                    self.synced.send_replace(true);
                    self.each_difference(&before, &changed);
                }
                Ok(Event::Apply(object)) => {
                    if let Some((name, life)) = entry(&object) {
                        let before = self.lock().insert(name.clone(), life);
                        if before != Some(life) {
                            changed(&name);
                        }
                    }
                }
                Ok(Event::Delete(object)) => {
                    if let Some((name, _)) = entry(&object) {
                        self.lock().remove(&name);
                        changed(&name);
                    }
                }
                Err(error) => warn!(%error, "watching namespaces"),
            }
        }
    }

    /// Waits for the first complete list.
    pub async fn synced(&self) {
        // The sender lives in `self`, so this cannot fail.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Is it there, and staying?
    #[must_use]
    pub fn is_active(&self, name: &str) -> bool {
        self.lock().get(name) == Some(&Life::Active)
    }

    /// Is it being deleted?
    #[must_use]
    pub fn is_terminating(&self, name: &str) -> bool {
        self.lock().get(name) == Some(&Life::Terminating)
    }

    /// All that are there and staying.
    #[must_use]
    pub fn active(&self) -> Vec<String> {
        self.lock().iter().filter(|(_, life)| **life == Life::Active).map(|(name, _)| name.clone()).collect()
    }

    fn replace(&self, listed: BTreeMap<String, Life>) -> BTreeMap<String, Life> {
        std::mem::replace(&mut *self.lock(), listed)
    }

    fn each_difference(&self, before: &BTreeMap<String, Life>, changed: &impl Fn(&str)) {
        let now = self.lock().clone();
        for name in before.keys().chain(now.keys()) {
            if before.get(name) != now.get(name) {
                changed(name);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Life>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn entry(object: &PartialObjectMeta<Namespace>) -> Option<(String, Life)> {
    let name = object.metadata.name.clone()?;
    let life = if object.metadata.deletion_timestamp.is_some() { Life::Terminating } else { Life::Active };
    Some((name, life))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use futures::stream;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
    use kube::core::PartialObjectMetaExt as _;

    use super::*;

    fn namespace(name: &str, going: bool) -> PartialObjectMeta<Namespace> {
        ObjectMeta {
            name: Some(name.into()),
            deletion_timestamp: going.then_some(Time(k8s_openapi::jiff::Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        }
        .into_response_partial()
    }

    #[tokio::test]
    async fn a_relist_after_a_lost_watch_tells_what_was_missed() {
        let namespaces = Namespaces::default();
        let changes = RefCell::new(Vec::new());
        let events = [
            Event::Init,
            Event::InitApply(namespace("a", false)),
            Event::InitApply(namespace("b", false)),
            Event::InitDone,
            Event::Apply(namespace("a", false)),
            Event::Apply(namespace("a", true)),
            Event::Init,
            Event::InitApply(namespace("b", false)),
            Event::InitApply(namespace("c", false)),
            Event::InitDone,
        ];
        namespaces
            .follow(stream::iter(events.map(Ok)), |name| changes.borrow_mut().push(name.to_owned()))
            .await;
        assert_eq!(*changes.borrow(), ["a", "b", "a", "a", "c"]);
        assert_eq!(namespaces.active(), ["b", "c"]);
        assert!(!namespaces.is_terminating("a"));
    }
}

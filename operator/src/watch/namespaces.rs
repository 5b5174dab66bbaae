//! Which namespaces exist, what they are labelled with and which are going: the operator's own watch, metadata only.
//!
//! It reports changes (a namespace appears or is labelled: those whom it concerns, and whose account has a
//! right there, are reconciled), it says which namespaces a selector selects, where a watch is worth
//! opening, where stale copies are looked for, and whether a resource is deleted with its namespace. What
//! it knows reaches no status by itself: a tenant learns of a namespace only from answers to its own
//! requests.

use std::collections::BTreeMap;

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::task::yield_now;
use tracing::warn;

use crate::log_code;
use crate::scope::OperatorScope;
use weaver_copies::namespace::Traits;

pub struct Namespaces {
    scope: OperatorScope,
    known: Mutex<BTreeMap<String, Traits>>,
    synced: watch::Sender<bool>,
}

/// Whether those who answer for two namespaces let copies out of the one and into the other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Consent {
    Given,
    /// Those of the target's let none in.
    Refused,
    /// Those of the source's let none out to the target's.
    NotOffered,
    /// It is not known, or not yet. Its event is still to come.
    Unknown,
    /// What those of the source's say is not known: it has just been made, or is being deleted.
    SourceUnknown,
    /// It is being deleted. One of the same name that says otherwise may be there already.
    Going,
}

/// A namespace that appeared, changed or vanished: what it was before, and what it is now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NamespaceChange<'a> {
    pub name: &'a str,
    /// `None`, if it was not there.
    pub before: Option<&'a Traits>,
    /// `None`, if it is not there any more.
    pub now: Option<&'a Traits>,
}

impl Default for Namespaces {
    fn default() -> Self {
        Self::of(OperatorScope::Everywhere)
    }
}

impl Namespaces {
    /// Those that are served, and the operator's own.
    pub fn of(scope: OperatorScope) -> Self {
        Self { scope, known: Mutex::default(), synced: watch::Sender::new(false) }
    }

    /// May it have copies, as far as this operator is concerned?
    pub fn serves(&self, name: &str) -> bool {
        self.scope.serves(name)
    }

    /// Follows `events` until they end; `changed` gets each namespace that appeared, changed or vanished;
    /// those of the first list before [`Namespaces::is_synced`]. After that it may look at each resource, so what else is
    /// done in this task has its turn after each change.
    pub async fn follow<S>(&self, events: S, changed: impl Fn(NamespaceChange<'_>))
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
                    let now = std::mem::take(&mut listed);
                    let before = std::mem::replace(&mut *self.lock(), now.clone());
                    let names = before.keys().chain(now.keys().filter(|name| !before.contains_key(*name)));
                    for name in names.filter(|name| before.get(*name) != now.get(*name)) {
                        changed(NamespaceChange { name, before: before.get(name), now: now.get(name) });
                        if self.is_synced() {
                            yield_now().await;
                        }
                    }
                    self.synced.send_replace(true);
                }
                Ok(Event::Apply(object)) => {
                    if let Some((name, now)) = entry(&object) {
                        let before = self.lock().insert(name.clone(), now.clone());
                        if before.as_ref() != Some(&now) {
                            changed(NamespaceChange {
                                name: &name,
                                before: before.as_ref(),
                                now: Some(&now),
                            });
                            yield_now().await;
                        }
                    }
                }
                Ok(Event::Delete(object)) => {
                    if let Some((name, _)) = entry(&object) {
                        let before = self.lock().remove(&name);
                        changed(NamespaceChange { name: &name, before: before.as_ref(), now: None });
                        yield_now().await;
                    }
                }
                Err(error) => {
                    warn!(code = log_code::WATCH_FAILED, %error, "the watch on namespaces failed; it is restarted");
                }
            }
        }
    }

    /// Waits for the first complete list.
    pub async fn synced(&self) {
        // The sender lives in `self`, so this cannot fail.
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Has there been one?
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Is it being deleted?
    pub fn is_terminating(&self, name: &str) -> bool {
        self.lock().get(name).is_some_and(|traits| traits.terminating)
    }

    /// Does it let copies in from resources of the namespace `tenant`, and the namespace `source` copies of
    /// its objects out to it? What a namespace that is not served offers is not known, and then it is the
    /// tenant's right to read there that counts.
    pub fn consent(&self, name: &str, tenant: &str, source: &str) -> Consent {
        let known = self.lock();
        match (known.get(source), known.get(name)) {
            // One of the same name that offers less may be there already.
            (Some(source), _) if source.terminating => Consent::SourceUnknown,
            (Some(source), _) if !source.offers(name) => Consent::NotOffered,
            (_, Some(traits)) if traits.terminating => Consent::Going,
            (_, Some(traits)) if !traits.accepts(tenant) => Consent::Refused,
            (None, _) if self.scope.serves(source) => Consent::SourceUnknown,
            (_, Some(_)) => Consent::Given,
            (_, None) => Consent::Unknown,
        }
    }

    /// The reason for which it is paused, if it is.
    pub fn paused(&self, name: &str) -> Option<String> {
        self.lock().get(name).and_then(|traits| traits.paused.clone())
    }

    /// All that are served, there and staying, and that are `wanted`.
    pub fn active(&self, wanted: impl Fn(&str, &Traits) -> bool) -> Vec<String> {
        let known = self.lock();
        let active = known
            .iter()
            .filter(|(name, traits)| !traits.terminating && self.scope.serves(name) && wanted(name, traits));
        active.map(|(name, _)| name.clone()).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Traits>> {
        self.known.lock()
    }
}

fn entry(object: &PartialObjectMeta<Namespace>) -> Option<(String, Traits)> {
    Some((object.metadata.name.clone()?, Traits::of(&object.metadata)))
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::iter;
    use std::pin::pin;

    use futures::{poll, stream};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
    use kube::core::PartialObjectMetaExt as _;
    use weaver_api::ownership::{ACCEPT_FROM_ANNOTATION, OFFER_TO_ANNOTATION};

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
            .follow(stream::iter(events.map(Ok)), |change| {
                let states = [change.before, change.now].map(|traits| match traits {
                    None => "none",
                    Some(Traits { terminating: true, .. }) => "going",
                    Some(_) => "there",
                });
                changes.borrow_mut().push(format!("{}: {} → {}", change.name, states[0], states[1]));
            })
            .await;
        let expected =
            ["a: none → there", "b: none → there", "a: there → going", "a: going → none", "c: none → there"];
        assert_eq!(*changes.borrow(), expected);
        assert_eq!(namespaces.active(|_, _| true), ["b", "c"]);
        assert!(!namespaces.is_terminating("a"));
    }

    /// The lease is renewed in the same task.
    #[tokio::test]
    async fn between_two_changes_others_have_their_turn() {
        let namespaces = Namespaces::default();
        let names = || (0..50).map(|number| number.to_string());
        let list = |going| {
            let listed = names().map(move |name| Event::InitApply(namespace(&name, going)));
            iter::once(Event::Init).chain(listed).chain([Event::InitDone])
        };
        namespaces.follow(stream::iter(list(false).map(Ok)), |_| ()).await;
        let applied = names().map(|name| Event::Apply(namespace(&name, false)));
        let deleted = names().map(|name| Event::Delete(namespace(&name, false)));
        let events = list(true).chain(applied).chain(deleted);
        let (changes, mut turns) = (Cell::new(0), 0);
        let follow = namespaces.follow(stream::iter(events.map(Ok)), |_| changes.set(changes.get() + 1));
        let mut follow = pin!(follow);
        while poll!(follow.as_mut()).is_pending() {
            turns += 1;
            assert_eq!(changes.get(), turns);
        }
        assert_eq!(turns, 150);
    }

    /// A namespace that was just made, or made again, may refuse copies before its event is here.
    #[tokio::test]
    async fn a_namespace_that_is_not_known_or_goes_has_not_consented() {
        let namespaces = Namespaces::of(OperatorScope::Only(["a".to_owned()].into()));
        let tell = async |events: Vec<Event<PartialObjectMeta<Namespace>>>| {
            namespaces.follow(stream::iter(events.into_iter().map(Ok)), |_| ()).await;
            namespaces.consent("a", "team-a", "source")
        };
        assert_eq!(tell(Vec::new()).await, Consent::Unknown, "before the first list");
        assert_eq!(tell(vec![Event::Init, Event::InitDone]).await, Consent::Unknown);
        assert_eq!(tell(vec![Event::Apply(namespace("a", false))]).await, Consent::Given);
        assert_eq!(tell(vec![Event::Apply(namespace("a", true))]).await, Consent::Going);
        assert_eq!(tell(vec![Event::Delete(namespace("a", true))]).await, Consent::Unknown);
        let mut refuses = namespace("a", false);
        refuses.metadata.annotations =
            Some(BTreeMap::from([(ACCEPT_FROM_ANNOTATION.to_owned(), "none".to_owned())]));
        assert_eq!(tell(vec![Event::Apply(refuses)]).await, Consent::Refused);
    }

    #[tokio::test]
    async fn a_source_whose_namespace_is_not_known_yet_is_not_offered_unless_it_is_not_served() {
        let offering = |names: Option<&str>| {
            let mut namespace = namespace("source", names == Some("goes"));
            let annotation = |names: &str| (OFFER_TO_ANNOTATION.to_owned(), names.to_owned());
            namespace.metadata.annotations = names.map(annotation).map(|one| BTreeMap::from([one]));
            Event::Apply(namespace)
        };
        let served = OperatorScope::Only(["a".to_owned()].into());
        for (scope, source, expected) in [
            (OperatorScope::Everywhere, None, Consent::SourceUnknown),
            (OperatorScope::Everywhere, Some(offering(Some("goes"))), Consent::SourceUnknown),
            (OperatorScope::Everywhere, Some(offering(None)), Consent::Given),
            (OperatorScope::Everywhere, Some(offering(Some("b, a"))), Consent::Given),
            (OperatorScope::Everywhere, Some(offering(Some("b"))), Consent::NotOffered),
            (OperatorScope::Everywhere, Some(offering(Some("none"))), Consent::NotOffered),
            (served, None, Consent::Given),
        ] {
            let namespaces = Namespaces::of(scope);
            let events = [Event::Apply(namespace("a", false))].into_iter().chain(source);
            namespaces.follow(stream::iter(events.map(Ok)), |_| ()).await;
            assert_eq!(namespaces.consent("a", "team-a", "source"), expected);
        }
    }
}

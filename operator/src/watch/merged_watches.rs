//! Merges the watches on several namespaces into one.
//!
//! Guarantees: the first list is emitted when each part has listed its objects or failed for good, so that a
//! consumer that waits for it knows all that can be known: an object that is missing then does not exist or
//! may not be read, and is not just late. An object that a later list of its part lacks is emitted as a
//! deletion.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, Stream, StreamExt as _};
use kube::runtime::watcher::{Error, Event};
use kube::{Resource, ResourceExt as _};

/// Objects by name; those of a part are of one namespace, or namespaces themselves.
type PartObjects<K> = BTreeMap<String, K>;

/// The events of all `parts`. One that fails before it has shown anything delays the first list, unless `is_final`.
pub fn merged<K, S>(
    parts: Vec<S>,
    is_final: fn(&Error) -> bool,
) -> impl Stream<Item = Result<Event<K>, Error>> + Send + use<K, S>
where
    K: Resource + Clone + Send + 'static,
    S: Stream<Item = Result<Event<K>, Error>> + Send + 'static,
{
    let mut merge = MergeState::of(parts.len());
    let numbered = parts.into_iter().enumerate();
    stream::select_all(numbered.map(|(part, events)| events.map(move |event| (part, event)).boxed()))
        .map(move |(part, event)| {
            let reported: Vec<Result<Event<K>, Error>> = match event {
                Ok(event) => merge.take(part, event).into_iter().map(Ok).collect(),
                Err(error) => {
                    let begun = if is_final(&error) { merge.heard(part) } else { Vec::new() };
                    std::iter::once(Err(error)).chain(begun.into_iter().map(Ok)).collect()
                }
            };
            stream::iter(reported)
        })
        .flatten()
}

struct MergeState<K> {
    /// What each part shows.
    known: Vec<PartObjects<K>>,
    /// A part's list that is under way.
    listing: Vec<PartObjects<K>>,
    /// Parts that have said nothing yet.
    silent: BTreeSet<usize>,
    /// The first list was passed on.
    begun: bool,
}

impl<K: Resource + Clone> MergeState<K> {
    fn of(parts: usize) -> Self {
        let none = || (0..parts).map(|_| PartObjects::new()).collect();
        Self { known: none(), listing: none(), silent: (0..parts).collect(), begun: false }
    }

    fn take(&mut self, part: usize, event: Event<K>) -> Vec<Event<K>> {
        match event {
            Event::Init => self.listing[part].clear(),
            Event::InitApply(object) => {
                self.listing[part].insert(object.name_any(), object);
            }
            Event::InitDone => {
                let now = std::mem::take(&mut self.listing[part]);
                let before = std::mem::replace(&mut self.known[part], now);
                if !self.begun {
                    return self.heard(part);
                }
                let now = &self.known[part];
                let gone = before.into_iter().filter(|(name, _)| !now.contains_key(name));
                let gone = gone.map(|(_, object)| Event::Delete(object));
                return gone.chain(now.values().cloned().map(Event::Apply)).collect();
            }
            Event::Apply(object) => {
                self.known[part].insert(object.name_any(), object.clone());
                return self.once_begun(Event::Apply(object));
            }
            Event::Delete(object) => {
                self.known[part].remove(&object.name_any());
                return self.once_begun(Event::Delete(object));
            }
        }
        Vec::new()
    }

    /// A part has had its say; the first list, if nothing else is waited for.
    fn heard(&mut self, part: usize) -> Vec<Event<K>> {
        self.silent.remove(&part);
        if self.begun || !self.silent.is_empty() {
            return Vec::new();
        }
        self.begun = true;
        let all = self.known.iter().flat_map(|part| part.values().cloned());
        std::iter::once(Event::Init).chain(all.map(Event::InitApply)).chain([Event::InitDone]).collect()
    }

    /// Before the first list was passed on, an event is part of it.
    fn once_begun(&self, event: Event<K>) -> Vec<Event<K>> {
        if self.begun { vec![event] } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::core::Status;
    use weaver_tenant::watch::is_refused;

    use super::*;

    fn map(name: &str) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.into());
        map
    }

    fn words(events: Vec<Event<ConfigMap>>) -> Vec<String> {
        let word = |event: Event<ConfigMap>| match event {
            Event::Init => "init".to_owned(),
            Event::InitApply(object) => format!("init {}", object.name_any()),
            Event::InitDone => "done".to_owned(),
            Event::Apply(object) => format!("+{}", object.name_any()),
            Event::Delete(object) => format!("-{}", object.name_any()),
        };
        events.into_iter().map(word).collect()
    }

    #[test]
    fn the_first_list_is_reported_when_each_part_has_had_its_say() {
        let mut merge = MergeState::of(3);
        let mut reported = |part, event| words(merge.take(part, event));
        for (part, event) in [
            (0, Event::Init),
            (1, Event::Init),
            (0, Event::InitApply(map("a"))),
            (1, Event::InitApply(map("b"))),
            (0, Event::InitApply(map("c"))),
            (0, Event::InitDone),
            // Of a part whose list is complete, while another's is not.
            (0, Event::Apply(map("d"))),
            (0, Event::Delete(map("c"))),
            (1, Event::InitDone),
        ] {
            assert!(reported(part, event).is_empty());
        }
        // The last one is refused.
        assert_eq!(words(merge.heard(2)), ["init", "init a", "init d", "init b", "done"]);
        assert!(merge.heard(2).is_empty());
        // It works at last, and shows what it has.
        let mut reported = |part, event| words(merge.take(part, event));
        assert!(reported(2, Event::Init).is_empty() && reported(2, Event::InitApply(map("e"))).is_empty());
        assert_eq!(reported(2, Event::InitDone), ["+e"]);
        assert_eq!(reported(1, Event::Apply(map("f"))), ["+f"]);
        assert_eq!(reported(0, Event::Delete(map("a"))), ["-a"]);
    }

    #[test]
    fn what_is_gone_when_a_part_shows_all_again_is_deleted_and_nothing_else_is() {
        let mut merge = MergeState::of(2);
        for (part, event) in [
            (0, Event::InitApply(map("a"))),
            (0, Event::InitApply(map("b"))),
            (0, Event::InitDone),
            (1, Event::InitApply(map("a"))),
            (1, Event::InitDone),
            (0, Event::Init),
            (0, Event::InitApply(map("b"))),
        ] {
            merge.take(part, event);
        }
        assert_eq!(words(merge.take(0, Event::InitDone)), ["-a", "+b"]);
        assert_eq!(merge.known[1].len(), 1);
    }

    /// What two parts tell, the second of which fails first and then shows an object; and how often it failed.
    async fn reported(code: u16, reason: &str, is_final: fn(&Error) -> bool) -> (Vec<String>, usize) {
        let failure = || Error::WatchError(Status::failure("no", reason).with_code(code).boxed());
        let shows = |name| vec![Ok(Event::Init), Ok(Event::InitApply(map(name))), Ok(Event::InitDone)];
        let fails = [Err(failure()), Err(failure())];
        let second = fails.into_iter().chain(shows("b")).collect::<Vec<_>>();
        // One after the other: what the first shows is known when the second fails.
        let parts = vec![stream::iter(shows("a")).boxed(), stream::iter(second).boxed()];
        let reported: Vec<_> = merged(parts, is_final).collect().await;
        let (events, errors): (Vec<_>, Vec<_>) = reported.into_iter().partition(Result::is_ok);
        (words(events.into_iter().flatten().collect()), errors.len())
    }

    #[tokio::test]
    async fn a_part_that_is_refused_says_so_and_holds_up_no_other() {
        let (events, errors) = reported(403, "Forbidden", is_refused).await;
        assert_eq!((events, errors), (["init", "init a", "done", "+b"].map(str::to_owned).to_vec(), 2));
    }

    /// A list without it would say that what it has is gone.
    #[tokio::test]
    async fn a_part_that_fails_for_a_moment_is_waited_for() {
        for (code, reason, is_final) in
            [(500, "InternalError", is_refused as fn(&Error) -> bool), (403, "Forbidden", |_| false)]
        {
            let (events, errors) = reported(code, reason, is_final).await;
            assert_eq!(
                (events, errors),
                (["init", "init a", "init b", "done"].map(str::to_owned).to_vec(), 2)
            );
        }
    }
}

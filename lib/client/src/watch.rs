//! Changes of objects as they happen, each once, whatever happens to the connection.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::ready;

use futures::{Stream, StreamExt as _, stream};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watching};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::objects::Objects;

/// What happened to an object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Change<K> {
    /// It is new, or was there when the watch began.
    Added(K),
    /// It has another `resourceVersion` than the last time.
    Modified(K),
    /// It is gone; this is its last known state.
    Deleted(K),
}

impl<K> Change<K> {
    /// The object as it is now; of a deletion, its last known state.
    pub const fn object(&self) -> &K {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => object,
        }
    }

    /// The object as it is now; of a deletion, its last known state.
    pub fn into_object(self) -> K {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => object,
        }
    }
}

/// Turns the events of [`kube::runtime::watcher()`] into changes. Pure.
///
/// kube starts with a new list after a `410 Gone`: each object appears again, and what was deleted in between does not
/// appear. Here a list that repeats an object is no change, and an object that it lacks was deleted; one with
/// another uid was deleted and added. For that the last state of each object stays in memory.
#[derive(Debug)]
pub struct Changes<K> {
    objects: BTreeMap<Key, K>,
    /// A list that is being read.
    listed: Option<BTreeMap<Key, K>>,
}

type Key = (Option<String>, String);

impl<K> Default for Changes<K> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), listed: None }
    }
}

impl<K: Resource + Clone> Changes<K> {
    /// The changes that an event is: deletions first, else by namespace and name.
    /// `None` for the parts of a list that is not complete yet; the end of a list is always a batch, if an empty one.
    pub fn take(&mut self, event: Event<K>) -> Option<Vec<Change<K>>> {
        match event {
            Event::Init => {
                self.listed = Some(BTreeMap::new());
                None
            }
            Event::InitApply(object) => {
                self.listed.get_or_insert_default().insert(key(&object), object);
                None
            }
            Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                let gone = self.objects.extract_if(.., |key, _| !listed.contains_key(key));
                let mut changes: Vec<_> = gone.map(|(_, object)| Change::Deleted(object)).collect();
                for (key, object) in listed {
                    self.apply(key, object, &mut changes);
                }
                Some(changes)
            }
            Event::Apply(object) => {
                let mut changes = Vec::new();
                self.apply(key(&object), object, &mut changes);
                (!changes.is_empty()).then_some(changes)
            }
            Event::Delete(object) => {
                self.objects.remove(&key(&object));
                Some(vec![Change::Deleted(object)])
            }
        }
    }

    fn apply(&mut self, key: Key, object: K, changes: &mut Vec<Change<K>>) {
        match self.objects.insert(key, object.clone()) {
            None => changes.push(Change::Added(object)),
            Some(before) if before.uid() != object.uid() => {
                changes.extend([Change::Deleted(before), Change::Added(object)]);
            }
            Some(before) if before.resource_version() == object.resource_version() => {}
            Some(_) => changes.push(Change::Modified(object)),
        }
    }
}

fn key(object: &impl Resource) -> Key {
    (object.namespace(), object.name_any())
}

impl<K: Resource + Clone + DeserializeOwned + Debug + Send + 'static> Objects<K> {
    /// The changes of all objects that the configuration selects, for as long as the stream is read.
    ///
    /// The first batch is what is there when the watch begins, possibly nothing; each later one is what has
    /// changed since, in order. An error is not the end: after it all is listed again, at growing intervals, and the
    /// batch of that list, possibly empty, says that the watch works again. No change is lost by that but those that
    /// cancel out, and none is repeated.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt as _;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use weaver_client::{Change, Objects};
    /// # async fn run(maps: Objects<ConfigMap>) -> Result<(), kube::runtime::watcher::Error> {
    /// let mut changes = std::pin::pin!(maps.watch(kube::runtime::watcher::Config::default().labels("tier=dev")));
    /// while let Some(batch) = changes.try_next().await? {
    ///     for change in batch {
    ///         if let Change::Deleted(map) = change {
    ///             println!("{:?} is gone", map.metadata.name);
    ///         }
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn watch(
        &self,
        config: watcher::Config,
    ) -> impl Stream<Item = watcher::Result<Vec<Change<K>>>> + Send + use<K> {
        let api = self.api().clone();
        let begin = move || watching(api.clone(), config.clone()).boxed();
        // kube would resume the watch without a word of it; and where the answer to the request itself is a 410, as of
        // some aggregated API servers, send the same request again and again (kube-rs/kube#1042).
        let events = stream::unfold((begin, None), |(begin, running)| async move {
            let mut running = running.unwrap_or_else(&begin);
            let event = running.next().await?;
            let running = event.is_ok().then_some(running);
            Some((event, (begin, running)))
        });
        let batches = events.default_backoff().scan(Changes::default(), |changes, event| {
            ready(Some(event.map(|event| changes.take(event)).transpose()))
        });
        batches.filter_map(ready)
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{DynamicObject, ObjectMeta};

    use super::*;

    fn object(name: &str, uid: &str, version: u32) -> DynamicObject {
        let metadata = ObjectMeta {
            namespace: Some("team-a".into()),
            name: Some(name.into()),
            uid: Some(uid.into()),
            resource_version: Some(version.to_string()),
            ..ObjectMeta::default()
        };
        DynamicObject { types: None, metadata, data: serde_json::Value::Null }
    }

    fn take(changes: &mut Changes<DynamicObject>, events: Vec<Event<DynamicObject>>) -> Vec<String> {
        let batches = events.into_iter().filter_map(|event| changes.take(event));
        let reported = batches.flatten().map(|change| match &change {
            Change::Added(object) => format!("added {}", object.name_any()),
            Change::Modified(object) => format!("modified {}", object.name_any()),
            Change::Deleted(object) => format!("deleted {}", object.name_any()),
        });
        reported.collect()
    }

    fn listed(objects: Vec<DynamicObject>) -> Vec<Event<DynamicObject>> {
        let each = objects.into_iter().map(Event::InitApply);
        [Event::Init].into_iter().chain(each).chain([Event::InitDone]).collect()
    }

    #[test]
    fn changes_are_reported_as_they_come() {
        let mut changes = Changes::default();
        assert_eq!(take(&mut changes, listed(vec![object("a", "u1", 1)])), ["added a"]);
        let events = vec![
            Event::Apply(object("a", "u1", 2)),
            Event::Apply(object("a", "u1", 2)),
            Event::Apply(object("b", "u2", 3)),
            Event::Delete(object("a", "u1", 4)),
        ];
        assert_eq!(take(&mut changes, events), ["modified a", "added b", "deleted a"]);
    }

    #[test]
    fn after_a_new_list_only_what_changed_in_between_is_reported_deletions_included() {
        let mut changes = Changes::default();
        take(&mut changes, listed(vec![object("a", "u1", 1), object("b", "u2", 2), object("c", "u3", 3)]));
        let again = listed(vec![object("b", "u2", 2), object("c", "u9", 7), object("d", "u4", 8)]);
        assert_eq!(take(&mut changes, again), ["deleted a", "deleted c", "added c", "added d"]);
    }

    #[test]
    fn the_end_of_a_list_is_a_batch_even_if_nothing_changed() {
        let mut changes = Changes::<DynamicObject>::default();
        assert_eq!(changes.take(Event::Init), None);
        assert_eq!(changes.take(Event::InitDone), Some(Vec::new()));
    }

    #[test]
    fn a_list_that_is_cut_off_tells_nothing() {
        let mut changes = Changes::default();
        take(&mut changes, listed(vec![object("a", "u1", 1)]));
        assert_eq!(
            take(&mut changes, vec![Event::Init, Event::InitApply(object("b", "u2", 2))]),
            Vec::<String>::new()
        );
        assert_eq!(take(&mut changes, listed(vec![object("a", "u1", 1)])), Vec::<String>::new());
    }
}

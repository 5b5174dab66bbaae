//! The objects of one kind as a watch has shown them.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt as _};

/// Namespace and name; a kind without namespaces has an empty one.
pub type NamespacedName = (String, String);
pub type ObjectsByName<T> = BTreeMap<NamespacedName, Arc<T>>;

#[derive(Debug)]
pub struct KindSnapshot<T> {
    /// `None` until the first list is complete.
    pub objects: Option<ObjectsByName<T>>,
    /// Why it may be old, or not known.
    pub error: Option<String>,
    /// A list that is being read.
    listed: ObjectsByName<T>,
}

impl<T> Default for KindSnapshot<T> {
    fn default() -> Self {
        Self { objects: None, error: None, listed: ObjectsByName::new() }
    }
}

impl<T> KindSnapshot<T> {
    /// Applies an event of a watch; of its objects only the result of `view` is kept. Is there anything new to show?
    pub fn take<K: Resource>(&mut self, event: Event<K>, view: impl Fn(&K) -> T) -> bool {
        match event {
            Event::Init => {
                self.listed = ObjectsByName::new();
                return false;
            }
            Event::InitApply(object) => {
                self.listed.insert(key(&object), Arc::new(view(&object)));
                return false;
            }
            Event::InitDone => self.objects = Some(std::mem::take(&mut self.listed)),
            Event::Apply(object) => {
                self.objects.get_or_insert_default().insert(key(&object), Arc::new(view(&object)));
            }
            Event::Delete(object) => {
                self.objects.get_or_insert_default().remove(&key(&object));
            }
        }
        self.error = None;
        true
    }

    /// Records that the watch failed. Is that new?
    pub fn fail(&mut self, why: String) -> bool {
        let is_new = self.error.as_ref() != Some(&why);
        self.error = Some(why);
        is_new
    }

    /// The same, if they are known.
    pub fn known(&self) -> Option<Vec<Arc<T>>> {
        self.objects.as_ref().map(|objects| objects.values().cloned().collect())
    }

    /// All of them, in order of their names.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.objects.iter().flat_map(BTreeMap::values).cloned().collect()
    }

    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.objects.as_ref()?.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }
}

fn key(object: &impl Resource) -> NamespacedName {
    (object.namespace().unwrap_or_default(), object.name_any())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt;
    use kube::core::ObjectMeta;

    use super::*;

    fn object(name: &str) -> ConfigMap {
        let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    fn names(snapshot: &KindSnapshot<String>) -> Vec<String> {
        snapshot.all().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_new_list_replaces_what_was_there_and_shows_when_it_is_complete() {
        let mut snapshot = KindSnapshot::<String>::default();
        let mut take = |event: Event<ConfigMap>| {
            let is_new = snapshot.take(event, ResourceExt::name_any);
            (is_new, snapshot.objects.is_some(), names(&snapshot))
        };
        let all = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(take(Event::Init), (false, false, vec![]));
        assert_eq!(take(Event::InitApply(object("b"))), (false, false, vec![]));
        assert_eq!(take(Event::InitDone), (true, true, all(&["b"])));
        assert_eq!(take(Event::Apply(object("a"))), (true, true, all(&["a", "b"])));
        assert_eq!(take(Event::Delete(object("b"))), (true, true, all(&["a"])));
        assert_eq!(take(Event::Init), (false, true, all(&["a"])));
        assert_eq!(take(Event::InitApply(object("c"))), (false, true, all(&["a"])));
        assert_eq!(take(Event::InitDone), (true, true, all(&["c"])));
    }

    #[test]
    fn a_failure_hides_nothing_and_is_over_with_the_next_event() {
        let mut snapshot = KindSnapshot::<String>::default();
        snapshot.take(Event::Apply(object("a")), ResourceExt::name_any);
        assert!(snapshot.fail("no".into()) && !snapshot.fail("no".into()));
        assert_eq!((names(&snapshot), snapshot.error.as_deref()), (vec!["a".to_owned()], Some("no")));
        snapshot.take(Event::Apply(object("a")), ResourceExt::name_any);
        assert_eq!(snapshot.error, None);
        assert!(snapshot.get("", "a").is_some() && snapshot.get("a", "").is_none());
    }
}

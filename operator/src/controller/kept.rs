//! What the watches on our own kinds keep of each resource. Pure, but for the bytes that all of them may take.
//!
//! Who writes a resource decides how large it is, up to the megabyte and a half that the API server stores. What others
//! wrote into its metadata is left out. And all long resources together have a bound: of one that does not fit only the
//! name is kept. It is read again for each reconcile ([`super::frame`]) and is otherwise like any other, but a change
//! of a namespace does not have it reconciled: its next reconcile finds that. And the metrics leave out its targets
//! and tokens.

use std::collections::HashMap;
use std::mem;
use std::sync::LazyLock;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DeserializeGuard;
use kube::core::error_boundary::InvalidObject;
use kube::core::object::HasStatus;
use kube::runtime::watcher::Event;
use kube::{Resource, ResourceExt as _};
use serde::Serialize;
use weaver_api::convert;
use weaver_api::ownership::{
    LONGEST_MARK, PAUSED_ANNOTATION, SYNC_NOW_ANNOTATION, UPSTREAM_SOURCE_ANNOTATION,
};
use weaver_api::schema::is_reserved;
use weaver_tenant::budget::{MemoryBudget, MemoryPermit};

use super::kind::{Guarded, Reconcile};
use super::report::{self, ReportedStatus};
use super::state::States;

/// Bytes of all resources that are longer than [`ORDINARY`], or twice as much where many namespaces have some
/// ([`MemoryBudget`]): 60 with the longest specs. deploy/kubernetes gives the operator 128 MiB.
const MOST: usize = 24 << 20;
/// Up to so many bytes a resource is kept whole. How many of these there are is for a `ResourceQuota` to say; who has
/// thousands gives the operator the memory for them.
const ORDINARY: usize = 8 << 10;
/// Bytes of one, besides its texts.
const EACH: usize = 1_024;
/// Bytes of a text, besides its characters.
const EACH_TEXT: usize = 32;

static BUDGET: LazyLock<MemoryBudget> = LazyLock::new(|| MemoryBudget::new(MOST));

/// What is said in place of a resource of which only the name is kept.
const BY_NAME: &str = "only its name is kept";

/// Annotations of our own kinds of which no more than the beginning is of interest.
const MARKS: [&str; 3] = [PAUSED_ANNOTATION, SYNC_NOW_ANNOTATION, UPSTREAM_SOURCE_ANNOTATION];

/// Is this label or annotation of a sync read?
pub fn is_read_of_sync(key: &str) -> bool {
    MARKS.contains(&key) || key == convert::ANNOTATION
}

/// Of a `ServiceToken`: the same, and what its Secret gets.
pub fn is_read_of_token(key: &str) -> bool {
    is_read_of_sync(key) || !is_reserved(key)
}

/// Takes out what fills memory and is never read here: what other tools and people wrote.
pub fn keep_what_is_read(meta: &mut ObjectMeta, is_read: fn(&str) -> bool) {
    for map in [&mut meta.labels, &mut meta.annotations].into_iter().flatten() {
        map.retain(|key, _| is_read(key));
    }
    for (_, value) in meta.annotations.iter_mut().flatten().filter(|(key, _)| MARKS.contains(&key.as_str())) {
        value.truncate(value.floor_char_boundary(LONGEST_MARK));
        value.shrink_to_fit();
    }
}

/// The memory of the resources that one watch shows, by uid.
pub struct KeptResources {
    budget: MemoryBudget,
    kept: HashMap<String, MemoryPermit>,
    /// Of a list that is under way.
    listed: HashMap<String, MemoryPermit>,
}

impl Default for KeptResources {
    fn default() -> Self {
        Self::of(BUDGET.clone())
    }
}

impl KeptResources {
    fn of(budget: MemoryBudget) -> Self {
        Self { budget, kept: HashMap::new(), listed: HashMap::new() }
    }

    /// The event, with what is kept of its resource.
    pub fn keep<K: Resource + Serialize>(&mut self, event: Event<Guarded<K>>) -> Event<Guarded<K>> {
        match event {
            Event::Init => {
                self.listed.clear();
                Event::Init
            }
            Event::InitApply(resource) => {
                let (resource, permit) = self.fit(resource);
                self.listed.extend(permit);
                Event::InitApply(resource)
            }
            Event::InitDone => {
                self.kept = mem::take(&mut self.listed);
                Event::InitDone
            }
            Event::Apply(resource) => {
                let (resource, permit) = self.fit(resource);
                self.kept.extend(permit);
                Event::Apply(resource)
            }
            Event::Delete(resource) => {
                self.kept.remove(&resource.uid().unwrap_or_default());
                Event::Delete(resource)
            }
        }
    }

    /// The resource with its memory, in place of what it had; or its name.
    fn fit<K: Resource + Serialize>(
        &mut self,
        resource: Guarded<K>,
    ) -> (Guarded<K>, Option<(String, MemoryPermit)>) {
        let uid = resource.uid().unwrap_or_default();
        self.kept.remove(&uid);
        self.listed.remove(&uid);
        let bytes = bytes(&resource);
        if bytes <= ORDINARY {
            return (resource, None);
        }
        let share = self.budget.share(&resource.namespace().unwrap_or_default());
        match share.take(bytes) {
            Some(permit) => (resource, Some((uid, permit))),
            None => (by_name(&resource), None),
        }
    }
}

/// About what it takes of memory.
fn bytes<K: Resource + Serialize>(resource: &Guarded<K>) -> usize {
    let json = match &resource.0 {
        Ok(resource) => serde_json::to_vec(resource),
        Err(odd) => serde_json::to_vec(&odd.metadata),
    };
    let json = json.unwrap_or_default();
    let texts = json.split(|byte| *byte == b'"').count() / 2;
    EACH + json.len() + texts * EACH_TEXT
}

/// The name of the resource, its state, and whether it is paused.
pub fn by_name<K: Resource>(resource: &Guarded<K>) -> Guarded<K> {
    let meta = resource.meta().clone();
    let mut annotations = meta.annotations.unwrap_or_default();
    annotations.retain(|key, _| MARKS.contains(&key.as_str()));
    let metadata = ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        generation: meta.generation,
        deletion_timestamp: meta.deletion_timestamp,
        annotations: Some(annotations),
        ..ObjectMeta::default()
    };
    DeserializeGuard(Err(InvalidObject { error: BY_NAME.to_owned(), metadata }))
}

/// Is this all of the resource, and not only its name?
pub fn is_whole<K>(resource: &Guarded<K>) -> bool {
    !resource.0.as_ref().is_err_and(|odd| odd.error == BY_NAME)
}

/// Which of [`crate::metrics::READY`] it is: by its status, or by what was last reported where only its name is kept.
pub fn readiness<K: Reconcile>(resource: &Guarded<K>, states: &States<K::Memory>) -> &'static str {
    let uid = resource.uid().unwrap_or_default();
    let reported = if is_whole(resource) { None } else { states.readiness(&uid) };
    reported.unwrap_or_else(|| {
        let known = resource.0.as_ref().ok().and_then(HasStatus::status);
        report::readiness(known.map(ReportedStatus::conditions).unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use weaver_api::v1beta1::ConfigMapSync;

    use super::*;

    #[test]
    fn of_our_own_kinds_what_nothing_reads_is_not_kept() {
        let keys = [
            "weaver.example.com/paused",
            "kubectl.kubernetes.io/last-applied-configuration",
            "note",
            "weaver.example.com/anything-else",
        ];
        for (is_read, kept) in
            [(is_read_of_sync as fn(&str) -> bool, vec![keys[0]]), (is_read_of_token, vec![keys[2], keys[0]])]
        {
            let map = || Some(keys.map(|key| (key.to_owned(), "x".repeat(100_000))).into());
            let mut meta = ObjectMeta { labels: map(), annotations: map(), ..ObjectMeta::default() };
            keep_what_is_read(&mut meta, is_read);
            assert_eq!(meta.annotations.as_ref().unwrap()[PAUSED_ANNOTATION].len(), LONGEST_MARK);
            assert_eq!(meta.annotations.unwrap().into_keys().collect::<Vec<_>>(), kept);
            assert_eq!(meta.labels.unwrap().into_keys().collect::<Vec<_>>(), kept);
        }
    }

    fn sync(name: &str, bytes: usize) -> Guarded<ConfigMapSync> {
        let annotations = json!({"weaver.example.com/paused": "x", "other": "x".repeat(bytes)});
        let metadata = json!({"namespace": "team-a", "name": name, "uid": name, "annotations": annotations});
        let (version, kind) = ("weaver.example.com/v1beta1", "ConfigMapSync");
        serde_json::from_value(json!({"apiVersion": version, "kind": kind, "metadata": metadata})).unwrap()
    }

    #[test]
    fn of_resources_beyond_the_bound_the_name_is_kept_until_others_are_gone() {
        let mut kept = KeptResources::of(MemoryBudget::new(100_000));
        let mut is_kept = |event: Event<Guarded<ConfigMapSync>>| match kept.keep(event) {
            Event::Apply(resource) | Event::InitApply(resource) => is_whole(&resource),
            Event::Init | Event::InitDone | Event::Delete(_) => true,
        };
        assert!(is_kept(Event::Apply(sync("a", 60_000))));
        assert!(is_kept(Event::Apply(sync("a", 70_000))), "in place of what it was");
        assert!(!is_kept(Event::Apply(sync("b", 60_000))));
        assert!((0..100).all(|name| is_kept(Event::Apply(sync(&name.to_string(), 1_000)))), "ordinary ones");
        is_kept(Event::Delete(sync("a", 0)));
        assert!(is_kept(Event::Apply(sync("b", 60_000))));
        is_kept(Event::Init);
        assert!(is_kept(Event::InitApply(sync("b", 70_000))), "listed again");
        is_kept(Event::InitDone);
        assert!(!is_kept(Event::Apply(sync("c", 60_000))));
        is_kept(Event::Init);
        is_kept(Event::InitDone);
        assert!(is_kept(Event::Apply(sync("c", 60_000))), "the list shows that the others are gone");
    }

    #[test]
    fn short_texts_count_as_what_they_take() {
        let many = |count: usize| {
            let mut sync = sync("a", 0);
            let spec = json!({"targets": {"namespaces": vec!["a"; count]}});
            sync.0.as_mut().unwrap().spec.spec = serde_json::from_value(spec).unwrap();
            bytes(&sync)
        };
        // A text has three words, and its one character as much as is allocated at least.
        assert!(many(1_000) - many(0) > 1_000 * 24, "{} {}", many(1_000), many(0));
    }

    #[test]
    fn by_its_name_a_resource_is_small_and_known_to_be_paused() {
        let named = by_name(&sync("a", 250_000));
        assert!(!is_whole(&named) && bytes(&named) < 2_000, "{}", bytes(&named));
        assert_eq!((named.namespace(), named.uid()), (Some("team-a".into()), Some("a".into())));
        let annotations = named.meta().annotations.clone().unwrap();
        assert_eq!(annotations.into_keys().collect::<Vec<_>>(), ["weaver.example.com/paused"]);
    }
}

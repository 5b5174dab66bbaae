//! Resources that something has happened to.
//!
//! A set, not a queue: a thousand events on one resource are one visit, so a burst cannot fill memory and
//! nothing is ever dropped.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures::{Stream, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::ObjectRef;
use tokio::sync::Notify;
use weaver_api::v1beta1::ConfigMapSync;

/// A resource as our watches take it: one that does not parse is an error of its own and not of the watch.
pub type Guarded = DeserializeGuard<ConfigMapSync>;

/// A resource of ours, named.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ResourceRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ResourceRef {
    /// The reference to `resource`.
    #[must_use]
    pub fn of(resource: &impl Resource) -> Self {
        Self::of_meta(resource.meta())
    }

    /// The reference to the resource with this metadata.
    #[must_use]
    pub fn of_meta(meta: &ObjectMeta) -> Self {
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        Self { namespace: part(&meta.namespace), name: part(&meta.name) }
    }
}

impl fmt::Display for ResourceRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The set of resources of one kind that are due a visit.
#[derive(Clone, Default)]
pub struct Triggers(Arc<Inner>);

#[derive(Default)]
struct Inner {
    due: Mutex<BTreeSet<ResourceRef>>,
    added: Notify,
}

impl Triggers {
    /// Marks `resource` as due.
    pub fn fire(&self, resource: ResourceRef) {
        self.0.due.lock().unwrap_or_else(PoisonError::into_inner).insert(resource);
        self.0.added.notify_one();
    }

    /// Yields what is due, for ever, in the form that kube's `Controller` takes.
    pub fn stream<K>(&self) -> impl Stream<Item = ObjectRef<K>> + Send + 'static
    where
        K: Resource<DynamicType = ()>,
    {
        stream::unfold(self.0.clone(), |inner| async move {
            loop {
                let next = inner.due.lock().unwrap_or_else(PoisonError::into_inner).pop_first();
                if let Some(due) = next {
                    return Some((ObjectRef::new(&due.name).within(&due.namespace), inner));
                }
                inner.added.notified().await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, StreamExt as _};

    use super::*;

    #[tokio::test]
    async fn a_burst_on_one_resource_is_one_visit() {
        let triggers = Triggers::default();
        let mut due = std::pin::pin!(triggers.stream::<Guarded>());
        for _ in 0..1_000 {
            triggers.fire(ResourceRef { namespace: "a".into(), name: "b".into() });
        }
        assert_eq!(due.next().await.map(|sync| sync.name), Some("b".into()));
        assert!(due.next().now_or_never().is_none());
        triggers.fire(ResourceRef { namespace: "a".into(), name: "c".into() });
        assert_eq!(due.next().await.map(|sync| sync.name), Some("c".into()));
    }
}

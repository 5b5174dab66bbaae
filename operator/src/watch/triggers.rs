//! Resources that something has happened to.
//!
//! A set, not a queue: a thousand events on one resource are one visit, so a burst cannot fill memory and
//! nothing is ever dropped.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use futures::{Stream, stream};
use kube::core::DeserializeGuard;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt as _};
use tokio::sync::Notify;
use weaver_api::v1beta1::ConfigMapSync;

/// A resource as our watches take it: one that does not parse is an error of its own and not of the watch.
pub type Guarded = DeserializeGuard<ConfigMapSync>;

/// A `ConfigMapSync`, named.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SyncRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl SyncRef {
    /// The reference to `sync`.
    #[must_use]
    pub fn of(sync: &impl Resource) -> Self {
        Self { namespace: sync.namespace().unwrap_or_default(), name: sync.name_any() }
    }
}

impl fmt::Display for SyncRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The set of resources that are due a visit.
#[derive(Clone, Default)]
pub struct Triggers(Arc<Inner>);

#[derive(Default)]
struct Inner {
    due: Mutex<BTreeSet<SyncRef>>,
    added: Notify,
}

impl Triggers {
    /// Marks `sync` as due.
    pub fn fire(&self, sync: SyncRef) {
        self.0.due.lock().unwrap_or_else(PoisonError::into_inner).insert(sync);
        self.0.added.notify_one();
    }

    /// Yields what is due, for ever, in the form that kube's `Controller` takes.
    pub fn stream(&self) -> impl Stream<Item = ObjectRef<Guarded>> + Send + 'static {
        stream::unfold(self.0.clone(), |inner| async move {
            loop {
                let next = inner.due.lock().unwrap_or_else(PoisonError::into_inner).pop_first();
                if let Some(sync) = next {
                    return Some((ObjectRef::new(&sync.name).within(&sync.namespace), inner));
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
        let mut due = std::pin::pin!(triggers.stream());
        for _ in 0..1_000 {
            triggers.fire(SyncRef { namespace: "a".into(), name: "b".into() });
        }
        assert_eq!(due.next().await.map(|sync| sync.name), Some("b".into()));
        assert!(due.next().now_or_never().is_none());
        triggers.fire(SyncRef { namespace: "a".into(), name: "c".into() });
        assert_eq!(due.next().await.map(|sync| sync.name), Some("c".into()));
    }
}

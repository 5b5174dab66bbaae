//! [`Triggers`]: the objects that are due to be reconciled.
//!
//! A set, not a queue: a thousand events on one object are one reconciliation, so a burst cannot fill memory
//! and nothing is ever dropped.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{Stream, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The set of what is due to be reconciled; a clone is the same one.
pub struct Triggers<U>(Arc<Inner<U>>);

struct Inner<U> {
    due: Mutex<BTreeSet<U>>,
    added: Notify,
}

impl<U> Clone for Triggers<U> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<U> Default for Triggers<U> {
    fn default() -> Self {
        Self(Arc::new(Inner { due: Mutex::new(BTreeSet::new()), added: Notify::new() }))
    }
}

impl<U: Ord> Triggers<U> {
    /// Marks `user` as due.
    pub fn fire(&self, user: U) {
        self.0.due.lock().insert(user);
        self.0.added.notify_one();
    }

    /// Yields what is due, forever. Of several streams each gets a part.
    pub fn stream(&self) -> impl Stream<Item = U> + Send + use<U>
    where
        U: Send + 'static,
    {
        stream::unfold(self.0.clone(), |inner| async move {
            loop {
                let next = inner.due.lock().pop_first();
                if let Some(due) = next {
                    return Some((due, inner));
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
    async fn a_burst_on_one_object_is_one_reconciliation() {
        let triggers = Triggers::default();
        let mut due = std::pin::pin!(triggers.stream());
        for _ in 0..1_000 {
            triggers.fire("b");
        }
        assert_eq!(due.next().await, Some("b"));
        assert!(due.next().now_or_never().is_none());
        triggers.fire("c");
        assert_eq!(due.next().await, Some("c"));
    }
}

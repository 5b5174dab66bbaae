//! Waiting for an object, with a deadline and a reason.
//!
//! By reading it again and again: that takes the right to `get` this one object and no watch, it sees each state that
//! lasts, and at the deadline it knows what was missing. [`kube::runtime::wait`] watches, has no deadline and
//! no reason.

use std::fmt::Debug;
use std::time::Duration;

use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};

use crate::error::{Error, Why};
use crate::objects::Objects;

/// How often an object is read.
const INTERVAL: Duration = Duration::from_millis(200);

/// How far an object is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum WaitProgress {
    /// As it was waited for.
    Reached,
    /// Not there yet, and what is missing.
    NotYet(String),
    /// It will never get there, and why: waiting ends.
    Never(String),
}

impl<K: Resource + Clone + DeserializeOwned + Debug> Objects<K> {
    /// Reads an object until `judge` is content; returns what it was content with, where `None` is an object
    /// that does not exist: whether that is not *yet*, or *no more*, is for `judge` to say. It is called with
    /// each answer, so it may also report progress.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// # use weaver_client::{Error, Objects, conditions};
    /// async fn available(deployments: &Objects<Deployment>) -> Result<(), Error> {
    ///     let is_available = |found: Option<&Deployment>| conditions::is_true(found, "Available");
    ///     deployments.wait("web", Duration::from_secs(60), is_available).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Why::TimedOut`] with the last reason after `limit`; [`Why::Never`] as soon as `judge` says so; and
    /// what the API server refuses for good. An API server that does not answer is asked again until `limit`.
    pub async fn wait(
        &self,
        name: &str,
        limit: Duration,
        mut judge: impl FnMut(Option<&K>) -> WaitProgress,
    ) -> Result<Option<K>, Error> {
        // One that no clock reaches is none.
        let deadline = Instant::now().checked_add(limit);
        loop {
            let reason = match self.get(name).await {
                Ok(found) => match judge(found.as_ref()) {
                    WaitProgress::Reached => return Ok(found),
                    WaitProgress::NotYet(reason) => reason,
                    WaitProgress::Never(reason) => {
                        return Err(self.error("waiting for", name, Why::Never(reason)));
                    }
                },
                Err(error) if error.is_transient() => error.to_string(),
                Err(error) => return Err(error),
            };
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(self.error("waiting for", name, Why::TimedOut { limit, reason }));
            }
            sleep(INTERVAL).await;
        }
    }

    /// Waits until the very object that was seen (by uid) is gone. At the deadline the error says which
    /// finalizers keep it.
    ///
    /// # Errors
    /// As [`Self::wait`].
    pub async fn gone(&self, seen: &K, limit: Duration) -> Result<(), Error> {
        let uid = seen.uid();
        let judge = |found: Option<&K>| match found {
            Some(object) if object.uid() == uid => WaitProgress::NotYet(held_by(object)),
            _ => WaitProgress::Reached,
        };
        self.wait(&seen.name_any(), limit, judge).await.map(|_| ())
    }
}

/// What keeps an object that is being deleted: `finalizers a, b hold it`.
#[must_use]
pub fn held_by(object: &impl Resource) -> String {
    match object.finalizers() {
        [] => "no finalizer holds it".to_owned(),
        [one] => format!("finalizer {one} holds it"),
        several => format!("finalizers {} hold it", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::Body;
    use kube::core::{DynamicObject, ObjectMeta};
    use kube::{Api, Client};

    use super::*;

    #[tokio::test]
    async fn a_limit_that_no_clock_counts_is_as_good_as_none() {
        let service = tower::service_fn(|_: Request<Body>| async {
            let map = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
            Ok::<_, tower::BoxError>(Response::new(Body::from(map.to_vec())))
        });
        let maps: Api<ConfigMap> = Api::namespaced(Client::new(service, "default"), "team-a");
        let found = Objects::new(maps, "test").wait("a", Duration::MAX, |_| WaitProgress::Reached).await;
        assert!(found.unwrap().is_some());
    }

    #[test]
    fn finalizers_are_named() {
        let object = |finalizers: &[&str]| DynamicObject {
            types: None,
            metadata: ObjectMeta {
                finalizers: Some(finalizers.iter().map(|&finalizer| finalizer.to_owned()).collect()),
                ..ObjectMeta::default()
            },
            data: serde_json::Value::Null,
        };
        assert_eq!(held_by(&object(&[])), "no finalizer holds it");
        assert_eq!(held_by(&object(&["a.io/x"])), "finalizer a.io/x holds it");
        assert_eq!(held_by(&object(&["a.io/x", "b.io/y"])), "finalizers a.io/x, b.io/y hold it");
    }
}

//! What was reported of a resource last, whether a new status is worth a write, and the write.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::api::{Api, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{info, warn};
use weaver_api::conditions::READY;
use weaver_client::call::{CallError, call};

use crate::code;

/// Longest error in a log record; that of a clean-up names each of a thousand copies.
pub const LONGEST_ERROR: usize = 1_000;

/// The status that was written last, and the resourceVersion of the object that was judged then.
pub struct Reported<S> {
    written: Option<(Option<String>, S)>,
    at: Option<Instant>,
}

impl<S> Default for Reported<S> {
    fn default() -> Self {
        Self { written: None, at: None }
    }
}

impl<S: Clone + PartialEq> Reported<S> {
    /// The status that the object has. A visit that is handed the state of the visit before has it from a cache that has
    /// not seen the write yet; `read` is what that cache shows.
    #[must_use]
    pub fn before(&self, version: Option<&str>, read: S) -> S {
        match &self.written {
            Some((judged, written)) if judged.as_deref() == version => written.clone(),
            _ => read,
        }
    }

    /// Is `now` to be written? Each write is an event, and the visit that follows may fail in other words: with a port, an
    /// id or a time of somebody else's in them. Without an end to it, no back-off would ever be waited for: so of a visit
    /// that `fails`, other words alone are written no more often than each `pause`.
    #[must_use]
    pub fn is_due(
        &self,
        before: &S,
        now: &S,
        fails: bool,
        without_words: fn(&S) -> S,
        pause: Duration,
    ) -> bool {
        let only_words = || fails && without_words(now) == without_words(before);
        now != before && !(self.at.is_some_and(|at| at.elapsed() < pause) && only_words())
    }

    /// It was written, of the object in this state.
    pub fn wrote(&mut self, version: Option<String>, status: S) {
        self.written = Some((version, status));
        self.at = Some(Instant::now());
    }
}

/// Writes the status of the resource with this metadata by a merge `patch`, and logs what it says of `Ready`.
///
/// # Errors
/// If it is refused; but not where the resource is gone, and, of one that is not `understood`, not where the API server
/// takes no write of it.
pub async fn write<K: Clone + Debug + DeserializeOwned>(
    api: &Api<K>,
    meta: &ObjectMeta,
    conditions: &[Condition],
    patch: &Value,
    understood: bool,
) -> Result<(), CallError> {
    let name = meta.name.as_deref().unwrap_or_default();
    if let Some(ready) = conditions.iter().find(|condition| condition.type_ == READY) {
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        info!(code = code::VISITED, %namespace, %name, ready = %ready.status, reason = %ready.reason, "visited");
    }
    match call(api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))).await {
        // Where it is not found it was deleted meanwhile: nobody is left to tell.
        Ok(_) | Err(CallError::NotFound(_)) => Ok(()),
        // The API server may refuse every write of such an object. Until it is changed, once is enough.
        Err(CallError::Rejected(refusal)) if !understood => {
            warn!(
                code = code::NOT_UNDERSTOOD, %name, words = %refusal.message,
                "the status of a resource that cannot be understood is refused"
            );
            Ok(())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that counts, and words.
    type Status = (u8, &'static str);

    #[tokio::test(start_paused = true)]
    async fn words_that_change_with_each_failure_are_written_now_and_then() {
        let (pause, bare): (_, fn(&Status) -> Status) = (Duration::from_mins(1), |status| (status.0, ""));
        let mut reported = Reported::default();
        assert!(reported.is_due(&(0, ""), &(1, "port 1"), true, bare, pause));
        reported.wrote(Some("7".into()), (1, "port 1"));
        assert!(!reported.is_due(&(1, "port 1"), &(1, "port 1"), true, bare, pause));
        assert!(!reported.is_due(&(1, "port 1"), &(1, "port 2"), true, bare, pause));
        assert!(reported.is_due(&(1, "port 1"), &(2, "port 2"), true, bare, pause), "a change that counts");
        assert!(reported.is_due(&(1, "port 1"), &(1, "well"), false, bare, pause), "a visit that ended well");
        tokio::time::advance(pause).await;
        assert!(reported.is_due(&(1, "port 1"), &(1, "port 2"), true, bare, pause));
        assert_eq!(reported.before(Some("7"), (0, "old")), (1, "port 1"), "the cache is behind");
        assert_eq!(reported.before(Some("8"), (3, "new")), (3, "new"));
    }
}

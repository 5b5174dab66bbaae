//! What was reported of a resource last, whether a new status is worth a write, and the write.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::api::{Api, Patch, PatchParams};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::Instant;
use tracing::info;
use weaver_api::conditions::{PAUSED, READY};
use weaver_client::call::{CallError, call};

use crate::{log_code, metrics};

/// Longest error in a log record; that of a clean-up names each of a thousand copies.
pub const LONGEST_ERROR: usize = 1_000;

/// A status of ours.
pub trait ReportedStatus: Clone + PartialEq + Default + DeserializeOwned + Send + Sync {
    fn conditions(&self) -> &[Condition];
    /// It, without what is meant for people only.
    #[must_use]
    fn without_messages(&self) -> Self;
    /// The merge patch that writes it: it replaces lists whole, removes what is not to be there any more, and
    /// leaves alone every field that is not ours to set.
    fn patch(&self) -> Value;
}

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

impl<S: ReportedStatus> Reported<S> {
    /// The status that the object has. A reconciliation that is handed the state of the reconciliation before
    /// has it from a cache that has not seen the write yet; `read` is what that cache shows. Once it shows another
    /// state, what was written is kept there, and here no more: a status may have half a mebibyte.
    pub fn before(&mut self, version: Option<&str>, read: S) -> S {
        self.written.take_if(|(judged, _)| judged.as_deref() != version);
        self.written.as_ref().map_or(read, |(_, written)| written.clone())
    }

    /// Is `now` to be written? Each try that fails may do so in other words: with a port, an id or a time of someone
    /// else's in them. And of an object that cannot be parsed each write causes another try, so that without an end to
    /// it no back-off would ever be waited for. So where there is a `pause`, as of a reconciliation that failed, other
    /// words alone are written no more often than that.
    pub fn is_due(&self, before: &S, now: &S, pause: Option<Duration>) -> bool {
        let is_early = pause.is_some_and(|pause| self.at.is_some_and(|at| at.elapsed() < pause));
        now != before && !(is_early && now.without_messages() == before.without_messages())
    }

    /// It was written, of the object in this state.
    pub fn wrote(&mut self, version: Option<String>, status: S) {
        self.written = Some((version, status));
        self.at = Some(Instant::now());
    }
}

/// Which of [`metrics::READY`] a resource with these conditions is.
pub fn readiness(conditions: &[Condition]) -> &'static str {
    let status = |kind| {
        let found = conditions.iter().find(|condition| condition.type_ == kind);
        found.map(|condition| condition.status.as_str())
    };
    let [ready, not_ready, unknown, paused] = metrics::READY;
    match (status(PAUSED), status(READY)) {
        (Some("True"), _) => paused,
        (_, Some("True")) => ready,
        (_, Some("False")) => not_ready,
        _ => unknown,
    }
}

/// Writes the status of the resource with this metadata by a merge `patch`, and logs what it says of `Ready`.
///
/// # Errors
/// If it is refused; but not if the resource is gone: there is no status left to write.
pub async fn write<K: Clone + Debug + DeserializeOwned>(
    api: &Api<K>,
    meta: &ObjectMeta,
    conditions: &[Condition],
    patch: &Value,
) -> Result<(), CallError> {
    let name = meta.name.as_deref().unwrap_or_default();
    if let Some(ready) = conditions.iter().find(|condition| condition.type_ == READY) {
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        info!(code = log_code::RECONCILED, %namespace, %name, ready = %ready.status, reason = %ready.reason, "reconciled");
    }
    match call(api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))).await {
        Ok(_) | Err(CallError::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    /// A number that counts, and words.
    #[derive(Clone, Debug, Default, Deserialize, PartialEq)]
    struct TestStatus(u8, String);

    impl ReportedStatus for TestStatus {
        fn conditions(&self) -> &[Condition] {
            &[]
        }

        fn without_messages(&self) -> Self {
            status(self.0, "")
        }

        fn patch(&self) -> Value {
            Value::Null
        }
    }

    fn status(number: u8, message: &str) -> TestStatus {
        TestStatus(number, message.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn words_that_change_with_each_failure_are_written_now_and_then() {
        let pause = Duration::from_mins(1);
        let mut reported = Reported::default();
        let is_due = |reported: &Reported<TestStatus>, before: (u8, &str), now: (u8, &str), failed: bool| {
            reported.is_due(&status(before.0, before.1), &status(now.0, now.1), failed.then_some(pause))
        };
        assert!(is_due(&reported, (0, ""), (1, "port 1"), true));
        reported.wrote(Some("7".into()), status(1, "port 1"));
        assert!(!is_due(&reported, (1, "port 1"), (1, "port 1"), true));
        assert!(!is_due(&reported, (1, "port 1"), (1, "port 2"), true));
        assert!(is_due(&reported, (1, "port 1"), (2, "port 2"), true), "a change that counts");
        assert!(is_due(&reported, (1, "port 1"), (1, "well"), false), "a reconciliation that ended well");
        tokio::time::advance(pause).await;
        assert!(is_due(&reported, (1, "port 1"), (1, "port 2"), true));
        assert_eq!(reported.before(Some("7"), status(0, "old")), status(1, "port 1"), "the cache is behind");
        assert!(reported.written.is_some());
        assert_eq!(reported.before(Some("8"), status(3, "new")), status(3, "new"));
        assert!(reported.written.is_none(), "the cache has it");
    }
}

//! Which events of a resource show nothing but a status that this process has written. Pure.
//!
//! Each write of a status is an event of the resource. A reconciliation for it would send the same requests again and
//! find nothing to do. The object itself is compared, so whatever else it shows causes a reconciliation: another spec,
//! label, annotation or finalizer, a deletion, and a status that someone else has written.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::report::ReportedStatus;

/// What is known of one resource, as digests: a status may have half a mebibyte.
#[derive(Debug, Default)]
pub struct OwnStatus {
    /// The metadata of the last event.
    metadata: Option<u64>,
    /// The status that was written last, or is being written.
    written: Option<u64>,
}

impl OwnStatus {
    /// Notes a status before it is written: its event may come before the answer.
    pub fn writes(&mut self, status: &impl ReportedStatus) {
        self.written = Some(digest(&status.patch()));
    }

    /// Does an event with this metadata and this status show anything else? It does where the object cannot be parsed,
    /// and so shows no status.
    pub fn is_news(&mut self, meta: &ObjectMeta, status: Option<&impl ReportedStatus>) -> bool {
        let metadata = digest(&json!(ObjectMeta { resource_version: None, ..meta.clone() }));
        let is_same = self.metadata.replace(metadata) == Some(metadata);
        let is_written = || {
            let written = self.written?;
            Some(digest(&status?.patch()) == written)
        };
        !(is_same && is_written() == Some(true))
    }
}

fn digest(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use weaver_api::ownership::{FINALIZER, PAUSED_ANNOTATION};
    use weaver_api::v1beta1::ConfigMapSyncStatus;

    use super::*;

    fn meta(version: u32, more: &Value) -> ObjectMeta {
        let mut meta = json!({"name": "sync", "uid": "u", "resourceVersion": version.to_string()});
        meta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(meta).unwrap()
    }

    fn status(observed: i64) -> ConfigMapSyncStatus {
        ConfigMapSyncStatus { observed_generation: Some(observed), ..ConfigMapSyncStatus::default() }
    }

    #[test]
    fn an_event_is_news_unless_it_shows_nothing_but_the_status_that_was_written() {
        let mut own = OwnStatus::default();
        let (new, held) = (json!({"generation": 1}), json!({"generation": 1, "finalizers": [FINALIZER]}));
        let paused =
            json!({"generation": 1, "finalizers": [FINALIZER], "annotations": {PAUSED_ANNOTATION: "x"}});
        let edited =
            json!({"generation": 2, "finalizers": [FINALIZER], "annotations": {PAUSED_ANNOTATION: "x"}});
        let mut gone = edited.clone();
        gone["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let unread = None::<&ConfigMapSyncStatus>;
        assert!(own.is_news(&meta(1, &new), unread), "the resource is new");
        assert!(own.is_news(&meta(2, &held), unread), "our finalizer");
        own.writes(&status(1));
        for (version, shown, read, expected, what) in [
            (3, &held, status(1), false, "our status"),
            (4, &held, status(2), true, "someone else's"),
            (5, &held, status(1), false, "ours, written again"),
            (6, &paused, status(1), true, "an annotation"),
            (7, &paused, status(1), false, "an annotation that is not kept"),
            (8, &edited, status(1), true, "the spec"),
            (9, &gone, status(1), true, "the deletion"),
        ] {
            assert_eq!(own.is_news(&meta(version, shown), Some(&read)), expected, "{what}");
        }
        assert!(own.is_news(&meta(9, &gone), unread), "it cannot be parsed");
    }

    #[test]
    fn a_status_that_another_process_wrote_is_news() {
        let mut own = OwnStatus::default();
        for _ in 0..2 {
            assert!(own.is_news(&meta(1, &json!({})), Some(&status(1))));
        }
    }
}

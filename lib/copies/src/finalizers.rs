//! Finalizers of a deleted `ConfigMapSync`: ours, and the upstream operator's, which an upgrade leaves behind; and
//! whether its copies are deleted with it. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weaver_api::ownership::{FINALIZER, PAUSED_ANNOTATION, UPSTREAM_FINALIZER};
use weaver_api::v1beta1::{ConfigMapSyncSpec, DeletionPolicy};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FinalizerChange {
    /// Ours is set: right before the first write and not earlier, so that a resource which never had a copy can
    /// be deleted without us.
    Take,
    /// Remove upstream's: there is nothing left to take over.
    EndUpgrade,
    /// Both go: the resource is deleted, and what was to be done is done.
    Release,
}

/// Does the resource have our finalizer?
pub fn is_taken(meta: &ObjectMeta) -> bool {
    has(meta, FINALIZER)
}

/// Does the resource have the upstream operator's finalizer, that is, is an upgrade unfinished?
pub fn is_upgrading(meta: &ObjectMeta) -> bool {
    has(meta, UPSTREAM_FINALIZER)
}

fn has(meta: &ObjectMeta, finalizer: &str) -> bool {
    meta.finalizers.iter().flatten().any(|found| found == finalizer)
}

/// The finalizers of a resource that has those `present`, after this change.
pub fn after(present: &[String], change: FinalizerChange) -> Vec<&str> {
    let mut finalizers: Vec<&str> = present.iter().map(String::as_str).collect();
    match change {
        FinalizerChange::Take => {
            finalizers.retain(|finalizer| *finalizer != FINALIZER);
            finalizers.push(FINALIZER);
        }
        FinalizerChange::EndUpgrade => finalizers.retain(|finalizer| *finalizer != UPSTREAM_FINALIZER),
        FinalizerChange::Release => {
            finalizers.retain(|finalizer| ![FINALIZER, UPSTREAM_FINALIZER].contains(finalizer));
        }
    }
    finalizers
}

/// The annotation or field by which the deleted resource leaves its copies, if there is one. `Orphan` says so;
/// and where nothing may be written, nothing is removed either.
pub fn leaves_copies(meta: &ObjectMeta, spec: Option<&ConfigMapSyncSpec>) -> Option<&'static str> {
    let is_paused = meta.annotations.iter().flatten().any(|(key, _)| key == PAUSED_ANNOTATION);
    let says_so = |wants: fn(&ConfigMapSyncSpec) -> bool| spec.is_some_and(wants);
    [
        (is_paused, PAUSED_ANNOTATION),
        (says_so(|spec| spec.deletion_policy == DeletionPolicy::Orphan), "spec.deletionPolicy: Orphan"),
        (says_so(|spec| spec.suspend), "spec.suspend"),
        (says_so(|spec| spec.dry_run), "spec.dryRun"),
    ]
    .into_iter()
    .find_map(|(leaves, by)| leaves.then_some(by))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use weaver_api::v1beta1::ConfigMapSync;

    use super::*;

    #[test]
    fn others_finalizers_stay_and_ours_is_there_once() {
        let (ours, theirs, upstreams) = (FINALIZER, "example.com/keep", UPSTREAM_FINALIZER);
        for (present, change, expected) in [
            (vec![], FinalizerChange::Take, vec![ours]),
            (vec![ours], FinalizerChange::Take, vec![ours]),
            (vec![upstreams, theirs], FinalizerChange::Take, vec![upstreams, theirs, ours]),
            (vec![upstreams, theirs, ours], FinalizerChange::EndUpgrade, vec![theirs, ours]),
            (vec![upstreams], FinalizerChange::EndUpgrade, vec![]),
            (vec![theirs, ours], FinalizerChange::EndUpgrade, vec![theirs, ours]),
            (vec![upstreams, theirs, ours], FinalizerChange::Release, vec![theirs]),
            (vec![upstreams], FinalizerChange::Release, vec![]),
            (vec![ours], FinalizerChange::Release, vec![]),
        ] {
            let owned: Vec<String> = present.iter().map(|&finalizer| finalizer.to_owned()).collect();
            assert_eq!(after(&owned, change), expected, "{change:?} of {present:?}");
        }
    }

    #[test]
    fn only_a_whole_name_is_a_finalizer_of_ours_or_upstreams() {
        let meta = |finalizer: &str| ObjectMeta {
            finalizers: Some(vec![finalizer.to_owned()]),
            ..ObjectMeta::default()
        };
        assert!(is_taken(&meta(FINALIZER)) && !is_taken(&meta(UPSTREAM_FINALIZER)));
        assert!(is_upgrading(&meta(UPSTREAM_FINALIZER)) && !is_upgrading(&meta(FINALIZER)));
        assert!(!is_taken(&meta("weaver.example.com/cleanup2")) && !is_taken(&ObjectMeta::default()));
    }

    #[test]
    fn orphan_wins_over_everything_else_and_where_nothing_is_written_nothing_is_removed() {
        let paused = json!({"annotations": {PAUSED_ANNOTATION: "a backup"}});
        for (metadata, spec, expected) in [
            (json!({}), json!({}), None),
            (json!({}), Value::Null, None),
            (json!({}), json!({"deletionPolicy": "Delete"}), None),
            (json!({}), json!({"deletionPolicy": "Orphan"}), Some("spec.deletionPolicy: Orphan")),
            (
                json!({}),
                json!({"deletionPolicy": "Orphan", "source": {"kind": "Secret"}, "suspend": true}),
                Some("spec.deletionPolicy: Orphan"),
            ),
            (json!({}), json!({"suspend": true}), Some("spec.suspend")),
            (json!({}), json!({"dryRun": true}), Some("spec.dryRun")),
            (paused, json!({}), Some(PAUSED_ANNOTATION)),
        ] {
            let sync: ConfigMapSync =
                serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
            assert_eq!(leaves_copies(&sync.metadata, sync.desired()), expected, "{spec}");
        }
    }
}

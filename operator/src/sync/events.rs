//! Events of a sync: changes of its state, and unusual writes to objects.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::events::{Event, EventType};
use weaver_api::v1beta1::ConfigMapSyncStatus;

use super::declared::Declares;
use super::execute::{CopyChange, TargetState};
use super::outcome::{SourceWork, SyncOutcome, SyncWork};
use crate::controller::events::{
    ADOPTED, COPY_ORPHANED, Events, REPLACED, TAKEN_OVER, event, reference, turned,
};
use crate::controller::verdicts::listed;
use crate::watch::ResourceRef;
use weaver_copies::copy::typed_reference;
use weaver_copies::object::ObjectKey;
use weaver_copies::plan::PreviousOwner;

/// Tells what a reconciliation has changed, where the status was `before`.
pub async fn tell_of<K: Declares>(
    events: &Events,
    resource: &ObjectMeta,
    outcome: &SyncOutcome,
    before: &ConfigMapSyncStatus,
    now: &ConfigMapSyncStatus,
) {
    let about = reference::<K>(resource);
    let work = outcome.work().map(done::<K>).unwrap_or_default();
    for event in turned(&before.conditions, &now.conditions, "Sync").into_iter().chain(work) {
        events.tell(&event, &about).await;
    }
}

/// Reports, by an event in each copy's own namespace, that these copies stay although their resource is deleted; no
/// more than their ownership labels say. `keys` are only those that were seen.
pub async fn report_orphans<K: Declares>(events: &Events, sync: &ResourceRef, keys: &BTreeSet<ObjectKey>) {
    for key in keys.iter().take_while(|_| events.may_notify_others(&sync.namespace)) {
        let about = ObjectReference {
            api_version: Some(key.kind.api_version()),
            kind: Some(key.kind.as_str().to_owned()),
            namespace: Some(key.namespace.clone()),
            name: Some(key.name.clone()),
            ..ObjectReference::default()
        };
        let note = format!(
            "copy of {kind} {sync}, which no longer exists and whose account may not delete it: `weaver \
            orphans delete {object}` deletes it, `weaver orphans adopt {object}` keeps it as an ordinary object",
            kind = K::kind(&()),
            object = typed_reference(key)
        );
        events.tell(&event(EventType::Warning, COPY_ORPHANED, "CleanUp", &note), &about).await;
    }
}

/// What was done to objects beyond creating, updating and removing copies.
fn done<K: Declares>(work: &SyncWork) -> Vec<Event> {
    let of = |wanted: CopyChange| -> Vec<String> {
        let wrote =
            |state: &TargetState| matches!(state, TargetState::Synced(_, Some(change)) if *change == wanted);
        let of = |source: &SourceWork| -> Vec<String> {
            let keys = source.targets.iter().filter(|(_, state)| wrote(state));
            let key = |namespace| ObjectKey::of_copy(&work.spec, namespace, &source.copy_name).to_string();
            keys.map(|(namespace, _)| key(namespace)).collect()
        };
        work.sources.values().flat_map(of).collect()
    };
    [
        (
            CopyChange::Replace,
            REPLACED,
            "deleted and created again, because it was immutable or of another type",
        ),
        (
            CopyChange::Update(PreviousOwner::Theirs),
            ADOPTED,
            &*format!("adopted as a copy; not created by this {}", K::kind(&())),
        ),
        (CopyChange::Update(PreviousOwner::Upstreams), TAKEN_OVER, "taken over from the upstream operator"),
    ]
    .into_iter()
    .filter_map(|(change, reason, message)| {
        let keys = of(change);
        (!keys.is_empty())
            .then(|| event(EventType::Normal, reason, "Sync", &format!("{message}: {}", listed(&keys))))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use weaver_api::v1beta1::ConfigMapSync;

    use super::super::outcome::tests::{synced, work};
    use super::*;

    #[test]
    fn what_is_done_beyond_the_ordinary_is_reported_once_for_all_targets() {
        let TargetState::Synced(verified, _) = synced() else { unreachable!() };
        let wrote = |change| TargetState::Synced(verified.clone(), Some(change));
        let events = done::<ConfigMapSync>(&work(&[
            ("a", wrote(CopyChange::Create)),
            ("b", wrote(CopyChange::Update(PreviousOwner::Ours))),
            ("c", wrote(CopyChange::Replace)),
            ("d", wrote(CopyChange::Replace)),
            ("e", wrote(CopyChange::Update(PreviousOwner::Theirs))),
            ("f", synced()),
        ]));
        let reported: Vec<_> =
            events.iter().map(|event| (event.reason.as_str(), event.note.as_deref().unwrap())).collect();
        let replaced = "deleted and created again, because it was immutable or of another type: ConfigMap \
                        c/settings; ConfigMap d/settings";
        let adopted = "adopted as a copy; not created by this ConfigMapSync: ConfigMap e/settings";
        assert_eq!(reported, [("Replaced", replaced), ("Adopted", adopted)]);
    }
}

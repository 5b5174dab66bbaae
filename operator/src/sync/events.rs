//! Kubernetes events: what has just happened to a resource, for `kubectl describe` and for alerts.
//!
//! What the state is stands in the status; an event is told once per change of it, and for what is done to objects
//! beyond the ordinary. Events are the operator's own, and no visit fails because one could not be told.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeSet;

use kube::Client;
use kube::core::Resource as _;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tracing::debug;
use weaver_api::conditions::{READY, bounded};
use weaver_api::v1beta1::{ConfigMapSync, ConfigMapSyncStatus};

use super::execute::{Change, TargetState};
use super::outcome::{Visit, Work};
use super::plan::Before;
use super::verdicts::listed;
use crate::tenant::call::call;
use crate::tenant::object::Place;
use crate::watch::SyncRef;

/// Most bytes of a note, besides the words that it was cut. The API server takes 1,024.
const MAX_NOTE: usize = 1_000;
/// For how many namespaces a clean-up tells of copies that it leaves behind.
const NAMESPACES_TOLD: usize = 50;

/// Tells events.
pub struct Events(Recorder);

impl Events {
    /// Told by the operator itself, with `client`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        let reporter = Reporter { controller: "weaver-operator".into(), instance: None };
        Self(Recorder::new(client, reporter))
    }

    /// Tells what a visit has changed, where the status was `before`.
    pub async fn tell_of(
        &self,
        resource: &ObjectMeta,
        visit: &Visit,
        before: &ConfigMapSyncStatus,
        now: &ConfigMapSyncStatus,
    ) {
        let about = reference(resource);
        let work = if let Visit::Worked(work) = visit { done(work) } else { Vec::new() };
        for event in turned(before, now).into_iter().chain(work) {
            self.tell(&event, &about).await;
        }
    }

    /// Tells those who answer for the namespaces of these copies that they stay, though their resource goes. (In the
    /// resource's own namespace, which may be going too, an event could not be created.)
    pub async fn tell_of_leftovers(&self, sync: &SyncRef, places: &BTreeSet<Place>) {
        for place in places.iter().take(NAMESPACES_TOLD) {
            let about = ObjectReference {
                api_version: Some("v1".into()),
                kind: Some("Namespace".into()),
                name: Some(place.namespace.clone()),
                ..ObjectReference::default()
            };
            let note =
                format!("{place} may be a copy of ConfigMapSync {sync}, which is gone; it was not removed");
            self.tell(&event(EventType::Warning, "CopyLeftBehind", "CleanUp", &note), &about).await;
        }
    }

    async fn tell(&self, event: &Event, about: &ObjectReference) {
        if let Err(error) = call(self.0.publish(event, about)).await {
            debug!(%error, reason = %event.reason, "an event could not be told");
        }
    }
}

/// The reference to a resource, as its own events carry it.
fn reference(resource: &ObjectMeta) -> ObjectReference {
    ObjectReference {
        api_version: Some(ConfigMapSync::api_version(&()).into()),
        kind: Some(ConfigMapSync::kind(&()).into()),
        namespace: resource.namespace.clone(),
        name: resource.name.clone(),
        uid: resource.uid.clone(),
        ..ObjectReference::default()
    }
}

fn event(type_: EventType, reason: &str, action: &str, note: &str) -> Event {
    Event {
        type_,
        reason: reason.into(),
        note: Some(bounded(note, MAX_NOTE)),
        action: action.into(),
        secondary: None,
    }
}

/// `Ready` has turned, or is what it is for another reason.
fn turned(before: &ConfigMapSyncStatus, now: &ConfigMapSyncStatus) -> Option<Event> {
    let ready = |status: &ConfigMapSyncStatus| {
        status.conditions.iter().find(|condition| condition.type_ == READY).cloned()
    };
    let now = ready(now)?;
    if ready(before)
        .is_some_and(|before| (before.status, before.reason) == (now.status.clone(), now.reason.clone()))
    {
        return None;
    }
    let type_ = if now.status == "True" { EventType::Normal } else { EventType::Warning };
    Some(event(type_, &now.reason, "Sync", &now.message))
}

/// What was done to objects beyond creating, updating and removing copies.
fn done(work: &Work) -> Vec<Event> {
    let of = |wanted: Change| -> Vec<String> {
        let wrote =
            |state: &TargetState| matches!(state, TargetState::Synced(_, Some(change)) if *change == wanted);
        let places = work.targets.iter().filter(|(_, state)| wrote(state));
        places.map(|(namespace, _)| Place::of_copy(&work.spec, namespace).to_string()).collect()
    };
    [
        (Change::Replace, "Replaced", "deleted and made again, because it was immutable or of another type"),
        (Change::Update(Before::Theirs), "Adopted", "made a copy, and not by this ConfigMapSync before"),
        (Change::Update(Before::Upstreams), "TakenOver", "taken over from the upstream operator"),
        (Change::Update(Before::Orphaned), "TakenOver", "taken over from a ConfigMapSync that is gone"),
    ]
    .into_iter()
    .filter_map(|(change, reason, words)| {
        let places = of(change);
        (!places.is_empty())
            .then(|| event(EventType::Normal, reason, "Sync", &format!("{words}: {}", listed(&places))))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::super::outcome::tests::{forbidden, synced, work};
    use super::super::status::status;
    use super::*;

    fn folded(targets: &[(&str, TargetState)]) -> ConfigMapSyncStatus {
        let visit = Visit::Worked(Box::new(work(targets)));
        status(&ConfigMapSyncStatus::default(), &visit, &[], Some(1), &Time(Timestamp::UNIX_EPOCH))
    }

    #[test]
    fn b37_an_event_is_told_when_ready_turns_and_not_again() {
        let (nothing, well) = (ConfigMapSyncStatus::default(), folded(&[("foo", synced())]));
        let ill = folded(&[("foo", forbidden())]);
        for (before, now, expected) in [
            (&nothing, &well, Some((EventType::Normal, "Synced"))),
            (&well, &well, None),
            (&well, &ill, Some((EventType::Warning, "TargetsFailed"))),
            (&ill, &ill, None),
            (&ill, &well, Some((EventType::Normal, "Synced"))),
        ] {
            let found = turned(before, now);
            assert_eq!(
                found.map(|event| (event.type_, event.reason)),
                expected.map(|(t, r)| (t, r.to_owned()))
            );
        }
    }

    #[test]
    fn what_is_done_beyond_the_ordinary_is_told_once_for_all_targets() {
        let TargetState::Synced(verified, _) = synced() else { unreachable!() };
        let wrote = |change| TargetState::Synced(verified.clone(), Some(change));
        let events = done(&work(&[
            ("a", wrote(Change::Create)),
            ("b", wrote(Change::Update(Before::Ours))),
            ("c", wrote(Change::Replace)),
            ("d", wrote(Change::Replace)),
            ("e", wrote(Change::Update(Before::Theirs))),
            ("f", synced()),
        ]));
        let told: Vec<_> =
            events.iter().map(|event| (event.reason.as_str(), event.note.as_deref().unwrap())).collect();
        let replaced = "deleted and made again, because it was immutable or of another type: \
                        ConfigMap c/settings; ConfigMap d/settings";
        let adopted = "made a copy, and not by this ConfigMapSync before: ConfigMap e/settings";
        assert_eq!(told, [("Replaced", replaced), ("Adopted", adopted)]);
    }

    #[test]
    fn a_note_fits_whatever_the_message_is() {
        let mut long = folded(&[("foo", forbidden())]);
        for condition in &mut long.conditions {
            condition.message = "ä".repeat(20_000);
        }
        let note = turned(&ConfigMapSyncStatus::default(), &long).unwrap().note.unwrap();
        assert!(note.len() <= 1_024, "{}", note.len());
    }
}

//! Kubernetes events: what has just happened to a resource, for `kubectl describe` and for alerts.
//!
//! What the state is is in the status; an event is reported once per change of it. Events are the operator's
//! own, and no reconciliation fails because one could not be sent.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{debug, warn};
use weaver_api::conditions::{READY, bounded};
use weaver_client::call::{CallError, call, is_terminating};

use super::allowance::Allowance;
use crate::log_code;

/// Most bytes of a note, besides the words that it was cut. The API server takes 1,024.
const MAX_NOTE: usize = 1_000;

/// Reason: an object that was not a copy was adopted as one.
pub const ADOPTED: &str = "Adopted";
/// Reason: a clean-up had to leave a copy behind.
pub const COPY_ORPHANED: &str = "CopyOrphaned";
/// Reason: tokens were minted though none was due.
pub const MINTED: &str = "Minted";
/// Reason: a copy was deleted and made again.
pub const REPLACED: &str = "Replaced";
/// Reason: a copy of someone who is gone has become ours.
pub const TAKEN_OVER: &str = "TakenOver";

/// Reasons of all events except those of [`turned`], which are those of `Ready`.
pub const OWN_REASONS: [&str; 5] = [ADOPTED, COPY_ORPHANED, MINTED, REPLACED, TAKEN_OVER];

/// How many events one tenant may cause in other namespaces, each hour.
const ABROAD: u32 = 50;

/// How many events one [`Recorder`] sends. It keeps each for six minutes, some 3 KiB, to count it if it comes again; and
/// who makes and deletes resources decides how many there are.
const OF_ONE_RECORDER: u32 = 1_024;

#[derive(Clone)]
pub struct Events {
    client: Client,
    current: Arc<Mutex<CurrentRecorder>>,
    abroad: Arc<Mutex<Allowance>>,
}

struct CurrentRecorder {
    recorder: Recorder,
    sent: u32,
}

impl CurrentRecorder {
    fn new(client: Client) -> Self {
        let reporter = Reporter { controller: "weaver-operator".into(), instance: None };
        Self { recorder: Recorder::new(client, reporter), sent: 0 }
    }
}

impl Events {
    /// Sent by the operator itself, with `client`.
    pub fn new(client: Client) -> Self {
        let current = Arc::new(Mutex::new(CurrentRecorder::new(client.clone())));
        let abroad = Arc::new(Mutex::new(Allowance::new(ABROAD)));
        Self { client, current, abroad }
    }

    /// Sends the next event. What an earlier one has sent is an event of its own if it comes again.
    fn recorder(&self) -> Recorder {
        let mut current = self.current.lock();
        if current.sent == OF_ONE_RECORDER {
            *current = CurrentRecorder::new(self.client.clone());
        }
        current.sent += 1;
        current.recorder.clone()
    }

    /// May one more event be sent to another namespace about what a resource in the namespace `tenant` caused?
    pub fn may_notify_others(&self, tenant: &str) -> bool {
        self.abroad.lock().take(tenant, Instant::now())
    }

    pub async fn tell(&self, event: &Event, about: &ObjectReference) {
        let recorder = self.recorder();
        match call(recorder.publish(event, about)).await {
            Ok(()) => {}
            // The operator's own right is missing, which would not be visible otherwise.
            Err(CallError::Forbidden(status)) if !is_terminating(&status) => {
                warn!(
                    code = log_code::EVENT_REFUSED, error = %status.message, reason = %event.reason,
                    "an event could not be recorded"
                );
            }
            Err(error) => debug!(%error, reason = %event.reason, "an event could not be recorded"),
        }
    }
}

/// The reference to a resource of the kind `K`, as its own events carry it.
pub fn reference<K: Resource<DynamicType = ()>>(resource: &ObjectMeta) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(&()).into()),
        kind: Some(K::kind(&()).into()),
        namespace: resource.namespace.clone(),
        name: resource.name.clone(),
        uid: resource.uid.clone(),
        ..ObjectReference::default()
    }
}

/// An event whose note fits.
pub fn event(type_: EventType, reason: &str, action: &str, note: &str) -> Event {
    Event {
        type_,
        reason: reason.into(),
        note: Some(bounded(note, MAX_NOTE)),
        action: action.into(),
        secondary: None,
    }
}

/// `Ready` has turned, or is what it is for another reason, by what `action` did.
pub fn turned(before: &[Condition], now: &[Condition], action: &str) -> Option<Event> {
    let ready = |conditions: &[Condition]| conditions.iter().find(|found| found.type_ == READY).cloned();
    let now = ready(now)?;
    if ready(before)
        .is_some_and(|before| (before.status, before.reason) == (now.status.clone(), now.reason.clone()))
    {
        return None;
    }
    let type_ = if now.status == "True" { EventType::Normal } else { EventType::Warning };
    Some(event(type_, &now.reason, action, &now.message))
}

#[cfg(test)]
mod tests {
    use http::{Method, Request, Response};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;
    use kube::client::Body;
    use tower::BoxError;
    use weaver_api::conditions::{ORDER, Truth, Verdict, fold};

    use super::*;

    fn ready(truth: Truth, reason: &'static str, message: &str) -> Vec<Condition> {
        let verdict = Verdict::new(READY, truth, reason, message);
        fold(&ORDER, &[], &[verdict], Some(1), &Time(Timestamp::UNIX_EPOCH))
    }

    #[test]
    fn an_event_is_reported_when_ready_turns_and_not_again() {
        let (nothing, well) = (Vec::new(), ready(Truth::True, "Synced", ""));
        let ill = ready(Truth::False, "TargetsFailed", "");
        for (before, now, expected) in [
            (&nothing, &well, Some((EventType::Normal, "Synced"))),
            (&well, &well, None),
            (&well, &ill, Some((EventType::Warning, "TargetsFailed"))),
            (&ill, &ill, None),
            (&ill, &well, Some((EventType::Normal, "Synced"))),
        ] {
            let found = turned(before, now, "Sync");
            assert_eq!(
                found.map(|event| (event.type_, event.reason)),
                expected.map(|(t, r)| (t, r.to_owned()))
            );
        }
    }

    #[test]
    fn a_note_fits_whatever_the_message_is() {
        let long = ready(Truth::False, "TargetsFailed", &"ä".repeat(20_000));
        let note = turned(&[], &long, "Sync").unwrap().note.unwrap();
        assert!(note.len() <= 1_024, "{}", note.len());
    }

    #[tokio::test]
    async fn an_event_that_comes_again_is_counted_and_after_a_thousand_others_not_remembered() {
        let asked = Arc::<Mutex<Vec<Method>>>::default();
        let methods = asked.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            methods.lock().push(request.method().clone());
            async {
                let answer = r#"{"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {}}"#;
                Ok::<_, BoxError>(Response::new(Body::from(answer.as_bytes().to_vec())))
            }
        });
        let events = Events::new(Client::new(service, "default"));
        let tell = async |name: String| {
            let about = ObjectReference { name: Some(name), ..ObjectReference::default() };
            events.tell(&event(EventType::Normal, MINTED, "Mint", ""), &about).await;
        };
        tell("a".to_owned()).await;
        tell("a".to_owned()).await;
        assert_eq!(*asked.lock(), [Method::POST, Method::PATCH]);
        for number in 0..OF_ONE_RECORDER {
            tell(number.to_string()).await;
        }
        tell("a".to_owned()).await;
        assert_eq!(asked.lock().last(), Some(&Method::POST));
    }
}

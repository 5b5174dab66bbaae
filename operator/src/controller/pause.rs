//! Paused resources: nothing is written for them, and nothing is reconciled. Pure.
//!
//! A pause is stored in the API, as an annotation whose value is the reason, so that every instance sees it and a
//! restart changes nothing: on a resource it pauses that one, on the operator's own namespace all of them. Watches,
//! webhook, lease and health continue, and of the resource itself the status is written once, to say so.
//!
//! A `ConfigMapSync` that is deleted while it alone is paused is released at once and leaves its copies, as with
//! `spec.suspend`; while all are paused, the deletion waits: an administrator who pauses everything will resume and
//! wants no copies lost. A `ServiceToken` has no finalizer, and its Secret is deleted with it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weaver_api::OPERATOR_NAMESPACE;
use weaver_api::conditions::{PAUSED, Truth, Verdict, bounded};
use weaver_api::ownership::PAUSED_ANNOTATION;

use crate::watch::{Namespaces, ResourceRef};

/// Most bytes of a reason that are repeated.
const MAX_REASON: usize = 300;

/// Reason of the condition `Paused`.
const PAUSE_REQUESTED: &str = "PauseRequested";

/// Something is paused, and why.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pause {
    pub all: bool,
    /// In the words of who did it.
    pub reason: String,
}

impl Pause {
    pub fn of_all(namespaces: &Namespaces) -> Option<Self> {
        let reason = namespaces.paused(OPERATOR_NAMESPACE)?;
        Some(Self { all: true, reason: bounded(&reason, MAX_REASON) })
    }

    pub fn of_one(meta: &ObjectMeta) -> Option<Self> {
        let reason = meta.annotations.as_ref()?.get(PAUSED_ANNOTATION)?;
        Some(Self { all: false, reason: bounded(reason, MAX_REASON) })
    }

    /// For this resource, whichever.
    pub fn of(meta: &ObjectMeta, namespaces: &Namespaces) -> Option<Self> {
        Self::of_all(namespaces).or_else(|| Self::of_one(meta))
    }

    /// What is paused, why, and how it is resumed; `kind` is the kind as `weaver` calls it.
    pub fn message(&self, kind: &str, resource: &ResourceRef) -> String {
        let Self { all, reason } = self;
        let ResourceRef { namespace, name } = resource;
        if *all {
            format!("all resources are paused: {reason}; to continue: weaver resume")
        } else {
            format!("paused: {reason}; to continue: weaver resume {kind}/{name} -n {namespace}")
        }
    }
}

/// The condition of a resource that this is the pause of, in its words, or that is not paused.
pub fn verdict(message: Option<&str>) -> Verdict {
    match message {
        Some(message) => Verdict::new(PAUSED, Truth::True, PAUSE_REQUESTED, message),
        None => Verdict::new(PAUSED, Truth::False, "NotPaused", ""),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn meta(annotation: Option<&str>) -> ObjectMeta {
        let annotations = annotation.map(|value| BTreeMap::from([(PAUSED_ANNOTATION.into(), value.into())]));
        ObjectMeta { annotations, ..ObjectMeta::default() }
    }

    #[test]
    fn a_pause_says_why_and_how_it_ends() {
        let resource = ResourceRef { namespace: "team-a".into(), name: "settings".into() };
        assert_eq!(Pause::of_one(&meta(None)), None);
        let one = Pause::of_one(&meta(Some("moving the database"))).unwrap();
        assert_eq!(
            one.message("sync", &resource),
            "paused: moving the database; to continue: weaver resume sync/settings -n team-a"
        );
        let all = Pause { all: true, ..one };
        assert_eq!(
            all.message("sync", &resource),
            "all resources are paused: moving the database; to continue: weaver resume"
        );
    }

    #[test]
    fn what_someone_wrote_there_is_bounded_and_without_a_reason_it_is_one_too() {
        let long = Pause::of_one(&meta(Some(&"é".repeat(10_000)))).unwrap();
        assert!(long.reason.len() < 400, "{}", long.reason.len());
        assert_eq!(Pause::of_one(&meta(Some(""))).map(|pause| pause.reason), Some(String::new()));
    }
}

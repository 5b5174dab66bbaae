//! Why something was not done: what was attempted, on which object, what the API server answered, and what to do next.

use std::fmt;
use std::time::Duration;

use kube::core::Status;

use crate::call::CallError;

/// A request or a wait that failed. Its text names the object and, where there is one, the remedy:
/// `creating ConfigMap team-a/settings: namespaces "team-a" not found; create the namespace first`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub struct Error {
    /// What was attempted, as a sentence has it: `creating`, `waiting for`.
    pub doing: &'static str,
    /// The object: `ConfigMap team-a/settings`, `Node raspi`.
    pub object: String,
    /// What the API server or the connection answered.
    pub why: Why,
    /// Would the request have changed the cluster?
    pub(crate) is_write: bool,
}

/// Why a request or a wait failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Why {
    /// The API server answered with a refusal, of any code.
    #[error("{}{}", .0.message.trim(), Refusal::of(.0).remedy())]
    Refused(Box<Status>),
    /// There was no answer, or none that could be read.
    #[error("{0}")]
    Unanswered(CallError),
    /// The object cannot be sent: it is not valid JSON, or its name is not a path.
    #[error("the request cannot be built: {0}")]
    Unsendable(String),
    /// The object was deleted, and another one has its name.
    #[error("another object has this name now; it was not changed")]
    Replaced,
    /// Others changed the object between each read and write.
    #[error("it changed at each of {0} attempts; try again")]
    Contended(u32),
    /// The deadline has passed.
    #[error("not within {} s: {reason}", limit.as_secs())]
    TimedOut {
        /// How long was waited.
        limit: Duration,
        /// What was missing at the end: the last [`crate::WaitProgress::NotYet`], or the last failure to look.
        reason: String,
    },
    /// What is waited for cannot come any more ([`crate::WaitProgress::Never`]).
    #[error("{0}")]
    Never(String),
}

/// What the API server's refusal is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// It does not serve the kind at this version.
    KindUnknown,
    /// The namespace does not exist.
    NamespaceMissing,
    /// The object does not exist.
    ObjectMissing,
    /// An object of this name exists.
    Exists,
    /// The object has another `resourceVersion` or uid than the request says.
    Conflict,
    /// A server-side apply sets fields that another field manager owns.
    FieldsOwned,
    /// The object breaks a rule of its kind.
    Invalid,
    /// The kind does not have one of the fields.
    FieldUnknown,
    /// The user lacks a right.
    RightMissing,
    /// Anything else: a quota, a policy, a webhook, an overloaded server.
    Other,
}

impl Refusal {
    /// Judges by code, reason and details. Only for an unknown field and a missing right the answer has no such mark,
    /// and its text decides.
    #[must_use]
    pub fn of(status: &Status) -> Self {
        let details = status.details.as_ref();
        let is_about_fields = || {
            let mut causes = details.into_iter().flat_map(|details| &details.causes);
            causes.any(|cause| cause.reason == "FieldManagerConflict")
        };
        let says = |text: &str| status.message.contains(text);
        // By the code: of an API that it does not serve, the server says so in plain text, without a reason.
        if status.code == 404 && details.is_none_or(|details| details.name.is_empty()) {
            Self::KindUnknown
        } else if status.is_not_found() {
            let is_namespace = details.is_some_and(|details| details.kind == "namespaces");
            if is_namespace { Self::NamespaceMissing } else { Self::ObjectMissing }
        } else if status.is_already_exists() {
            Self::Exists
        } else if status.is_conflict() {
            if is_about_fields() { Self::FieldsOwned } else { Self::Conflict }
        } else if says("unknown field") || says("field not declared in schema") {
            Self::FieldUnknown
        } else if status.code == 422 {
            Self::Invalid
        } else if status.is_forbidden() && says(" cannot ") {
            Self::RightMissing
        } else {
            Self::Other
        }
    }

    /// What to do about it, to follow the API server's own message; empty where only that message helps.
    const fn remedy(self) -> &'static str {
        match self {
            Self::KindUnknown => "; `kubectl api-resources` lists the kinds and versions that are served",
            Self::NamespaceMissing => "; create the namespace first",
            Self::Conflict => "; read the object again and repeat the change",
            Self::FieldsOwned => "; take these fields over, or leave them out",
            Self::FieldUnknown => "; `kubectl explain` shows the fields of the kind",
            Self::RightMissing => "; `kubectl auth can-i --list` shows the user's rights",
            Self::ObjectMissing | Self::Exists | Self::Invalid | Self::Other => "",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { doing, object, why, .. } = self;
        write!(f, "{doing} {object}: {why}")?;
        if self.may_be_done() {
            f.write_str("; the write may have been done: read the object before you repeat it")?;
        }
        Ok(())
    }
}

impl Error {
    /// What the API server's refusal is about, if it answered with one.
    #[must_use]
    pub fn refusal(&self) -> Option<Refusal> {
        match &self.why {
            Why::Refused(status) => Some(Refusal::of(status)),
            _ => None,
        }
    }

    /// Has the object changed since it was read? The change can be repeated on a newer one.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        self.refusal() == Some(Refusal::Conflict)
    }

    /// Is the object, its namespace or its kind not there?
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(&self.why, Why::Refused(status) if status.is_not_found())
    }

    /// May the write have been done all the same? True without an answer, and for an answer of 500 and above.
    #[must_use]
    pub fn may_be_done(&self) -> bool {
        let is_open = match &self.why {
            Why::Refused(status) => status.code >= 500,
            Why::Unanswered(_) => true,
            _ => false,
        };
        self.is_write && is_open
    }

    /// May the same read have an answer in a moment?
    pub(crate) fn is_transient(&self) -> bool {
        match &self.why {
            Why::Refused(status) => matches!(status.code, 401 | 408 | 429 | 500..),
            Why::Unanswered(_) => true,
            _ => false,
        }
    }
}

impl From<kube::Error> for Why {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused(status),
            kube::Error::BuildRequest(error) => Self::Unsendable(error.to_string()),
            other => match CallError::from(other) {
                CallError::Forbidden(status)
                | CallError::NotFound(status)
                | CallError::Conflict(status)
                | CallError::Rejected(status) => Self::Refused(status),
                unanswered => Self::Unanswered(unanswered),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(code: u16, reason: &str, message: &str, details: &Value) -> Status {
        serde_json::from_value(json!({
            "status": "Failure", "code": code, "reason": reason, "message": message, "details": details,
        }))
        .unwrap()
    }

    #[test]
    fn a_refusal_is_reported_by_its_code_reason_and_details() {
        let object = json!({"name": "a", "kind": "configmaps"});
        let owned = json!({"name": "a", "causes": [{"reason": "FieldManagerConflict", "field": ".spec.a"}]});
        for (code, reason, message, details, expected) in [
            (404, "", "404 page not found", json!({}), Refusal::KindUnknown),
            (
                404,
                "NotFound",
                "not found",
                json!({"name": "b", "kind": "namespaces"}),
                Refusal::NamespaceMissing,
            ),
            (404, "NotFound", "not found", object.clone(), Refusal::ObjectMissing),
            (409, "AlreadyExists", "exists", object.clone(), Refusal::Exists),
            (409, "Conflict", "modified", object.clone(), Refusal::Conflict),
            (409, "Conflict", "Apply failed", owned, Refusal::FieldsOwned),
            (422, "Invalid", "spec.a: too small", object.clone(), Refusal::Invalid),
            (
                400,
                "BadRequest",
                "strict decoding error: unknown field \"spec.b\"",
                object.clone(),
                Refusal::FieldUnknown,
            ),
            (403, "Forbidden", "User \"u\" cannot create resource", object.clone(), Refusal::RightMissing),
            (403, "Forbidden", "exceeded quota", object.clone(), Refusal::Other),
            (500, "InternalError", "webhook", object, Refusal::Other),
        ] {
            assert_eq!(Refusal::of(&status(code, reason, message, &details)), expected, "{message}");
        }
    }

    #[test]
    fn the_text_names_the_object_and_the_remedy() {
        let refused = status(
            404,
            "NotFound",
            "namespaces \"a\" not found",
            &json!({"name": "a", "kind": "namespaces"}),
        );
        let why = Why::from(kube::Error::Api(refused.boxed()));
        let error = Error { doing: "creating", object: "ConfigMap a/b".into(), why, is_write: true };
        assert_eq!(
            error.to_string(),
            "creating ConfigMap a/b: namespaces \"a\" not found; create the namespace first"
        );
        assert!(error.is_not_found() && !error.may_be_done() && !error.is_transient());
    }

    #[test]
    fn only_a_write_without_a_clear_answer_may_have_been_done() {
        let unanswered = || Why::Unanswered(CallError::Transient("connection refused".into()));
        let refused = |code| Why::Refused(Status::failure("no", "Reason").with_code(code).boxed());
        for (why, is_write, expected) in [
            (unanswered(), true, true),
            (unanswered(), false, false),
            (refused(502), true, true),
            (refused(429), true, false),
            (Why::Replaced, true, false),
        ] {
            let error = Error { doing: "replacing", object: "A b".into(), why: why.clone(), is_write };
            assert_eq!(error.may_be_done(), expected, "{why:?}");
        }
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_not_repeated() {
        let error = serde_json::from_str::<u8>("\"hunter2\"").unwrap_err();
        let why = Why::from(kube::Error::SerdeError(error));
        assert!(!why.to_string().contains("hunter2"), "{why}");
    }
}

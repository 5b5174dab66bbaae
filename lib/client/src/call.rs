//! One call to the API server: its deadline, and what its failure means.

use std::time::Duration;

use anyhow::Chain;
use http::Uri;
use http_body_util::LengthLimitError;
use kube::core::Status;
use tokio::time::timeout;

/// A call that has no answer by then has failed. Watches are not bound by it.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// What a failed call means to a program that may try again. [`Refusal`](crate::Refusal) distinguishes more, for a text
/// to a user.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CallError {
    /// 403: a missing right, or a quota, a policy, a Terminating namespace. Only a review can tell which.
    #[error("{}", .0.message)]
    Forbidden(Box<Status>),
    /// 404: there is no such object, or no such kind.
    #[error("{}", .0.message)]
    NotFound(Box<Status>),
    /// 409: the object exists, or is not the one that was seen any more.
    #[error("{}", .0.message)]
    Conflict(Box<Status>),
    /// 400, 422 and their like: refused for what it is, by the API server, a policy or a webhook.
    #[error("{}", .0.message)]
    Rejected(Box<Status>),
    /// The answer is longer than what is read of one: to be asked for in smaller parts.
    #[error("the response is too large")]
    TooLarge,
    /// No answer in time: the server may only be slow, and may have done what it was asked. Worth another try.
    #[error("{0}")]
    Late(String),
    /// Everything else: not reachable, overloaded. Worth another try.
    #[error("{0}")]
    Transient(String),
}

impl CallError {
    /// Its kind in a word, the same for all failures of that kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Forbidden(_) => "forbidden",
            Self::NotFound(_) => "not found",
            Self::Conflict(_) => "conflict",
            Self::Rejected(_) => "rejected",
            Self::TooLarge => "too large",
            Self::Late(_) | Self::Transient(_) => "transient",
        }
    }

    /// Does it say that the conversion webhook failed? See [`conversion_failed`].
    #[must_use]
    pub fn is_failed_conversion(&self) -> bool {
        self.to_string().contains(CONVERSION)
    }
}

/// With these words each message of the API server about a conversion webhook begins that failed. It gives the failure
/// no reason and no cause, and the code depends on what the webhook was asked for.
const CONVERSION: &str = "conversion webhook for ";

/// Does the API server say that the conversion webhook failed, rather than that it refuses the object?
#[must_use]
pub fn conversion_failed(status: &Status) -> bool {
    status.message.contains(CONVERSION)
}

/// Awaits one call, no longer than [`DEADLINE`].
///
/// # Errors
/// The failure, distinguished by what can be done about it.
pub async fn call<T>(request: impl Future<Output = kube::Result<T>>) -> Result<T, CallError> {
    match timeout(DEADLINE, request).await {
        Ok(answer) => answer.map_err(CallError::from),
        Err(_) => Err(no_answer(DEADLINE)),
    }
}

/// Is it the address of a watch, whose answer ends only after minutes?
#[must_use]
pub fn is_watch(uri: &Uri) -> bool {
    uri.query().is_some_and(|query| query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1")))
}

/// That a call has no answer after so long.
pub(crate) fn no_answer(deadline: Duration) -> CallError {
    CallError::Late(format!("the API server gave no answer within {} s", deadline.as_secs()))
}

/// Does a 403 say that the namespace is being deleted, rather than that a right is missing?
#[must_use]
pub fn is_terminating(status: &Status) -> bool {
    status
        .details
        .as_ref()
        .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
}

/// As [`call`], where "not there" is an answer.
///
/// # Errors
/// As [`call`], without [`CallError::NotFound`].
pub async fn lookup<T>(request: impl Future<Output = kube::Result<T>>) -> Result<Option<T>, CallError> {
    match call(request).await {
        Ok(found) => Ok(Some(found)),
        Err(CallError::NotFound(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

impl From<kube::Error> for CallError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => match status.code {
                403 => CallError::Forbidden(status),
                404 => CallError::NotFound(status),
                409 => CallError::Conflict(status),
                // 401 comes after a fresh token was tried, 408 and 429 ask for patience.
                400 | 402 | 405..=407 | 410..=428 | 431..=499 => CallError::Rejected(status),
                _ => CallError::Transient(format!("{} ({})", status.message, status.code)),
            },
            kube::Error::Service(source) => match source.downcast::<kube::Error>() {
                Ok(inner) => CallError::from(*inner),
                Err(source) if is_too_large(source.as_ref()) => CallError::TooLarge,
                Err(source) => CallError::Transient(with_causes(source.as_ref())),
            },
            // The parser's own words repeat the value that it stumbled over.
            kube::Error::SerdeError(error) => CallError::Transient(format!(
                "the API server's answer cannot be read: {:?} error at column {}",
                error.classify(),
                error.column()
            )),
            other if is_too_large(&other) => CallError::TooLarge,
            other => CallError::Transient(with_causes(&other)),
        }
    }
}

/// Is the answer longer than what the client reads of one?
#[must_use]
pub fn is_too_large(error: &(dyn std::error::Error + 'static)) -> bool {
    Chain::new(error).any(<dyn std::error::Error>::is::<LengthLimitError>)
}

fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    for inner in Chain::new(error).skip(1).map(ToString::to_string) {
        if !text.contains(&inner) {
            text.extend([": ", &inner]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn only_404_means_not_there() {
        for (code, expected) in [
            (403, "Forbidden"),
            (404, "NotFound"),
            (409, "Conflict"),
            (422, "Rejected"),
            (400, "Rejected"),
            (401, "Transient"),
            (500, "Transient"),
            (429, "Transient"),
        ] {
            let status = Status::failure("no", "Reason").with_code(code).boxed();
            let error = CallError::from(kube::Error::Api(status));
            assert!(format!("{error:?}").starts_with(expected), "{code}: {error:?}");
        }
    }

    #[test]
    fn a_failed_conversion_is_known_with_whatever_code() {
        // As apiextensions-apiserver writes it (webhook_converter.go).
        let webhook =
            "conversion webhook for weaver.example.com/v1alpha1, Kind=ConfigMapSync failed: no route";
        let wrapped = format!("Internal error occurred: {webhook}");
        for (message, expected) in [
            (webhook, true),
            (wrapped.as_str(), true),
            ("admission webhook \"a\" denied the request: no", false),
            ("configmapsyncs.weaver.example.com \"a\" not found", false),
        ] {
            for code in [400, 403, 404, 409, 422, 500] {
                let status = Status::failure(message, "Reason").with_code(code).boxed();
                assert_eq!(conversion_failed(&status), expected, "{code}: {message}");
                let error = CallError::from(kube::Error::Api(status));
                assert_eq!(error.is_failed_conversion(), expected, "{error:?}");
            }
        }
        assert!(!CallError::TooLarge.is_failed_conversion());
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_not_repeated() {
        let error = serde_json::from_str::<ConfigMap>(r#"{"data": "hunter2"}"#).unwrap_err();
        assert!(error.to_string().contains("hunter2"), "{error}");
        let text = CallError::from(kube::Error::SerdeError(error)).to_string();
        assert_eq!(text, "the API server's answer cannot be read: Data error at column 18");
    }
}

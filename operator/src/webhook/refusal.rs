//! Why a request is refused, and the limits that the message names.

use std::time::Duration;

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{Method, StatusCode};
use serde_json::json;
use weaver_api::webhook::REVIEW;

/// Largest request, in bytes. An object in the API server has 3 MiB at most, nearly all have some KiB.
pub const LARGEST: usize = 8 << 20;
/// Of a larger one, that much is read and forgotten, so that the client reads our answer rather than find the
/// connection broken under its writing.
pub const PATIENCE: usize = 8 * LARGEST;
/// For one request; the API server gives up after 30 s.
pub const DEADLINE: Duration = Duration::from_secs(25);
/// What the reviews that are converted may take in all, in bytes: see [`super::weight`].
pub const PARSED: u32 = 112 << 20;
/// For a body to arrive, or to be taken.
pub const ARRIVAL: Duration = Duration::from_secs(10);
/// The same where others need its memory.
pub const PATIENT: Duration = Duration::from_secs(1);
/// For memory or a converter, where others have all.
pub const QUEUE: Duration = Duration::from_secs(5);

/// Why a request is refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ConversionRefusal {
    /// The body is larger than [`LARGEST`].
    #[error("the request is larger than {} MiB, the most that this webhook reads", LARGEST >> 20)]
    TooLarge,
    /// Parsed, it would take more than [`PARSED`].
    #[error(
        "the request has so many values that converting it takes more than {} MiB: ask for fewer objects at once",
        PARSED >> 20
    )]
    TooManyValues,
    /// The answer is larger than all memory for answers.
    #[error("the answer is larger than {} MiB, the most that this webhook sends: ask for fewer objects at once", most >> 20)]
    LongAnswer {
        /// In bytes.
        most: usize,
    },
    /// The body ended before it was whole.
    #[error("the request was truncated")]
    CutOff,
    /// Not JSON, or not with the fields that a review has.
    #[error("the request is not a ConversionReview: {what} at line {line}, column {column}")]
    Malformed {
        what: &'static str,
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
    },
    /// A JSON object of another kind, or a review of another version.
    #[error("this webhook accepts a {} of {}, not a {kind:?} of {api_version:?}", REVIEW.1, REVIEW.0)]
    OtherKind {
        /// `apiVersion` as it was given, or empty.
        api_version: String,
        /// `kind` as it was given, or empty.
        kind: String,
    },
    /// A review with a response, or with nothing.
    #[error("the ConversionReview has no request")]
    NoRequest,
    /// All memory or all converters are taken, and stay so.
    #[error(
        "the webhook's memory is in use by other requests, and none ended within {} s: retry in a few seconds",
        QUEUE.as_secs()
    )]
    Busy,
    /// The client stopped sending, or sends too slowly.
    #[error(
        "the request did not arrive within {} s, or within {} s while others needed its memory: send it faster",
        ARRIVAL.as_secs(), PATIENT.as_secs()
    )]
    SlowBody,
    #[error("the request was not answered within {} s", DEADLINE.as_secs())]
    TooSlow,
    /// A mistake of ours.
    #[error("the conversion failed; see the webhook's log")]
    Failed,
    /// Nothing here but [`super::answer::router`]'s two paths.
    #[error("there is no {method} {path} here, only POST /convert and GET /healthz")]
    NotHere {
        method: Method,
        /// The path, without the query.
        path: String,
        /// Is it there with another method?
        known: bool,
    },
}

impl ConversionRefusal {
    /// The status and, in one word, the reason that Kubernetes has for it.
    fn code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::TooLarge | Self::TooManyValues | Self::LongAnswer { .. } => {
                (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge")
            }
            Self::CutOff | Self::Malformed { .. } | Self::OtherKind { .. } | Self::NoRequest => {
                (StatusCode::BAD_REQUEST, "BadRequest")
            }
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable"),
            Self::SlowBody => (StatusCode::REQUEST_TIMEOUT, "Timeout"),
            Self::TooSlow => (StatusCode::GATEWAY_TIMEOUT, "Timeout"),
            Self::Failed => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
            Self::NotHere { known: false, .. } => (StatusCode::NOT_FOUND, "NotFound"),
            Self::NotHere { known: true, .. } => (StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
        }
    }
}

impl IntoResponse for ConversionRefusal {
    fn into_response(self) -> Response {
        let (code, reason) = self.code();
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.to_string(), "reason": reason, "code": code.as_u16(),
        });
        (code, Json(status)).into_response()
    }
}

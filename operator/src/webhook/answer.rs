//! One request, one answer: `POST /convert` and `GET /healthz`.
//!
//! Every request is answered, also one that is too large, not JSON, of an unknown kind or too slow: with a
//! `Status` of Kubernetes, which the API server shows to whoever asked it. No log line repeats what a request
//! holds, and a refusal no more than its kind and path.
//!
//! Memory has a bound: all bodies together have [`MEMORY`], whole or not ([`super::arrival`]), and of the whole ones
//! [`AT_ONCE`] are converted at a time. Both are free again when the work has ended, also where nobody waits for that
//! work any more.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::header::{CONTENT_LENGTH, EXPECT};
use http::{HeaderMap, Method, StatusCode, Uri};
use kube::core::conversion::ConversionReview;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::{debug, error};

use super::arrival::{ARRIVAL, Memory, PATIENT};
use crate::code;
use weaver_host::http_server::Caller;

/// Largest request, in bytes. An object in the API server has 3 MiB at most, nearly all have some KiB.
pub const LARGEST: usize = 8 << 20;
/// Of a larger one, that much is read and forgotten, so that the client reads our answer rather than find the
/// connection broken under its writing.
pub const PATIENCE: usize = 8 * LARGEST;
/// For one request; the API server gives up after 30 s.
pub const DEADLINE: Duration = Duration::from_secs(25);
/// Reviews being converted at once; each may have [`LARGEST`] in memory, several times over.
const AT_ONCE: usize = 4;
/// Bytes of all bodies together.
pub const MEMORY: usize = AT_ONCE * LARGEST;
/// For memory or a converter, where others have all.
pub const QUEUE: Duration = Duration::from_secs(5);
/// `apiVersion` and `kind` of the one review that is answered.
pub const REVIEW: (&str, &str) = ("apiextensions.k8s.io/v1", "ConversionReview");

/// Why a request is refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// The body is larger than [`LARGEST`].
    #[error("the request is larger than {} MiB, the most that this webhook reads", LARGEST >> 20)]
    TooLarge,
    /// The body ended before it was whole.
    #[error("the request was cut off")]
    CutOff,
    /// Not JSON, or not with the fields that a review has.
    #[error("the request is not a ConversionReview: {what} at line {line}, column {column}")]
    Malformed {
        /// In fixed words.
        what: &'static str,
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
    },
    /// A JSON object of another kind, or a review of another version.
    #[error("this webhook answers a {} of {}, not a {kind:?} of {api_version:?}", REVIEW.1, REVIEW.0)]
    OtherKind {
        /// `apiVersion` as it was given, or empty.
        api_version: String,
        /// `kind` as it was given, or empty.
        kind: String,
    },
    /// A review that holds an answer, or nothing.
    #[error("the ConversionReview holds no request")]
    NoRequest,
    /// All memory or all converters are taken, and stay so.
    #[error(
        "other requests have all that this webhook may use at once, and none ended within {} s: ask again in some seconds",
        QUEUE.as_secs()
    )]
    Busy,
    /// The client stopped sending, or sends too slowly.
    #[error(
        "the request did not arrive within {} s, or within {} s while others needed its memory: send it faster",
        ARRIVAL.as_secs(), PATIENT.as_secs()
    )]
    SlowBody,
    /// Busy machine.
    #[error("the request was not answered within {} s", DEADLINE.as_secs())]
    TooSlow,
    /// A mistake of ours.
    #[error("the conversion failed for a reason of its own; the webhook's log has more")]
    Failed,
    /// Nothing here but [`router`]'s two paths.
    #[error("there is no {method} {path} here, only POST /convert and GET /healthz")]
    NotHere {
        /// The method.
        method: Method,
        /// The path, without the query.
        path: String,
        /// Is it there with another method?
        known: bool,
    },
}

impl Refusal {
    /// The status and, in one word, the reason that Kubernetes has for it.
    fn code(&self) -> (StatusCode, &'static str) {
        match self {
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
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

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (code, reason) = self.code();
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.to_string(), "reason": reason, "code": code.as_u16(),
        });
        (code, Json(status)).into_response()
    }
}

/// What all requests share.
#[derive(Clone, Debug)]
struct Shared {
    memory: Arc<Memory>,
    converters: Arc<Semaphore>,
}

impl Shared {
    fn new(memory: usize, converters: usize) -> Self {
        Self { memory: Arc::new(Memory::new(memory)), converters: Arc::new(Semaphore::new(converters)) }
    }
}

/// The webhook's paths.
pub fn router() -> Router {
    with(Shared::new(MEMORY, AT_ONCE))
}

fn with(shared: Shared) -> Router {
    let elsewhere = async |method: Method, uri: Uri| not_here(method, &uri, false);
    Router::new()
        .route("/convert", post(answer))
        .route("/healthz", get(async || "ok"))
        .method_not_allowed_fallback(async |method: Method, uri: Uri| not_here(method, &uri, true))
        .fallback(elsewhere)
        .with_state(shared)
}

fn not_here(method: Method, uri: &Uri, known: bool) -> Refusal {
    Refusal::NotHere { method, path: uri.path().to_owned(), known }
}

async fn answer(State(shared): State<Shared>, request: Request) -> Result<Response, Refusal> {
    let answered = timeout(DEADLINE, convert(shared, request)).await.unwrap_or(Err(Refusal::TooSlow));
    answered.inspect_err(|refusal| debug!("refused a request: {refusal}"))
}

async fn convert(shared: Shared, request: Request) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    announced(&head.headers)?;
    let content = shared.memory.read(body).await?;
    let permit = timeout(QUEUE, shared.converters.acquire_owned()).await.map_err(|_| Refusal::Busy)?;
    let permit = permit.map_err(|_| Refusal::Failed)?;
    // Elsewhere: a panic there is not ours, and other requests go on meanwhile. It cannot be stopped, so memory and
    // permit go with it.
    let converted = tokio::task::spawn_blocking(move || {
        let (_permit, content) = (permit, content);
        let review = parse(&content.bytes)?;
        let objects = review.request.as_ref().map_or(0, |request| request.objects.len());
        let answer = weaver_api::convert::review(review);
        debug!(objects, "answered a review");
        serde_json::to_vec(&answer).map_err(|_| Refusal::Failed)
    });
    let answer = converted.await.map_err(|error| {
        error!(code = code::WEBHOOK_FAILED, %error, "converting");
        Refusal::Failed
    })??;
    // As the API server does, and as others could: it decides who goes last, and nothing else.
    if let Some(caller) = head.extensions.get::<Caller>() {
        caller.mark_known();
    }
    Ok(([(http::header::CONTENT_TYPE, "application/json")], answer).into_response())
}

/// Is it worth reading, by what the client says of its size?
fn announced(headers: &HeaderMap) -> Result<(), Refusal> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    // Who asks first whether to send it has not begun.
    let asks_first = headers.contains_key(EXPECT);
    if announced.is_some_and(|size| size > if asks_first { LARGEST } else { PATIENCE }) {
        return Err(Refusal::TooLarge);
    }
    Ok(())
}

/// A review that holds a request.
fn parse(content: &[u8]) -> Result<ConversionReview, Refusal> {
    /// First, since what another kind has in its fields would only confuse.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Kind {
        #[serde(default)]
        api_version: String,
        #[serde(default)]
        kind: String,
    }
    let Kind { api_version, kind } = serde_json::from_slice(content).map_err(|error| malformed(&error))?;
    if (api_version.as_str(), kind.as_str()) != REVIEW {
        let short = |text: String| text.chars().take(100).collect();
        return Err(Refusal::OtherKind { api_version: short(api_version), kind: short(kind) });
    }
    let review: ConversionReview = serde_json::from_slice(content).map_err(|error| malformed(&error))?;
    if review.request.is_none() { Err(Refusal::NoRequest) } else { Ok(review) }
}

/// The parser's own words may hold a piece of the request.
fn malformed(error: &serde_json::Error) -> Refusal {
    use serde_json::error::Category;
    let what = match error.classify() {
        Category::Data => "a field is missing or of another type",
        Category::Eof => "it ends too early",
        Category::Syntax | Category::Io => "it is not JSON",
    };
    Refusal::Malformed { what, line: error.line(), column: error.column() }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;

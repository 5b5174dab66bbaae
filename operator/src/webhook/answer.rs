//! One request, one answer: `POST /convert` and `GET /healthz`.
//!
//! Every request is answered, also one that is too large, not JSON, of an unknown kind or too slow: with a
//! `Status` of Kubernetes, which the API server shows to anyone who asked it. No log line repeats the content of a
//! request, and a refusal no more than its kind and path.
//!
//! Memory has a bound: all bodies together have [`MEMORY`], whole or not ([`super::arrival`]), and of the whole ones
//! [`AT_ONCE`] are converted at a time. Both are free again when the work has ended, also if the client no longer waits
//! for it.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::{CONTENT_LENGTH, EXPECT};
use http::{HeaderMap, Method, Uri};
use kube::core::conversion::ConversionReview;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::{debug, error};

use super::arrival::BodyMemory;
use super::refusal::{ConversionRefusal, DEADLINE, LARGEST, PATIENCE, QUEUE};
use crate::log_code;
use weaver_api::webhook::REVIEW;
use weaver_client::managed_fields;
use weaver_host::http_server::Caller;

/// Reviews being converted at once; each may have [`LARGEST`] in memory, several times over.
const AT_ONCE: usize = 4;
/// Bytes of all bodies together.
pub const MEMORY: usize = AT_ONCE * LARGEST;

/// What all requests share.
#[derive(Clone, Debug)]
struct WebhookState {
    memory: Arc<BodyMemory>,
    converters: Arc<Semaphore>,
}

impl WebhookState {
    fn new(memory: usize, converters: usize) -> Self {
        Self { memory: Arc::new(BodyMemory::new(memory)), converters: Arc::new(Semaphore::new(converters)) }
    }
}

pub fn router() -> Router {
    with(WebhookState::new(MEMORY, AT_ONCE))
}

fn with(shared: WebhookState) -> Router {
    let elsewhere = async |method: Method, uri: Uri| not_here(method, &uri, false);
    Router::new()
        .route("/convert", post(answer))
        .route("/healthz", get(async || "ok"))
        .method_not_allowed_fallback(async |method: Method, uri: Uri| not_here(method, &uri, true))
        .fallback(elsewhere)
        .with_state(shared)
}

fn not_here(method: Method, uri: &Uri, known: bool) -> ConversionRefusal {
    ConversionRefusal::NotHere { method, path: uri.path().to_owned(), known }
}

async fn answer(State(shared): State<WebhookState>, request: Request) -> Result<Response, ConversionRefusal> {
    let answered =
        timeout(DEADLINE, convert(shared, request)).await.unwrap_or(Err(ConversionRefusal::TooSlow));
    answered.inspect_err(|refusal| debug!("refused a request: {refusal}"))
}

async fn convert(shared: WebhookState, request: Request) -> Result<Response, ConversionRefusal> {
    let (head, body) = request.into_parts();
    announced(&head.headers)?;
    let content = shared.memory.read(body).await?;
    let permit =
        timeout(QUEUE, shared.converters.acquire_owned()).await.map_err(|_| ConversionRefusal::Busy)?;
    let permit = permit.map_err(|_| ConversionRefusal::Failed)?;
    // Elsewhere: a panic there is not ours, and other requests continue meanwhile. It cannot be stopped, so memory and
    // permit go with it.
    let converted = tokio::task::spawn_blocking(move || {
        let (_permit, content) = (permit, content);
        let review = parse(&content.bytes)?;
        let objects = review.request.as_ref().map_or(0, |request| request.objects.len());
        let answer = weaver_api::convert::review(review);
        debug!(objects, "answered a review");
        serde_json::to_vec(&answer).map_err(|_| ConversionRefusal::Failed)
    });
    let answer = converted.await.map_err(|error| {
        error!(code = log_code::WEBHOOK_FAILED, %error, "the conversion of an object failed");
        ConversionRefusal::Failed
    })??;
    // As the API server does, and as others could: it decides who is evicted last, and nothing else.
    if let Some(caller) = head.extensions.get::<Caller>() {
        caller.mark_known();
    }
    Ok(([(http::header::CONTENT_TYPE, "application/json")], answer).into_response())
}

/// Is it worth reading, by what the client says of its size?
fn announced(headers: &HeaderMap) -> Result<(), ConversionRefusal> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    // Who asks first whether to send it has not begun.
    let asks_first = headers.contains_key(EXPECT);
    if announced.is_some_and(|size| size > if asks_first { LARGEST } else { PATIENCE }) {
        return Err(ConversionRefusal::TooLarge);
    }
    Ok(())
}

/// A review with a request.
fn parse(content: &[u8]) -> Result<ConversionReview, ConversionRefusal> {
    /// First, since what another kind has in its fields would only confuse.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ReviewKind {
        #[serde(default)]
        api_version: String,
        #[serde(default)]
        kind: String,
    }
    let ReviewKind { api_version, kind } =
        serde_json::from_slice(content).map_err(|error| malformed(&error))?;
    if (api_version.as_str(), kind.as_str()) != REVIEW {
        let short = |text: String| text.chars().take(100).collect();
        return Err(ConversionRefusal::OtherKind { api_version: short(api_version), kind: short(kind) });
    }
    // The API server keeps that of the object, whatever is answered.
    let content = managed_fields::removed(content);
    let review: ConversionReview = serde_json::from_slice(&content).map_err(|error| malformed(&error))?;
    if review.request.is_none() { Err(ConversionRefusal::NoRequest) } else { Ok(review) }
}

/// The parser's own message may contain a piece of the request.
fn malformed(error: &serde_json::Error) -> ConversionRefusal {
    use serde_json::error::Category;
    let what = match error.classify() {
        Category::Data => "a field is missing or of another type",
        Category::Eof => "it ends too early",
        Category::Syntax | Category::Io => "it is not JSON",
    };
    ConversionRefusal::Malformed { what, line: error.line(), column: error.column() }
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;

//! One request, one answer: `POST /convert` and `GET /healthz`.
//!
//! Every request is answered, also one that is too large, not JSON, of an unknown kind or too slow: with a
//! `Status` of Kubernetes, which the API server shows to anyone who asked it. No log line repeats the content of a
//! request, and a refusal no more than its kind and path.
//!
//! Memory has a bound: all bodies together have [`MEMORY`], whole or not, and all answers as much until they are taken
//! ([`super::arrival`]). Of the whole bodies [`AT_ONCE`] are converted at a time, and together they take [`PARSED`]
//! ([`weight`]). All of it is free again when the work has ended, also if the client no longer waits for it.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::{CONTENT_LENGTH, EXPECT};
use http::{HeaderMap, Method, Uri};
use kube::core::conversion::ConversionReview;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::{debug, error};

use super::arrival::BodyMemory;
use super::refusal::{ConversionRefusal, DEADLINE, LARGEST, PARSED, PATIENCE, QUEUE};
use super::weight;
use crate::log_code;
use weaver_api::webhook::REVIEW;
use weaver_client::managed_fields;
use weaver_host::http_server::Caller;

/// Reviews being converted at once.
const AT_ONCE: usize = 4;
/// Bytes that a review may take in any case: who asks for one object waits for no one who asks for thousands.
const LIGHT: u32 = 1 << 20;
/// Bytes of all bodies together, and of all answers.
pub const MEMORY: usize = AT_ONCE * LARGEST;

/// What all requests share.
#[derive(Clone, Debug)]
struct WebhookState {
    memory: Arc<BodyMemory>,
    converters: Arc<Semaphore>,
    /// Bytes for what is parsed, of reviews that are not [`LIGHT`].
    parsed: Arc<Semaphore>,
    answers: Arc<BodyMemory>,
}

impl WebhookState {
    fn new(memory: usize, converters: usize) -> Self {
        Self {
            memory: Arc::new(BodyMemory::new(memory)),
            converters: Arc::new(Semaphore::new(converters)),
            parsed: Arc::new(Semaphore::new(PARSED as usize)),
            answers: Arc::new(BodyMemory::new(memory)),
        }
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
    let caller = head.extensions.get::<Caller>().cloned();
    // It takes memory as well, which is not counted, and a client may send many without a body.
    drop(head);
    let mut content = shared.memory.read(body).await?;
    let converter = permits(Arc::clone(&shared.converters), 1).await?;
    let (content, weight) = in_thread(move || {
        let _converter = converter;
        content.bytes = without_unread(&content.bytes)?;
        let weight = weight::of_review(&content.bytes);
        Ok((content, weight))
    })
    .await?;
    let weight = u32::try_from(weight).ok().filter(|weight| *weight <= PARSED);
    let weight = weight.ok_or(ConversionRefusal::TooManyValues)?;
    // Without a converter, which others need meanwhile.
    let parsed = if weight > LIGHT { Some(permits(shared.parsed, weight).await?) } else { None };
    let converter = permits(shared.converters, 1).await?;
    let (answer, in_use) = in_thread(move || {
        let review = parse(&content.bytes);
        // Its text is not needed any more, nor the memory of that.
        drop(content);
        let review = review?;
        let objects = review.request.as_ref().map_or(0, |request| request.objects.len());
        let answer = weaver_api::convert::review(review);
        debug!(objects, "answered a review");
        let answer = serde_json::to_vec(&answer).map_err(|_| ConversionRefusal::Failed)?;
        Ok((answer, (converter, parsed)))
    })
    .await?;
    let body = shared.answers.send(answer).await?;
    // The answer has memory of its own now.
    drop(in_use);
    // As the API server does, and as others could: it decides who is evicted last, and nothing else.
    if let Some(caller) = caller {
        caller.mark_known();
    }
    Ok(([(http::header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Of what all requests share, as soon as others give it back.
async fn permits(of: Arc<Semaphore>, count: u32) -> Result<OwnedSemaphorePermit, ConversionRefusal> {
    let taken = timeout(QUEUE, of.acquire_many_owned(count)).await.map_err(|_| ConversionRefusal::Busy)?;
    taken.map_err(|_| ConversionRefusal::Failed)
}

/// Elsewhere: a panic there is not ours, and other requests continue meanwhile. It cannot be stopped, so memory and
/// permits go with it.
async fn in_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ConversionRefusal> + Send + 'static,
) -> Result<T, ConversionRefusal> {
    spawn_blocking(work).await.map_err(|error| {
        error!(code = log_code::WEBHOOK_FAILED, %error, "the conversion of an object failed");
        ConversionRefusal::Failed
    })?
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

/// The text of a review without what nothing reads.
fn without_unread(content: &[u8]) -> Result<Vec<u8>, ConversionRefusal> {
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
    Ok(managed_fields::removed(content))
}

/// A review with a request.
fn parse(content: &[u8]) -> Result<ConversionReview, ConversionRefusal> {
    let review: ConversionReview = serde_json::from_slice(content).map_err(|error| malformed(&error))?;
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

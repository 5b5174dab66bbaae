//! A connection to the engine for each request. No more is read of the answers than a limit: the engine may be one of a
//! user without rights, and the agent has 128 MB.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bollard::errors::Error;
use bollard::{API_DEFAULT_VERSION, BollardRequest, Docker, body_full};
use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri};
use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
#[cfg(unix)]
use tokio::net::UnixStream as Stream;
#[cfg(windows)]
use tokio::net::windows::named_pipe::{ClientOptions, NamedPipeClient as Stream};

/// What is read of all answers that one [`Docker`] gets.
#[derive(Debug, Clone, Copy)]
pub struct AnswerLimit {
    pub bytes: usize,
    /// Objects and arrays of JSON ([`containers`]).
    pub containers: usize,
}

/// How many objects and arrays JSON may hold, or this piece of it: its braces and brackets, those in texts too. In
/// memory an object of 7 bytes takes 700, and an array of 3 takes 150.
pub fn containers(json: &[u8]) -> usize {
    json.split(|byte| matches!(byte, b'{' | b'[')).count() - 1
}

impl AnswerLimit {
    fn take(&mut self, read: &[u8]) -> io::Result<()> {
        let left = (self.bytes.checked_sub(read.len()), self.containers.checked_sub(containers(read)));
        let (Some(bytes), Some(containers)) = left else {
            return Err(io::Error::other("its answers are too large"));
        };
        *self = Self { bytes, containers };
        Ok(())
    }
}

/// An engine at this socket, each answer of which begins within `patience`.
pub fn docker(socket: &str, patience: Duration, limit: AnswerLimit) -> Result<Docker, Error> {
    let (socket, left) = (socket.to_owned(), Arc::new(Mutex::new(limit)));
    let ask = move |request: BollardRequest| answer(socket.clone(), Arc::clone(&left), request);
    Docker::connect_with_custom_transport(
        ask,
        Some("http://localhost"),
        patience.as_secs(),
        API_DEFAULT_VERSION,
    )
}

/// Questions to an engine whose answers are together within a limit, and each is there within `patience`.
pub struct Questions {
    socket: String,
    patience: Duration,
    left: Arc<Mutex<AnswerLimit>>,
    is_of_user: AtomicBool,
}

/// The user whose process listens at a socket, where the system says so: an extension of each answer.
#[derive(Clone, Copy)]
struct Listener(Option<u32>);

impl Listener {
    fn is_user(self) -> bool {
        self.0.is_none_or(|uid| uid != 0 && Some(uid) != crate::platform::caller())
    }
}

/// What an engine answers where it refuses, podman too.
#[derive(Deserialize)]
struct EngineRefusal {
    message: String,
}

impl Questions {
    pub fn new(socket: &str, patience: Duration, limit: AnswerLimit) -> Self {
        let left = Arc::new(Mutex::new(limit));
        Self { socket: socket.to_owned(), patience, left, is_of_user: AtomicBool::new(false) }
    }

    /// Whether an answer came from a process that is neither root's nor of the user of this program.
    pub fn is_of_user(&self) -> bool {
        self.is_of_user.load(Ordering::Relaxed)
    }

    /// What the engine has at this path. No version of its API is asked for, so it answers in its newest: of a version
    /// that it does not have, it refuses every path.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Error> {
        let request = Request::get(path).body(body_full(Bytes::new())).map_err(io::Error::other)?;
        tokio::time::timeout(self.patience, self.answered(request))
            .await
            .map_err(|_| Error::RequestTimeoutError)?
    }

    async fn answered<T: DeserializeOwned>(&self, request: BollardRequest) -> Result<T, Error> {
        let response = answer(self.socket.clone(), Arc::clone(&self.left), request).await?;
        let listener = response.extensions().get::<Listener>().copied();
        if listener.is_none_or(Listener::is_user) {
            self.is_of_user.store(true, Ordering::Relaxed);
        }
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        if status.is_success() {
            return Ok(serde_json::from_slice(&body)?);
        }
        let message =
            serde_json::from_slice::<EngineRefusal>(&body).map(|refusal| refusal.message).unwrap_or_default();
        Err(Error::DockerResponseServerError { status_code: status.as_u16(), message })
    }
}

async fn answer(
    socket: String,
    left: Arc<Mutex<AnswerLimit>>,
    request: BollardRequest,
) -> Result<Response<Incoming>, Error> {
    let stream = opened(&socket).await?;
    let listener = listener(&stream);
    let stream = Limited { stream, left };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // It ends with the answer, or when that is dropped.
    tokio::spawn(connection);
    let (mut parts, body) = request.into_parts();
    parts.uri = parts.uri.path_and_query().cloned().map_or_else(Uri::default, Uri::from);
    parts.headers.insert(HOST, HeaderValue::from_static("localhost"));
    let mut response = sender.send_request(BollardRequest::from_parts(parts, body)).await?;
    response.extensions_mut().insert(listener);
    Ok(response)
}

/// By the connection itself: what lies at the path may be another socket by now.
#[cfg(unix)]
fn listener(stream: &Stream) -> Listener {
    Listener(stream.peer_cred().ok().map(|peer| peer.uid()))
}

#[cfg(windows)]
const fn listener(_: &Stream) -> Listener {
    Listener(None)
}

#[cfg(unix)]
async fn opened(socket: &str) -> io::Result<Stream> {
    Stream::connect(socket).await
}

#[cfg(windows)]
async fn opened(pipe: &str) -> io::Result<Stream> {
    /// `ERROR_PIPE_BUSY`: all of its instances are taken.
    const BUSY: i32 = 231;
    loop {
        match ClientOptions::new().open(pipe) {
            Err(error) if error.raw_os_error() == Some(BUSY) => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            opened => return opened,
        }
    }
}

struct Limited {
    stream: Stream,
    left: Arc<Mutex<AnswerLimit>>,
}

impl AsyncRead for Limited {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        Poll::Ready(self.left.lock().take(&buffer.filled()[before..]))
    }
}

impl AsyncWrite for Limited {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_a_users_unless_root_or_who_asks_runs_it() {
        let caller = crate::platform::caller();
        for (uid, want) in [(Some(0), false), (caller, caller.is_none()), (Some(54_321), true), (None, true)]
        {
            assert_eq!(Listener(uid).is_user(), want, "{uid:?}");
        }
    }
}

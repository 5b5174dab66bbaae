//! Connections that requests share.
//!
//! A request continues the first connection that has a stream free, else on a new one. Requests that wait for a
//! connection share the making of it; where that failed a moment ago, they fail at once and do not try again. A
//! connection that is not needed any more is closed after a while. An answer that pauses for too long has
//! failed: pings notice a connection that froze, but not one stream on it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use hyper::client::conn::http2::SendRequest;
use kube::client::Body;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tower::BoxError;

use super::connector::{Connected, Connector, MOST_STREAMS};
use super::send_gate::SendGate;

/// After which time an idle connection is closed, if there is another.
const IDLE: Duration = Duration::from_mins(1);
/// Pause after a connection could not be made, and up to half as much more.
const PAUSE: Duration = Duration::from_millis(200);
/// How long the head of an answer may take, whatever it is the answer to.
const HEAD: Duration = Duration::from_secs(30);
/// How often a request looks for a stream: a connection may close while the request continues it.
const TRIES: usize = 3;

/// What a pool answers with.
pub type PooledResponse = Response<PooledBody>;

/// The pool; a clone is the same one.
#[derive(Clone)]
pub struct Pool(Arc<Inner>);

struct Inner {
    connector: Connector,
    /// How long an answer may pause.
    patience: Duration,
    open: Mutex<Vec<Connection>>,
    /// Held while a connection is made; what the last failure was.
    making: AsyncMutex<Option<Failure>>,
}

struct Connection {
    connected: Connected,
    load: Arc<AtomicUsize>,
    used: Instant,
}

struct Failure {
    until: Instant,
    reason: String,
}

/// A stream of a connection, given back when the response has been read or dropped.
struct StreamPermit(Arc<AtomicUsize>);

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Pool {
    /// `patience`: how long an answer may pause.
    pub fn new(connector: Connector, patience: Duration) -> Self {
        Self(Arc::new(Inner { connector, patience, open: Mutex::default(), making: AsyncMutex::default() }))
    }

    /// Sends a request, and gives the answer as soon as its head is there.
    pub async fn send(&self, mut request: Request<Body>) -> Result<PooledResponse, BoxError> {
        for _ in 0..TRIES {
            let (mut sender, permit) = self.permit().await?;
            // The wait for a connection may have lasted longer than the right to write.
            if let Some(gate) = request.extensions().get::<SendGate>() {
                gate.admits()?;
            }
            let patience = self.0.patience;
            let Ok(sent) = timeout(patience.min(HEAD), sender.try_send_request(request)).await else {
                return Err("the API server does not begin to answer".into());
            };
            match sent {
                Ok(response) => {
                    return Ok(response.map(|body| PooledBody {
                        body,
                        patience,
                        pause: Box::pin(sleep(patience)),
                        _permit: permit,
                    }));
                }
                // The connection closed before the request went out: the server has not seen it.
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(error.into_error().into()),
                },
            }
        }
        Err("each connection to the API server closed before the request went out".into())
    }

    async fn permit(&self) -> Result<(SendRequest<Body>, StreamPermit), BoxError> {
        if let Some(found) = self.find() {
            return Ok(found);
        }
        let mut failure = self.0.making.lock().await;
        // Another request may have made one meanwhile, or just failed to.
        if let Some(found) = self.find() {
            return Ok(found);
        }
        if let Some(failure) = failure.as_ref().filter(|failure| Instant::now() < failure.until) {
            return Err(failure.reason.clone().into());
        }
        match self.0.connector.connect().await {
            Ok(connected) => {
                *failure = None;
                let load = Arc::new(AtomicUsize::new(1));
                let found = (connected.sender.clone(), StreamPermit(load.clone()));
                self.open().push(Connection { connected, load, used: Instant::now() });
                Ok(found)
            }
            Err(error) => {
                let reason = error.to_string();
                let until = Instant::now() + PAUSE.mul_f64(1.0 + 0.5 * fastrand::f64());
                *failure = Some(Failure { until, reason: reason.clone() });
                Err(reason.into())
            }
        }
    }

    fn find(&self) -> Option<(SendRequest<Body>, StreamPermit)> {
        let mut open = self.open();
        let now = Instant::now();
        let mut first = true;
        open.retain(|connection| {
            let idle = connection.load.load(Ordering::Acquire) == 0 && now > connection.used + IDLE;
            !connection.connected.sender.is_closed() && (std::mem::take(&mut first) || !idle)
        });
        open.iter_mut().find_map(|connection| {
            // The server may allow less.
            let most = MOST_STREAMS.min(connection.connected.most.load(Ordering::Acquire));
            let take = |load: usize| (load < most).then_some(load + 1);
            connection.load.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).ok()?;
            connection.used = now;
            Some((connection.connected.sender.clone(), StreamPermit(connection.load.clone())))
        })
    }

    fn open(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.0.open.lock()
    }
}

/// The body of an answer; its stream of the connection is taken until it is dropped.
pub struct PooledBody {
    body: Incoming,
    patience: Duration,
    pause: Pin<Box<Sleep>>,
    _permit: StreamPermit,
}

impl HttpBody for PooledBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            let until = Instant::now() + self.patience;
            self.pause.as_mut().reset(until);
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        match self.pause.as_mut().poll(context) {
            Poll::Ready(()) => {
                Poll::Ready(Some(Err("the API server paused in the middle of an answer".into())))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

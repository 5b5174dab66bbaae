//! The HTTP server of every port: health, metrics and the conversion webhook; with TLS or without.
//!
//! No client can keep others out. A handshake and each head of an HTTP/1.1 request have a time limit. A connection ends
//! when no request has come for a while, and at a certain age in any case; it may then finish what it has begun. Where
//! all slots are taken, the connection whose client has been silent longest gives its slot to the new one
//! ([`eviction`]); one that is being answered never does. A handler limits what it reads of a body.
//!
//! What this cannot do: tell the API server from another client by a certificate. The API server can present one to
//! admission webhooks (`AdmissionConfiguration`, `kubeConfigFile`) and not to conversion webhooks, whose client
//! it makes with an empty kubeconfig. So a handler says which clients have behaved as one ([`Caller`]), and
//! these go last.

mod connections;
pub mod eviction;
mod limits;

use std::convert::Infallible;
#[cfg(unix)]
use std::io;
use std::net::IpAddr;
#[cfg(unix)]
use std::net::SocketAddr;
#[cfg(unix)]
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use tracing::{debug, warn};

pub use self::connections::Caller;
use self::connections::{Arriving, Connection, ConnectionSlot, Connections, Exchange};
use self::eviction::ConnectionAdmission;
pub use self::limits::ConnectionLimits;
use crate::log_code;

/// For a client that is asked to go while none of its requests is under way.
const FAREWELL: Duration = Duration::from_secs(5);
/// The same, where its slot has been given away already.
const SHORT_FAREWELL: Duration = Duration::from_secs(1);
/// Before the next try where a connection cannot be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Requests at once on one HTTP/2 connection.
const STREAMS: u32 = 64;
/// What a connection may send of bodies that are not read yet, in bytes.
const WINDOW: u32 = 256 << 10;
/// Most of a head, in bytes, and of what is read ahead over HTTP/1.1.
const BUFFER: usize = 64 << 10;

/// Serves `router` until `stop`, then returns when the last connection has ended, or after [`ConnectionLimits::drain`].
///
/// Without `tls` it speaks HTTP/1.1 only.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: &'static ConnectionLimits,
    stop: CancellationToken,
) {
    serve_at(listener, |_| true, tls, router, limits, stop).await;
}

/// The same, for connections to those addresses of this host alone for which `is_served`; others are closed.
pub async fn serve_at(
    listener: TcpListener,
    is_served: impl Fn(IpAddr) -> bool,
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: &'static ConnectionLimits,
    stop: CancellationToken,
) {
    let open = Arc::new(Connections::default());
    let mut tasks = JoinSet::new();
    let mut newcomer: Option<(TcpStream, IpAddr)> = None;
    for key in 0_u64.. {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(ended) = tasks.join_next() => {
                if let Err(error) = ended {
                    warn!(code = log_code::HTTP_CONNECTION_LOST, %error, "a connection was lost");
                }
            }
            accepted = listener.accept(), if newcomer.is_none() => match accepted {
                Ok((stream, peer)) => match stream.local_addr() {
                    Ok(local) if is_served(local.ip().to_canonical()) => newcomer = Some((stream, peer.ip())),
                    _ => debug!(%peer, "closed a connection to an address that is not served"),
                },
                Err(error) => {
                    warn!(code = log_code::HTTP_CONNECTION_LOST, %error, "could not accept a connection");
                    // Out of file descriptors, say: one of ours may give its back.
                    open.shed();
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            () = open.changed(), if newcomer.is_some() => {}
        }
        let Some((stream, peer)) = newcomer.take() else { continue };
        match open.admit(key, peer, limits) {
            Ok(slot) => {
                let (tls, router, stop) = (tls.clone(), router.clone(), stop.clone());
                tasks.spawn(connection(stream, slot, tls, router, limits, stop));
                // It reads what has arrived before the next newcomer can have its slot: a client that sends its request
                // at once is answered, however many others connect and send nothing.
                yield_now().await;
            }
            Err(ConnectionAdmission::Refuse) => {
                debug!(%peer, "too many connections of one address are being answered");
            }
            Err(_) => newcomer = Some((stream, peer)),
        }
    }
    drop((listener, newcomer));
    let drained = timeout(limits.drain, async { while tasks.join_next().await.is_some() {} }).await;
    if drained.is_err() {
        let seconds = limits.drain.as_secs();
        warn!(
            code = log_code::HTTP_CUT_OFF,
            connections = tasks.len(),
            "closed connections whose requests did not \
            finish within {seconds} s"
        );
    }
}

/// The socket on standard input that someone else listens on already, such as systemd: connections to it wait
/// instead of being refused while this program starts.
///
/// # Errors
/// It is no socket, or one of another kind.
#[cfg(unix)]
pub fn inherited(stdin: impl AsFd) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = std::net::TcpListener::from(stdin.as_fd().try_clone_to_owned()?);
    socket.set_nonblocking(true)?;
    // One of another kind has none, or not one of the internet.
    let address = socket.local_addr()?;
    Ok((TcpListener::from_std(socket)?, address))
}

async fn connection(
    stream: TcpStream,
    slot: ConnectionSlot,
    tls: Option<TlsAcceptor>,
    router: Router,
    limits: &ConnectionLimits,
    stop: CancellationToken,
) {
    // Answers are small, and someone waits for each.
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "setting TCP_NODELAY");
    }
    let Some(tls) = tls else { return talk(stream, false, &slot.connection, router, limits, stop).await };
    let handshake = tokio::select! {
        () = stop.cancelled() => return,
        () = slot.connection.leave.cancelled() => return debug!("closed a TLS handshake in favour of another connection"),
        handshake = timeout(limits.head, tls.accept(stream)) => handshake,
    };
    let stream = match handshake {
        Ok(Ok(stream)) => {
            debug!("accepted a connection");
            stream
        }
        Ok(Err(error)) => return debug!(%error, "a TLS handshake failed"),
        Err(_) => return debug!("a TLS handshake took more than {} s", limits.head.as_secs()),
    };
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    talk(stream, is_http2, &slot.connection, router, limits, stop).await;
}

/// Requests and answers, after the handshake.
async fn talk<S>(
    stream: S,
    is_http2: bool,
    held: &Arc<Connection>,
    router: Router,
    limits: &ConnectionLimits,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(limits.head).max_buf_size(BUFFER);
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(limits.age / 10)
        .max_concurrent_streams(STREAMS)
        .initial_connection_window_size(WINDOW)
        .initial_stream_window_size(WINDOW);
    // As agreed in the handshake: who is left to guess waits for the first bytes without a limit.
    let http = if is_http2 { http.http2_only() } else { http.http1_only() };
    let service = service_fn(|request| answer(Arc::clone(held), router.clone(), request));
    let connection = http.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    let mut begun = held.begun.subscribe();
    let ended = tokio::select! {
        ended = connection.as_mut() => Ok(ended),
        () = stop.cancelled() => Err(FAREWELL),
        () = sleep(limits.age) => Err(FAREWELL),
        () = idle(&mut begun, limits.idle) => Err(FAREWELL),
        () = held.leave.cancelled() => {
            // Who never asked anything useful has no request that could get lost.
            if !held.deserves_farewell() {
                return debug!("closed a connection in favour of another");
            }
            Err(SHORT_FAREWELL)
        }
    };
    let ended = match ended {
        Ok(ended) => Ok(ended),
        Err(farewell) => {
            connection.as_mut().graceful_shutdown();
            // Its response may also be in flight, at an unknown point: so a client that sent a request has the longer
            // time, except an idle one whose slot is given away.
            let has_asked = *held.begun.borrow() && farewell == FAREWELL;
            let patience = if has_asked || held.is_at_work() { limits.last_request } else { farewell };
            timeout(patience, connection).await
        }
    };
    match ended {
        Ok(Ok(())) => {}
        // A client may close its connection at any time.
        Ok(Err(error)) => debug!(%error, "a connection broke"),
        Err(_) => debug!("a connection was closed early"),
    }
}

/// One request, from its head to its answer.
async fn answer(
    held: Arc<Connection>,
    router: Router,
    request: http::Request<Incoming>,
) -> Result<axum::response::Response, Infallible> {
    let exchange = Exchange::begin(&held);
    let mut request: Request = request.map(|body| Body::new(Arriving::new(body, &exchange)));
    request.extensions_mut().insert(Caller::of(&held));
    let answer = router.oneshot(request).await;
    drop(exchange);
    answer
}

/// Until no request has begun for `longest`.
async fn idle(begun: &mut watch::Receiver<bool>, longest: Duration) {
    while let Ok(Ok(())) = timeout(longest, begun.changed()).await {}
}

#[cfg(test)]
mod tests;

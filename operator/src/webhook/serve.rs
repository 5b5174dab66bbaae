//! Connections: TLS, HTTP/1.1 and HTTP/2, as many as there are places, each in a task of its own.
//!
//! Nobody holds the others up. A handshake has ten seconds, a connection ten minutes, after which it may finish
//! what it has begun; both then give their place to somebody else. Where all places are taken, clients wait
//! unaccepted.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::server::{NoServerSessionStorage, ResolvesServerCert};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

/// Connections at once.
const PLACES: usize = 256;
/// For a TLS handshake, and for the head of a request.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// After that long a connection takes no more requests; clients open another.
const AGE: Duration = Duration::from_mins(10);
/// For requests under way when the process ends.
const DRAIN: Duration = Duration::from_secs(10);
/// For requests under way when a connection's time ends: longer than any may take
/// ([`super::answer::DEADLINE`]).
const LAST_REQUEST: Duration = Duration::from_secs(30);
/// Requests at once on one HTTP/2 connection.
const STREAMS: u32 = 64;

/// The server's side of TLS. The certificate is asked for at each handshake.
///
/// # Errors
/// Never with ring, which knows all versions and suites that are asked for.
pub fn tls(certificates: Arc<dyn ResolvesServerCert>) -> Result<TlsAcceptor, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // A resumed session would go on without seeing the new certificate.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Accepts connections until `stop`, then returns when the last one has ended, or after [`DRAIN`].
pub async fn serve(listener: TcpListener, tls: TlsAcceptor, router: Router, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(PLACES));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended {
                    warn!(%error, "a connection was lost");
                }
            }
            accepted = accept(&listener, &places) => match accepted {
                Some((stream, place)) => {
                    let (tls, router, stop) = (tls.clone(), router.clone(), stop.clone());
                    connections.spawn(async move {
                        connection(stream, tls, router, stop).await;
                        drop(place);
                    });
                }
                // Out of file descriptors, say: others have to end first.
                None => sleep(Duration::from_millis(100)).await,
            },
        }
    }
    drop(listener);
    let drained = timeout(DRAIN, async { while connections.join_next().await.is_some() {} }).await;
    if drained.is_err() {
        warn!(connections = connections.len(), "cut off after {} s", DRAIN.as_secs());
    }
}

async fn accept(
    listener: &TcpListener,
    places: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => Some((stream, place)),
        Err(error) => {
            warn!(%error, "accepting a connection");
            None
        }
    }
}

async fn connection(stream: TcpStream, tls: TlsAcceptor, router: Router, stop: CancellationToken) {
    // Answers are small, and somebody waits for each.
    if let Err(error) = stream.set_nodelay(true) {
        debug!(%error, "setting TCP_NODELAY");
    }
    let handshake = tokio::select! {
        () = stop.cancelled() => return,
        handshake = timeout(HANDSHAKE, tls.accept(stream)) => handshake,
    };
    let stream = match handshake {
        Ok(Ok(stream)) => {
            debug!("accepted a connection");
            stream
        }
        Ok(Err(error)) => return debug!(%error, "a TLS handshake failed"),
        Err(_) => return debug!("a TLS handshake took more than {} s", HANDSHAKE.as_secs()),
    };
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE);
    http.http2().timer(TokioTimer::new()).keep_alive_interval(AGE / 10).max_concurrent_streams(STREAMS);
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = stop.cancelled() => None,
        () = sleep(AGE) => None,
    };
    let ended = if let Some(ended) = ended {
        Ok(ended)
    } else {
        connection.as_mut().graceful_shutdown();
        timeout(LAST_REQUEST, connection).await
    };
    match ended {
        Ok(Ok(())) => {}
        // A client that goes away is its own affair.
        Ok(Err(error)) => debug!(%error, "a connection broke"),
        Err(_) => debug!("a connection was cut off"),
    }
}

//! Connections: TLS, HTTP/1.1 and HTTP/2, as many as there are places, each in a task of its own.
//!
//! Nobody holds the others up. A handshake has ten seconds, and so has the head of an HTTP/1.1 request. A
//! connection ends when no request has come for half a minute, and after ten minutes in any case; it may then
//! finish what it has begun. Each then gives its place to somebody else. Where all places are taken, clients wait
//! unaccepted.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::server::{NoServerSessionStorage, ResolvesServerCert};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::util::MapRequestLayer;
use tracing::{debug, warn};

use crate::code;

/// Connections at once.
const PLACES: usize = 256;
/// For a TLS handshake, and for the head of a request.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// After that long a connection takes no more requests; clients open another.
const AGE: Duration = Duration::from_mins(10);
/// Without a new request, that long, a connection takes no more of them; clients open another. Longer than any
/// request may take.
const IDLE: Duration = Duration::from_secs(30);
/// For a client that never asked anything, to understand that it shall go.
const FAREWELL: Duration = Duration::from_secs(5);
/// For requests under way when the process ends.
const DRAIN: Duration = Duration::from_secs(10);
/// For requests under way when a connection's time ends: longer than any may take
/// ([`super::answer::DEADLINE`]).
const LAST_REQUEST: Duration = Duration::from_secs(30);
/// Requests at once on one HTTP/2 connection.
const STREAMS: u32 = 64;
/// What a connection may send of bodies that nobody reads yet, in bytes.
const WINDOW: u32 = 256 << 10;
/// Most of a head, in bytes, and of what is read ahead over HTTP/1.1.
const BUFFER: usize = 64 << 10;

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
                    warn!(code = code::WEBHOOK_CONNECTION_LOST, %error, "a connection was lost");
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
        warn!(
            code = code::WEBHOOK_CUT_OFF,
            connections = connections.len(),
            "cut off after {} s",
            DRAIN.as_secs()
        );
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
            warn!(code = code::WEBHOOK_CONNECTION_LOST, %error, "accepting a connection");
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
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    talk(stream, is_http2, router, stop).await;
}

/// Requests and answers, after the handshake.
async fn talk<S>(stream: S, is_http2: bool, router: Router, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut http = auto::Builder::new(TokioExecutor::new());
    http.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE).max_buf_size(BUFFER);
    http.http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(AGE / 10)
        .max_concurrent_streams(STREAMS)
        .initial_connection_window_size(WINDOW)
        .initial_stream_window_size(WINDOW);
    // As agreed in the handshake: who is left to guess waits for the first bytes without a limit.
    let http = if is_http2 { http.http2_only() } else { http.http1_only() };
    let (begins, mut begun) = watch::channel(false);
    let router = router.layer(MapRequestLayer::new(move |request: Request| {
        begins.send_replace(true);
        request
    }));
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = stop.cancelled() => None,
        () = sleep(AGE) => None,
        () = idle(&mut begun) => None,
    };
    let ended = if let Some(ended) = ended {
        Ok(ended)
    } else {
        connection.as_mut().graceful_shutdown();
        let patience = if *begun.borrow() { LAST_REQUEST } else { FAREWELL };
        timeout(patience, connection).await
    };
    match ended {
        Ok(Ok(())) => {}
        // A client that goes away is its own affair.
        Ok(Err(error)) => debug!(%error, "a connection broke"),
        Err(_) => debug!("a connection was cut off"),
    }
}

/// Until no request has begun for [`IDLE`].
async fn idle(begun: &mut watch::Receiver<bool>) {
    while let Ok(Ok(())) = timeout(IDLE, begun.changed()).await {}
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use hyper::client::conn::http2;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::time::Instant;

    use super::*;
    use crate::webhook::answer;

    /// The client's side, and a task that ends with the connection.
    fn talking(is_http2: bool) -> (DuplexStream, tokio::task::JoinHandle<u64>) {
        let (client, server) = duplex(1 << 16);
        let begun = Instant::now();
        let task = tokio::spawn(async move {
            talk(server, is_http2, answer::router(), CancellationToken::new()).await;
            begun.elapsed().as_secs()
        });
        (client, task)
    }

    /// Seconds until the connection ends, well before its age.
    async fn ended(task: tokio::task::JoinHandle<u64>) -> u64 {
        timeout(AGE / 2, task).await.unwrap().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_after_the_handshake_loses_its_place() {
        for (is_http2, most) in [(false, HANDSHAKE), (true, IDLE + FAREWELL)] {
            let (_silent, task) = talking(is_http2);
            let seconds = ended(task).await;
            assert!(seconds <= most.as_secs(), "http2: {is_http2}, after {seconds} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_trickles_has_a_limit() {
        let (mut client, task) = talking(false);
        let trickle = tokio::spawn(async move {
            while client.write_all(b"P").await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        });
        assert!(ended(task).await <= HANDSHAKE.as_secs() + 1);
        trickle.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn http2_without_a_request_is_ended_and_with_requests_goes_on() {
        for requests in [0_u64, 1, 8] {
            let (client, task) = talking(true);
            let client = TokioIo::new(client);
            let (mut sender, connection) =
                http2::handshake::<_, _, Body>(TokioExecutor::new(), client).await.unwrap();
            let connection = tokio::spawn(connection);
            for number in 0..requests {
                if number > 0 {
                    sleep(IDLE / 2).await;
                }
                let request = http::Request::get("https://webhook/healthz").body(Body::empty()).unwrap();
                assert_eq!(sender.send_request(request).await.unwrap().status(), 200, "request {number}");
            }
            let last = requests.saturating_sub(1) * IDLE.as_secs() / 2;
            let seconds = ended(task).await;
            assert!((last + IDLE.as_secs()..=last + 35).contains(&seconds), "{requests}: after {seconds} s");
            // The client was told, rather than cut off.
            connection.await.unwrap().unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_http2_client_does_not_hold_up_the_end() {
        let (client, server) = duplex(1 << 16);
        let stop = CancellationToken::new();
        stop.cancel();
        timeout(DRAIN, talk(server, true, answer::router(), stop)).await.unwrap();
        drop(client);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_takes_its_answer_is_cut_off() {
        let router = Router::new().route("/", axum::routing::get(async || vec![b' '; 1 << 20]));
        let (mut client, server) = duplex(1 << 10);
        let task = tokio::spawn(talk(server, false, router, CancellationToken::new()));
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let begun = Instant::now();
        timeout(AGE / 2, task).await.unwrap().unwrap();
        assert!(begun.elapsed() <= IDLE + LAST_REQUEST + FAREWELL, "{:?}", begun.elapsed());
        let mut taken = Vec::new();
        client.read_to_end(&mut taken).await.unwrap();
        assert!(taken.len() < 1 << 20);
    }
}

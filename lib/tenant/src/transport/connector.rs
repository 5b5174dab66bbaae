//! One HTTP/2 connection to the API server.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::Config;
use kube::client::{Body, ConfigExt as _};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower::BoxError;
use tracing::debug;

use super::error::TransportError;

/// Longest time for a connection with its handshakes.
const DEADLINE: Duration = Duration::from_secs(5);
/// How often a connection is asked whether it is still there, busy or not, and how long it has for an answer.
const PING: Duration = Duration::from_secs(20);
const PONG: Duration = Duration::from_secs(10);
/// How many bytes of one response may be under way unread.
const STREAM_WINDOW: u32 = 64 * 1024;

/// Most requests at once on one connection; k3s allows 250.
pub const MOST_STREAMS: usize = 200;

/// Protocol names as TLS negotiates them.
const HTTP2: &[u8] = b"h2";

/// A connection on which HTTP/2 is agreed.
pub struct Connected {
    /// Where requests go in.
    pub sender: SendRequest<Body>,
    /// How many of them the server allows at once, as it says itself.
    pub most: Arc<AtomicUsize>,
}

/// Makes connections to one server, each with its own handshake.
#[derive(Clone)]
pub struct Connector {
    host: String,
    port: u16,
    name: ServerName<'static>,
    tls: Arc<ClientConfig>,
}

impl Connector {
    /// For the server of `config`; `None`, where a proxy or plain HTTP is between.
    ///
    /// # Errors
    /// If its name, certificates or keys cannot be used.
    pub fn new(config: &Config) -> Result<Option<Self>, TransportError> {
        if config.proxy_url.is_some() || config.cluster_url.scheme_str() != Some("https") {
            return Ok(None);
        }
        let host = config.cluster_url.host().ok_or(TransportError::NoHost)?;
        // An IPv6 address is in brackets there, and nowhere else.
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = config.tls_server_name.clone().unwrap_or_else(|| host.clone());
        let name = ServerName::try_from(name.clone()).map_err(|_| TransportError::NotAName(name))?;
        let mut tls = config.rustls_client_config().map_err(TransportError::Tls)?;
        tls.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
        let port = config.cluster_url.port_u16().unwrap_or(443);
        Ok(Some(Self { host, port, name, tls: Arc::new(tls) }))
    }

    /// Does the server speak HTTP/2?
    ///
    /// # Errors
    /// If it cannot be reached, or is not who it should be.
    pub async fn speaks_http2(&self) -> Result<bool, TransportError> {
        let server = format!("{}:{}", self.host, self.port);
        match timeout(DEADLINE, self.handshake()).await {
            Ok(Ok(stream)) => Ok(is_http2(&stream)),
            Ok(Err(source)) => Err(TransportError::Connect { server, source }),
            Err(_) => Err(TransportError::NoAnswer { server, seconds: DEADLINE.as_secs() }),
        }
    }

    /// Connects.
    ///
    /// # Errors
    /// If that fails, or takes too long.
    pub async fn connect(&self) -> Result<Connected, BoxError> {
        let connected = timeout(DEADLINE, async {
            let stream = self.handshake().await?;
            if !is_http2(&stream) {
                return Err("the API server no longer speaks HTTP/2".into());
            }
            let (sender, mut connection) = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .keep_alive_interval(PING)
                .keep_alive_timeout(PONG)
                .keep_alive_while_idle(true)
                // Until the server says how many requests it allows; what it refuses then was not begun.
                .initial_max_send_streams(MOST_STREAMS)
                .initial_stream_window_size(STREAM_WINDOW)
                // However many responses are left unread, the others continue.
                .initial_connection_window_size(STREAM_WINDOW * 256)
                .handshake(TokioIo::new(stream))
                .await?;
            let most = Arc::new(AtomicUsize::new(connection.current_max_send_streams()));
            let allowed = most.clone();
            tokio::spawn(async move {
                let ended = poll_fn(|context| {
                    let ended = Pin::new(&mut connection).poll(context);
                    allowed.store(connection.current_max_send_streams(), Ordering::Release);
                    ended
                });
                if let Err(error) = ended.await {
                    debug!(%error, "a connection to the API server ended");
                }
            });
            Ok::<_, BoxError>(Connected { sender, most })
        });
        connected.await.map_err(|_| format!("no connection within {} s", DEADLINE.as_secs()))?
    }

    async fn handshake(&self) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        TlsConnector::from(self.tls.clone()).connect(self.name.clone(), stream).await
    }
}

fn is_http2(stream: &TlsStream<TcpStream>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(HTTP2)
}

//! Requests to the API server over few connections: HTTP/2, many requests on each.
//!
//! kube's own connector speaks HTTP/1.1, with a TLS connection for each watch: a hundred tenants in ten
//! namespaces would need a thousand of them. And hyper-util's client keeps one HTTP/2 connection per host, on
//! which requests queue forever once the watches fill it. So there is a small pool: a request continues the
//! first connection that has a stream free, else on a new one, and writes never share connections with watches, nor
//! small ones with large ones.
//! Where the API server, or a proxy before it, speaks no HTTP/2, kube's connector is used after all.

mod clock;
mod connector;
mod error;
mod pool;
mod send_gate;

use std::time::Duration;

use http::{Request, Response};
use hyper::body::Body as HttpBody;
use kube::client::{Body, ClientBuilder, ConfigExt as _, DynBody};
use kube::config::AuthInfo;
use kube::{Client, Config};
use tower::layer::util::Identity;
use tower::util::BoxService;
use tower::{BoxError, Layer, Service, ServiceBuilder};
use weaver_client::call::is_watch;

pub use clock::ServerClock;
pub use connector::Connector;
pub use error::TransportError;
use pool::{Pool, PooledResponse};
pub use send_gate::SendGate;

/// How long an answer may pause.
const ANSWER: Duration = Duration::from_secs(30);
/// The same for a watch, where the configuration does not say how long they are.
const LONGEST_WATCH: Duration = Duration::from_mins(5);

/// Bytes from which on a body is large. On one connection a server takes a limited length of bodies that it has not read
/// yet, whosever they are: k3s, with Go's default, a MiB.
const LARGE: u64 = 128 << 10;

/// What sends requests; a program's own layers are put on top of it.
pub type Sender = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// A client with the credentials of `config`, over HTTP/2 if there is a `connector` for it. Each request passes the
/// `layer` first: [`tower::layer::util::Identity`], or a [`ServiceBuilder`] of what a program counts, limits or
/// refuses.
///
/// # Errors
/// If TLS or the credentials cannot be set up.
pub fn client<L>(config: &Config, connector: Option<&Connector>, layer: &L) -> Result<Client, TransportError>
where
    L: Layer<Sender>,
    L::Service: Service<Request<Body>, Response = Response<Box<DynBody>>> + Send + 'static,
    <L::Service as Service<Request<Body>>>::Future: Send + 'static,
    <L::Service as Service<Request<Body>>>::Error: Into<BoxError>,
{
    let Some(connector) = connector else {
        let builder = ClientBuilder::try_from(config.clone()).map_err(TransportError::Tls)?;
        return Ok(builder.with_layer(layer).build());
    };
    // A watch whose stream is full, or ten thousand of them, never delay a write: each class has connections of its
    // own.
    let calls = Pool::new(connector.clone(), ANSWER);
    let large = Pool::new(connector.clone(), ANSWER);
    // A watch may have nothing to tell until it ends.
    let watches = Pool::new(connector.clone(), config.read_timeout.unwrap_or(LONGEST_WATCH));
    let send = tower::service_fn(move |request: Request<Body>| {
        let is_large = HttpBody::size_hint(request.body()).lower() >= LARGE;
        let pool = if is_watch(request.uri()) {
            &watches
        } else if is_large {
            &large
        } else {
            &calls
        };
        let pool = pool.clone();
        async move { pool.send(request).await }
    });
    let service = ServiceBuilder::new()
        .map_response(|answer: PooledResponse| answer.map(|body| Box::new(body) as Box<DynBody>))
        .layer(config.base_uri_layer())
        .layer(config.extra_headers_layer().map_err(TransportError::Headers)?)
        .option_layer(config.auth_layer().map_err(TransportError::Credentials)?)
        .map_err(BoxError::from)
        .service(send);
    let builder = ClientBuilder::new(BoxService::new(service), config.default_namespace.clone());
    Ok(builder.with_layer(layer).build())
}

/// What all tenants share: a client like [`client`]'s, without any credential, over HTTP/2 where the server speaks it.
///
/// kube's own retries are off: they would hide for minutes that a request fails.
///
/// # Errors
/// If the server cannot be reached, is not who it should be, or TLS cannot be set up.
pub async fn shared(config: &Config) -> Result<Client, TransportError> {
    let mut config = config.clone();
    config.auth_info = AuthInfo::default();
    config.default_retry = false;
    let connector = match Connector::new(&config)? {
        Some(connector) if connector.speaks_http2().await? => Some(connector),
        _ => None,
    };
    client(&config, connector.as_ref(), &Identity::new())
}

#[cfg(test)]
mod tests;

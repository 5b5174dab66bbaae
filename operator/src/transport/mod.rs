//! Requests to the API server over few connections: HTTP/2, many requests on each.
//!
//! kube's own connector speaks HTTP/1.1, with a TLS connection for each watch: a hundred tenants in ten namespaces would
//! hold a thousand of them. And hyper-util's client keeps one HTTP/2 connection per host, on which requests queue for
//! ever once the watches fill it. So there is a small [`pool`] of our own. Where the API server, or what stands before
//! it, speaks no HTTP/2, kube's connector is used after all.

mod clock;
mod connector;
mod pool;

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;

use anyhow::Context as _;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use tower::{BoxError, Layer, Service, ServiceBuilder};

use crate::health::Health;
use crate::lease::fence::Fence;
use crate::metrics::{Identity, Metrics};

pub use clock::ServerClock;
pub use connector::Connector;
use pool::Pool;

/// How long an answer may pause.
const ANSWER: Duration = Duration::from_secs(30);
/// The same for a watch, where the configuration does not say how long they are.
const LONGEST_WATCH: Duration = Duration::from_mins(5);

/// A client with the credentials of `config`, whose writes pass the `fence`; over HTTP/2, if there is a `connector` for it.
///
/// # Errors
/// If TLS or the credentials cannot be set up.
pub fn client(
    config: &Config,
    connector: Option<&Connector>,
    counted: Counted,
    fence: &Fence,
) -> anyhow::Result<Client> {
    let Some(connector) = connector else {
        let builder = ClientBuilder::try_from(config.clone()).context("setting up TLS")?;
        return Ok(builder.with_layer(&counted).with_layer(fence).build());
    };
    // A watch whose stream is full, or ten thousand of them, never hold up a write: each class has connections of its
    // own.
    let calls = Pool::new(connector.clone(), ANSWER);
    // A watch may have nothing to tell until it ends.
    let watches = Pool::new(connector.clone(), config.read_timeout.unwrap_or(LONGEST_WATCH));
    let send = tower::service_fn(move |request: Request<Body>| {
        let pool = if is_watch(&request) { watches.clone() } else { calls.clone() };
        async move { pool.send(request).await }
    });
    let service = ServiceBuilder::new()
        .layer(fence.clone())
        .layer(counted)
        .layer(config.base_uri_layer())
        .layer(config.extra_headers_layer().context("the headers of the configuration")?)
        .option_layer(config.auth_layer().context("the credentials of the kubeconfig")?)
        .map_err(BoxError::from)
        .service(send);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build::<pool::PooledBody>())
}

fn is_watch(request: &Request<Body>) -> bool {
    request
        .uri()
        .query()
        .is_some_and(|query| query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1")))
}

/// A layer that counts requests, and reads the clock of who answers them.
#[derive(Clone)]
pub struct Counted {
    /// Whose they are.
    pub identity: Identity,
    /// Where they are counted.
    pub metrics: Arc<Metrics>,
    /// The API server's.
    pub clock: ServerClock,
    /// What the operator asks for as itself is a sign of life.
    pub health: Health,
}

impl<S> Layer<S> for Counted {
    type Service = Counting<S>;

    fn layer(&self, inner: S) -> Counting<S> {
        Counting { counted: self.clone(), inner }
    }
}

/// A service behind [`Counted`].
#[derive(Clone)]
pub struct Counting<S> {
    counted: Counted,
    inner: S,
}

impl<S, B> Service<Request<Body>> for Counting<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<B>, S::Error>>;

    fn poll_ready(&mut self, context: &mut TaskContext<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (method, watch, counted) = (request.method().clone(), is_watch(&request), self.counted.clone());
        if counted.identity == Identity::Operator && method == Method::GET {
            counted.health.asked(request.uri());
        }
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = answer.as_ref().ok().map(Response::status);
            if let Ok(answer) = &answer {
                counted.clock.read(answer.headers());
            }
            counted.metrics.asked(counted.identity, &method, watch, code);
            answer
        })
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

//! Requests to the API server over few connections: HTTP/2, many requests on each.
//!
//! kube's own connector speaks HTTP/1.1, with a TLS connection for each watch: a hundred tenants in ten namespaces would
//! hold a thousand of them. And hyper-util's client keeps one HTTP/2 connection per host, on which requests queue for
//! ever once the watches fill it. So there is a small [`pool`] of our own. Where the API server, or what stands before
//! it, speaks no HTTP/2, kube's connector is used after all.

mod connector;
mod pool;

use anyhow::Context as _;
use http::{Request, Response};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder};

pub use connector::Connector;
use pool::Pool;

/// A client with the credentials of `config`; over HTTP/2, if there is a `connector` for it.
///
/// # Errors
/// If TLS or the credentials cannot be set up.
pub fn client(config: &Config, connector: Option<&Connector>) -> anyhow::Result<Client> {
    let Some(connector) = connector else {
        return Ok(ClientBuilder::try_from(config.clone()).context("setting up TLS")?.build());
    };
    // A watch whose stream is full, or ten thousand of them, never hold up a write: each class has connections of its
    // own.
    let (watches, calls) = (Pool::new(connector.clone()), Pool::new(connector.clone()));
    let send = tower::service_fn(move |request: Request<Body>| {
        let pool = if is_watch(&request) { watches.clone() } else { calls.clone() };
        async move { pool.send(request).await }
    });
    let service = ServiceBuilder::new()
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

/// What a pool answers with.
type Answer = Response<pool::PooledBody>;

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

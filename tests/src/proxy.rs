//! A plain HTTP proxy in front of an API server that lets a test act between a look and a write.
//!
//! The operator is pointed at it by its kubeconfig; requests keep the operator's own credentials. Before a
//! request is handed on, the test's hook is awaited, so whatever it does happens *before* the server sees the
//! request and *after* the operator decided to send it. Another hook is awaited before an answer is handed back.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kube::client::Body;
use kube::config::AuthInfo;
use kube::{Client, Config};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Called with method and path of each request before it is handed on.
pub type Hook = Arc<dyn Fn(Method, String) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Called with each request; what it gives is the answer, and the server never sees the request.
pub type Instead = Arc<dyn Fn(&http::request::Parts) -> Option<Response<Body>> + Send + Sync>;

/// What is done around each request.
#[derive(Clone)]
pub struct Hooks {
    /// First of all, instead of anything else.
    pub instead: Instead,
    /// Before it is handed on.
    pub before: Hook,
    /// Before its answer is handed back.
    pub after: Hook,
}

impl Hooks {
    /// Nothing is.
    #[must_use]
    pub fn none() -> Self {
        let nothing: Hook = Arc::new(|_, _| Box::pin(std::future::ready(())));
        Self { instead: Arc::new(|_| None), before: nothing.clone(), after: nothing }
    }
}

impl From<Hook> for Hooks {
    fn from(before: Hook) -> Self {
        Self { before, ..Self::none() }
    }
}

/// A running proxy; ends when dropped.
pub struct Proxy {
    /// Where it listens.
    pub address: SocketAddr,
    _task: JoinSet<()>,
}

impl Proxy {
    /// Starts a proxy to the server of `config`, whose credentials it does not use.
    pub async fn start(config: &Config, hooks: Hooks) -> Self {
        let mut config = config.clone();
        config.auth_info = AuthInfo::default();
        config.default_retry = false;
        let server = Client::try_from(config).unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (server, hooks) = (server.clone(), hooks.clone());
                connections.spawn(async move {
                    let service = service_fn(move |request| forward(server.clone(), hooks.clone(), request));
                    // A client that goes away ends its connection; that is no failure of the proxy.
                    let _ = auto::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { address, _task: task }
    }
}

async fn forward(
    server: Client,
    hooks: Hooks,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let (mut parts, body) = request.into_parts();
    if let Some(answer) = (hooks.instead)(&parts) {
        return Ok(answer);
    }
    let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
    (hooks.before)(method.clone(), path.clone()).await;
    parts.headers.remove(http::header::HOST);
    // kube's client speaks HTTP/1.1 to the server, whatever came in.
    parts.version = http::Version::HTTP_11;
    let body = Body::from(body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default());
    let answer = server.send(Request::from_parts(parts, body)).await.unwrap_or_else(|error| {
        Response::builder().status(502).body(Body::from(error.to_string().into_bytes())).unwrap()
    });
    (hooks.after)(method, path).await;
    Ok(answer)
}

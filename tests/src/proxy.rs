//! A proxy in front of an API server that lets a test act between a look and a write.
//!
//! The operator is pointed at it by its kubeconfig, and speaks TLS and HTTP/2 with it, as with an API server; requests
//! keep the operator's own credentials. Before a request is passed on, the test's hook is awaited, so whatever it does
//! happens *before* the server sees the request and *after* the operator decided to send it. Another hook is awaited
//! before an answer is handed back, and the rest of an answer can be blocked for good.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::{StreamExt as _, stream};
use http::request::Parts;
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, StreamBody};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use kube::client::Body;
use kube::config::{AuthInfo, Cluster};
use kube::{Client, Config};
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Called with method and path of each request before it is handed on.
pub type Hook = Arc<dyn Fn(Method, String) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Called with each request; what it gives is the answer, and the server never sees the request.
pub type Instead = Arc<dyn Fn(&Parts) -> Option<Response<Body>> + Send + Sync>;

/// Called with each request; from when what it gives is true nothing of the answer's body passes any more, nor its end.
pub type Frozen = Arc<dyn Fn(&Parts) -> Arc<AtomicBool> + Send + Sync>;

/// An answer as it is handed back.
type Answer = Response<UnsyncBoxBody<Bytes, kube::Error>>;

/// What is done around each request.
#[derive(Clone)]
pub struct Hooks {
    /// First of all, instead of anything else.
    pub instead: Instead,
    /// Before it is handed on.
    pub before: Hook,
    /// Before its answer is handed back.
    pub after: Hook,
    /// While its answer is.
    pub frozen: Frozen,
}

impl Hooks {
    pub fn none() -> Self {
        let nothing: Hook = Arc::new(|_, _| Box::pin(std::future::ready(())));
        let frozen: Frozen = Arc::new(|_| Arc::default());
        Self { instead: Arc::new(|_| None), before: nothing.clone(), after: nothing, frozen }
    }
}

impl From<Hook> for Hooks {
    fn from(before: Hook) -> Self {
        Self { before, ..Self::none() }
    }
}

/// A running proxy; ends when dropped.
pub struct Proxy {
    address: SocketAddr,
    /// Its own, in PEM.
    certificate: String,
    _task: JoinSet<()>,
}

impl Proxy {
    /// Starts a proxy to the server of `config`, whose credentials it does not use.
    pub async fn start(config: &Config, hooks: Hooks) -> Self {
        let mut config = config.clone();
        config.auth_info = AuthInfo::default();
        config.default_retry = false;
        let server = Client::try_from(config).unwrap();
        let (tls, certificate) = identity();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (server, hooks, tls) = (server.clone(), hooks.clone(), tls.clone());
                connections.spawn(async move {
                    // A client that does not trust us gets the error from its own TLS.
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let service = service_fn(move |request| forward(server.clone(), hooks.clone(), request));
                    // A client that goes away ends its connection; that is no failure of the proxy.
                    let _ = auto::Builder::new(TokioExecutor::new())
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { address, certificate, _task: task }
    }

    /// The cluster of a kubeconfig for connections through it.
    pub fn cluster(&self) -> Cluster {
        Cluster {
            server: Some(format!("https://{}", self.address)),
            certificate_authority_data: Some(STANDARD.encode(&self.certificate)),
            ..Cluster::default()
        }
    }
}

/// A certificate for the loopback address that is self-signed.
fn identity() -> (TlsAcceptor, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap().self_signed(&key).unwrap();
    let mut tls = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        )
        .unwrap();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    (TlsAcceptor::from(Arc::new(tls)), certificate.pem())
}

async fn forward(server: Client, hooks: Hooks, request: Request<Incoming>) -> Result<Answer, Infallible> {
    let (mut parts, body) = request.into_parts();
    if let Some(answer) = (hooks.instead)(&parts) {
        return Ok(answer.map(BodyExt::boxed_unsync));
    }
    let frozen = (hooks.frozen)(&parts);
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
    Ok(answer.map(|body| until(frozen, body)))
}

/// What comes of `body` until it is `frozen`.
fn until(frozen: Arc<AtomicBool>, body: Body) -> UnsyncBoxBody<Bytes, kube::Error> {
    let pieces = stream::unfold((BodyStream::new(body), frozen), async |(mut body, frozen)| {
        let piece = body.next().await;
        if frozen.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        Some((piece?, (body, frozen)))
    });
    BodyExt::boxed_unsync(StreamBody::new(pieces))
}

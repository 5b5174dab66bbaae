use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::join_all;
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tower::layer::util::Identity;

use super::*;

/// An API server that streams without end on watches and answers everything else at once.
struct Server {
    config: Config,
    accepted: Arc<AtomicUsize>,
    streams: Arc<AtomicUsize>,
    connections: Arc<tokio::sync::Mutex<JoinSet<()>>>,
    _accepting: JoinSet<()>,
}

impl Server {
    async fn start(protocols: &[&[u8]], most_streams: u32) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec!["localhost".into()]).unwrap().self_signed(&key).unwrap();
        let mut tls = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            )
            .unwrap();
        tls.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let mut config = Config::new(url.parse().unwrap());
        config.root_cert = Some(vec![certificate.der().to_vec()]);
        let (accepted, streams): (Arc<AtomicUsize>, Arc<AtomicUsize>) = Default::default();
        let connections: Arc<tokio::sync::Mutex<JoinSet<()>>> = Arc::default();
        let (counted, served, running) = (accepted.clone(), streams.clone(), connections.clone());
        let mut accepting = JoinSet::new();
        accepting.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, counted, served) = (acceptor.clone(), counted.clone(), served.clone());
                running.lock().await.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    counted.fetch_add(1, Ordering::SeqCst);
                    let service = service_fn(move |request: Request<Incoming>| {
                        let answer = answer(&request, &served);
                        async move {
                            if request.uri().path().ends_with("/silent") {
                                std::future::pending::<()>().await;
                            }
                            Ok::<_, Infallible>(answer)
                        }
                    });
                    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .timer(TokioTimer::new())
                        .max_concurrent_streams(most_streams)
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self { config, accepted, streams, connections, _accepting: accepting }
    }

    fn connector(&self) -> Connector {
        Connector::new(&self.config).unwrap().unwrap()
    }

    /// Connections that were made and are not the probe's.
    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

fn answer(
    request: &Request<Incoming>,
    streams: &AtomicUsize,
) -> http::Response<UnsyncBoxBody<Bytes, Infallible>> {
    if request.uri().path().ends_with("/frozen") {
        return http::Response::new(
            http_body_util::StreamBody::new(futures::stream::pending()).boxed_unsync(),
        );
    }
    if !request.uri().query().is_some_and(|query| query.contains("watch=true")) {
        return http::Response::new(http_body_util::Full::from("{}").boxed_unsync());
    }
    streams.fetch_add(1, Ordering::SeqCst);
    // More than fits into any window.
    let endless = futures::stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from(vec![b' '; 16 * 1024])));
    let slow = endless.enumerate().then(|(index, chunk)| async move {
        if index > 64 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        chunk.map(hyper::body::Frame::data)
    });
    http::Response::new(http_body_util::StreamBody::new(slow).boxed_unsync())
}

/// A client without a layer of its own.
fn client(config: &Config, connector: &Connector) -> Client {
    super::client(config, Some(connector), &Identity::new()).unwrap()
}

fn watch() -> Request<Body> {
    Request::get("/api/v1/configmaps?labelSelector=x&watch=true").body(Body::empty()).unwrap()
}

fn write() -> Request<Body> {
    Request::put("/api/v1/namespaces/a/configmaps/b").body(Body::from(b"{}".to_vec())).unwrap()
}

async fn read(response: http::Response<Body>) -> usize {
    response.into_body().collect().await.unwrap().to_bytes().len()
}

#[tokio::test]
async fn six_hundred_watches_that_no_one_reads_share_few_connections_and_hold_up_no_write() {
    let server = Server::start(&[b"h2"], 250).await;
    let client = client(&server.config, &server.connector());
    let watches = join_all((0..600).map(|_| client.send(watch()))).await;
    assert!(watches.iter().all(|watch| watch.as_ref().is_ok_and(|watch| watch.status() == 200)));
    assert_eq!(server.streams.load(Ordering::SeqCst), 600);
    let writes = join_all((0..300).map(|_| async { read(client.send(write()).await.unwrap()).await })).await;
    assert_eq!(writes, vec![2; 300]);
    // Three for six hundred watches, and two for three hundred writes at once.
    assert!(server.accepted() <= 5, "{} connections", server.accepted());
    // Once they are dropped their streams are free again.
    drop(watches);
    let again = join_all((0..600).map(|_| client.send(watch()))).await;
    assert!(again.iter().all(Result::is_ok));
    assert!(server.accepted() <= 8, "{} connections", server.accepted());
}

#[tokio::test]
async fn a_server_that_allows_less_gets_more_connections_and_no_request_queues() {
    let server = Server::start(&[b"h2"], 20).await;
    let client = client(&server.config, &server.connector());
    // The first request learns what the server allows.
    read(client.send(write()).await.unwrap()).await;
    let mut watches = Vec::new();
    for _ in 0..100 {
        watches.push(client.send(watch()).await.unwrap());
    }
    assert_eq!(server.streams.load(Ordering::SeqCst), 100);
}

#[tokio::test]
async fn large_bodies_that_no_one_reads_hold_up_no_small_one() {
    let server = Server::start(&[b"h2"], 250).await;
    let client = client(&server.config, &server.connector());
    let large = || {
        let silent = Request::put("/api/v1/namespaces/a/configmaps/silent");
        client.send(silent.body(Body::from(vec![b' '; 1 << 20])).unwrap())
    };
    let unread = join_all((0..12).map(|_| large()));
    let small = async {
        let deadline = Instant::now() + Duration::from_secs(10);
        while server.accepted() == 0 {
            assert!(Instant::now() < deadline, "no large one has come");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        read(client.send(write()).await.unwrap()).await
    };
    tokio::select! {
        _ = unread => panic!("they are not answered"),
        length = small => assert_eq!(length, 2),
    }
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn after_a_broken_connection_the_next_request_has_a_new_one() {
    let server = Server::start(&[b"h2"], 250).await;
    let client = client(&server.config, &server.connector());
    for round in 1..4 {
        // One or the other may still continue the connection that has just broken, and says so.
        let deadline = Instant::now() + Duration::from_secs(10);
        while client.send(write()).await.is_err() {
            assert!(Instant::now() < deadline, "it never comes back");
        }
        assert_eq!(server.accepted(), round);
        server.connections.lock().await.abort_all();
    }
}

/// The layer let it through; then it had to wait for a connection.
#[tokio::test]
async fn a_write_is_judged_once_more_when_it_is_sent() {
    let server = Server::start(&[b"h2"], 250).await;
    let client = client(&server.config, &server.connector());
    let mut late = write();
    late.extensions_mut().insert(SendGate::new(|| Err("the lease is over".into())));
    let error = client.send(late).await.map(drop).unwrap_err();
    assert!(format!("{:#}", anyhow::Error::new(error)).contains("the lease is over"));
    let mut good = write();
    good.extensions_mut().insert(SendGate::new(|| Ok(())));
    assert_eq!(read(client.send(good).await.unwrap()).await, 2);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_reported_and_not_tried_by_each_request_again() {
    let server = Server::start(&[b"h2"], 250).await;
    let mut config = server.config.clone();
    let free = TcpListener::bind(("127.0.0.1", 0)).await.unwrap().local_addr().unwrap().port();
    config.cluster_url = format!("https://localhost:{free}").parse().unwrap();
    let connector = Connector::new(&config).unwrap().unwrap();
    let error = format!("{:#}", anyhow::Error::new(connector.speaks_http2().await.unwrap_err()));
    assert!(error.contains(&format!("localhost:{free}")) && error.contains("refused"), "{error}");
    let client = client(&config, &connector);
    let answers = join_all((0..500).map(|_| client.send(write()))).await;
    assert!(answers.iter().all(Result::is_err));
}

#[tokio::test]
async fn the_name_that_the_kubeconfig_gives_the_server_is_the_one_it_has_to_prove() {
    let server = Server::start(&[b"h2"], 250).await;
    let mut config = server.config.clone();
    let port = config.cluster_url.port_u16().unwrap();
    config.cluster_url = format!("https://127.0.0.1:{port}").parse().unwrap();
    assert!(Connector::new(&config).unwrap().unwrap().speaks_http2().await.is_err());
    config.tls_server_name = Some("localhost".into());
    let connector = Connector::new(&config).unwrap().unwrap();
    assert!(connector.speaks_http2().await.unwrap());
    // A hundred requests at once are sent at once: no client delays them.
    let client = client(&config, &connector);
    let writes = join_all((0..100).map(|_| client.send(write()))).await;
    assert!(writes.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_stream_that_freezes_on_a_living_connection_is_noticed() {
    let server = Server::start(&[b"h2"], 250).await;
    let patience = Duration::from_millis(300);
    let pool = Pool::new(server.connector(), patience);
    let url = |path: &str| format!("{}{path}", server.config.cluster_url).replace("//api", "/api");
    let get = |path: &str| Request::get(url(path)).body(Body::empty()).unwrap();
    let silent = pool.send(get("/api/silent")).await.map(drop).unwrap_err().to_string();
    assert!(silent.contains("does not begin to answer"), "{silent}");
    let frozen = pool.send(get("/api/frozen")).await.unwrap().into_body().collect().await.map(drop);
    assert!(frozen.unwrap_err().to_string().contains("paused in the middle"));
    assert_eq!(server.accepted(), 1, "the connection is still good");
}

#[tokio::test]
async fn who_speaks_no_http2_is_distinguished_and_strangers_are_refused() {
    let server = Server::start(&[b"http/1.1"], 1).await;
    assert!(!server.connector().speaks_http2().await.unwrap());
    let (server, stranger) = (Server::start(&[b"h2"], 1).await, Server::start(&[b"h2"], 1).await);
    assert!(server.connector().speaks_http2().await.unwrap());
    let mut config = server.config.clone();
    config.root_cert = stranger.config.root_cert.clone();
    assert!(Connector::new(&config).unwrap().unwrap().speaks_http2().await.is_err());
    config.cluster_url = "http://localhost:8001".parse().unwrap();
    assert!(Connector::new(&config).unwrap().is_none(), "a plain connection is kube's matter");
}

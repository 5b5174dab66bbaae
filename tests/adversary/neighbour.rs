//! A pod, or a local process, that reaches the ports of operator, webhook and agent.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_rustls::{TlsConnector, client::TlsStream};
use weaver_host::open_files;
use weaver_installer as installer;
use weaver_tests::agent::AgentScene;
use weaver_tests::alone::OwnOperator;
use weaver_tests::memory::ProcessMemory;
use weaver_tests::own::OwnServer;
use weaver_tests::world::{World, eventually};

/// As many as there are files for a program that systemd started, and some more.
const MANY: usize = 1_100;
/// A probe of the kubelet waits one second, and is tried three times.
const PATIENCE: Duration = Duration::from_secs(2);
/// What the webhook's unit and its Deployment allow it, in MiB.
const WEBHOOK_MEMORY: f64 = 192.0;
/// A third of what the API server waits for a conversion: both processors are busy with the attackers' own handshakes.
const CONVERSION: Duration = Duration::from_secs(10);

/// The address that the program says, in its log, that it serves its pages at.
async fn pages(log: &Path) -> SocketAddr {
    eventually("the program says where its pages are", || async {
        let log = std::fs::read_to_string(log).unwrap_or_default();
        let said = log.lines().rev().find(|line| line.contains("metrics are served"));
        let address =
            said.and_then(|line| line.split_once("address=")?.1.split_whitespace().next()?.parse().ok());
        address.ok_or(log)
    })
    .await
}

/// Does a new client get its answer, in the time that a probe has?
async fn ask(address: SocketAddr, path: &str) -> Result<(), String> {
    let answered = timeout(PATIENCE, async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map(|_| answer)
    });
    let answer = answered.await.map_err(|late| late.to_string())?.map_err(|error| error.to_string())?;
    if answer.starts_with("HTTP/1.0 200") { Ok(()) } else { Err(answer) }
}

/// The same as the kubelet asks, which acts on the third failure in a row.
async fn probe(address: SocketAddr, path: &str) -> Result<(), String> {
    let mut failed = String::new();
    for _ in 0..3 {
        match ask(address, path).await {
            Ok(()) => return Ok(()),
            Err(why) => failed = why,
        }
    }
    Err(failed)
}

/// Holds the program to what systemd gives one that does not ask for more.
fn few_files(pid: u32) {
    let set = Command::new("prlimit").args(["--pid", &pid.to_string(), "--nofile=1024:1024"]).status();
    assert!(set.expect("needs prlimit, of the Debian package util-linux").success());
}

/// Connections that begin so and then say no more, while `path` is asked for again and again.
async fn attack(address: SocketAddr, path: &str) {
    open_files::raise_limit();
    let pipelined = "GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n".repeat(200);
    let huge = format!("GET /metrics HTTP/1.1\r\na: {}", "x".repeat(1 << 20));
    for (what, count, words) in [
        ("half a request line", MANY, "GET /met"),
        ("nothing", MANY, ""),
        ("a head without end", 300, "GET /metrics HTTP/1.1\r\nhost: a\r\n"),
        (
            "a body that never comes",
            300,
            "POST /metrics HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\nx",
        ),
        ("a request that keeps its connection", 300, "GET /livez HTTP/1.1\r\nhost: a\r\n\r\n"),
        ("requests whose answers no one reads", 50, pipelined.as_str()),
        ("a huge head", 50, huge.as_str()),
    ] {
        let mut held = Vec::new();
        for number in 0..count {
            let mut stream = TcpStream::connect(address).await.unwrap();
            // The server may have had enough already, or take no more of it.
            let _ = timeout(Duration::from_millis(50), stream.write_all(words.as_bytes())).await;
            held.push(stream);
            if number % (count / 10) == 0 {
                assert_eq!(probe(address, path).await, Ok(()), "{what}: after {number}");
            }
        }
        assert_eq!(probe(address, path).await, Ok(()), "{what}");
    }
    // Byte by byte, and as soon as one is ended, again: of clients that all come from the loopback interface,
    // one that does not send its request in the time in which 32 others connect may be ended as well, and asks again.
    let mut loris = JoinSet::new();
    for _ in 0..64 {
        loris.spawn(async move {
            loop {
                if let Ok(mut stream) = TcpStream::connect(address).await {
                    while stream.write_all(b"G").await.is_ok() {
                        sleep(Duration::from_millis(200)).await;
                    }
                }
                sleep(Duration::from_millis(200)).await;
            }
        });
    }
    for _ in 0..40 {
        assert_eq!(probe(address, path).await, Ok(()), "byte by byte");
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_files_leave_the_operator_alive_to_its_probes_own_server() {
    let alone = OwnOperator::direct(&[]).await;
    let world = alone.world("neighbour-pages");
    let address = pages(&alone.own.dir().join("operator.log")).await;
    few_files(alone.operator.pid());
    attack(address, "/livez").await;
    // And it continues with what it is for: it has files left for connections to the API server.
    world.synced().await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_connections_than_files_leave_the_agents_page_to_its_scraper_own_server() {
    let scene = AgentScene::start();
    let agent = scene.run(&["--metrics", "127.0.0.1:0"]);
    let address = pages(&scene.dir.path().join("agent.log")).await;
    few_files(agent.pid());
    attack(address, "/metrics").await;
}

/// What the webhook's port is attacked with: TLS as the API server speaks it.
struct Port {
    address: SocketAddr,
    tls: TlsConnector,
}

impl Port {
    fn of(webhook: &installer::Webhook, protocol: &str) -> Self {
        let ca = CertificateDer::from_pem_slice(webhook.ca_bundle.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(ca).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let address =
            webhook.url.trim_start_matches("https://").trim_end_matches("/convert").parse().unwrap();
        Self { address, tls: TlsConnector::from(Arc::new(config)) }
    }

    /// A connection after its handshake, on which this was said.
    async fn connect(&self, words: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::from(self.address.ip());
        let mut stream = self.tls.connect(name, stream).await?;
        stream.write_all(words.as_bytes()).await?;
        stream.flush().await?;
        Ok(stream)
    }

    /// What a client of its own is answered.
    async fn ask(&self, request: &str) -> std::io::Result<String> {
        let mut answer = String::new();
        self.connect(request).await?.read_to_string(&mut answer).await.map(|_| answer)
    }
}

/// 300 clients that say this after the handshake, and begin again a second after they are ended.
fn occupy(port: &Arc<Port>, words: &'static str) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    for _ in 0..300 {
        let port = Arc::clone(port);
        clients.spawn(async move {
            loop {
                if let Ok(mut stream) = port.connect(words).await {
                    let mut all = Vec::new();
                    let _ = stream.read_to_end(&mut all).await;
                }
                sleep(Duration::from_secs(1)).await;
            }
        });
    }
    clients
}

/// All of them have been connected once.
async fn is_occupied(port: &Port) {
    eventually("300 have tried", || async {
        let connections = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let here = format!(":{:04X} ", port.address.port());
        let count = connections.lines().filter(|line| line.contains(&here) && line.contains(" 01 ")).count();
        if count > 400 { Ok(()) } else { Err(count) }
    })
    .await;
}

/// A server of the test's own, and the port of its webhook, which has had no request yet.
async fn begin(protocol: &str) -> (OwnServer, Arc<Port>) {
    open_files::raise_limit();
    let own = OwnServer::start().await;
    let port = Arc::new(Port::of(&own.webhook.address(), protocol));
    (own, port)
}

/// The definitions installed, and a namespace of a team that writes at the version that is converted.
async fn a_team(own: &OwnServer, name: &str) -> (World, String) {
    own.install().await.unwrap();
    let world = World::on(own.client.clone(), name, own.logs());
    let team = world.namespace("team").await;
    (world, team)
}

/// The team writes an object, and reads it 30 times, each in the time that a probe has.
async fn is_converted(world: &World, team: &str) {
    world.old_sync(team, "sync", world.old_spec(team, &["foo"])).await;
    for number in 0..30 {
        let asked = timeout(CONVERSION, world.old_syncs(team).get("sync")).await;
        asked.unwrap_or_else(|_| panic!("conversion {number} took too long")).unwrap();
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hundred_idle_connections_do_not_stop_conversion_own_server() {
    // Over HTTP/2, where no head is waited for.
    let (own, port) = begin("h2").await;
    let newcomer = Port::of(&own.webhook.address(), "http/1.1");
    // Before the API server has asked anything: it is as unknown as they are.
    let clients = occupy(&port, "");
    is_occupied(&port).await;
    for number in 0..10 {
        let asked = timeout(CONVERSION, newcomer.ask("GET /healthz HTTP/1.0\r\n\r\n")).await;
        let answer = asked.unwrap_or_else(|_| panic!("newcomer {number} was not served in time")).unwrap();
        assert!(answer.ends_with("ok"), "newcomer {number}: {answer}");
    }
    let (world, team) = a_team(&own, "neighbour-idle").await;
    is_converted(&world, &team).await;
    drop(clients);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_bodies_do_not_stop_conversion_own_server() {
    let (own, port) = begin("http/1.1").await;
    let (world, team) = a_team(&own, "neighbour-slow").await;
    let slow = "POST /convert HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\n{";
    let clients = occupy(&port, slow);
    is_occupied(&port).await;
    is_converted(&world, &team).await;
    drop(clients);
}

/// Each map has seven bytes, and takes seven hundred once it is parsed, in an annotation too.
#[tokio::test(flavor = "multi_thread")]
async fn a_million_small_maps_do_not_fill_the_webhooks_memory_own_server() {
    let (own, port) = begin("http/1.1").await;
    let health = || port.ask("GET /healthz HTTP/1.0\r\n\r\n");
    eventually("the webhook answers", health).await;
    let maps = vec![r#"{"a":0}"#; (1 << 20) - 100].join(",");
    let review = format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{{"uid":"a","desiredAPIVersion":"weaver.example.com/v1beta1","objects":[{maps}]}}}}"#
    );
    let convert =
        |review: &str| format!("POST /convert HTTP/1.0\r\ncontent-length: {}\r\n\r\n{review}", review.len());
    let answer = port.ask(&convert(&review)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.0 413"), "{answer}");
    let maps = vec![r#"{"a":0}"#; 32_000].join(",");
    let text = format!(r#"{{"version":"v1alpha1","ignored":{{"v1beta1":{{"odd":[{maps}]}}}}}}"#);
    let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": {
        "uid": "a", "desiredAPIVersion": "weaver.example.com/v1alpha1",
        "objects": [{"apiVersion": "weaver.example.com/v1beta1", "kind": "ConfigMapSync", "spec": {},
                     "metadata": {"name": "a", "annotations": {"weaver.example.com/converted": text}}}],
    }});
    let answer = port.ask(&convert(&review.to_string())).await.unwrap();
    assert!(answer.starts_with("HTTP/1.0 200") && answer.contains("Success"), "{}", answer.len());
    let memory = ProcessMemory::of(own.webhook.pid());
    assert!(memory.peak < WEBHOOK_MEMORY / 2.0, "{memory:?}");
    assert!(health().await.unwrap().ends_with("ok"));
}

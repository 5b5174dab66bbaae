use axum::body::Body;
use axum::routing::{get, post};
use hyper::client::conn::http2;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::time::Instant;

use super::*;

const LIMITS: ConnectionLimits = ConnectionLimits::PAGES;
const IDLE: Duration = LIMITS.idle;

fn pages() -> Router {
    Router::new().route("/healthz", get(async || "ok"))
}

async fn talk_to(server: DuplexStream, is_http2: bool, router: Router, stop: CancellationToken) {
    let open = Arc::new(Connections::default());
    let slot = open.admit(0, [127, 0, 0, 1].into(), &LIMITS).unwrap();
    talk(server, is_http2, &slot.connection, router, &LIMITS, stop).await;
}

/// The client's side, and a task that ends with the connection.
fn talking(is_http2: bool) -> (DuplexStream, tokio::task::JoinHandle<u64>) {
    let (client, server) = duplex(1 << 16);
    let begun = Instant::now();
    let task = tokio::spawn(async move {
        talk_to(server, is_http2, pages(), CancellationToken::new()).await;
        begun.elapsed().as_secs()
    });
    (client, task)
}

/// Seconds until the connection ends, well before its age.
async fn ended(task: tokio::task::JoinHandle<u64>) -> u64 {
    timeout(LIMITS.age / 2, task).await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_client_that_says_nothing_after_the_handshake_loses_its_place() {
    for (is_http2, most) in [(false, LIMITS.head), (true, IDLE + FAREWELL)] {
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
    assert!(ended(task).await <= LIMITS.head.as_secs() + 1);
    trickle.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn http2_without_a_request_is_ended_and_with_requests_continues() {
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
        // The connection was closed with notice, not cut off.
        connection.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_http2_client_does_not_hold_up_the_end() {
    let (client, server) = duplex(1 << 16);
    let stop = CancellationToken::new();
    stop.cancel();
    timeout(LIMITS.drain, talk_to(server, true, pages(), stop)).await.unwrap();
    drop(client);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_never_takes_its_answer_is_cut_off() {
    let router = Router::new().route("/", get(async || vec![b' '; 1 << 20]));
    let (mut client, server) = duplex(1 << 10);
    let task = tokio::spawn(talk_to(server, false, router, CancellationToken::new()));
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let begun = Instant::now();
    timeout(LIMITS.age / 2, task).await.unwrap().unwrap();
    assert!(begun.elapsed() <= IDLE + LIMITS.last_request + FAREWELL, "{:?}", begun.elapsed());
    let mut taken = Vec::new();
    client.read_to_end(&mut taken).await.unwrap();
    assert!(taken.len() < 1 << 20);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_asks_all_the_time_is_asked_to_open_another_connection_at_a_certain_age() {
    let (client, task) = talking(true);
    let (mut sender, connection) =
        http2::handshake::<_, _, Body>(TokioExecutor::new(), TokioIo::new(client)).await.unwrap();
    let connection = tokio::spawn(connection);
    let asks = tokio::spawn(async move {
        while !sender.is_closed() {
            let request = http::Request::get("https://webhook/healthz").body(Body::empty()).unwrap();
            // The last one meets the end of the connection, perhaps.
            let _ = sender.send_request(request).await;
            sleep(IDLE / 2).await;
        }
    });
    let seconds = timeout(LIMITS.age * 2, task).await.unwrap().unwrap();
    assert!((LIMITS.age.as_secs()..LIMITS.age.as_secs() + 35).contains(&seconds), "{seconds}");
    asks.await.unwrap();
    connection.await.unwrap().unwrap();
}

/// A server on a port of its own, without TLS.
struct Port {
    address: std::net::SocketAddr,
    _task: JoinSet<()>,
}

impl Port {
    async fn open(router: Router, limits: &'static ConnectionLimits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = serve(listener, None, router, limits, CancellationToken::new());
        Self { address, _task: [serving].into_iter().collect() }
    }

    async fn connect(&self, first: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(first.as_bytes()).await.unwrap();
        stream
    }

    /// The whole answer to a request on a connection of its own.
    async fn ask(&self, request: &str) -> String {
        rest(self.connect(request).await).await
    }
}

/// What comes until the server ends the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut all = Vec::new();
    // One that is cut off ends as well.
    let _ =
        timeout(Duration::from_secs(20), stream.read_to_end(&mut all)).await.expect("the connection ends");
    String::from_utf8_lossy(&all).into_owned()
}

const HEALTH: &str = "GET /healthz HTTP/1.0\r\n\r\n";
static FOUR: ConnectionLimits = ConnectionLimits { connections: 4, ..ConnectionLimits::PAGES };

#[tokio::test]
async fn whatever_the_others_began_a_new_client_is_answered() {
    let slow = post(async |body: Body| drop(axum::body::to_bytes(body, 1 << 20).await));
    let port = Port::open(pages().route("/body", slow), &FOUR).await;
    for begun in [
        "",
        "GET /healthz HT",
        "POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n1",
        "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n",
        &"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n".repeat(500),
    ] {
        let mut others = Vec::new();
        for _ in 0..40 {
            others.push(port.connect(begun).await);
            let answer = timeout(Duration::from_secs(2), port.ask(HEALTH)).await.expect("answered in time");
            assert!(answer.ends_with("ok"), "{begun:?}: {answer}");
        }
        // The oldest were ended for it, long before any time limit.
        timeout(Duration::from_secs(2), rest(others.remove(0))).await.expect("the oldest has ended");
    }
}

#[tokio::test]
async fn what_is_being_answered_is_never_ended_and_a_newcomer_waits_for_it() {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let waits = Arc::clone(&gate);
    let page = get(async move || {
        let _ = waits.acquire().await;
        "slow"
    });
    let port = Port::open(pages().route("/slow", page), &FOUR).await;
    let mut asked = Vec::new();
    for _ in 0..4 {
        asked.push(port.connect("GET /slow HTTP/1.0\r\n\r\n").await);
    }
    let newcomer = port.connect(HEALTH).await;
    let mut newcomer = tokio::spawn(rest(newcomer));
    assert!(timeout(Duration::from_millis(200), &mut newcomer).await.is_err(), "there was no slot");
    gate.add_permits(1);
    assert!(timeout(Duration::from_secs(2), newcomer).await.unwrap().unwrap().ends_with("ok"));
    gate.add_permits(3);
    for stream in asked {
        assert!(rest(stream).await.ends_with("slow"));
    }
}

#[tokio::test]
async fn a_client_that_the_server_knows_goes_last() {
    let known = get(async |caller: axum::Extension<Caller>| {
        caller.mark_known();
        "known"
    });
    let port = Port::open(pages().route("/known", known), &FOUR).await;
    let mut friend = port.connect("GET /known HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let mut head = [0; 512];
    assert!(friend.read(&mut head).await.unwrap() > 0);
    let mut others = Vec::new();
    for _ in 0..20 {
        others.push(port.connect("GET").await);
        assert!(port.ask(HEALTH).await.ends_with("ok"));
    }
    friend.write_all(HEALTH.as_bytes()).await.unwrap();
    assert!(rest(friend).await.ends_with("ok"), "it was there for longest, and is there still");
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let port = Port::open(pages(), &FOUR).await;
    let head = format!("GET /healthz HTTP/1.1\r\na: {}\r\n\r\n", "x".repeat(8 * BUFFER));
    let mut stream = port.connect("").await;
    // The server may have had enough before all is written.
    let _ = stream.write_all(head.as_bytes()).await;
    let answer = rest(stream).await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert!(port.ask(HEALTH).await.ends_with("ok"));
}

#[test]
fn the_defaults_are_those_that_the_documentation_names() {
    assert_eq!((LIMITS.connections, LIMITS.per_address), (32, 16));
    assert_eq!((LIMITS.head.as_secs(), LIMITS.idle.as_secs(), LIMITS.age.as_secs()), (5, 30, 600));
}

#[tokio::test]
async fn an_address_of_this_host_that_is_not_served_gets_no_answer() {
    // As systemd listens on a port: for IPv6 and IPv4, or for IPv4 where the kernel has no other.
    let listener = match TcpListener::bind("[::]:0").await {
        Ok(both) => both,
        Err(_) => TcpListener::bind("0.0.0.0:0").await.unwrap(),
    };
    let port = listener.local_addr().unwrap().port();
    let is_served = |local: IpAddr| local == IpAddr::from([127, 0, 0, 1]);
    let serving = serve_at(listener, is_served, None, pages(), &FOUR, CancellationToken::new());
    let _task: JoinSet<()> = [serving].into_iter().collect();
    for (address, answered) in [("127.0.0.1", true), ("127.0.0.2", false)] {
        let mut stream = TcpStream::connect((address, port)).await.unwrap();
        // It may be closed already.
        let _ = stream.write_all(HEALTH.as_bytes()).await;
        assert_eq!(rest(stream).await.ends_with("ok"), answered, "{address}");
    }
}

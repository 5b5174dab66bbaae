//! `page` as its socket starts it: what browsers get, and what other clients cannot do.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const PAGE: &str = "<!DOCTYPE html><title>raspi</title>";

/// The socket that systemd would have, and what it starts.
struct Card {
    dir: tempfile::TempDir,
    socket: TcpListener,
    program: Option<Child>,
}

impl Card {
    fn listening(at: &str) -> Self {
        let socket = TcpListener::bind(at).unwrap();
        Self { dir: tempfile::tempdir().unwrap(), socket, program: None }
    }

    fn shown(flags: &[&str]) -> Self {
        let mut card = Self::listening("127.0.0.1:0");
        card.publish(PAGE);
        card.start(flags);
        card
    }

    fn start(&mut self, flags: &[&str]) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weaver-node-agent"));
        command.arg("page").arg("--file").arg(self.dir.path().join("page.html")).args(flags);
        command.env_clear().stdin(OwnedFd::from(self.socket.try_clone().unwrap())).stderr(Stdio::null());
        self.program = Some(command.spawn().unwrap());
    }

    fn publish(&self, page: &str) {
        fs::write(self.dir.path().join("page.html"), page).unwrap();
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    fn connect(&self, first: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(first.as_bytes()).unwrap();
        stream
    }

    /// The whole answer to a request on a connection of its own.
    fn ask(&self, request: &str) -> String {
        rest(self.connect(request))
    }

    fn get(&self, path: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nhost: raspi:9480\r\nconnection: close\r\n\r\n"))
    }

    fn ended(&mut self) -> i32 {
        let (begun, program) = (Instant::now(), self.program.as_mut().unwrap());
        loop {
            if let Some(status) = program.try_wait().unwrap() {
                return status.code().unwrap();
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        if let Some(program) = &mut self.program {
            // It may have ended by itself; there is nothing to be done about a failure here.
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

fn rest(mut stream: TcpStream) -> String {
    let mut all = Vec::new();
    // An aborted connection ends as well.
    let _ = stream.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

#[test]
fn who_came_before_the_program_is_answered_and_a_change_is_seen() {
    let mut card = Card::listening("127.0.0.1:0");
    let early = card.connect("GET / HTTP/1.0\r\n\r\n");
    card.start(&[]);
    let answer = rest(early);
    assert!(answer.starts_with("HTTP/1.0 200") && answer.contains("This node is starting"), "{answer}");
    card.publish(PAGE);
    assert!(card.get("/").ends_with(PAGE), "what the agent has published");
    card.publish("another");
    let answer = card.get("/");
    assert!(
        answer.ends_with("\r\n\r\nanother") && answer.contains("content-type: text/html; charset=utf-8"),
        "{answer}"
    );
    card.publish(&"x".repeat(1 << 20));
    assert!(card.get("/").contains("This node is starting"), "that is no page of the agent's");
}

#[test]
fn the_state_is_that_of_an_agent_that_lives() {
    let card = Card::shown(&[]);
    let state = card.dir.path().join("page.state");
    let silent = "HTTP/1.1 503";
    assert!(card.get("/state").starts_with(silent), "no one has said anything");
    fs::write(&state, "fail\n").unwrap();
    let answer = card.get("/state");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\nfail"), "{answer}");
    for other in ["", "<script>", "ok\nok", &"x".repeat(1 << 20)] {
        fs::write(&state, other).unwrap();
        assert!(card.get("/state").starts_with(silent), "{other:.9}");
    }
    fs::write(&state, "ok\n").unwrap();
    let file = fs::File::options().write(true).open(&state).unwrap();
    let now = std::time::SystemTime::now();
    file.set_modified(now - Duration::from_mins(6)).unwrap();
    assert!(card.get("/state").starts_with(silent), "the agent has ended");
    // A Pi's clock is set while it boots, and may be set back.
    file.set_modified(now + Duration::from_hours(24)).unwrap();
    assert!(card.get("/state").starts_with("HTTP/1.1 200"));
}

#[test]
fn style_icon_and_documentation_come_from_the_program() {
    let card = Card::shown(&[]);
    for (path, kind, part) in [
        ("/style.css", "content-type: text/css", "prefers-color-scheme: dark"),
        ("/page.js", "content-type: text/javascript", "use strict"),
        ("/icon.svg", "content-type: image/svg+xml", "<svg"),
        ("/docs/", "content-type: text/html; charset=utf-8", "/docs/how-to/troubleshoot.md"),
        (
            "/docs/how-to/troubleshoot.md",
            "content-type: text/html; charset=utf-8",
            "<h2 id=\"it-worked-when\">",
        ),
    ] {
        let answer = card.get(path);
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains(kind) && answer.contains(part),
            "{answer}"
        );
    }
}

#[test]
fn nothing_can_be_sent_nothing_else_be_read_and_nothing_is_repeated() {
    let card = Card::shown(&[]);
    for (method, path, status) in [
        ("HEAD", "/", "200"),
        ("POST", "/", "405"),
        ("PUT", "/style.css", "405"),
        ("DELETE", "/", "405"),
        ("OPTIONS", "/", "405"),
        ("TRACE", "/", "405"),
        ("SMUGGLED", "/", "405"),
        ("GET", "/?q=smuggled", "200"),
        ("GET", "/smuggled", "404"),
        ("GET", "/../../etc/passwd", "404"),
        ("GET", "/%2e%2e/%2e%2e/etc/passwd", "404"),
        ("GET", "/..%2f..%2fetc%2fpasswd", "404"),
        ("GET", "//etc/passwd", "404"),
        ("GET", "/style.css/../../run/weaver/operator.token", "404"),
        ("GET", "/page.html", "404"),
        ("GET", "/docs/smuggled", "404"),
        ("GET", "/docs/../../etc/passwd", "404"),
        ("GET", "/docs/%2e%2e/etc/passwd", "404"),
        ("GET", "/docs/%ff", "400 "),
        ("POST", "/docs/how-to/update.md", "405"),
        ("GET", "/%00", "404"),
        ("GET", "/<script>smuggled</script>", "4"),
        ("GET", "http://smuggled/", "200"),
    ] {
        let answer = card.ask(&format!(
            "{method} {path} HTTP/1.1\r\nhost: smuggled\r\norigin: http://smuggled\r\nreferer: http://smuggled\r\n\
             cookie: smuggled\r\nconnection: close\r\n\r\n"
        ));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{method} {path}: {answer}");
        assert!(!answer.contains("smuggled") && !answer.contains("root:"), "{method} {path}: {answer}");
        assert!(
            !answer.contains("set-cookie") && !answer.contains("access-control"),
            "{method} {path}: {answer}"
        );
        // A request that is not HTTP is answered before our code sees it.
        if !answer.starts_with("HTTP/1.1 400") {
            for header in [
                "content-security-policy: default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; ",
                "x-content-type-options: nosniff",
                "x-frame-options: DENY",
                "referrer-policy: no-referrer",
                "cache-control: no-store",
            ] {
                assert!(answer.contains(header), "{method} {path}: {header}: {answer}");
            }
        }
        if method == "HEAD" {
            assert!(answer.ends_with("\r\n\r\n"), "{answer}");
        }
    }
    for begun in [
        "\r\n\r\n",
        "GET\r\n\r\n",
        "\u{16}\u{3}\u{1}",
        "GET / HTTP/9.9\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let stream = card.connect(begun);
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let answer = rest(stream);
        assert!(!answer.contains("raspi"), "{begun:?}: {answer}");
    }
    assert!(card.get("/").ends_with(PAGE), "and it is still there");
}

#[test]
fn no_client_keeps_others_out_or_takes_much_memory() {
    let card = Card::shown(&[]);
    let body = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9999999\r\n\r\n";
    let head = format!("GET / HTTP/1.1\r\nhost: a\r\na: {}", "x".repeat(60_000));
    let mut others = Vec::new();
    for begun in ["", "G", "GET / HTTP/1.1\r\nhost: a\r\n\r\n", body, &head] {
        for _ in 0..40 {
            others.push(card.connect(begun));
        }
        let asked = Instant::now();
        assert!(card.get("/").ends_with(PAGE), "{begun:.30?}");
        assert!(asked.elapsed() < Duration::from_secs(5), "{begun:.30?}: {:?}", asked.elapsed());
    }
    let head = format!("GET / HTTP/1.1\r\nhost: a\r\na: {}\r\n\r\n", "x".repeat(1 << 20));
    let mut stream = card.connect("");
    // The server may have had enough before all is written.
    let _ = stream.write_all(head.as_bytes());
    let answer = rest(stream);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer:.100}");
    assert!(card.get("/").ends_with(PAGE));

    let status = fs::read_to_string(format!("/proc/{}/status", card.program.as_ref().unwrap().id())).unwrap();
    let own =
        status.lines().find_map(|line| line.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB")).unwrap();
    let own: u32 = own.trim().parse().unwrap();
    assert!(own < 10 << 10, "{own} KiB of its own, with all of them");
}

#[test]
fn it_ends_when_no_one_looks_and_the_next_one_is_answered() {
    let mut card = Card::shown(&["--idle-seconds", "1"]);
    // A browser that keeps its connection and sends no request does not count as a reader.
    let kept = card.connect("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(card.ended(), 0);
    assert!(rest(kept).contains(PAGE));
    let early = card.connect("GET / HTTP/1.0\r\n\r\n");
    card.start(&[]);
    assert!(rest(early).ends_with(PAGE));
}

#[test]
fn it_is_shown_only_at_the_addresses_asked_for() {
    let mut card = Card::listening("0.0.0.0:0");
    card.publish(PAGE);
    card.start(&["--listen", "127.0.0.1,10.9.8.7"]);
    let port = card.address().port();
    for (address, shown) in [("127.0.0.1", true), ("127.0.0.2", false)] {
        let mut stream = TcpStream::connect((address, port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // It may be closed already.
        let _ = stream.write_all(b"GET / HTTP/1.0\r\n\r\n");
        let answer = rest(stream);
        assert_eq!(answer.ends_with(PAGE), shown, "{address}: {answer}");
        assert!(shown || answer.is_empty(), "{answer}");
    }
}

#[test]
fn wrong_flags_and_a_standard_input_that_is_no_socket_are_reported() {
    let ended = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weaver-node-agent"));
        let output = command.arg("page").args(flags).env_clear().stdin(Stdio::null()).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = ended(&[]);
    assert!(code == 1 && said.contains("start the unit weaver-page.socket"), "{code}: {said}");
    for wrong in [&["--listen", "raspi"][..], &["--listen", "10.0.0.1:9480"], &["--idle-seconds", "0"]] {
        assert_eq!(ended(wrong).0, 2, "{wrong:?}");
    }
}

//! `weaver ui` as it runs, and a client of its pages that sends exactly the given requests.

use std::fmt::Write as _;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

use crate::cli::program;
use crate::poll::{SOON, eventually};

/// An answer over HTTP/1.1.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    /// The value of a header, empty without one.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }
}

/// The program, which ends with it.
pub struct Ui {
    /// Address and port.
    pub host: String,
    /// Of every page; begins and ends with a slash.
    pub prefix: String,
    /// The query of the address that was printed.
    pub token: String,
    /// Name and value, once it was entered.
    pub cookie: String,
    child: Child,
    /// What it needs as long as it runs.
    _kept: Option<Box<dyn std::any::Any + Send + Sync>>,
    _out: Lines<BufReader<ChildStdout>>,
}

impl Ui {
    /// As the administrator of the shared server, with these options.
    pub async fn start(options: &[&str]) -> Self {
        Self::by(program("weaver", &[&["ui", "--no-browser"], options].concat())).await
    }

    /// By a prepared command.
    pub async fn by(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = timeout(SOON, out.next_line()).await.unwrap().unwrap().expect("it prints the address");
        let rest = line.strip_prefix("http://").unwrap_or_else(|| panic!("{line}"));
        let (host, path) = rest.split_once('/').unwrap();
        let (prefix, token) = path.split_once('?').unwrap();
        let (host, prefix, token) = (host.to_owned(), format!("/{prefix}"), token.to_owned());
        Self { host, prefix, token, cookie: String::new(), child, _kept: None, _out: out }
    }

    /// The same, opened as a browser opens the address.
    pub async fn entered(options: &[&str]) -> Self {
        let mut ui = Self::start(options).await;
        ui.enter().await;
        ui
    }

    /// Keeps what the program needs as long as it runs.
    #[must_use]
    pub fn keeping(self, kept: impl std::any::Any + Send + Sync) -> Self {
        Self { _kept: Some(Box::new(kept)), ..self }
    }

    /// Opens the address that was printed.
    pub async fn enter(&mut self) {
        let answer = self.ask("GET", &self.address(), &[("host", &self.host)], "").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.header("set-cookie").split(';').next().unwrap().clone_into(&mut self.cookie);
    }

    /// The most memory that the program has had, in KiB, without the pages of its file: most of them are of a build that
    /// is not optimised, and the kernel maps as many as it likes.
    pub fn peak_kib(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id().unwrap());
        let status = std::fs::read_to_string(path).unwrap();
        let kib = |key: &str| -> u64 {
            let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
            line.trim().trim_end_matches(" kB").parse().unwrap()
        };
        kib("VmHWM:") - kib("RssFile:")
    }

    /// Ends the program, and waits until it has.
    pub async fn end(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Path and query of the address that was printed.
    pub fn address(&self) -> String {
        format!("{}?{}", self.prefix, self.token)
    }

    /// One request with these headers and no others but those that HTTP itself needs.
    pub async fn ask(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = self.send(method, target, headers, body).await;
        let mut answer = Vec::new();
        timeout(SOON, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
        read(&String::from_utf8(answer).unwrap())
    }

    async fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut request = format!("{method} {target} HTTP/1.1\r\nconnection: close\r\n");
        for (name, value) in headers {
            write!(request, "{name}: {value}\r\n").unwrap();
        }
        write!(request, "content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut stream = TcpStream::connect(&self.host).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    /// A page, as the browser that has the cookie asks for it.
    pub async fn get(&self, path: &str) -> Answer {
        let target = format!("{}{path}", self.prefix);
        self.ask("GET", &target, &[("host", &self.host), ("cookie", &self.cookie)], "").await
    }

    /// The text of a page that is there.
    pub async fn page(&self, path: &str) -> String {
        let answer = self.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        answer.body
    }

    /// Waits until a page contains these words. Before the first answer of the API server it says that it waits.
    pub async fn shows(&self, path: &str, words: &str) -> String {
        eventually(&format!("{path} shows {words:?}"), || async {
            let answer = self.get(path).await;
            if answer.status == 200 && answer.body.contains(words) { Ok(answer.body) } else { Err(answer) }
        })
        .await
    }

    /// Sends a form, as the page at `path` does it.
    pub async fn post(&self, path: &str, form: &str) -> Answer {
        let (target, origin) = (format!("{}{path}", self.prefix), format!("http://{}", self.host));
        let kind = ("content-type", "application/x-www-form-urlencoded");
        let headers = [("host", self.host.as_str()), ("cookie", &self.cookie), ("origin", &origin), kind];
        self.ask("POST", &target, &headers, form).await
    }

    /// The stream of changes.
    pub async fn changes(&self) -> UiChanges {
        let target = format!("{}events", self.prefix);
        let headers = [("host", self.host.as_str()), ("cookie", &self.cookie)];
        UiChanges(BufReader::new(self.send("GET", &target, &headers, "").await).lines())
    }
}

/// What a page that asks for a confirmation has its form send.
pub fn confirmation(page: &str) -> &str {
    let (_, rest) = page.split_once("name=\"confirmation\" value=\"").unwrap_or_else(|| panic!("{page}"));
    rest.split('"').next().unwrap()
}

/// The server-sent events of `/events`, below the prefix.
pub struct UiChanges(Lines<BufReader<TcpStream>>);

impl UiChanges {
    /// Waits for the next one.
    pub async fn next(&mut self) {
        loop {
            let line = timeout(SOON, self.0.next_line()).await.expect("a change is sent").unwrap();
            if line.expect("the stream has no end") == "event: change" {
                return;
            }
        }
    }
}

fn read(answer: &str) -> Answer {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    Answer { status, headers, body: body.to_owned() }
}

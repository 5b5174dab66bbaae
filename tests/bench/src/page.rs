//! The card's page: how soon its first byte comes, next to the API server's answer to `/livez`.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use http::Request;
use kube::Client;

use crate::agent::AgentPaths;
use crate::figures::{Budget, Figure};
use crate::operator::PATIENCE;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: card:9480\r\nconnection: close\r\n\r\n";
/// As long as that of a node with a dozen findings.
const PAGE: usize = 16 << 10;
/// The budget of the first byte, in milliseconds.
const MOST: f64 = 50.0;

/// The first byte of the page: of a program that runs, and of one that the request starts, as its socket does.
pub async fn first_bytes(client: &Client, paths: &AgentPaths, rounds: usize) -> Result<Vec<Figure>> {
    let file = paths.dir.join("page.html");
    fs::write(&file, "x".repeat(PAGE)).with_context(|| format!("writing {}", file.display()))?;
    let (mut running, mut started, mut floor) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds * 4 {
        let socket = TcpListener::bind("127.0.0.1:0").context("a socket for the page")?;
        let address = socket.local_addr()?;
        let (begun, waiting) = (Instant::now(), asked(address)?);
        let _program = PageProgram::start(paths, &file, socket)?;
        started.push(first_byte(begun, waiting)?);
        let (begun, stream) = (Instant::now(), asked(address)?);
        running.push(first_byte(begun, stream)?);
        floor.push(livez(client).await?);
    }
    let figure = |what: &str, took| {
        Figure::new(format!("card's page: first byte, {what} (floor: /livez)"), "ms", took)
            .compared_to(floor.clone())
            .within(Budget::AtMost(MOST))
    };
    Ok(vec![figure("its program runs", running), figure("the request starts its program", started)])
}

/// A connection on which the page was asked for.
fn asked(address: SocketAddr) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address).context("connecting to the page")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(REQUEST).context("asking for the page")?;
    Ok(stream)
}

/// Milliseconds until its first byte. It is the page.
fn first_byte(begun: Instant, mut stream: TcpStream) -> Result<f64> {
    let mut answer = vec![0];
    stream.read_exact(&mut answer).context("the page is not answered")?;
    let took = begun.elapsed().as_secs_f64() * 1000.0;
    stream.read_to_end(&mut answer).context("the page ends early")?;
    ensure!(answer.starts_with(b"HTTP/1.1 200") && answer.len() > PAGE, "that is not the page");
    Ok(took)
}

async fn livez(client: &Client) -> Result<f64> {
    let request = Request::get("/livez").body(Vec::new()).context("a request for /livez")?;
    let begun = Instant::now();
    client.request_text(request).await.context("asking for /livez")?;
    Ok(begun.elapsed().as_secs_f64() * 1000.0)
}

/// The page's program; killed when dropped.
struct PageProgram(Child);

impl PageProgram {
    fn start(paths: &AgentPaths, file: &Path, socket: TcpListener) -> Result<Self> {
        let child = Command::new(&paths.program)
            .arg("page")
            .arg("--file")
            .arg(file)
            .stdin(OwnedFd::from(socket))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting the page's program")?;
        Ok(Self(child))
    }
}

impl Drop for PageProgram {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to be done about a failure here.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

//! The servers of k3d on this machine, by Docker's socket: which of them do not run, and what their logs say.
//!
//! Only asked, never told: nothing is started. Without a socket, or without a container of k3d, nothing is said.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use http::{Request, header::HOST};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::time::timeout;
use weaver_diagnostics::finding::{Code, Finding, Place, Remedy, Severity};
use weaver_diagnostics::recognise::Recogniser;
use weaver_diagnostics::shell::quoted;

use super::seen::{Seen, Side};

/// Where Docker listens, unless `DOCKER_HOST` says another socket.
const SOCKET: &str = "/var/run/docker.sock";
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of an answer.
const LIMIT: usize = 1 << 20;
/// Lines of a log.
const TAIL: u32 = 50;
/// Starts after which one that runs is not left alone: a healthy server is started once.
const RESTARTS: u32 = 3;

/// One of `GET /containers/json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    id: String,
    names: Vec<String>,
    #[serde(default)]
    labels: HashMap<String, String>,
    state: String,
    status: String,
}

/// As much as is needed of `GET /containers/ID/json`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    #[serde(default)]
    restart_count: u32,
}

/// Where Docker is to be asked; none where it is on another machine.
pub fn socket(docker_host: Option<String>) -> Option<PathBuf> {
    match docker_host.filter(|host| !host.is_empty()) {
        None => Some(SOCKET.into()),
        Some(host) => host.strip_prefix("unix://").map(PathBuf::from),
    }
}

/// What is wrong with the servers of k3d; `is_bad`: something does not work, so it matters if they cannot be seen.
pub async fn look(socket: &Path, is_bad: bool) -> Vec<Seen> {
    if !socket.exists() {
        return Vec::new();
    }
    let findings = match asked(socket, is_bad).await {
        Ok(findings) => findings,
        Err(error) if is_bad => {
            let message = format!("the containers of k3d, if there are any, cannot be seen: {error:#}");
            let remedy =
                Remedy::new("as root, or as a member of the group docker").command("sudo weaver doctor");
            let finding = Finding::new(Code::MayNotLook, message);
            vec![finding.saw(Place::file(socket.display().to_string()), "no answer").remedy(remedy)]
        }
        Err(_) => Vec::new(),
    };
    findings.into_iter().map(|finding| Seen { side: Side::Node, finding }).collect()
}

async fn asked(socket: &Path, is_bad: bool) -> anyhow::Result<Vec<Finding>> {
    let list: Vec<Listed> = get_json(socket, "/containers/json?all=true").await?;
    let mut findings = Vec::new();
    for container in list.iter().filter(|container| container.is_server()) {
        // It may be gone by now, and not every log can be read: what is known is said all the same.
        let inspected: Result<Inspected, _> =
            get_json(socket, &format!("/containers/{}/json", container.id)).await;
        let restarts = inspected.map(|inspected| inspected.restart_count).unwrap_or_default();
        let Some(finding) = container.judge(restarts, is_bad) else { continue };
        let path = format!("/containers/{}/logs?stdout=true&stderr=true&tail={TAIL}", container.id);
        let log = get(socket, &path).await.map(|log| lines(&log)).unwrap_or_default();
        findings.push(finding);
        findings.extend(recognised(container.name(), &log));
    }
    Ok(findings)
}

impl Listed {
    fn name(&self) -> &str {
        self.names.first().map_or("", |name| name.trim_start_matches('/'))
    }

    /// By k3d's own label; by its name where an old k3d gave none.
    fn is_server(&self) -> bool {
        match self.labels.get("k3d.role") {
            Some(role) => role == "server",
            None => self.name().starts_with("k3d-") && self.name().contains("-server-"),
        }
    }

    /// Of one that was stopped, or has come up after some tries, a word is worth it where something does not work.
    fn judge(&self, restarts: u32, is_bad: bool) -> Option<Finding> {
        let name = self.name();
        let bad = |message: String| {
            let remedy = Remedy::new(Code::K3dNodeRestarting.row().remedy);
            let log = format!("docker logs --tail {TAIL} {} 2>&1 | weaver explain", quoted(name));
            let saw = format!("{}: {}; started again {restarts} times", self.state, self.status);
            let finding = Finding::new(Code::K3dNodeRestarting, message);
            finding.saw(Place::file(name), saw).remedy(remedy.command(log))
        };
        match self.state.as_str() {
            "restarting" => Some(bad(format!("{name} exits and is restarted again and again"))),
            _ if !is_bad => None,
            "running" if restarts < RESTARTS => None,
            // It runs now.
            "running" => {
                let message = format!("{name} runs, and has ended {restarts} times before");
                Some(bad(message).milder(Severity::Warn))
            }
            // `k3d cluster stop` leaves them so.
            state => Some(bad(format!("{name} does not run: it is {state}")).milder(Severity::Warn)),
        }
    }
}

/// Each code once, by its last line.
fn recognised(container: &str, log: &[Vec<u8>]) -> Vec<Finding> {
    let Ok(recogniser) = Recogniser::new() else { return Vec::new() };
    let mut found: Vec<Finding> = Vec::new();
    for (number, line) in (1..).zip(log) {
        let place = || Place::line(format!("log of {container}, the last {TAIL} lines"), number);
        if let Some(finding) = recogniser.judge(line, place) {
            found.retain(|known| known.code != finding.code);
            found.push(finding);
        }
    }
    found
}

/// The lines of a log. Docker puts eight bytes before each piece of one that is no terminal's: which stream, three
/// zeros, and its length.
fn lines(answer: &[u8]) -> Vec<Vec<u8>> {
    let mut text = Vec::new();
    let mut rest = answer;
    while let [0..=2, 0, 0, 0, a, b, c, d, piece @ ..] = rest {
        let length = u32::from_be_bytes([*a, *b, *c, *d]);
        let (piece, next) = piece.split_at(piece.len().min(usize::try_from(length).unwrap_or(usize::MAX)));
        text.extend_from_slice(piece);
        rest = next;
    }
    text.extend_from_slice(rest);
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
}

async fn get_json<T: DeserializeOwned>(socket: &Path, path: &str) -> anyhow::Result<T> {
    serde_json::from_slice(&get(socket, path).await?)
        .with_context(|| format!("{path}: not what Docker answers"))
}

async fn get(socket: &Path, path: &str) -> anyhow::Result<Bytes> {
    let answered = timeout(PATIENCE, request(socket, path)).await;
    answered
        .unwrap_or_else(|_| bail!("no answer within {} s", PATIENCE.as_secs()))
        .with_context(|| path.to_owned())
}

async fn request(socket: &Path, path: &str) -> anyhow::Result<Bytes> {
    let stream = UnixStream::connect(socket).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let question = Request::get(path).header(HOST, "docker").body(Empty::<Bytes>::new())?;
    let answer = async {
        let answer = sender.send_request(question).await?;
        let status = answer.status();
        if !status.is_success() {
            bail!("Docker answers {status}");
        }
        let body = Limited::new(answer.into_body(), LIMIT).collect().await;
        Ok(body.map_err(|error| anyhow::anyhow!(error))?.to_bytes())
    };
    let driven = async {
        // How it ends is seen by the answer.
        let _ = connection.await;
        std::future::pending().await
    };
    tokio::select! {
        answer = answer => answer,
        never = driven => never,
    }
}

#[cfg(test)]
#[path = "containers_tests.rs"]
mod tests;

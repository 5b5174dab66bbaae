//! A container engine as the agent asks it: its containers of k3d are API servers of this machine.
//!
//! Answers are those of Docker 20.10 for a cluster that k3d 5.9 made with `--no-lb`, as far as they are read.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use weaver_devstack::server::Server;

/// The token that must be in no log and no report.
pub const TOKEN: &str = "k3d-token-hunter2";

/// One that listens until it is dropped.
pub struct FakeEngine {
    socket: PathBuf,
    shown: Arc<Mutex<Vec<Shown>>>,
}

/// The server of a cluster.
#[derive(Clone, PartialEq, Eq)]
pub struct Shown {
    pub cluster: String,
    pub state: &'static str,
    /// Where the API is published.
    pub port: Option<u16>,
    /// The names that it was created with.
    pub names: Vec<String>,
    /// Address of this machine for the container.
    pub gateway: &'static str,
    pub ca: PathBuf,
    pub kubeconfig: PathBuf,
}

impl Shown {
    /// This server as the only one of a cluster.
    pub fn of(cluster: &str, server: &Server, names: &[&str]) -> Self {
        Self {
            cluster: cluster.to_owned(),
            state: "running",
            port: Some(server.port()),
            names: names.iter().map(|&name| name.to_owned()).collect(),
            // An address that every machine has, and no default of ours.
            gateway: "127.0.0.2",
            ca: server.data_dir().join("server/tls/server-ca.crt"),
            kubeconfig: server.kubeconfig(),
        }
    }

    fn name(&self) -> String {
        format!("k3d-{}-server-0", self.cluster)
    }

    fn listed(&self) -> Value {
        json!({
            "Id": self.name(), "Names": [format!("/{}", self.name())], "Image": "rancher/k3s:v1.36.3-k3s1",
            "State": self.state, "Status": "since a moment",
            "Labels": {
                "app": "k3d", "k3d.cluster": self.cluster, "k3d.role": "server",
                "k3d.cluster.network": "k3d-net", "k3d.cluster.token": TOKEN,
            },
        })
    }

    fn inspected(&self) -> Value {
        let names = self.names.iter().flat_map(|name| ["--tls-san".to_owned(), name.clone()]);
        let first = ["server", "--token", TOKEN, "--tls-san", "0.0.0.0"].map(str::to_owned).into_iter();
        let is_running = self.state == "running";
        let bindings = self
            .port
            .filter(|_| is_running)
            .map(|port| json!([{ "HostIp": "0.0.0.0", "HostPort": port.to_string() }]));
        json!({
            "RestartCount": 0, "Args": first.chain(names).collect::<Vec<_>>(),
            "NetworkSettings": {
                "Ports": { "6443/tcp": bindings },
                "Networks": { "k3d-net": { "Gateway": if is_running { self.gateway } else { "" } } },
            },
        })
    }
}

impl FakeEngine {
    pub fn start(dir: &Path) -> Self {
        let socket = dir.join("docker.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let shown = Arc::new(Mutex::new(Vec::<Shown>::new()));
        let known = Arc::clone(&shown);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let known = Arc::clone(&known);
                // Who asks may have gone.
                std::thread::spawn(move || answer(stream.unwrap(), &known));
            }
        });
        Self { socket, shown }
    }

    pub fn url(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// What there is from now on.
    pub fn show(&self, clusters: impl IntoIterator<Item = Shown>) {
        *self.shown.lock().unwrap() = clusters.into_iter().collect();
    }
}

impl Drop for FakeEngine {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

fn answer(mut stream: UnixStream, known: &Mutex<Vec<Shown>>) -> std::io::Result<()> {
    let now = || known.lock().map(|shown| shown.clone()).unwrap_or_default();
    let shown = now();
    let mut head = [0; 8192];
    let length = stream.read(&mut head)?;
    let head = String::from_utf8_lossy(&head[..length]).into_owned();
    // `GET /v1.41/containers/NAME/archive?path=/etc/x HTTP/1.1`
    let asked = head.split(' ').nth(1).unwrap_or_default();
    if asked.contains("/events") {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")?;
        while now() == shown {
            // Writing shows whether the client still listens.
            stream.write_all(b"\n")?;
            std::thread::park_timeout(Duration::from_millis(50));
        }
        return stream.write_all(b"{\"Type\": \"container\", \"Action\": \"start\"}\n");
    }
    let asked = asked.split("containers/").nth(1).unwrap_or_default();
    let of = |asked: &str| shown.iter().find(|shown| asked.starts_with(&format!("{}/", shown.name())));
    let body = if asked.starts_with("json") {
        Some(json!(shown.iter().map(Shown::listed).collect::<Vec<_>>()).to_string().into_bytes())
    } else if let Some(shown) = of(asked) {
        match asked.split_once('?').map(|(_, query)| query.replace("%2F", "/")) {
            Some(path) if path.contains("server-ca.crt") => archive(&shown.ca),
            Some(path) if path.contains("/output/kubeconfig.yaml") => archive(&shown.kubeconfig),
            Some(_) | None if asked.contains("/archive") => None,
            _ => Some(shown.inspected().to_string().into_bytes()),
        }
    } else {
        None
    };
    let (status, body) = match body {
        Some(body) => ("200 OK", body),
        None => ("404 Not Found", br#"{"message": "no such thing"}"#.to_vec()),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(&[head.as_bytes(), &body].concat())
}

fn archive(file: &Path) -> Option<Vec<u8>> {
    let content = fs::read(file).ok()?;
    let mut header = tar::Header::new_ustar();
    header.set_size(content.len() as u64);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header, "file", content.as_slice()).unwrap();
    archive.into_inner().ok()
}

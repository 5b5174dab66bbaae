//! The parts of an API server that opening the gate needs: it accepts every manifest, serves our kind and the policy on
//! accounts, and mints a token. Without TLS: the proof has a server of its own. Other requests are forbidden.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::{Value, json};

/// The token that it mints.
pub const TOKEN: &str = "minted-hunter2";

pub struct FakeApiServer {
    pub address: SocketAddr,
    mints: Arc<AtomicBool>,
}

impl FakeApiServer {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mints = Arc::new(AtomicBool::new(true));
        let minting = Arc::clone(&mints);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let minting = Arc::clone(&minting);
                std::thread::spawn(move || serve(&stream.unwrap(), &minting));
            }
        });
        Self { address, mints }
    }

    /// Whether it mints tokens from now on.
    pub fn set_mints(&self, mints: bool) {
        self.mints.store(mints, Ordering::SeqCst);
    }

    pub fn kubeconfig(&self) -> String {
        format!(
            "current-context: a\ncontexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: \"http://{}\"}}}}]\n\
             users: [{{name: u, user: {{token: admin-hunter2}}}}]\n",
            self.address
        )
    }
}

/// Answers until the client disconnects; an early disconnect is no fault.
fn serve(stream: &TcpStream, mints: &AtomicBool) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_owned());
        }
        let length =
            head.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let mut words = head[0].split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let path = path.split('?').next().unwrap();
        let (status, answer) = answer(method, path, &body, mints.load(Ordering::SeqCst));
        let text = answer.to_string();
        let reply = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        );
        if (&mut &*stream).write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

fn answer(method: &str, path: &str, body: &[u8], mints: bool) -> (&'static str, Value) {
    match (method, path) {
        ("GET", path) if path.ends_with("/customresourcedefinitions/configmapsyncs.weaver.example.com") => {
            let mut crd: Value = serde_saphyr::from_str(CRD).unwrap();
            crd["status"] = json!({
                "acceptedNames": {"kind": "ConfigMapSync", "plural": "configmapsyncs"},
                "conditions": [{"type": "Established", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z",
                                "reason": "r", "message": "m"}],
                "storedVersions": ["v1beta1"],
            });
            ("200 OK", crd)
        }
        ("GET", path) if path.contains("/validatingadmissionpolic") && path.ends_with("/weaver-accounts") => {
            let binding = path.contains("policybindings");
            let document = ACCOUNTS.split("\n---\n").nth(usize::from(binding)).unwrap();
            ("200 OK", serde_saphyr::from_str(document).unwrap())
        }
        ("POST", path) if path.ends_with("/token") && mints => {
            let status = json!({"token": TOKEN, "expirationTimestamp": "2100-01-01T00:00:00Z"});
            ("201 Created", json!({"metadata": {}, "spec": {"audiences": []}, "status": status}))
        }
        ("PATCH", path) if !path.contains("customresourcedefinitions") => {
            ("200 OK", serde_json::from_slice(body).unwrap())
        }
        _ => {
            let message = format!("{method} {path} is not for this test");
            (
                "403 Forbidden",
                json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message, "metadata": {}}),
            )
        }
    }
}

const CRD: &str = include_str!("../../../../deploy/crds/configmapsyncs.yaml");
const ACCOUNTS: &str = include_str!("../../../../deploy/admission/accounts.yaml");

//! The real program on a port of its own, with certificates in a directory of its own.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use weaver_installer::certificates::{self, Certificates, ensure};

/// Far more than anything here takes on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Asks until there is an answer.
pub async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(begun.elapsed() < LIMIT, "{what}: not within {} s", LIMIT.as_secs());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub struct WebhookProcess {
    pub dir: TempDir,
    pub address: SocketAddr,
    child: Child,
    notices: UnixDatagram,
}

impl WebhookProcess {
    /// With a certificate, ready.
    pub async fn start() -> (Self, Certificates) {
        let dir = tempfile::tempdir().unwrap();
        let certificates = ensure(dir.path(), &options(), Timestamp::now()).unwrap();
        let webhook = Self::launch(dir).await;
        webhook.ready().await;
        (webhook, certificates)
    }

    /// With whatever lies in `dir`; listening.
    pub async fn launch(dir: TempDir) -> Self {
        let notices = UnixDatagram::bind(dir.path().join("notices")).unwrap();
        notices.set_nonblocking(true).unwrap();
        let child = program(&dir, "127.0.0.1:0").spawn().unwrap();
        let mut webhook = Self { dir, address: ([127, 0, 0, 1], 0).into(), child, notices };
        webhook.address = eventually("the program listens", async || {
            let log = webhook.log();
            let rest = log.split_once("listening ")?.1.split_once("address=")?.1;
            rest.split_whitespace().next()?.parse().ok()
        })
        .await;
        webhook
    }

    /// Waits until it has reported to systemd that it serves.
    pub async fn ready(&self) {
        eventually("READY=1", async || self.notice().filter(|text| text.contains("READY=1"))).await;
    }

    /// The next of its messages to systemd.
    pub fn notice(&self) -> Option<String> {
        let mut text = [0; 256];
        let size = self.notices.recv(&mut text).ok()?;
        Some(String::from_utf8_lossy(&text[..size]).into_owned())
    }

    /// Waits until a line with `words` is in its log.
    pub async fn logs(&self, words: &str) {
        eventually(words, async || self.log().contains(words).then_some(())).await;
    }

    pub fn log(&self) -> String {
        fs::read_to_string(log(&self.dir)).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    pub async fn ended(&mut self) -> ExitStatus {
        eventually("the program ends", async || self.child.try_wait().unwrap()).await
    }

    /// A new certificate under the same CA, as the installer makes it when the old one is due.
    pub fn renew(&self) -> Certificates {
        let due = Timestamp::now() + Duration::from_hours(24 * 80);
        let renewed = ensure(self.dir.path(), &options(), due).unwrap();
        assert!(renewed.changed);
        renewed
    }
}

impl Drop for WebhookProcess {
    fn drop(&mut self) {
        // It may have ended by itself; there is nothing to be done about a failure here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn options() -> certificates::CertificateOptions {
    certificates::CertificateOptions::default()
}

pub fn program(dir: &TempDir, listen: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weaver-operator"));
    command
        .args(["webhook", "--listen", listen, "--certificates"])
        .arg(dir.path())
        .env_clear()
        .env("NOTIFY_SOCKET", dir.path().join("notices"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(log(dir)).unwrap());
    command
}

pub fn log(dir: &TempDir) -> PathBuf {
    dir.path().join("log")
}

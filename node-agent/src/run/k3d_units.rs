//! The units of webhook and operator where the API server runs in a cluster of k3d: the webhook's socket at the gateway
//! of the cluster's network, which the containers can connect to, and that network allowed to both.
//!
//! By drop-ins in `/run`, which a reboot empties: until the agent knows the gateway again, the socket is where the unit
//! has it. `IPAddressAllow=` names the network as well as the API server: what Docker publishes is rewritten on its
//! way.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tracing::{info, warn};
use weaver_diagnostics::finding::{Code, Finding, Place, Remedy};
use weaver_diagnostics::k3d::cluster::Gateway;
use weaver_host::durable_file;

use crate::systemctl::{Systemctl, SystemctlError};

/// Where drop-ins are that do not outlive the boot.
pub const DIRECTORY: &str = "/run/systemd/system";
const SOCKET: &str = "weaver-webhook.socket";
const WEBHOOK: &str = "weaver-webhook.service";
const OPERATOR: &str = "weaver-operator.service";
const FILE: &str = "50-k3d.conf";
const WHY: &str = "# Made by weaver-node-agent for a cluster of k3d; gone after a reboot.\n";

/// The addresses by which a cluster and this machine connect to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reach {
    pub gateway: Gateway,
    /// The API server, where Docker publishes it.
    pub api: SocketAddr,
    pub port: u16,
}

/// Why a drop-in is not in force.
#[derive(Debug, thiserror::Error)]
pub enum DropInFailure {
    #[error("cannot write {}: {why}", path.display())]
    File { path: PathBuf, why: io::Error },
    #[error(transparent)]
    Systemctl(#[from] SystemctlError),
}

/// The drop-in of each unit; `None` for a unit that needs none.
fn drop_ins(reach: Option<Reach>) -> [(&'static str, Option<String>); 3] {
    let texts = reach.map(|Reach { gateway: Gateway { ip, prefix }, api, port }| {
        let at = SocketAddr::new(ip, port);
        let mut allowed = format!("{WHY}[Service]\nIPAddressAllow={ip}/{prefix}\n");
        // FreeBind=: the network's bridge appears and disappears with Docker.
        let socket = format!("{WHY}[Socket]\nListenStream=\nListenStream={at}\nFreeBind=yes\n");
        let webhook = allowed.clone();
        if !api.ip().is_loopback() {
            let _ = writeln!(allowed, "IPAddressAllow={}", api.ip());
        }
        [socket, webhook, allowed]
    });
    let [socket, webhook, operator] = texts.map_or([None, None, None], |texts| texts.map(Some));
    [(SOCKET, socket), (WEBHOOK, webhook), (OPERATOR, operator)]
}

/// The drop-ins, and whether systemd has loaded them.
#[derive(Debug)]
pub struct K3dUnits {
    directory: PathBuf,
    systemctl: Systemctl,
    is_due: bool,
}

impl K3dUnits {
    /// The drop-ins in a directory of units.
    pub const fn new(directory: PathBuf, systemctl: Systemctl) -> Self {
        Self { directory, systemctl, is_due: false }
    }

    /// Puts the socket where the containers of this cluster can connect to it; a finding where that fails.
    pub async fn place(&mut self, reach: Option<Reach>) -> Option<Finding> {
        match self.apply(reach).await {
            Ok(moved) => {
                if let Some(reach) = reach.filter(|_| moved) {
                    info!("the webhook's socket is at {}:{}", reach.gateway.ip, reach.port);
                }
                None
            }
            Err(failure) => {
                warn!("{failure}");
                let remedy = Remedy::new("the agent keeps retrying; the log of systemd has the reason")
                    .command(format!("sudo systemctl status {SOCKET}"))
                    .command("sudo journalctl -b -n 20 _PID=1");
                let message = "the socket of the conversion webhook is not where the containers reach it";
                let finding = Finding::new(Code::K3dWebhookUnreachable, message);
                Some(finding.saw(Place::file(SOCKET), failure.to_string()).remedy(remedy))
            }
        }
    }

    /// Makes the drop-ins those of this cluster, and has the socket listen there; returns whether anything had to be
    /// done.
    ///
    /// # Errors
    /// A file could not be written, or systemd refuses; the next call tries again.
    async fn apply(&mut self, reach: Option<Reach>) -> Result<bool, DropInFailure> {
        for (unit, text) in drop_ins(reach) {
            let path = self.directory.join(format!("{unit}.d")).join(FILE);
            if fs::read_to_string(&path).ok() == text {
                continue;
            }
            self.is_due = true;
            write(&path, text.as_deref()).map_err(|why| DropInFailure::File { path, why })?;
        }
        if !self.is_due {
            return Ok(false);
        }
        self.systemctl.reload().await?;
        // A socket does not start next to its running service, which a question to the old one would start again.
        self.systemctl.stop(SOCKET).await?;
        self.systemctl.stop(WEBHOOK).await?;
        self.systemctl.start(SOCKET).await?;
        self.is_due = false;
        Ok(true)
    }
}

fn write(path: &Path, text: Option<&str>) -> io::Result<()> {
    let Some(text) = text else { return fs::remove_file(path) };
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    durable_file::replace(path, text.as_bytes(), 0o644).map_err(|error| error.source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn reach(api: [u8; 4]) -> Reach {
        let gateway = Gateway { ip: [172, 18, 0, 1].into(), prefix: 16 };
        Reach { gateway, api: (api, 6443).into(), port: 9443 }
    }

    #[test]
    fn the_socket_is_at_the_gateway_and_the_network_may_ask() {
        let [(_, socket), (_, webhook), (_, operator)] = drop_ins(Some(reach([127, 0, 0, 1])));
        let listens = "[Socket]\nListenStream=\nListenStream=172.18.0.1:9443\nFreeBind=yes\n";
        assert!(socket.unwrap().ends_with(listens));
        for text in [webhook, operator] {
            assert!(text.unwrap().ends_with("\n[Service]\nIPAddressAllow=172.18.0.1/16\n"));
        }
        let [_, (_, webhook), (_, operator)] = drop_ins(Some(reach([192, 168, 1, 5])));
        assert!(operator.unwrap().ends_with("IPAddressAllow=172.18.0.1/16\nIPAddressAllow=192.168.1.5\n"));
        assert!(!webhook.unwrap().contains("192.168"), "the webhook asks no one");
        let six = Gateway { ip: "fd00::1".parse().unwrap(), prefix: 64 };
        let [(_, socket), (_, webhook), _] = drop_ins(Some(Reach { gateway: six, ..reach([127, 0, 0, 1]) }));
        assert!(socket.unwrap().contains("ListenStream=[fd00::1]:9443\n"));
        assert!(webhook.unwrap().contains("IPAddressAllow=fd00::1/64\n"));
        assert!(drop_ins(None).iter().all(|(_, text)| text.is_none()));
    }

    /// A systemd that records its calls, and the drop-ins next to it.
    fn fake(dir: &Path, script: &str) -> K3dUnits {
        let program = dir.join("systemctl");
        let text = format!("#!/bin/sh\nshift 2\necho \"$*\" >> {}/asked\n{script}\n", dir.display());
        let new = dir.join("systemctl.new");
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(new, &program).unwrap();
        K3dUnits::new(dir.join("system"), Systemctl::new(program))
    }

    fn asked(dir: &Path) -> Vec<String> {
        let text = fs::read_to_string(dir.join("asked")).unwrap_or_default();
        let _ = fs::remove_file(dir.join("asked"));
        text.lines().map(str::to_owned).collect()
    }

    const ALL: [&str; 4] = [
        "daemon-reload",
        "stop weaver-webhook.socket",
        "stop weaver-webhook.service",
        "start --no-block weaver-webhook.socket",
    ];

    #[tokio::test]
    async fn the_socket_moves_once_and_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut units = fake(dir.path(), "");
        assert!(!units.apply(None).await.unwrap(), "k3s on this machine");
        assert_eq!(asked(dir.path()), Vec::<String>::new());
        assert!(units.apply(Some(reach([127, 0, 0, 1]))).await.unwrap());
        assert_eq!(asked(dir.path()), ALL);
        assert!(!units.apply(Some(reach([127, 0, 0, 1]))).await.unwrap());
        assert_eq!(asked(dir.path()), Vec::<String>::new());
        let drop_in = dir.path().join("system/weaver-webhook.socket.d/50-k3d.conf");
        assert_eq!(fs::metadata(&drop_in).unwrap().permissions().mode() & 0o777, 0o644);
        assert!(units.apply(None).await.unwrap());
        assert_eq!(asked(dir.path()), ALL);
        assert!(!drop_in.exists());
    }

    #[tokio::test]
    async fn what_systemd_did_not_do_is_asked_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut units = fake(dir.path(), "case $1 in stop) exit 1 ;; esac");
        let failure = units.apply(Some(reach([127, 0, 0, 1]))).await.unwrap_err();
        assert!(failure.to_string().contains("stop weaver-webhook.socket"), "{failure}");
        asked(dir.path());
        fake(dir.path(), "");
        assert!(units.apply(Some(reach([127, 0, 0, 1]))).await.unwrap());
        assert_eq!(asked(dir.path()), ALL);
    }

    #[tokio::test]
    async fn a_directory_that_cannot_be_written_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let mut units = fake(dir.path(), "");
        fs::write(dir.path().join("system"), "a file").unwrap();
        let failure = units.apply(Some(reach([127, 0, 0, 1]))).await.unwrap_err();
        assert!(failure.to_string().contains("weaver-webhook.socket.d/50-k3d.conf"), "{failure}");
        assert_eq!(asked(dir.path()), Vec::<String>::new());
    }
}

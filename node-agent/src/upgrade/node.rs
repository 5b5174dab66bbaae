//! The node whose k3s is replaced: its workload, whether all of it works as before, and its restart.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use k8s_openapi::api::core::v1::Node as NodeObject;
use kube::{Api, Client};
use nix::unistd::{AccessFlags, access};
use tokio::time::{Instant, sleep, timeout};
use weaver_diagnostics::finding::Severity;
use weaver_diagnostics::k3s_upgrade::Role;
use weaver_diagnostics::k3s_upgrade::plan::{FreeSpace, K3sUnit, UpgradeRefusal};
use weaver_diagnostics::k3s_upgrade::proof::{self, ObservedNode, WantedNode};
use weaver_diagnostics::k3s_upgrade::version::Version;
use weaver_diagnostics::serving::HandshakeOutcome;
use weaver_host::handshake::SECOND_LOOK;
use weaver_host::progress::Progress;

use super::args::NodeArgs;
use super::program_files::ProgramFiles;
use super::say::say;
use crate::checks::{self, CheckResult};
use crate::copy_proof::{self, CopySeen};
use crate::facts::storage::space;
use crate::host::{Host, KUBELET};
use crate::k3s_version::short;
use crate::run::cluster::{self, ClusterAccess};
use crate::systemctl::Systemctl;

const POLL: Duration = Duration::from_millis(500);
/// For one answer of the API server: one that is only busy is no reason to go back.
const ANSWER: Duration = SECOND_LOOK;

#[derive(Debug, Clone)]
pub struct K3sNode {
    pub host: Host,
    pub program: ProgramFiles,
    pub systemctl: Systemctl,
    /// How long names that are not served are probed before an upgrade.
    pub patience: Duration,
    /// How long a proof may take.
    pub wait: Duration,
    /// How long all conditions must stay true.
    pub settle: Duration,
}

impl K3sNode {
    /// This node.
    ///
    /// # Errors
    /// It has no k3s.
    pub fn of(args: &NodeArgs) -> anyhow::Result<Self> {
        let host: Host = args.host.clone().into();
        Ok(Self {
            program: ProgramFiles::of(&host.root.real(&args.program))?,
            host,
            systemctl: Systemctl::new(args.systemctl.clone()),
            patience: args.host.probe_patience(),
            wait: Duration::from_secs(args.wait),
            settle: Duration::from_secs(args.settle),
        })
    }

    /// Why this process cannot replace the program.
    pub fn may_not_write(&self) -> Option<UpgradeRefusal> {
        let directory = self.program.directory();
        let error = access(directory, AccessFlags::W_OK).err()?;
        let what = format!("{} cannot be written ({})", directory.display(), error.desc());
        let remedy =
            if nix::unistd::geteuid().is_root() { "mount it for writing" } else { "put `sudo` in front" };
        Some(UpgradeRefusal::new(what, remedy))
    }

    /// The unit that runs k3s, or would at the next boot.
    pub async fn unit(&self) -> anyhow::Result<Option<K3sUnit>> {
        for role in [Role::Server, Role::Agent] {
            let state = self.systemctl.state(role.unit()).await?;
            if state.may_run() {
                return Ok(Some(K3sUnit { role, active: state.active == "active" }));
            }
        }
        // On a card both are, and the role decides which of them starts.
        let other = if self.host.joins() { Role::Server } else { Role::Agent };
        for role in [self.host.role(), other] {
            if self.systemctl.is_enabled(role.unit()).await {
                return Ok(Some(K3sUnit { role, active: false }));
            }
        }
        Ok(None)
    }

    /// What would keep k3s from coming back.
    pub async fn held_back(&self) -> anyhow::Result<Option<String>> {
        let host = self.host.clone();
        let preflight = tokio::task::spawn_blocking(move || checks::preflight(&host)).await;
        let findings = preflight.context("judging the host")?.findings;
        let bad = findings.iter().find(|finding| finding.severity() == Severity::Fail);
        Ok(bad.map(|finding| format!("{} {}", finding.code, finding.message)))
    }

    pub fn free_space(&self) -> FreeSpace {
        let (program, data) = (self.program.directory(), self.data_dir());
        let free = |path: &Path| Some(space(path)?.1);
        let device = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.dev());
        FreeSpace { program: free(program), data: free(&data), shared: device(program) == device(&data) }
    }

    fn data_dir(&self) -> PathBuf {
        self.host.root.real(self.host.k3s_data_dir())
    }

    /// What is so now; names that are not served are probed for so long.
    pub async fn look(&self, role: Role, patience: Duration) -> ObservedNode {
        let state = self.systemctl.state(role.unit()).await;
        let unit = state.map_or_else(|error| error.to_string(), |state| state.active);
        if role == Role::Agent {
            return ObservedNode {
                unit,
                ready: None,
                names: Vec::new(),
                version: self.kubelet_version().await,
            };
        }
        let (ready, version) = match self.admin().await {
            Ok(client) => match ready(&client).await {
                Ok(()) => (Ok(()), Some(api_version(&client).await)),
                not => (not, None),
            },
            Err(why) => (Err(why), None),
        };
        let check = checks::check(&self.host, patience).await;
        let names = check.map(|check| served(&check)).unwrap_or_default();
        ObservedNode { unit, ready: Some(ready), names, version }
    }

    /// Waits until all conditions are true, and stay true.
    ///
    /// # Errors
    /// Those that are not true when the time is over.
    pub async fn prove(&self, wanted: &WantedNode) -> anyhow::Result<()> {
        let look = async || proof::missing(wanted, &self.look(wanted.role, Duration::ZERO).await);
        holds(self.wait, self.settle, look).await
    }

    /// Stops k3s and starts it; pods keep running.
    ///
    /// # Errors
    /// systemd refuses, or k3s does not end.
    pub async fn restart(&self, role: Role) -> anyhow::Result<()> {
        let stopped = self.systemctl.stop(role.unit()).await;
        // Whatever became of that: a lost request must not leave the node without k3s.
        if self.systemctl.start(role.unit()).await.is_err() {
            self.systemctl.start(role.unit()).await?;
        }
        Ok(stopped?)
    }

    /// The version of the server that this node has joined, where it is known.
    pub async fn server_version(&self) -> Option<Version> {
        let version = api_version(&self.kubelet().await?.ok()?).await;
        version.ok()?.parse().ok()
    }

    /// Has the operator make a copy, and remove it.
    pub async fn prove_copy(&self) -> anyhow::Result<()> {
        let client = self.admin().await.map_err(|why| anyhow!(why))?;
        if copy_proof::prove(&client, self.wait).await? == CopySeen::Paused {
            say("Copying was not tested: the cluster is paused (`weaver resume` continues).");
        }
        Ok(())
    }

    async fn admin(&self) -> Result<Client, String> {
        self.connect(&self.host.admin_kubeconfig).await
    }

    /// Connects with the kubelet's credential, where there is one.
    async fn kubelet(&self) -> Option<Result<Client, String>> {
        let path = self.host.k3s_data_dir().join(KUBELET);
        if self.host.root.real(&path).exists() { Some(self.connect(&path).await) } else { None }
    }

    async fn connect(&self, kubeconfig: &Path) -> Result<Client, String> {
        let access = ClusterAccess::File(self.host.root.clone(), kubeconfig.to_owned());
        cluster::connect(&access).await.map_err(|error| short(&format!("{error:#}")))
    }

    /// The kubelet's version in the cluster's record of this node.
    async fn kubelet_version(&self) -> Option<Result<String, String>> {
        let (client, name) = (self.kubelet().await?, self.host.node_name()?);
        let asking = async {
            let nodes: Api<NodeObject> = Api::all(client?);
            let node = answer(nodes.get(&name)).await?;
            let info = node.status.and_then(|status| status.node_info);
            info.map(|info| info.kubelet_version).ok_or_else(|| format!("Node {name} has no version"))
        };
        Some(asking.await)
    }
}

/// Waits until nothing is missing, and stays so.
///
/// # Errors
/// What is missing when the time is over.
pub async fn holds(
    wait: Duration,
    settle: Duration,
    look: impl AsyncFn() -> Vec<String>,
) -> anyhow::Result<()> {
    let until = Instant::now() + wait;
    let mut fine_since = None;
    let progress = Progress::waiting("");
    loop {
        let missing = look().await;
        progress.text(&if missing.is_empty() { "verifying".to_owned() } else { missing.join("; ") });
        if missing.is_empty() {
            if fine_since.get_or_insert_with(Instant::now).elapsed() >= settle {
                return Ok(());
            }
        } else {
            fine_since = None;
            if Instant::now() >= until {
                bail!("after {} s: {}", wait.as_secs(), missing.join("; "));
            }
        }
        sleep(POLL).await;
    }
}

/// The names that are served: a configured one counts when a handshake has proven it.
fn served(check: &CheckResult) -> Vec<String> {
    let configured: Vec<_> =
        check.seen.iter().map(|(wanted, seen)| (wanted.name.to_string(), seen)).collect();
    let proven = configured.iter().filter(|(_, seen)| seen.outcome == HandshakeOutcome::Proven);
    let proven = proven.map(|(name, _)| name.clone());
    let is_configured = |name: &str| configured.iter().any(|(wanted, _)| wanted.eq_ignore_ascii_case(name));
    let others = check.served.iter().filter(|name| !is_configured(name)).cloned();
    proven.chain(others).collect()
}

async fn ready(client: &Client) -> Result<(), String> {
    let request = http::Request::get("/readyz").body(Vec::new()).map_err(|error| error.to_string())?;
    answer(client.request_text(request)).await.map(drop)
}

async fn api_version(client: &Client) -> Result<String, String> {
    Ok(answer(client.apiserver_version()).await?.git_version)
}

async fn answer<T>(call: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    let answered = timeout(ANSWER, call).await;
    let answered = answered.map_err(|_| format!("no answer within {} s", ANSWER.as_secs()))?;
    answered.map_err(|error| short(&format!("{:#}", anyhow::Error::from(error))))
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::os::unix::fs::PermissionsExt as _;

    use weaver_diagnostics::finding::Place as Origin;
    use weaver_diagnostics::serving::{Observation, WantedName as Name};

    use super::*;

    /// The clock is one that advances as soon as there is nothing else to do.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_takes_long_is_an_answer() {
        let late = async {
            sleep(Duration::from_secs(20)).await;
            Ok(7)
        };
        assert_eq!(answer(late).await, Ok(7));
        assert_eq!(answer::<()>(pending()).await, Err("no answer within 30 s".to_owned()));
    }

    #[test]
    fn a_configured_name_counts_when_it_is_proven_and_any_other_when_it_is_in_the_certificate() {
        let certificate = ["kubernetes", "PI.lan", "late.lan", "10.0.0.2"].map(str::to_owned).to_vec();
        let seen = [
            ("pi.lan", HandshakeOutcome::Proven),
            ("late.lan", HandshakeOutcome::Dates("it has expired".to_owned())),
        ];
        let seen = seen.map(|(name, outcome)| {
            let name = Name { name: name.parse().unwrap(), origin: Origin::file("/c.yaml") };
            (name, Observation { outcome, served: certificate.clone() })
        });
        let check = CheckResult {
            findings: Vec::new(),
            proven: false,
            api_address: ([127, 0, 0, 1], 6443).into(),
            server_ca: None,
            seen: seen.to_vec(),
            served: certificate,
            certificate: None,
            watched_dirs: Vec::new(),
            load: None,
        };
        assert_eq!(served(&check), ["pi.lan", "kubernetes", "10.0.0.2"]);
    }

    #[tokio::test]
    async fn what_a_program_says_of_itself_or_why_not() {
        let dir = tempfile::tempdir().unwrap();
        for (number, (script, want)) in [
            ("echo k3s version v1.36.4+k3s1", "v1.36.4+k3s1"),
            ("echo hello", "`--version` printed \"hello\""),
            (
                "printf 'no \\033[31mroom\\n' >&2; exit 3",
                "`--version` fails (exit status: 3) no \\u{1b}[31mroom",
            ),
        ]
        .into_iter()
        .enumerate()
        {
            let program = dir.path().join(number.to_string());
            fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            let said = crate::k3s_version::version_of(&program)
                .await
                .map_or_else(|why| why, |version| version.to_string());
            assert!(said.contains(want), "{said}");
        }
        let why = crate::k3s_version::version_of(&dir.path().join("none")).await.unwrap_err();
        assert!(why.contains("it cannot be run"), "{why}");
    }
}

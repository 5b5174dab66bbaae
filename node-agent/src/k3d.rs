//! The API server in a cluster of k3d on this machine: which cluster is meant, and what its containers show.
//!
//! Read again with each check, for a cluster is created, stopped and deleted while the agent runs. The CA and the
//! administrator's kubeconfig are read from a server's container and kept in memory only.

use std::{
    fmt,
    net::{IpAddr, SocketAddr, UdpSocket},
    path::Path,
    str::FromStr,
    time::Duration,
};

use tokio::time::timeout;
use weaver_diagnostics::{
    finding::{Finding, Severity},
    k3d::{
        cluster::{Gateway, K3dCluster, NotChosen},
        engine::EngineProgram,
        verdict,
    },
    k3s_config::{DEFAULT_DATA_DIR, Effective},
    k3s_unit::Setting,
    kubeconfig::{self, Unusable},
    serving,
    text_file::TextFile,
};
use weaver_host::docker::{Engine, EngineError};

use crate::{
    host_root::HostRoot,
    k3s_files::{self, K3sPresence},
};

/// For all answers of the engine: systemd gives the agent 90 s to start, and this comes first.
const LONGEST: Duration = Duration::from_mins(1);

/// Which cluster the agent manages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ClusterChoice {
    /// k3s where it is in use, else the only cluster of k3d.
    #[default]
    Auto,
    /// k3s on this machine.
    K3s,
    /// A cluster of k3d; without a name the only one.
    K3d(Option<String>),
}

impl FromStr for ClusterChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "auto" | "" => Self::Auto,
            "k3s" => Self::K3s,
            "k3d" => Self::K3d(None),
            text => match text.strip_prefix("k3d:") {
                Some(name) if !name.is_empty() => Self::K3d(Some(name.to_owned())),
                _ => return Err("write auto, k3s, k3d or k3d:CLUSTER"),
            },
        })
    }
}

/// Which cluster is meant, and how to query the engine.
#[derive(Debug, Clone, Default)]
pub(crate) struct WantedCluster {
    pub(crate) choice: ClusterChoice,
    /// Names to serve in addition to those that the cluster was created with.
    pub(crate) names: Vec<Setting>,
    pub(crate) docker_host: Option<String>,
}

/// A cluster of k3d as it was last seen; without a name where none could be chosen.
#[derive(Default)]
pub struct K3d {
    pub(crate) cluster: Option<String>,
    /// The container that was read.
    pub(crate) server: Option<String>,
    pub(crate) effective: Effective,
    /// The names of its servers and load balancer, which the certificate has without configuration.
    pub(crate) own_names: Vec<String>,
    /// Where this machine connects to the API.
    pub(crate) api: Option<SocketAddr>,
    /// The address of this machine for the containers.
    pub(crate) gateway: Option<Gateway>,
    pub(crate) ca: Option<TextFile>,
    pub(crate) kubeconfig: Option<TextFile>,
    pub(crate) findings: Vec<Finding>,
    engine: Option<Engine>,
}

/// Without the kubeconfig, which contains a key.
impl fmt::Debug for K3d {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("K3d").field("cluster", &self.cluster).field("api", &self.api).finish_non_exhaustive()
    }
}

impl K3d {
    /// What the node is called: k3s writes it in lower case, and k3d takes capital letters in a cluster's name.
    pub(crate) fn node_name(&self) -> Option<String> {
        let configured = self.effective.node_name.as_ref().map(|name| name.value.as_str());
        configured.or(self.server.as_deref()).map(str::to_ascii_lowercase)
    }

    /// The same after an earlier state: a cluster that does not run has no gateway, and comes back with the old one.
    pub(crate) fn after(self, before: Option<&Self>) -> Self {
        let same = before.filter(|before| self.cluster.is_none() || before.cluster == self.cluster);
        Self { gateway: self.gateway.or_else(|| same?.gateway), ..self }
    }

    /// The names that it must serve.
    pub(crate) fn names(&self) -> Vec<String> {
        let own = &self.own_names;
        let names = self.effective.tls_san.iter().map(|name| name.value.clone());
        names.filter(|name| !own.contains(name)).collect()
    }

    /// The CA of the serving certificates.
    ///
    /// # Errors
    /// A finding that says what is missing.
    pub(crate) fn server_ca(&self) -> Result<TextFile, Box<Finding>> {
        match (&self.ca, &self.server, self.api) {
            (_, _, None) => Err(Box::new(serving::unknown("there is no API server to look at"))),
            (Some(ca), ..) => Ok(ca.clone()),
            (None, server, _) => {
                let server = server.as_deref().unwrap_or_default();
                Err(Box::new(serving::unknown(&format!("k3s in {server} has not made its CA yet"))))
            }
        }
    }

    /// What keeps the administrator's kubeconfig from being used.
    pub(crate) fn unusable(&self) -> Vec<Finding> {
        self.kubeconfig
            .iter()
            .filter_map(|file| kubeconfig::unusable(file, None))
            .map(Unusable::of_administrator)
            .collect()
    }

    /// What is typed to see its containers.
    pub(crate) fn program(&self) -> EngineProgram {
        self.engine.as_ref().map(Engine::program).unwrap_or_default()
    }

    /// Returns when a container of k3d has changed.
    pub(crate) async fn changed(&self) {
        match &self.engine {
            Some(engine) => engine.changed().await,
            None => std::future::pending().await,
        }
    }

    fn unknown(finding: Finding, is_chosen: bool) -> Self {
        // Where k3d was not chosen, its absence is no fault; the names are not proven all the same.
        let finding = if is_chosen { finding } else { finding.milder(Severity::Unknown) };
        Self { findings: vec![finding], ..Self::default() }
    }
}

/// Looks for the cluster; `None` where the API server is that of k3s on this machine. One that was found `before` stays
/// the one that is meant when another is created next to it.
pub(crate) async fn look(root: &HostRoot, wanted: &WantedCluster, before: Option<&K3d>) -> Option<K3d> {
    let (name, is_chosen, k3s) = match &wanted.choice {
        ClusterChoice::K3s => return None,
        ClusterChoice::Auto => (None, false, k3s_files::presence(root)),
        ClusterChoice::K3d(name) => (name.as_deref(), true, K3sPresence::Absent),
    };
    if k3s == K3sPresence::Used {
        return None;
    }
    let failed = |EngineError { socket, why, is_late }: EngineError| {
        if is_late {
            K3d::unknown(verdict::late(&socket, &why), true)
        } else {
            K3d::unknown(verdict::unread_by_agent(&socket, &why), is_chosen)
        }
    };
    let found = match Engine::find(wanted.docker_host.as_deref(), |path| root.real(path)) {
        Ok(Some(engine)) => {
            let socket = engine.socket().to_owned();
            let looking = look_at(engine, wanted, (name, is_chosen), before);
            let found = timeout(LONGEST, looking).await.unwrap_or_else(|_| {
                let why = format!("not all answers within {} s", LONGEST.as_secs());
                Err(EngineError { socket, why, is_late: true })
            });
            found.unwrap_or_else(failed)
        }
        Ok(None) if is_chosen => return Some(K3d::unknown(verdict::no_engine(), true)),
        Ok(None) => return None,
        Err(error) => failed(error),
    };
    // A k3s that is not started yet is meant until there is a cluster of k3d.
    let is_seen = || found.findings.iter().any(|finding| finding.severity() != Severity::Unknown);
    let is_k3d = k3s == K3sPresence::Absent || found.cluster.is_some() || before.is_some() || is_seen();
    is_k3d.then_some(found)
}

async fn look_at(
    mut engine: Engine,
    wanted: &WantedCluster,
    (name, is_chosen): (Option<&str>, bool),
    before: Option<&K3d>,
) -> Result<K3d, EngineError> {
    let all = match engine.k3d_clusters().await {
        Err(error) if error.is_late => {
            engine.wait_longer();
            engine.k3d_clusters().await?
        }
        clusters => clusters?,
    };
    let known = before.and_then(|before| before.cluster.as_deref());
    let known = known.filter(|known| all.iter().any(|cluster| cluster.name == *known));
    Ok(match K3dCluster::choose(&all, name.or(known)) {
        Err(why) => {
            let is_fault = is_chosen || why != NotChosen::None;
            K3d { engine: Some(engine), ..K3d::unknown(verdict::not_chosen(&why), is_fault) }
        }
        Ok(cluster) => read(&engine, cluster, &all, &wanted.names).await,
    })
}

/// What the servers' containers show. One that is deleted meanwhile is reported by what could not be read.
async fn read(engine: &Engine, cluster: &K3dCluster, all: &[K3dCluster], names: &[Setting]) -> K3d {
    let mut findings = verdict::judge(cluster, all, is_own);
    let mut effective = cluster.effective();
    for name in names {
        if effective.tls_san.iter().all(|has| has.value != name.value) {
            effective.tls_san.push(name.clone());
        }
    }
    let server = cluster.running().or_else(|| cluster.servers.first()).map(|server| server.name.clone());
    let mut k3d = K3d {
        cluster: Some(cluster.name.clone()),
        effective,
        own_names: cluster.own_names(),
        api: cluster.api(),
        gateway: cluster.gateway(),
        engine: Some(engine.clone()),
        ..K3d::default()
    };
    if let Some(server) = &server {
        let ca = k3s_files::server_ca_path(Path::new(DEFAULT_DATA_DIR));
        match engine.text(server, &ca.display().to_string()).await {
            Ok(ca) => k3d.ca = ca,
            Err(error) => findings.push(unread(&error)),
        }
        match engine.kubeconfig(server).await {
            Ok(kubeconfig) => k3d.kubeconfig = kubeconfig,
            Err(error) => findings.push(unread(&error)),
        }
    }
    K3d { server, findings, ..k3d }
}

fn unread(EngineError { socket, why, is_late }: &EngineError) -> Finding {
    if *is_late { verdict::late(socket, why) } else { verdict::unread(socket, why) }
}

/// Whether this machine has the address: only then can it be bound.
fn is_own(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixListener;
    use tokio::time::{Instant, sleep};
    use weaver_diagnostics::finding::Code;

    use super::*;
    use crate::host_root::fixture::host;

    #[test]
    fn what_may_be_chosen() {
        for (text, want) in [
            ("auto", Some(ClusterChoice::Auto)),
            ("k3s", Some(ClusterChoice::K3s)),
            ("k3d", Some(ClusterChoice::K3d(None))),
            ("k3d:edge", Some(ClusterChoice::K3d(Some("edge".into())))),
            ("k3d:", None),
            ("edge", None),
        ] {
            assert_eq!(text.parse().ok(), want, "{text}");
        }
    }

    /// An engine that gives this list of containers, and so late each answer.
    fn engine(root: &Path, list: String, takes: Duration) {
        std::fs::create_dir_all(root.join("run/podman")).unwrap();
        let listener = UnixListener::bind(root.join("run/podman/podman.sock")).unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let list = list.clone();
                tokio::spawn(async move {
                    let mut asked = [0; 4096];
                    let length = stream.read(&mut asked).await.unwrap();
                    let is_list = String::from_utf8_lossy(&asked[..length]).contains("/containers/json");
                    let body = if is_list { list } else { "{}".to_owned() };
                    sleep(takes).await;
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                    // Who asked may have given up.
                    let _ = stream.write_all((head + &body).as_bytes()).await;
                });
            }
        });
    }

    fn server(cluster: &str, number: u32) -> String {
        format!(
            r#"{{"Id": "{number}", "Names": ["/k3d-{cluster}-server-{number}"], "State": "running",
            "Labels": {{"app": "k3d", "k3d.cluster": "{cluster}", "k3d.role": "server"}}}}"#
        )
    }

    #[tokio::test]
    async fn next_to_a_k3s_that_is_not_started_a_cluster_of_k3d_counts_where_there_is_one() {
        let wanted = WantedCluster::default();
        for (containers, is_enabled, want) in [
            (vec![server("edge", 0)], false, Some(Some("edge"))),
            (vec![server("edge", 0), server("pi", 1)], false, Some(None)),
            (vec![], false, None),
            (vec![server("edge", 0)], true, None),
        ] {
            let (dir, root) = host(&[("/etc/systemd/system/k3s.service", ""), ("/usr/local/bin/k3s", "")]);
            if is_enabled {
                let wants = dir.path().join("etc/systemd/system/multi-user.target.wants");
                std::fs::create_dir(&wants).unwrap();
                std::fs::write(wants.join("k3s.service"), "").unwrap();
            }
            engine(dir.path(), format!("[{}]", containers.join(", ")), Duration::ZERO);
            let found = look(&root, &wanted, None).await;
            let cluster = found.as_ref().map(|k3d| k3d.cluster.as_deref());
            assert_eq!(cluster, want, "{containers:?} {is_enabled}");
        }
    }

    /// The clock is one that advances as soon as there is nothing else to do.
    #[tokio::test(start_paused = true)]
    async fn an_engine_that_is_slow_with_each_answer_does_not_take_the_time_that_the_agent_has_to_start() {
        let dir = tempfile::tempdir().unwrap();
        let list = format!("[{}, {}, {}]", server("edge", 0), server("edge", 1), server("edge", 2));
        engine(dir.path(), list, Duration::from_secs(20));
        let wanted = WantedCluster { choice: ClusterChoice::K3d(None), ..WantedCluster::default() };
        let begun = Instant::now();
        let found = look(&HostRoot::new(dir.path().to_owned()), &wanted, None).await.unwrap();
        assert!(begun.elapsed() < LONGEST + Duration::from_secs(1), "{:?}", begun.elapsed());
        let [late] = &found.findings[..] else { panic!("{:?}", found.findings) };
        assert_eq!((late.code, late.severity()), (Code::ContainerEngineUnreadable, Severity::Unknown));
        assert!(late.evidence[0].to_string().contains("not all answers within 60 s"), "{late:?}");
        assert!(late.message.contains("/run/podman/podman.sock"), "{late:?}");
    }

    #[test]
    fn a_node_is_called_as_its_container_in_lower_case() {
        let k3d = K3d { server: Some("k3d-Edge.lab-server-0".into()), ..K3d::default() };
        assert_eq!(k3d.node_name().as_deref(), Some("k3d-edge.lab-server-0"));
    }

    #[test]
    fn the_kubeconfig_is_not_shown() {
        let kubeconfig = Some(TextFile::new("k3d-edge-server-0:/output/kubeconfig.yaml", "hunter2"));
        let k3d = K3d { kubeconfig, cluster: Some("edge".into()), ..K3d::default() };
        assert!(!format!("{k3d:?}").contains("hunter2"));
        assert!(is_own([127, 0, 0, 1].into()) && !is_own([192, 0, 2, 1].into()));
    }
}

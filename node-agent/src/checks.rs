//! The two sets of checks: what must hold before k3s starts, and that plus the
//! proof of the served names.

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use jiff::Timestamp;
use parking_lot::Mutex;
use weaver_diagnostics::{
    finding::{Finding, Severity},
    future_ca::FutureCa,
    k3s_config::{DEFAULT_DATA_DIR, Effective},
    k3s_upgrade::Role,
    name_repair::{self, OwnNames},
    power, reach,
    serving::{self, Causes, ObservedName, Outcome, Stage, Written},
    text_file::TextFile,
};

use crate::{
    facts::{board, ca_dates, identity, mounts::Mounts, storage},
    findings::{Findings, Runs},
    host_args::HostArgs,
    host_checks::{self, Look},
    host_root::HostRoot,
    join,
    k3d::{self, K3d},
    k3s_files, override_file, probe,
    run::cluster::ClusterAccess,
    slowness,
};

const DEFAULT_PORT: u16 = 6443;
/// The kubelet's own kubeconfig, below k3s' data.
pub(crate) const KUBELET: &str = "agent/kubelet.kubeconfig";

#[derive(Debug, Clone)]
pub struct Host {
    /// What stands for `/`.
    pub root: HostRoot,
    /// The administrator's kubeconfig, as the host knows it.
    pub admin_kubeconfig: PathBuf,
    /// The boot partition, as the host knows it.
    pub boot_dir: PathBuf,
    config: Option<PathBuf>,
    data_dir: Option<PathBuf>,
    unit: Option<PathBuf>,
    api_address: Option<SocketAddr>,
    wanted: k3d::WantedCluster,
    /// The cluster of k3d that the last check found; of all clones.
    k3d: Arc<Mutex<Option<Arc<K3d>>>>,
}

impl From<HostArgs> for Host {
    fn from(args: HostArgs) -> Self {
        let wanted = args.wanted();
        let HostArgs {
            root,
            k3s_config,
            k3s_data_dir,
            k3s_unit,
            admin_kubeconfig,
            api_address,
            boot_dir,
            cluster: _,
            names: _,
            docker_host: _,
            probe_timeout: _,
        } = args;
        Self {
            root: HostRoot::new(root),
            admin_kubeconfig,
            boot_dir,
            config: k3s_config,
            data_dir: k3s_data_dir,
            unit: k3s_unit,
            api_address,
            wanted,
            k3d: Arc::default(),
        }
    }
}

impl Host {
    /// The cluster of k3d that the last check found; `None` where k3s runs on this machine.
    pub(crate) fn k3d(&self) -> Option<Arc<K3d>> {
        self.k3d.lock().clone()
    }

    /// Looks for the cluster again.
    pub(crate) async fn look_at_k3d(&self) {
        let before = self.k3d();
        let found = k3d::look(&self.root, &self.wanted, before.as_deref()).await;
        let mut known = self.k3d.lock();
        *known = found.map(|found| Arc::new(found.after(known.as_deref())));
    }

    /// Where k3s runs.
    pub(crate) fn runs(&self) -> Runs {
        match self.k3d() {
            None => Runs::Unit(self.role()),
            Some(k3d) => Runs::K3d {
                cluster: k3d.cluster.clone().unwrap_or_else(|| "CLUSTER".to_owned()),
                names: k3d.names(),
            },
        }
    }

    /// The address of the webhook as the API server reaches it: from a container this machine is its network's gateway.
    pub(crate) fn webhook_address(&self, configured: SocketAddr) -> SocketAddr {
        let gateway = self.k3d().and_then(|k3d| k3d.gateway).filter(|_| configured.ip().is_loopback());
        let gateway = gateway.map(|gateway| gateway.ip);
        SocketAddr::new(gateway.unwrap_or(configured.ip()), configured.port())
    }

    /// Where k3s keeps its data.
    pub(crate) fn data_dir(&self, effective: &Effective) -> PathBuf {
        let configured = || effective.data_dir.as_ref().map(|setting| setting.value.clone().into());
        self.data_dir.clone().or_else(configured).unwrap_or_else(|| DEFAULT_DATA_DIR.into())
    }

    /// Where k3s keeps its data, by its configuration as it is now.
    pub(crate) fn k3s_data_dir(&self) -> PathBuf {
        let effective = self.effective();
        self.data_dir(&effective)
    }

    /// What k3s will act on, as its files are now.
    pub(crate) fn effective(&self) -> Effective {
        if let Some(k3d) = self.k3d() {
            return k3d.effective.clone();
        }
        k3s_files::effective(&self.root, self.config.as_deref(), self.unit.as_deref())
    }

    /// The same, one of the files that it is made of left out.
    pub(crate) fn effective_without(&self, file: &Path) -> Effective {
        k3s_files::effective_without(&self.root, self.config.as_deref(), self.unit.as_deref(), Some(file))
    }

    /// Whether this node joins a server.
    #[must_use]
    pub fn role(&self) -> Role {
        k3s_files::role(&self.root)
    }

    pub(crate) fn joins(&self) -> bool {
        self.role() == Role::Agent
    }

    /// How the agent gets into the cluster as its administrator.
    pub(crate) fn admin(&self) -> ClusterAccess {
        match self.k3d() {
            Some(k3d) => ClusterAccess::K3d(k3d),
            None => ClusterAccess::File(self.root.clone(), self.admin_kubeconfig.clone()),
        }
    }

    /// By which the agent speaks of this node in the cluster: the administrator's, where the node joins a server the
    /// kubelet's.
    pub(crate) fn reporter(&self) -> ClusterAccess {
        if self.joins() {
            ClusterAccess::File(self.root.clone(), self.k3s_data_dir().join(KUBELET))
        } else {
            self.admin()
        }
    }

    /// Where the API server is, or will be.
    fn api_address(&self, effective: &Effective) -> SocketAddr {
        let published = self.k3d().and_then(|k3d| k3d.api);
        let port = effective.https_listen_port.unwrap_or(DEFAULT_PORT);
        self.api_address.or(published).unwrap_or_else(|| (Ipv4Addr::LOCALHOST, port).into())
    }

    /// The directories in which a change is worth a check, as they really are.
    #[must_use]
    pub fn all_places(&self) -> Vec<PathBuf> {
        let effective = self.effective();
        self.places(&effective)
    }

    /// The directories whose files are read here and change by someone's hand, as they really are.
    fn places(&self, effective: &Effective) -> Vec<PathBuf> {
        let next_to = |path: &Path| path.parent().map(Path::to_owned);
        let unit = self.unit.as_deref().and_then(next_to);
        let usual = ["/boot", "/etc", "/etc/default", "/etc/systemd/system"];
        let drop_ins = Path::new("/etc/systemd/system").join(format!("{}.d", self.role().unit()));
        let places = usual.into_iter().map(PathBuf::from).chain(unit).chain([
            drop_ins,
            self.boot_dir.clone(),
            effective.drop_ins.clone(),
            self.data_dir(effective).join("server/tls"),
        ]);
        let places = places.chain(next_to(&effective.drop_ins)).chain(next_to(&self.admin_kubeconfig));
        places.map(|place| self.root.real(place)).collect()
    }

    /// When the files were written that name what is to be served, compared with k3s' last start: it writes its
    /// kubeconfig at each start.
    fn written(&self, effective: &Effective) -> BTreeMap<String, Written> {
        let written = |path: &Path| fs::metadata(self.root.real(path)).ok()?.modified().ok();
        let Some(started) = written(&self.admin_kubeconfig) else { return BTreeMap::new() };
        let when = |file: &str| {
            let is_newer = written(Path::new(file))? > started;
            Some(if is_newer { Written::AfterStart } else { Written::BeforeStart })
        };
        let files = effective.tls_san.iter().map(|name| &name.origin.file);
        files.filter_map(|file| Some((file.clone(), when(file)?))).collect()
    }

    /// What k3s calls this node; `None` where nothing tells.
    #[must_use]
    pub fn node_name(&self) -> Option<String> {
        if let Some(k3d) = self.k3d() {
            return k3d.node_name();
        }
        let effective = self.effective();
        identity::name(&self.root, &self.data_dir(&effective), &effective)
    }

    /// What k3s calls this host and its node, in the certificate too.
    pub(crate) fn own_names(&self, effective: &Effective) -> OwnNames {
        if let Some(k3d) = self.k3d() {
            return OwnNames { names: k3d.own_names.iter().cloned().chain(k3d.node_name()).collect() };
        }
        let files = ["/proc/sys/kernel/hostname", "/etc/hostname"].into_iter();
        let names = files.filter_map(|path| Some(self.root.read_if_possible(path)?.text.trim().to_owned()));
        OwnNames { names: names.chain(effective.node_name.iter().map(|name| name.value.clone())).collect() }
    }
}

/// What holds before k3s starts.
#[derive(Debug)]
pub struct Preflight {
    pub findings: Vec<Finding>,
    /// What k3s will act on.
    pub effective: Effective,
}

#[derive(Debug)]
pub struct Check {
    pub findings: Vec<Finding>,
    /// Whether every configured name is proven, against a known configuration.
    pub proven: bool,
    /// The API server that was asked.
    pub api_address: SocketAddr,
    /// The CA of the serving certificates in PEM, where there is one.
    pub server_ca: Option<String>,
    /// The handshakes, one a configured name.
    pub seen: Vec<ObservedName>,
    /// The names of the served certificate; none where it was not seen.
    pub served: Vec<String>,
    /// The directories in which a change is worth another check, as they really are.
    pub places: Vec<PathBuf>,
}

impl Check {
    /// Whether something is known to be bad.
    pub fn failures(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| f.severity() == Severity::Fail)
    }
}

/// The host and the validity of k3s' configuration, with the owner's override
/// applied. No network.
#[must_use]
pub fn preflight(host: &Host) -> Preflight {
    preflight_after(host, None)
}

/// The same after the host could not be made ready for a start without a network, for the reason given.
#[must_use]
pub fn preflight_after(host: &Host, not_ready: Option<&str>) -> Preflight {
    let (findings, effective) = judge_files(host, Stage::BeforeStart, not_ready);
    Preflight { findings: findings.finish(), effective }
}

fn judge_files(host: &Host, stage: Stage, not_ready: Option<&str>) -> (Findings, Effective) {
    let effective = host.effective();
    let role = host.role();
    let mut findings = Findings::new(host.runs(), override_file::read(&host.root, &host.boot_dir));
    let k3d = host.k3d();
    findings.extend(k3d.iter().flat_map(|k3d| k3d.findings.clone()));
    findings.extend(host_checks::run(&Look {
        root: &host.root,
        boot_dir: &host.boot_dir,
        role,
        is_k3d: k3d.is_some(),
        effective: &effective,
        data_dir: host.data_dir(&effective),
        api_port: host.api_address(&effective).port(),
        mounts: Mounts::read(&host.root),
        stage,
        not_ready,
    }));
    (findings, effective)
}

/// What the files say.
struct Files {
    findings: Findings,
    effective: Effective,
    server_ca: Result<TextFile, Box<Finding>>,
    kubeconfig: Vec<Finding>,
    own: OwnNames,
    places: Vec<PathBuf>,
    causes: Causes,
    joins: bool,
    target: Option<join::JoinTarget>,
}

impl Files {
    fn read(host: &Host) -> Self {
        let (findings, effective) = judge_files(host, Stage::Serving, None);
        let own = host.own_names(&effective);
        let places = host.places(&effective);
        let joins = host.joins();
        let target = join::join_target(&host.root, host.node_name());
        let (server_ca, kubeconfig, causes) = if let Some(k3d) = host.k3d() {
            (k3d.server_ca(), k3d.unusable(), Causes::default())
        } else {
            let data_dir = host.data_dir(&effective);
            let future_ca =
                ca_dates::future_ca(&host.root, &k3s_files::server_ca_path(&data_dir), Timestamp::now());
            let server_ca = k3s_files::server_ca(&host.root, &data_dir);
            let kubeconfig = k3s_files::admin_kubeconfig(&host.root, &host.admin_kubeconfig);
            (server_ca, kubeconfig, Causes { written: host.written(&effective), future_ca })
        };
        Self { findings, effective, server_ca, kubeconfig, own, places, causes, joins, target }
    }
}

/// What is so at this moment and another way the next, or perhaps no fault at all: for a person who asks, and no news
/// for the card.
#[must_use]
pub fn momentary(host: &Host) -> Vec<Finding> {
    let effective = host.effective();
    let (names, _) = serving::wanted(&effective.tls_san, Stage::Serving);
    let heat = board::heat(&host.root).and_then(|(place, heat)| power::heat(place, heat));
    heat.into_iter().chain(reach::unqualified_names(&names)).collect()
}

/// A measurement of the storage under k3s, which writes to it.
#[must_use]
pub fn card_speed(host: &Host) -> Finding {
    let effective = host.effective();
    storage::card_speed(&host.root.real(host.data_dir(&effective))).judge()
}

/// Everything, the handshakes included: names that are not served are probed
/// again until `patience` has passed. A node that joins a server proves nothing;
/// it asks whether that server would have it.
///
/// # Errors
/// The probe itself could not run.
pub async fn check(host: &Host, patience: Duration) -> anyhow::Result<Check> {
    host.look_at_k3d().await;
    let reader = host.clone();
    // A dying card can take seconds to answer: never on the runtime's thread.
    let files = tokio::task::spawn_blocking(move || Files::read(&reader)).await;
    let files = files.context("reading the host's files")?;
    let Files { mut findings, effective, server_ca, kubeconfig, own, places, causes, joins, target } = files;
    let api_address = host.api_address(&effective);
    let anchors = server_ca.as_ref().map_err(Clone::clone).and_then(k3s_files::trust_anchors);
    let server_ca = server_ca.ok().map(|file| file.text);
    if joins {
        if let Some(target) = target {
            findings.extend_by_server(join::look(&target).await);
        }
        let (findings, seen, served) = (findings.finish(), Vec::new(), Vec::new());
        return Ok(Check { findings, proven: false, api_address, server_ca, seen, served, places });
    }

    let (names, _) = serving::wanted(&effective.tls_san, Stage::Serving);
    let names_are_open = findings.names_are_open();
    let mut proven = false;
    let (mut seen, mut served) = (Vec::new(), Vec::new());
    match anchors {
        Err(finding) => findings.extend([*finding]),
        Ok(_) if names.is_empty() && names_are_open => {
            findings.extend([serving::unknown(
                "the configured names are unknown: the configuration could not be read completely",
            )]);
        }
        Ok(anchors) => {
            let probed = probe::prove(api_address, anchors.clone(), names, patience).await?;
            let endpoint = api_address.to_string();
            findings.extend(slowness::of_handshakes(&host.root, &endpoint, &probed).await);
            seen = probed.seen;
            let proof = serving::judge(&endpoint, &seen, &causes);
            findings.extend(proof.findings);
            proven = proof.proven && !names_are_open;
            served = match seen.first() {
                Some((_, seen)) => seen.served.clone(),
                None => probe::served(api_address, anchors).await?,
            };
            if !names_are_open {
                let stale = name_repair::stale(&served, &effective, &own);
                findings.extend(name_repair::stale_finding(&endpoint, &stale));
            }
        }
    }
    if !seen.iter().any(|(_, seen)| matches!(seen.outcome, Outcome::Dates(_))) {
        findings.extend(causes.future_ca.as_ref().map(FutureCa::finding));
    }
    findings.extend(reach::hidden_names(&seen));
    findings.extend(kubeconfig);
    let findings = findings.finish();
    Ok(Check { findings, proven, api_address, server_ca, seen, served, places })
}

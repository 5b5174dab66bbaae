//! The host that is checked: where its files are, as the command line names them, and what follows from what it has.

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use weaver_diagnostics::{
    finding::Finding,
    k3s_config::{DEFAULT_DATA_DIR, Effective},
    k3s_upgrade::Role,
    name_repair::OwnNames,
    serving::WriteTime,
};

use crate::{
    facts::identity,
    findings::Runs,
    host_args::HostArgs,
    host_root::HostRoot,
    k3d::{self, K3d},
    k3s_files,
    k3s_version::version_of,
    run::cluster::ClusterAccess,
};

const DEFAULT_PORT: u16 = 6443;
/// The kubelet's own kubeconfig, below k3s' data.
pub(crate) const KUBELET: &str = "agent/kubelet.kubeconfig";

#[derive(Debug, Clone)]
pub struct Host {
    /// The directory that replaces `/`.
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
        Self {
            wanted: args.wanted(),
            root: HostRoot::new(args.root),
            admin_kubeconfig: args.admin_kubeconfig,
            boot_dir: args.boot_dir,
            config: args.k3s_config,
            data_dir: args.k3s_data_dir,
            unit: args.k3s_unit,
            api_address: args.api_address,
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

    pub(crate) fn runs(&self) -> Runs {
        match self.k3d() {
            None => Runs::Unit(self.role()),
            Some(k3d) => Runs::K3d {
                cluster: k3d.cluster.clone().unwrap_or_else(|| "CLUSTER".to_owned()),
                names: k3d.names(),
                port: k3d.api.map(|api| api.port()),
                engine: k3d.program(),
            },
        }
    }

    /// The address of the webhook as the API server uses it: from a container this machine is its network's gateway.
    pub(crate) fn webhook_address(&self, configured: SocketAddr) -> SocketAddr {
        let gateway = self.k3d().and_then(|k3d| k3d.gateway).filter(|_| configured.ip().is_loopback());
        let gateway = gateway.map(|gateway| gateway.ip);
        SocketAddr::new(gateway.unwrap_or(configured.ip()), configured.port())
    }

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

    /// Settings of k3s that the installed version does not have yet. Only checked for this machine's own k3s, and only
    /// where there is such a setting: it takes a start of the program.
    pub(crate) async fn newer_settings(&self) -> Vec<Finding> {
        let of = |minor| {
            k3s_files::newer_settings(&self.root, self.config.as_deref(), self.unit.as_deref(), minor)
        };
        if self.k3d().is_some() || self.root.real("/") != Path::new("/") || of(0).is_empty() {
            return Vec::new();
        }
        let version = version_of(Path::new("/usr/local/bin/k3s")).await;
        version.map_or_else(|_| Vec::new(), |version| of(version.minor()))
    }

    /// The same, one of the files that it is made of left out.
    pub(crate) fn effective_without(&self, file: &Path) -> Effective {
        k3s_files::effective_without(&self.root, self.config.as_deref(), self.unit.as_deref(), Some(file))
    }

    /// The role: whether this node joins a server.
    pub fn role(&self) -> Role {
        k3s_files::role(&self.root)
    }

    pub(crate) fn joins(&self) -> bool {
        self.role() == Role::Agent
    }

    /// How the agent connects to the cluster as its administrator.
    pub(crate) fn admin(&self) -> ClusterAccess {
        match self.k3d() {
            Some(k3d) => ClusterAccess::K3d(k3d),
            None => ClusterAccess::File(self.root.clone(), self.admin_kubeconfig.clone()),
        }
    }

    /// The access with which the agent reports this node to the cluster: the administrator's or, where the node joins a
    /// server, the kubelet's.
    pub(crate) fn reporter(&self) -> ClusterAccess {
        if self.joins() {
            ClusterAccess::File(self.root.clone(), self.k3s_data_dir().join(KUBELET))
        } else {
            self.admin()
        }
    }

    /// Where the API server is, or will be.
    pub(crate) fn api_address(&self, effective: &Effective) -> SocketAddr {
        let published = self.k3d().and_then(|k3d| k3d.api);
        let port = effective.https_listen_port.unwrap_or(DEFAULT_PORT);
        self.api_address.or(published).unwrap_or_else(|| (Ipv4Addr::LOCALHOST, port).into())
    }

    /// The directories in which a change is worth a check, as they really are.
    pub fn all_watched_dirs(&self) -> Vec<PathBuf> {
        let effective = self.effective();
        self.watched_dirs(&effective)
    }

    /// The directories whose files are read here and may be edited, as they really are.
    pub(crate) fn watched_dirs(&self, effective: &Effective) -> Vec<PathBuf> {
        let next_to = |path: &Path| path.parent().map(Path::to_owned);
        let unit = self.unit.as_deref().and_then(next_to);
        let usual = ["/boot", "/etc", "/etc/default", "/etc/systemd/system"];
        let drop_ins = Path::new("/etc/systemd/system").join(format!("{}.d", self.role().unit()));
        let directories = usual.into_iter().map(PathBuf::from).chain(unit).chain([
            drop_ins,
            self.boot_dir.clone(),
            effective.drop_ins.clone(),
            self.data_dir(effective).join("server/tls"),
        ]);
        let directories =
            directories.chain(next_to(&effective.drop_ins)).chain(next_to(&self.admin_kubeconfig));
        directories.map(|directory| self.root.real(directory)).collect()
    }

    /// When the files with the names to serve were written, compared with k3s' last start: it writes its kubeconfig at
    /// each start.
    pub(crate) fn written(&self, effective: &Effective) -> BTreeMap<String, WriteTime> {
        let written = |path: &Path| fs::metadata(self.root.real(path)).ok()?.modified().ok();
        let Some(started) = written(&self.admin_kubeconfig) else { return BTreeMap::new() };
        let when = |file: &str| {
            let is_newer = written(Path::new(file))? > started;
            Some(if is_newer { WriteTime::AfterStart } else { WriteTime::BeforeStart })
        };
        let files = effective.tls_san.iter().map(|name| &name.origin.file);
        files.filter_map(|file| Some((file.clone(), when(file)?))).collect()
    }

    /// k3s' name of this node; `None` where it is not known.
    pub fn node_name(&self) -> Option<String> {
        if let Some(k3d) = self.k3d() {
            return k3d.node_name();
        }
        let effective = self.effective();
        identity::name(&self.root, &self.data_dir(&effective), &effective)
    }

    /// The names that k3s gives to this host and its node, in the certificate too.
    pub(crate) fn own_names(&self, effective: &Effective) -> OwnNames {
        if let Some(k3d) = self.k3d() {
            return OwnNames { names: k3d.own_names.iter().cloned().chain(k3d.node_name()).collect() };
        }
        let files = ["/proc/sys/kernel/hostname", "/etc/hostname"].into_iter();
        let names = files.filter_map(|path| Some(self.root.read_if_possible(path)?.text.trim().to_owned()));
        OwnNames { names: names.chain(effective.node_name.iter().map(|name| name.value.clone())).collect() }
    }
}

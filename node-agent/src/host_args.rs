//! The flags that several commands share, and the directories of this host by which they default.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use weaver_diagnostics::{finding::Place, k3s_unit::Setting};

use crate::{
    host_root::HostRoot,
    k3d::{ClusterChoice, WantedCluster},
};

/// No longer pause or lifetime is useful; larger numbers would overflow a clock.
pub(crate) const DAY: u64 = 86_400;

/// Where the report, the block and the operator's credentials are.
pub(crate) const RUNTIME_DIR: &str = "/run/weaver";
/// Where the record of repairs and boot-config's report are.
pub(crate) const STATE_DIR: &str = "/var/lib/weaver";

/// A relative path could start at the working directory or at the root given.
pub(crate) fn absolute(text: &str) -> Result<PathBuf, &'static str> {
    let path = Path::new(text);
    if path.is_absolute() { Ok(path.to_owned()) } else { Err("pass the path as seen from the host's `/`") }
}

/// Where the host's files and the API server are.
#[derive(Debug, Clone, clap::Args)]
pub struct HostArgs {
    /// Root of the host's file system: prefix for every path.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
    /// Configuration file of k3s [default: from k3s' unit, else /etc/rancher/k3s/config.yaml].
    #[arg(long, value_name = "FILE")]
    pub k3s_config: Option<PathBuf>,
    /// Data directory of k3s [default: from its configuration, else /var/lib/rancher/k3s].
    #[arg(long, value_name = "DIR")]
    pub k3s_data_dir: Option<PathBuf>,
    /// Unit file of k3s, read for its flags [default: the k3s.service that systemd uses].
    #[arg(long, value_name = "FILE")]
    pub k3s_unit: Option<PathBuf>,
    /// Administrator's kubeconfig.
    #[arg(long, value_name = "FILE", default_value = "/etc/rancher/k3s/k3s.yaml")]
    pub admin_kubeconfig: PathBuf,
    /// API server [default: 127.0.0.1 and the configured https-listen-port, else 6443].
    #[arg(long, value_name = "IP:PORT")]
    pub api_address: Option<SocketAddr>,
    /// Cluster: auto, k3s, k3d or k3d:CLUSTER; auto uses k3s if it is in use, otherwise the only k3d cluster.
    #[arg(long, env = "WEAVER_CLUSTER", value_name = "CLUSTER", default_value = "auto")]
    pub cluster: ClusterChoice,
    /// Name that a k3d cluster must serve, besides those it was created with (repeatable).
    #[arg(long = "name", env = "WEAVER_NAMES", value_name = "NAME", value_delimiter = ',')]
    pub names: Vec<String>,
    /// Socket of the container engine that runs k3d [default: Docker's or podman's].
    #[arg(long, env = "DOCKER_HOST", value_name = "unix:///PATH")]
    pub docker_host: Option<String>,
    /// Boot partition, where weaver.toml is read and NODE-STATUS.txt is written.
    #[arg(long, value_name = "DIR", default_value = "/boot/firmware")]
    pub boot_dir: PathBuf,
    /// Time limit for a name to be served.
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=DAY))]
    pub probe_timeout: u64,
}

impl HostArgs {
    /// A fixture host's runtime directory is not that of this machine, unless it was requested.
    pub(crate) fn root_default(&self, runtime_dir: &mut PathBuf) {
        if runtime_dir == Path::new(RUNTIME_DIR) {
            *runtime_dir = HostRoot::new(self.root.clone()).real(RUNTIME_DIR);
        }
    }

    /// Makes the paths absolute.
    ///
    /// # Errors
    /// A relative path under another root than `/`: the message for the user.
    pub(crate) fn resolve(&mut self) -> Result<(), String> {
        let is_real = self.root == Path::new("/");
        let always = [("--admin-kubeconfig", &mut self.admin_kubeconfig), ("--boot-dir", &mut self.boot_dir)];
        let unit = self.k3s_unit.as_mut().map(|path| ("--k3s-unit", path));
        let config = self.k3s_config.as_mut().map(|path| ("--k3s-config", path));
        let data_dir = self.k3s_data_dir.as_mut().map(|path| ("--k3s-data-dir", path));
        for (flag, path) in always.into_iter().chain(unit).chain(config).chain(data_dir) {
            if path.is_absolute() {
                continue;
            }
            let refuse = |why: &str| format!("{flag} {}: {why}", path.display());
            if !is_real {
                return Err(refuse("with --root, pass the path as seen from the host's `/`"));
            }
            *path = std::path::absolute(&*path).map_err(|error| refuse(&error.to_string()))?;
        }
        Ok(())
    }

    /// Which cluster is meant: k3s where one of its files is named here.
    pub(crate) fn wanted(&self) -> WantedCluster {
        let names_k3s = self.k3s_config.is_some()
            || self.k3s_data_dir.is_some()
            || self.k3s_unit.is_some()
            || self.api_address.is_some();
        let choice = match &self.cluster {
            ClusterChoice::Auto if names_k3s => ClusterChoice::K3s,
            choice => choice.clone(),
        };
        let origin = || Place::file("WEAVER_NAMES (--name)");
        let names = self.names.iter().map(|name| Setting { value: name.clone(), origin: origin() }).collect();
        WantedCluster { choice, names, docker_host: self.docker_host.clone() }
    }

    /// How long to continue probing.
    pub const fn probe_patience(&self) -> Duration {
        Duration::from_secs(self.probe_timeout)
    }
}

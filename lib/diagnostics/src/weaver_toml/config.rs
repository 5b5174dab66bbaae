//! What `weaver.toml` asks for, as plain values.

use super::backup::Backup;
use super::network::Network;
use super::secret::{Secret, SecretSetting};
use super::security_updates::SecurityUpdates;
use super::status::StatusPage;
use super::update::UpdateSection;
use super::wifi::Wifi;
use crate::data_disk::name::DiskName;

/// What the owner asks for. The default is: nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The name of the host, and where it is in the file.
    pub hostname: Option<HostName>,
    /// Names and addresses of the API server, in lower case.
    pub api_names: Vec<String>,
    /// Public keys, each as a line of `authorized_keys`.
    pub ssh_keys: Vec<String>,
    pub network: Network,
    pub wifi: Option<Wifi>,
    pub time_servers: Vec<String>,
    /// How long k3s waits for a synchronised clock, in seconds.
    pub clock_wait: Option<u16>,
    /// Whether the node is a server.
    pub role: RoleSetting,
    /// The token of k3s.
    pub token: SecretSetting,
    /// Further keys of k3s' configuration, in the order of the file.
    pub k3s_options: Vec<(String, OptionValue)>,
    /// The content of k3s' `registries.yaml`.
    pub registries: Option<String>,
    /// The disk to which the data of k3s is moved.
    pub data_disk: Option<DiskName>,
    /// Where newer packages come from.
    pub update: Option<UpdateSection>,
    /// Debian's security updates, where they are installed by themselves.
    pub security: Option<SecurityUpdates>,
    /// The backups that the timer makes.
    pub backup: Option<Backup>,
    pub status: StatusPage,
}

/// A host name and its place in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName {
    /// One label in lower case.
    pub name: String,
    /// Line, from 1.
    pub line: u64,
    /// Column, from 1.
    pub column: u64,
}

/// What the node is to its cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RoleSetting {
    /// It runs the API server.
    #[default]
    Server,
    /// It joins the server at this URL: `https://HOST:PORT`.
    Agent(String),
}

/// The value of one of k3s' options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionValue {
    /// A text, a number or a truth value, as k3s turns it into a flag.
    Single(String),
    /// A list of strings.
    List(Vec<String>),
}

impl Config {
    /// The secrets to import.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let settings = self.wifi.iter().map(|wifi| &wifi.password).chain([&self.token]);
        settings.filter_map(
            |setting| if let SecretSetting::Import(secret) = setting { Some(secret) } else { None },
        )
    }
}

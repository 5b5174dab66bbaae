//! `weaver.toml`, the one file in which the owner of a card says what the host
//! shall be: what is in it, what is wrong with it, and which files of the host
//! follow from it.
//!
//! Guarantees: a file is taken whole or not at all, and every fault of it is
//! told at once, each with its line, its column and what to write instead. No
//! input panics. Neither the token, the Wi-Fi's password nor anything of a
//! private key is in a fault, a finding or a `Debug`.

pub mod beside;
pub mod copies;
mod fault;
mod hosts;
pub mod join_token;
mod k3s_options;
mod names;
mod network;
pub mod network_config;
pub mod owners_netplan;
pub mod plan;
mod role;
mod schema;
mod secret;
mod section;
pub(crate) mod ssh_key;
mod syntax;
pub mod user_data;
pub mod verdict;
mod wifi;

use std::{net::IpAddr, ops::Range};

pub use fault::Fault;
pub(crate) use k3s_options::SECRET as SECRET_OPTIONS;
pub use network::{Address, Network};
pub use secret::{Secret, SecretWish};
pub use wifi::Wifi;

/// The largest file that is read, in bytes.
pub const FILE_LIMIT: usize = 64 * 1024;
/// The most entries that a list or the options may have.
pub const MOST_ENTRIES: usize = 64;

/// What the owner asks for. The default is: nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The name of the host, and where it stands.
    pub hostname: Option<HostName>,
    /// Names and addresses of the API server, in lower case.
    pub api_names: Vec<String>,
    /// Public keys, each as a line of `authorized_keys`.
    pub ssh_keys: Vec<String>,
    /// The wired network.
    pub network: Network,
    /// The Wi-Fi.
    pub wifi: Option<Wifi>,
    /// NTP servers.
    pub time_servers: Vec<String>,
    /// How long k3s waits for a synchronised clock, in seconds.
    pub clock_wait: Option<u16>,
    /// Whether the node is a server.
    pub role: Role,
    /// The token of k3s.
    pub token: SecretWish,
    /// Further keys of k3s' configuration, in the order of the file.
    pub k3s_options: Vec<(String, OptionValue)>,
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
pub enum Role {
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
    /// A list of texts.
    List(Vec<String>),
}

/// A file without a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read {
    /// What it asks for.
    pub config: Config,
    /// Where the secrets to import stand, quotes included, in bytes and in the order of the file.
    secrets_at: Vec<Range<usize>>,
}

impl Config {
    /// The secrets to import.
    pub fn secrets(&self) -> impl Iterator<Item = &Secret> {
        let wishes = self.wifi.iter().map(|wifi| &wifi.password).chain([&self.token]);
        wishes.filter_map(|wish| if let SecretWish::Import(secret) = wish { Some(secret) } else { None })
    }
}

impl Read {
    /// The file with its secrets empty, every other byte as it was; `None` where it holds none.
    #[must_use]
    pub fn blanked(&self, file: &[u8]) -> Option<Vec<u8>> {
        let (mut blanked, mut from) = (Vec::new(), 0);
        for at in &self.secrets_at {
            blanked.extend_from_slice(file.get(from..at.start)?);
            blanked.extend_from_slice(b"\"\"");
            from = at.end;
        }
        blanked.extend_from_slice(file.get(from..)?);
        (!self.secrets_at.is_empty()).then_some(blanked)
    }
}

/// Reads a file whole.
///
/// # Errors
/// Every fault that was found, in the order of the file; there is at least one.
pub fn parse(file: &[u8]) -> Result<Read, Vec<Fault>> {
    let (text, skipped) = syntax::text(file).map_err(|fault| vec![fault])?;
    let mut faults = fault::Faults::new(text);
    let document = syntax::document(text, &mut faults);
    let (config, secrets_at) = match &document {
        Some(document) => schema::read(document.as_table(), &mut faults),
        None => (Config::default(), Vec::new()),
    };
    let found = faults.into_sorted();
    if found.is_empty() {
        let mut secrets_at: Vec<_> =
            secrets_at.into_iter().map(|at| at.start + skipped..at.end + skipped).collect();
        secrets_at.sort_by_key(|at| at.start);
        Ok(Read { config, secrets_at })
    } else {
        Err(found)
    }
}

fn is_of_no_host(address: IpAddr) -> bool {
    address.is_unspecified() || address.is_multicast() || address == IpAddr::from([255; 4])
}

#[cfg(test)]
mod tests;

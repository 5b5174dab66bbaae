//! `weaver.toml`, the one file in which the owner of a card says what the host
//! shall be: what is in it, what is wrong with it, and which files of the host
//! follow from it.
//!
//! Guarantees: a file is taken whole or not at all, and every fault of it is
//! told at once, each with its line, its column and what to write instead. No
//! input panics. Neither the token nor anything of a private key is in a
//! fault, a finding or a `Debug`.

mod fault;
mod hosts;
pub mod join_token;
mod k3s_options;
mod names;
mod network;
pub mod plan;
mod role;
mod schema;
mod section;
mod ssh_key;
mod syntax;
pub mod user_data;
pub mod verdict;
pub(crate) mod yaml_scalar;

use std::{fmt, net::IpAddr, ops::Range};

pub use fault::Fault;
pub use network::{Address, Network};

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
    /// NTP servers.
    pub time_servers: Vec<String>,
    /// How long k3s waits for a synchronised clock, in seconds.
    pub clock_wait: Option<u16>,
    /// Whether the node is a server.
    pub role: Role,
    /// The token of k3s.
    pub token: TokenWish,
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

/// What is to become of k3s' token.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TokenWish {
    /// The file does not mention it: k3s uses its own.
    #[default]
    None,
    /// It was imported earlier and stays.
    Keep,
    /// To be imported.
    Import(Token),
}

/// A secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl Token {
    /// The secret itself, for the file that holds it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
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
    /// Where the token to import stands, quotes included, in bytes.
    token_at: Option<Range<usize>>,
}

impl Read {
    /// The file with an empty token, every other byte as it was; `None` where it holds no token.
    #[must_use]
    pub fn blanked(&self, file: &[u8]) -> Option<Vec<u8>> {
        let at = self.token_at.clone()?;
        Some([file.get(..at.start)?, b"\"\"", file.get(at.end..)?].concat())
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
    let (config, token_at) = match &document {
        Some(document) => schema::read(document.as_table(), &mut faults),
        None => (Config::default(), None),
    };
    let found = faults.into_sorted();
    if found.is_empty() {
        let token_at = token_at.map(|at| at.start + skipped..at.end + skipped);
        Ok(Read { config, token_at })
    } else {
        Err(found)
    }
}

fn is_of_no_host(address: IpAddr) -> bool {
    address.is_unspecified() || address.is_multicast() || address == IpAddr::from([255; 4])
}

#[cfg(test)]
mod tests;

//! `weaver.toml`, the one file in which the owner of a card says what the host
//! shall be: what is in it, what is wrong with it, and which files of the host
//! follow from it.
//!
//! Guarantees: a file is taken whole or not at all, and every fault of it is
//! reported at once, each with its line, its column and what to write instead. No
//! input panics. Neither the token, the Wi-Fi's password nor anything of a
//! private key is in a fault, a finding or a `Debug`.

pub mod backup;
pub mod companion;
mod config;
pub mod encoding;
mod fault;
pub mod foreign_files;
mod header;
mod hosts;
pub mod images;
pub mod join_token;
mod k3s_options;
pub mod keys;
mod limits;
pub mod manifests;
mod names;
mod netplan_keys;
mod network;
pub mod network_config;
pub mod network_lint;
pub mod owners_netplan;
pub mod plan;
pub mod registries;
mod role;
mod schema;
mod secret;
mod section;
pub mod security_updates;
pub(crate) mod ssh_key;
mod status;
mod storage;
pub mod stray_copies;
mod syntax;
pub mod update;
pub mod user_data;
mod user_data_keys;
pub mod user_data_lint;
pub mod verdict;
mod wifi;
pub mod wired_clash;

use std::ops::Range;

pub use backup::Backup;
pub use config::{Config, HostName, OptionValue, RoleSetting};
pub use fault::Fault;
pub(crate) use k3s_options::SECRET as SECRET_OPTIONS;
pub use limits::{FILE_LIMIT, MOST_ENTRIES};
pub use network::{Address, Network};
pub use secret::{Secret, SecretSetting};
pub use security_updates::SecurityUpdates;
pub use status::StatusPage;
pub use update::UpdateSection;
pub use wifi::Wifi;

/// A file without a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidConfig {
    /// What it asks for.
    pub config: Config,
    /// Where the secrets to import stand, quotes included, in bytes and in the order of the file.
    secrets_at: Vec<Range<usize>>,
}

impl ValidConfig {
    /// The file with its secrets empty, every other byte as it was; `None` if it has none.
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
pub fn parse(file: &[u8]) -> Result<ValidConfig, Vec<Fault>> {
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
        Ok(ValidConfig { config, secrets_at })
    } else {
        Err(found)
    }
}

#[cfg(test)]
mod tests;

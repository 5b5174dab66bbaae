//! Tenant identity: one constructor of clients that act as a tenant's `ServiceAccount`.
//!
//! Guarantees: a tenant's request carries a token of that tenant or is not sent; tokens are minted by the
//! operator's own identity, held in memory only, and never logged. All tenants share one transport.

pub mod claims;
mod client;
pub mod object;
mod reach;
pub mod rights;
mod token;

use std::fmt;

pub use client::{TenantClient, Tenants};
pub use reach::{FIRST_PAUSE, LONGEST_PAUSE, Reach};
pub use token::{KubeMinter, Mint, MintError, Minted, request};

/// A `ServiceAccount`, named.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Account {
    /// Its namespace: always that of the resource that names it (R-T01).
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceAccount {}/{}", self.namespace, self.name)
    }
}

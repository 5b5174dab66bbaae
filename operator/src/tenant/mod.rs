//! Tenant identity: one constructor of clients that act as a tenant's `ServiceAccount`.
//!
//! Guarantees: a tenant's request carries a token of that tenant or is not sent; tokens are minted by the
//! operator's own identity, held in memory only, and never logged. All tenants share one transport.

mod access_cache;
mod account;
pub mod claims;
mod client;
pub mod object;
pub mod review;
pub mod rights;
mod token;

pub use access_cache::AccessCache;
pub use account::Account;
pub use client::{TenantClient, Tenants};
pub use token::{KubeMinter, Mint, MintError, Minted, request};

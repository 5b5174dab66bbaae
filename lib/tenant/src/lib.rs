//! Act as a `ServiceAccount`: tokens renewed per request, few connections, access reviews with a cache, and watches that are
//! shared, counted and bounded. For any kind.

mod access_cache;
mod account;
pub mod claims;
mod client;
pub mod review;
pub mod token;
pub mod transport;
pub mod watch;

pub use access_cache::AccessCache;
pub use account::Account;
pub use client::{TenantClient, Tenants};

//! Access to an API server, for every program of this workspace.
//!
//! - [`connection`]: a client's configuration from a kubeconfig or a pod's files.
//! - [`call`]: one call, its deadline, and what its failure means.
//!
//! Nothing here acts on its own, retries, or logs.

pub mod call;
pub mod connection;

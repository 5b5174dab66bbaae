//! k3d: a cluster to create.

pub mod create;

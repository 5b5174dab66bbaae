//! k3d: a cluster to create, and the clusters that are there.

pub mod cluster;
pub mod create;
pub mod engine;
pub mod node_filter;
pub mod registry;
pub mod verdict;

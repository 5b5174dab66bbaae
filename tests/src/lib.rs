//! What the scenario tests share: a world of their own on a real API server, and the means to look at it.
//!
//! `make test` starts the whole chain (API server, agent, operator) and runs all scenarios against it in
//! parallel; each has namespaces of its own. What must disturb the server or the operator gets both for itself
//! ([`alone`]). Everything polls with a deadline.

// This crate is tests throughout: a broken promise ends the test, and says where.
#![allow(clippy::expect_used, clippy::missing_panics_doc, clippy::panic, clippy::unwrap_used)]

pub mod agent;
pub mod alone;
pub mod audit;
pub mod browser;
pub mod cli;
#[cfg(test)]
mod crate_graph;
pub mod engine;
pub mod exposition;
pub mod generated;
pub mod helm;
pub mod k3d;
pub mod kubelet;
pub mod memory;
pub mod metrics;
pub mod monitoring;
pub mod observer;
pub mod once;
pub mod operator_rights;
pub mod own;
pub mod person;
pub mod pod;
pub mod poll;
pub mod promtool;
pub mod proxy;
pub mod rbac;
pub mod reference;
pub mod releases;
pub mod resources;
pub mod source;
pub mod sync_kinds;
pub mod systemd;
pub mod tenant;
pub mod terminal;
pub mod tokens;
pub mod tools;
#[cfg(test)]
mod type_names;
pub mod ui;
pub mod wire;
pub mod world;

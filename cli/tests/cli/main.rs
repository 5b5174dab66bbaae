//! `weaver` as a user runs it.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a failed step of a test ends the test")]

mod config;
mod crd_lint;
mod explain;
#[cfg(unix)]
mod fetch;
#[cfg(unix)]
mod find;
mod kubeconfig;
mod laptop;
mod merge;
mod pipes;
#[cfg(unix)]
mod registry;
mod reported;
mod support;
#[cfg(unix)]
mod support_bundle;
mod verify;
mod version;

//! `weaver` as a person runs it.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a failed step of a test ends the test")]

mod config;
mod crd_lint;
mod explain;
mod fetch;
mod kubeconfig;
mod merge;
mod pipes;
mod registry;
mod support;
mod support_bundle;
mod verify;

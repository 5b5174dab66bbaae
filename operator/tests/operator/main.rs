//! `weaver-operator` and what is deployed with it, without an API server.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a failed step of a test ends the test")]

mod codes;
mod manifests;
mod service_manager;
mod webhook;

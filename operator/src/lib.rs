//! The operator: copies objects between namespaces as the tenant's own `ServiceAccount`.
//!
//! What is copied, and how, is decided in `weaver-copies`; `weaver-tenant` acts as the tenants.
//!
//! - [`watch`]: what wakes us: what is kept of the tenants' watches, and the watch on namespaces.
//! - [`sync`]: what is done. Pure plans, a thin executor, the status as a fold of the outcomes.
//! - [`service_token`]: the same for Secrets that are kept filled with tokens.
//! - [`scope`]: which namespaces are served; [`args`]: the flags.
//! - [`controller`]: what both controllers share, and `controllers`: how they are set up; [`run`] wires all of it.
//! - [`webhook`]: a process of its own that converts our objects between their versions.
//! - [`install`]: a Job that puts our kinds into the cluster and renews the webhook's certificate.
//! - [`lease`]: one operator writes at a time.
//! - [`trust`]: whether the CA is still the one.
//! - `health`: whether this process is alive and ready.
//! - [`metrics`] and `counted`: what is counted, and where; and `admin`: what is looked up.
//! - [`log_code`]: the code of each log record.
//!
//! The operator's own identity reads and patches our kinds, watches namespaces and mints tokens. It never
//! touches a `ConfigMap` or a `Secret`; it has no right to.

use tracing_subscriber::EnvFilter;

mod admin;
pub mod args;
pub mod controller;
mod controllers;
mod counted;
mod health;
pub mod install;
pub mod lease;
pub mod log_code;
pub mod metrics;
pub mod run;
pub mod scope;
pub mod service_token;
pub mod sync;
pub mod trust;
pub mod watch;
pub mod webhook;

/// What stays as it is until someone changes it: starting the program again is of no use.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NeedsHuman(pub &'static str);

/// What is logged: `asked` (the value of `RUST_LOG`), else from `info` upwards.
///
/// kube's client is silent whatever is asked: its warning about an answer that it cannot parse repeats that
/// answer, and answers contain tokens and content. Its errors are returned to us, with the context. Of its watchers
/// only errors are logged: each refusal of a tenant's watch is a warning there, and is in the resource's `Authorized`.
pub fn log_filter(asked: Option<&str>) -> EnvFilter {
    let filter =
        asked.and_then(|asked| EnvFilter::try_new(asked).ok()).unwrap_or_else(|| EnvFilter::new("info"));
    let quieter = ["kube_client::client=off", "kube_runtime::watcher=error"];
    let quieter = quieter.into_iter().try_fold(filter, |filter, quieter| {
        Ok::<_, tracing_subscriber::filter::ParseError>(filter.add_directive(quieter.parse()?))
    });
    quieter.unwrap_or_else(|_| EnvFilter::new("error"))
}

/// Sent with every request, so that an audit log distinguishes ours from a user's, and two operators from each other.
/// `process` is its name in the Lease.
pub fn user_agent(process: &str) -> String {
    weaver_api::lease::program(env!("CARGO_PKG_VERSION"), process)
}

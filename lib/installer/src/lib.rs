//! Puts our kinds into an API server and keeps them there: certificates, definitions, admission policies, the
//! rights of nodes, and the rewriting of what is stored at an older version. For `weaver crd` and the node agent,
//! which may run at the same time.
//!
//! - [`certificates`]: the webhook's CA and certificate.
//! - [`ca`]: whose CA definitions trust for that certificate. Pure.
//! - [`Webhook`]: where the webhook is, and its [`Service`], where it runs in the cluster.
//! - [`plan`]: whether a definition may be written, and what would change. Pure.
//! - [`conversion`]: does the webhook answer?
//! - [`download`]: a file of a release, from its server.
//! - [`install`](fn@install): writes definitions, in an order in which no step can strand the next.
//! - [`accounts`]: an admission policy: who may name a ServiceAccount.
//! - [`deletions`]: an admission policy: a ConfigMapSync is not deleted in a way that only seems to keep its copies.
//! - [`nodes`]: what nodes may write, and the policy that limits each to its own.
//! - [`guard`]: what the policies have in common.
//! - [`migrate`](fn@migrate): rewrites stored objects, then says so in the definition.
//! - `write`: one write, with its precondition; `served`: waits for the API server; `report`: what is said of each step.
//! - [`log_code`]: the code of each log record.
//!
//! Nothing here deletes anything. Each step compares first, carries the version that it read as its
//! precondition, and can be killed and run again.

pub mod accounts;
pub mod ca;
pub mod certificates;
pub mod conversion;
pub mod deletions;
pub mod download;
#[cfg(test)]
mod fake_api;
#[cfg(test)]
mod fake_webhook;
pub mod guard;
mod install;
pub mod log_code;
mod migrate;
pub mod nodes;
pub mod plan;
mod report;
mod served;
mod webhook;
mod write;

pub use self::install::{InstallOptions, Prove, install};
pub use self::migrate::{MigrateError, Migrated, MigrationProgress, migrate};
pub use self::report::{InstallError, InstallOutcome, InstallReport, InstallStep, Installed};
pub use self::webhook::{Service, Webhook};

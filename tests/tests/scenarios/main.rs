//! Scenarios on a real API server: what a tenant sees. `make test` runs them.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod accounts;
mod accounts_own_server;
mod alerts_own_server;
mod api_example;
mod backup_own_server;
mod bad_input;
mod cli_apply;
mod cli_edit;
mod cli_tokens;
mod cli_verbs;
mod cli_watch;
mod contention;
mod explain;
mod footprint_own_server;
mod foreign;
mod health_own_server;
mod installer_own_server;
mod kubeconfig;
mod kubernetes_own_server;
mod lease_own_server;
mod lifecycle;
mod metrics;
mod orphans;
mod own_server;
mod pacing;
mod paused;
mod paused_own_server;
mod policies;
mod rbac_own_server;
mod readers;
mod rights;
mod rules;
mod secrets;
mod selecting;
mod service_tokens;
mod service_tokens_own_server;
mod service_tokens_refused;
mod shape;
mod syncing;
mod upgrade_own_server;
mod versions;
mod webhook_own_server;
mod webhook_service_own_server;
mod worked_examples;

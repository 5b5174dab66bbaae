//! `weaver-node-agent` as systemd and a user run it, on hosts that are directories.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a failed step of a test ends the test")]

mod boot_config;
mod check;
mod kernel_log;
mod offline_start;
mod page;
mod preflight;
mod preflight_gate;
mod repair;
mod repair_names;
mod restore;
mod run;
mod schemas;
mod support;
mod systemd;
mod systems;
mod update;

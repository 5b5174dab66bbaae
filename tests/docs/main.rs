//! The book in `docs/`: its links, its generated pages, and its commands.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed step of a test ends the test"
)]

mod api_examples;
mod commands;
mod comparison;
mod generated;
mod held;
mod host_files;
mod links;
mod page;
mod pages_on_a_server;
mod real_k3d;
mod single;
mod workflows;

//! Alerts, dashboard and their pages, held against what the programs tell.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed step of a test ends the test"
)]

mod alert_faults;
mod pages;

//! Alerts, dashboard and their pages, checked against the metrics of the
//! programs.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed step of a test ends the test"
)]

mod alert_faults;
mod pages;

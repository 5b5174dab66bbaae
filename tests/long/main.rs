//! Scenarios on a real API server that take minutes, or hundreds of namespaces. `make test-long` runs them.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod copies;
mod crowd;
mod faults;
mod frozen;
mod kill;
mod orders;
mod previews;
mod restarts;

//! The node agent on a real API server of the test's own: the gate, faults and their cures, names, reports, upgrades.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a failed step of a test ends the test")]

mod copy_proof;
mod faults;
mod gate;
mod k3d;
mod names;
mod node_report;
mod real_k3d;
mod slow;
mod upgrade;

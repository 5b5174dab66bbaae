//! The build of the card image, part by part, the units and settings that are on it, and the harness that boots it.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed step of a test ends the test"
)]

mod build;
mod first_boot_scripts;
mod harness;
mod oci;
mod packages;
mod programs;
mod reboot_required;
mod units;

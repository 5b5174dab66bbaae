//! The card image: built from packages, our programs and k3s; inspected as a file; booted in QEMU.
//!
//! - [`boot`]: a harness that plays the Pi's firmware and runs the image in QEMU.
//! - [`booted`]: boots it once, for tests that continue from there.
//! - [`budgets`]: what the card costs, for docs/explanation/performance.md.
//! - [`build`]: from an empty machine to `out/`.
//! - [`fault_table`]: what the fault matrix saw, for docs/tutorials/faults.md.
//!   [`page`]: how both get there.
//! - [`oci`]: the operator as a container image, for any cluster.
//! - [`release`]: what lies next to the files of a release.
//! - [`programs`]: our own programs for the card, built and judged by [`elf`]; [`k3s`] next to them.

pub mod boot;
pub mod booted;
pub mod budgets;
pub mod build;
pub mod elf;
pub mod fault_table;
pub mod k3s;
pub mod oci;
pub mod page;
pub mod programs;
pub mod release;

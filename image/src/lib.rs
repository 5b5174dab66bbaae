//! The card image: built from packages, our programs and k3s; inspected as a file; booted in QEMU.
//!
//! - [`archives`]: container images for the boot partition.
//! - [`boot`]: a harness that emulates the Pi's firmware and runs the image in QEMU.
//! - [`booted`]: boots it once, for tests that continue from there.
//! - [`budgets`]: what the card costs, for docs/explanation/performance.md.
//! - [`build`]: from an empty machine to `out/`.
//! - [`fault_table`]: the results of the fault matrix, for docs/tutorials/faults.md.
//! - [`page`]: writes both into the documentation.
//! - [`oci`]: the operator as a container image, for any cluster.
//! - [`release`]: the files next to those of a release.
//! - [`programs`]: our own programs for the card, built and checked by [`elf`]; [`k3s`] next to them.

pub mod archives;
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

//! QEMU's device tree under a board's name.
//!
//! Dumped again for every machine: 0.2 s, and it depends on QEMU's version, the
//! memory and the processors. QEMU fills in memory, initramfs and a fresh random
//! seed when it starts.

use std::path::Path;

use anyhow::Result;

use super::board::Board;
use super::programs;
use super::qemu::{EmulatedHardware, virt_arguments};

/// Says in a device tree that this start is one on trial, as the firmware does.
/// <https://www.raspberrypi.com/documentation/computers/configuration.html>
///
/// # Errors
/// When fdtput is missing or fails.
pub fn mark_trial(tree: &Path) -> Result<()> {
    let mut mark = programs::command("fdtput");
    let property = ["/chosen/bootloader", "tryboot", "1"];
    programs::run(mark.args(["-p", "-t", "i"]).arg(tree).args(property)).map(drop)
}

/// Writes the device tree to `to`.
///
/// # Errors
/// When QEMU or fdtput is missing or fails.
pub fn write(to: &Path, board: Board, hardware: &EmulatedHardware) -> Result<()> {
    let mut dump = programs::command("qemu-system-aarch64");
    dump.args(virt_arguments(hardware, Some(to)));
    programs::run(&mut dump)?;
    let mut name = programs::command("fdtput");
    programs::run(name.args(["-t", "s"]).arg(to).args(["/", "model", board.model()])).map(drop)
}

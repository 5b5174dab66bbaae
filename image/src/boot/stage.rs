//! The files that the firmware loaded from a card, ready for QEMU.
//!
//! Guarantee: the files stay as long as the value does. Failure: as the firmware's.

use std::fs;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::board::Board;
use super::card::temporary_dir;
use super::device_tree;
use super::firmware::{self, Played};
use super::overlay::Overlay;
use super::qemu::{Emulated, EmulatedHardware};

/// QEMU's Pi 3 has a watchdog without a timer: it resets the machine as soon as it is armed (seen with 10.0.2).
const NO_WATCHDOG: &str = "systemd.watchdog_sec=0";

/// What a machine is started with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Board whose firmware is emulated.
    pub board: Board,
    pub hardware: EmulatedHardware,
    /// Added to the kernel's command line.
    pub arguments: Vec<String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self { board: Board::Pi4, hardware: EmulatedHardware::default(), arguments: Vec::new() }
    }
}

impl Setup {
    /// Both processors take turns, and each instruction takes a nanosecond of the machine's time: measurements depend
    /// only on the work done, however many processors this machine has free, and no time-out in the guest expires
    /// because other processes had them. Where it waits, it does so in real time.
    pub fn counted() -> Self {
        let mut setup = Self::default();
        setup.hardware.qemu_arguments = ["-icount", "shift=0"].map(str::to_owned).into();
        setup
    }
}

/// Kernel, initramfs and device tree, in a directory of their own.
pub(super) struct Stage {
    _dir: TempDir,
    pub(super) played: Played,
}

impl Stage {
    /// Emulates the firmware on a card that no machine runs on. `is_trial`: the guest has asked for a start on trial.
    pub(super) fn new(overlay: &Overlay, setup: &Setup, is_trial: bool) -> Result<Self> {
        let dir = temporary_dir()?;
        let fat = overlay.extract_fat(&dir.path().join("fat"))?;
        let mut arguments = setup.arguments.clone();
        if setup.hardware.machine == Emulated::Raspi3b {
            arguments.push(NO_WATCHDOG.to_owned());
        }
        let mut played = firmware::play(&fat, setup.board, &arguments, dir.path(), is_trial)?;
        fs::remove_file(fat.path()).context("cannot remove a temporary file")?;
        if setup.hardware.machine == Emulated::Virt {
            let tree = dir.path().join("dtb");
            device_tree::write(&tree, setup.board, &setup.hardware)?;
            played.tree = tree;
            played
                .steps
                .push("instead of the card's device tree: QEMU's own, under this board's name".to_owned());
        }
        if is_trial {
            device_tree::mark_trial(&played.tree)?;
        }
        Ok(Self { _dir: dir, played })
    }
}

//! What the firmware took from a card, ready for QEMU.
//!
//! Guarantee: the files stay as long as the value does. Failure: as the firmware's.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::board::Board;
use super::card::temporary_dir;
use super::device_tree;
use super::firmware::{self, Played};
use super::overlay::Overlay;
use super::qemu::Hardware;

/// What a machine is started with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Whose firmware is played.
    pub board: Board,
    /// Memory and clock.
    pub hardware: Hardware,
    /// Added to the kernel's command line.
    pub arguments: Vec<String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self { board: Board::Pi4, hardware: Hardware::default(), arguments: Vec::new() }
    }
}

/// Kernel, initramfs and device tree, in a directory of their own.
pub(super) struct Stage {
    dir: TempDir,
    pub(super) played: Played,
}

impl Stage {
    /// Plays the firmware on a card that no machine runs on.
    pub(super) fn new(overlay: &Overlay, setup: &Setup) -> Result<Self> {
        let dir = temporary_dir()?;
        let fat = overlay.extract_fat(&dir.path().join("fat"))?;
        let played = firmware::play(&fat, setup.board, &setup.arguments, dir.path())?;
        fs::remove_file(fat.path()).context("cannot remove a temporary file")?;
        device_tree::write(&dir.path().join("dtb"), setup.board, &setup.hardware)?;
        Ok(Self { dir, played })
    }

    pub(super) fn device_tree(&self) -> PathBuf {
        self.dir.path().join("dtb")
    }
}

//! A machine's memory and card at one moment, to continue from any number of times.
//!
//! Guarantee: never written again; machines restored from it share no file that they write. Failure: names the file.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use tempfile::TempDir;

use super::card::{Card, temporary_dir};
use super::overlay::Overlay;
use super::stage::{Setup, Stage};

/// A machine's memory and card at one moment.
pub struct MachineSnapshot {
    pub(super) card: Arc<Card>,
    pub(super) setup: Setup,
    pub(super) stage: Arc<Stage>,
    pub(super) overlay: Overlay,
    pub(super) name: String,
    // Removed with the value; a kept snapshot is in another directory.
    pub(super) _dir: TempDir,
}

impl MachineSnapshot {
    /// Copies it to a file that outlives this process.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn keep(&self, to: &Path) -> Result<()> {
        self.overlay.copy_to(to).map(drop)
    }

    /// One that was kept. `card` and `setup` are those it was made with.
    ///
    /// # Errors
    /// When its boot partition cannot be read.
    pub fn open(card: &Arc<Card>, setup: &Setup, kept: &Path, name: &str) -> Result<Self> {
        let dir = temporary_dir()?;
        let overlay = Overlay::open(kept, card.boot());
        let stage = Arc::new(Stage::new(&overlay, setup, false)?);
        let (card, setup) = (Arc::clone(card), setup.clone());
        Ok(Self { card, setup, stage, overlay, name: name.to_owned(), _dir: dir })
    }

    /// Its card, for measuring.
    pub fn path(&self) -> &Path {
        self.overlay.path()
    }
}

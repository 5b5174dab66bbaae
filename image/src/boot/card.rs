//! A card, made from the image for one run: an overlay with the run's own
//! weaver.toml, key and faults on its boot partition.
//!
//! Guarantee: the image is never written; a card in a directory of its own
//! (`--dir`) is used again as it is, and refused when its image has changed.
//! Failure: names the image, the directory and the remedy.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use weaver_devstack::files;

use super::fat::Fat;
use super::overlay::Overlay;
use super::partition::{Partition, boot_partition};
use super::ssh::SshKey;
use super::weaver_toml;

/// The size of a run's writes; with less the guest's disk would fail in the middle.
const SPACE_NEEDED: u64 = 2 << 30;

/// What is changed on the boot partition before the first start.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    /// Replaces the card's weaver.toml.
    pub weaver_toml: Option<String>,
    /// Added to `[api] names`.
    pub names: Vec<String>,
    /// Files to write last, whole: name on the card and content.
    pub files: Vec<(String, Vec<u8>)>,
    /// Leave weaver.toml without the run's key: no commands can be run.
    pub no_access: bool,
}

/// A card that is ready to be started from.
#[derive(Debug)]
pub struct Card {
    slot: CardSlot,
    overlay: Overlay,
    boot: Partition,
    key: SshKey,
    fresh: bool,
}

/// Where a card is, and how long it exists.
#[derive(Debug)]
enum CardSlot {
    Temporary(TempDir),
    Kept(PathBuf),
}

impl CardSlot {
    fn path(&self) -> &Path {
        match self {
            Self::Temporary(dir) => dir.path(),
            Self::Kept(dir) => dir,
        }
    }
}

impl Card {
    /// A card of `size` bytes in a temporary directory that is removed with it.
    ///
    /// # Errors
    /// When the image is not valid, the card too small, or `edits` cannot be made.
    pub fn new(image: &Path, size: u64, edits: &Edits) -> Result<Self> {
        Self::at(CardSlot::Temporary(temporary_dir()?), image, size, edits, None)
    }

    /// Another new card, whose guest lets the same key in as this one's.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn successor(&self, image: &Path, size: u64, edits: &Edits) -> Result<Self> {
        Self::at(CardSlot::Temporary(temporary_dir()?), image, size, edits, Some(self.key.clone()))
    }

    /// The card in `dir`; made there if there is none yet.
    ///
    /// # Errors
    /// As [`Self::new`], and when the card there was made from another image.
    pub fn in_dir(dir: &Path, image: &Path, size: u64, edits: &Edits) -> Result<Self> {
        files::make_dir(dir)?;
        let dir = dir.canonicalize().with_context(|| format!("cannot find {}", dir.display()))?;
        Self::at(CardSlot::Kept(dir), image, size, edits, None)
    }

    fn at(slot: CardSlot, image: &Path, size: u64, edits: &Edits, key: Option<SshKey>) -> Result<Self> {
        let boot = boot_partition(image)?;
        let dir = slot.path();
        let (path, origin_file) = (dir.join("card.qcow2"), dir.join("image"));
        let key = key.map_or_else(|| SshKey::in_dir(dir), Ok)?;
        let origin = origin(image)?;
        if let Some(made_from) = files::read_if_there(&origin_file)? {
            if made_from != origin {
                bail!(
                    "the card in {} was made from another image than {}; remove the directory, or name another",
                    dir.display(),
                    image.display()
                );
            }
            let overlay = Overlay::open(&path, boot);
            return Ok(Self { slot, overlay, boot, key, fresh: false });
        }
        require_space(dir)?;
        let overlay = Overlay::create(&path, image, size, boot)?;
        overlay.edit_fat(|fat| edit(fat, edits, &key)).context("cannot prepare the card")?;
        // Written last: a card that was made by halves is made again.
        files::replace(&origin_file, origin.as_bytes(), 0o644)?;
        Ok(Self { slot, overlay, boot, key, fresh: true })
    }

    /// A card with the content of the raw file `state`, such as this one had at some moment, and the same key for its
    /// guest.
    ///
    /// # Errors
    /// When the disk is full, or an overlay cannot be made.
    pub fn with_state(&self, state: &Path) -> Result<Self> {
        let dir = temporary_dir()?;
        require_space(dir.path())?;
        let size = state.metadata().with_context(|| format!("cannot find {}", state.display()))?.len();
        let overlay = Overlay::create(&dir.path().join("card.qcow2"), state, size, self.boot)?;
        let (boot, key) = (self.boot, self.key.clone());
        Ok(Self { slot: CardSlot::Temporary(dir), overlay, boot, key, fresh: false })
    }

    /// The directory that it is in.
    pub fn dir(&self) -> &Path {
        self.slot.path()
    }

    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// Where the boot partition is.
    pub fn boot(&self) -> Partition {
        self.boot
    }

    /// The key that opens the guest.
    pub fn key(&self) -> &SshKey {
        &self.key
    }

    /// Whether it was made now.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }
}

/// A directory that is removed with its value.
///
/// # Errors
/// When it cannot be made.
pub fn temporary_dir() -> Result<TempDir> {
    let made = tempfile::Builder::new().prefix("weaver-boot-").tempdir();
    made.with_context(|| format!("cannot make a directory in {}", std::env::temp_dir().display()))
}

fn edit(fat: &Fat, edits: &Edits, key: &SshKey) -> Result<()> {
    let on_card = fat.read(weaver_toml::FILE)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let before = edits.weaver_toml.clone().or_else(|| on_card.clone()).unwrap_or_default();
    let keys = if edits.no_access { Vec::new() } else { vec![key.public()?] };
    let text = weaver_toml::with_values(&before, "ssh", "keys", &keys)?;
    let names = weaver_toml::names_to_add(&text, &edits.names);
    let text = weaver_toml::with_values(&text, "api", "names", &names)?;
    if on_card.unwrap_or_default() != text {
        fat.write(weaver_toml::FILE, text.as_bytes())?;
    }
    edits.files.iter().try_for_each(|(name, content)| fat.write(name, content))
}

/// Names one state of an image file.
fn origin(image: &Path) -> Result<String> {
    let path = image.canonicalize().with_context(|| format!("cannot find {}", image.display()))?;
    let data = path.metadata().with_context(|| format!("cannot look at {}", image.display()))?;
    Ok(format!("{} {} {}.{}\n", path.display(), data.len(), data.mtime(), data.mtime_nsec()))
}

fn require_space(dir: &Path) -> Result<()> {
    let free = files::free_bytes(dir)?;
    if free < SPACE_NEEDED {
        bail!(
            "{} MiB are free under {}, and a run may write {}; free some, or use --dir or TMPDIR",
            free >> 20,
            dir.display(),
            SPACE_NEEDED >> 20
        );
    }
    Ok(())
}

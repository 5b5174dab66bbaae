//! The card while it is in the machine: a copy-on-write overlay over the image.
//!
//! Guarantee: the image itself is never written. The boot partition can be extracted from an overlay, and changed in
//! it, without mounting anything; while a machine runs on it, only after its writes were flushed. Failure: the
//! program's own message, and the file.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::json;

use super::fat::Fat;
use super::partition::Partition;
use super::programs;

/// Changed parts are written in blocks of this size, the clusters of a qcow2.
const BLOCK: u64 = 64 << 10;

/// An overlay file and where the boot partition is on the card.
#[derive(Clone, Debug)]
pub struct Overlay {
    path: PathBuf,
    boot: Partition,
}

impl Overlay {
    /// A new overlay of `size` bytes over `image`.
    ///
    /// # Errors
    /// When `size` is below the image's, or the file cannot be made.
    pub fn create(path: &Path, image: &Path, size: u64, boot: Partition) -> Result<Self> {
        let image = image.canonicalize().with_context(|| format!("cannot find {}", image.display()))?;
        let least = image.metadata().context("cannot ask for the image's size")?.len();
        if size < least {
            bail!(
                "a card of {} MiB is too small for {}, which needs {} MiB; use --size",
                size >> 20,
                image.display(),
                least.div_ceil(1 << 20)
            );
        }
        let mut command = programs::command("qemu-img");
        command.args(["create", "-q", "-f", "qcow2", "-F", "raw", "-b"]).arg(image).arg(path);
        programs::run(command.arg(size.to_string()))?;
        Ok(Self::open(path, boot))
    }

    /// One that is there already.
    pub fn open(path: &Path, boot: Partition) -> Self {
        Self { path: path.to_owned(), boot }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A copy with its own later life over the same image.
    ///
    /// # Errors
    /// When the file cannot be copied.
    pub fn copy_to(&self, path: &Path) -> Result<Self> {
        let mut command = programs::command("cp");
        command.args(["--sparse=always", "--reflink=auto"]).arg(&self.path).arg(path);
        programs::run(&mut command)?;
        Ok(Self::open(path, self.boot))
    }

    /// The whole card as a sparse file. No machine may run on it.
    ///
    /// # Errors
    /// When it cannot be read, or the disk is full.
    pub fn write_raw(&self, to: &Path) -> Result<()> {
        let mut command = programs::command("qemu-img");
        programs::run(command.args(["convert", "-f", "qcow2", "-O", "raw"]).arg(&self.path).arg(to)).map(drop)
    }

    /// Extracts the boot partition into a sparse file.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn extract_fat(&self, to: &Path) -> Result<Fat> {
        let file = self.path.to_str().ok_or_else(|| anyhow!("{} is not UTF-8", self.path.display()))?;
        let source = json!({
            "driver": "raw", "offset": self.boot.offset, "size": self.boot.length,
            "file": { "driver": "qcow2", "file": { "driver": "file", "filename": file } },
        });
        // -U: also while QEMU has it open.
        let mut command = programs::command("qemu-img");
        command.args(["convert", "-U", "-O", "raw"]).arg(format!("json:{source}")).arg(to);
        programs::run(&mut command).context("cannot take the boot partition out of the card")?;
        Ok(Fat::new(to))
    }

    /// Changes files of the boot partition, as a laptop would between two boots:
    /// all of it or, where `edit` fails, nothing. No machine may run on it.
    ///
    /// # Errors
    /// When `edit` fails or the overlay cannot be written.
    pub fn edit_fat(&self, edit: impl FnOnce(&Fat) -> Result<()>) -> Result<()> {
        let dir = tempfile::tempdir().context("cannot make a temporary directory")?;
        let (before, after) = (dir.path().join("before"), dir.path().join("after"));
        self.extract_fat(&before)?;
        let mut copy = programs::command("cp");
        programs::run(copy.args(["--sparse=always", "--reflink=auto"]).arg(&before).arg(&after))?;
        edit(&Fat::new(&after))?;
        // A block that is empty now may have had data, and the other way round.
        let mut blocks = blocks_with_data(&before)?;
        blocks.extend(blocks_with_data(&after)?);
        let changed = changes(File::open(before)?, File::open(after)?, &blocks)?;
        if changed.is_empty() {
            return Ok(());
        }
        let mut command = programs::command("qemu-io");
        command.args(["-f", "qcow2"]);
        for (number, (at, content)) in changed.iter().enumerate() {
            let part = dir.path().join(number.to_string());
            File::create(&part)?.write_all(content)?;
            let offset = self.boot.offset + at;
            // qemu-io splits at blanks, and a temporary directory may have them.
            command.arg("-c").arg(format!("write -q -s {number} {offset} {}", content.len()));
        }
        let overlay = self.path.canonicalize().context("cannot find the overlay")?;
        programs::run(command.arg(OsString::from(overlay)).current_dir(dir.path()))
            .context("cannot write the boot partition")
            .map(drop)
    }
}

/// A part of a file that has data, as `qemu-img map` reports it.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
struct Extent {
    start: u64,
    length: u64,
    data: bool,
}

/// Which blocks of a sparse file have data. Most of a boot partition is empty, and reading zeros takes seconds.
fn blocks_with_data(path: &Path) -> Result<BTreeSet<u64>> {
    let mut command = programs::command("qemu-img");
    let said = programs::run(command.args(["map", "--output=json", "-f", "raw"]).arg(path))?;
    let extents: Vec<Extent> = serde_json::from_slice(&said).context("cannot understand qemu-img map")?;
    let data = extents.iter().filter(|extent| extent.data && extent.length > 0);
    Ok(data.flat_map(|e| e.start / BLOCK..=(e.start + e.length - 1) / BLOCK).collect())
}

/// Where two files of one size differ within these blocks: offset and new content.
fn changes(
    mut before: impl Read + Seek,
    mut after: impl Read + Seek,
    blocks: &BTreeSet<u64>,
) -> Result<Vec<(u64, Vec<u8>)>> {
    let mut found: Vec<(u64, Vec<u8>)> = Vec::new();
    for block in blocks {
        let at = block * BLOCK;
        let (old, new) = (block_at(&mut before, at)?, block_at(&mut after, at)?);
        if old.len() != new.len() {
            bail!("the boot partition changed its size");
        }
        if old == new {
            continue;
        }
        match found.last_mut() {
            Some((start, content)) if *start + content.len() as u64 == at => content.extend(&new),
            _ => found.push((at, new)),
        }
    }
    Ok(found)
}

fn block_at(file: &mut (impl Read + Seek), at: u64) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    file.take(BLOCK).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    fn all(length: usize) -> BTreeSet<u64> {
        (0..=length as u64 / BLOCK).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn changes_turn_old_into_new(edits in prop::collection::vec((0usize..300_000, any::<u8>()), 0..5)) {
            let before = vec![7u8; 300_000];
            let mut after = before.clone();
            for (at, byte) in edits {
                after[at] = byte;
            }
            let mut made = before.clone();
            for (at, content) in changes(Cursor::new(&before), Cursor::new(&after), &all(300_000)).unwrap() {
                let at = usize::try_from(at).unwrap();
                made[at..at + content.len()].copy_from_slice(&content);
            }
            prop_assert_eq!(made, after);
        }
    }

    #[test]
    fn neighbours_are_one_change_and_equals_none() {
        let block = usize::try_from(BLOCK).unwrap();
        let before = vec![0u8; 4 * block];
        let mut after = before.clone();
        let blocks = all(4 * block);
        assert_eq!(changes(Cursor::new(&before), Cursor::new(&after), &blocks).unwrap(), []);
        after[block] = 1;
        after[2 * block] = 1;
        let found = changes(Cursor::new(&before), Cursor::new(&after), &blocks).unwrap();
        let places: Vec<_> = found.iter().map(|(at, content)| (*at, content.len())).collect();
        assert_eq!(places, [(BLOCK, 2 * block)]);
    }

    #[test]
    fn another_size_is_refused() {
        assert!(changes(Cursor::new([0u8; 5]), Cursor::new([0u8; 4]), &all(5)).is_err());
    }

    #[test]
    fn only_blocks_that_hold_anything_are_compared() {
        use std::os::unix::fs::FileExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sparse");
        let file = File::create(&path).unwrap();
        file.set_len(16 * BLOCK).unwrap();
        assert_eq!(blocks_with_data(&path).unwrap(), BTreeSet::new());
        file.write_all_at(&[1; 10], 3 * BLOCK + 5).unwrap();
        file.write_all_at(&[1; 10], 9 * BLOCK - 5).unwrap();
        let found = blocks_with_data(&path).unwrap();
        assert!(found.is_superset(&BTreeSet::from([3, 8, 9])), "{found:?}");
    }
}

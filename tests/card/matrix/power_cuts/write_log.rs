//! The log of all that a machine wrote to its card, as QEMU's `blklogwrites` keeps it in the format of the kernel's
//! dm-log-writes: each write with its data in the order of completion, and each flush.
//!
//! From it follows the content of a card whose power was cut. Covered: every prefix that [`WriteLog::cuts`] names, and
//! what a card with a volatile cache may do to the writes since its last flush ([`Lost`]): any of them lost, any of
//! them torn at a sector. Not covered: cards that lie about a flush, damage to neighbours of a block that is being
//! written, bit rot. Guarantee: the log is only read; entries that its superblock does not count are ignored. Failure:
//! names the log and the entry.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

/// "jsfwshr", of the kernel's driver.
const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
const FLUSH: u64 = 1;
const FUA: u64 = 2;
const DISCARD: u64 = 4;
const MARK: u64 = 8;
/// The unit that a card writes whole.
pub const SECTOR: u64 = 512;

/// One request of the guest's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedRequest {
    /// Where on the card, in bytes.
    pub at: u64,
    /// How many bytes; 0 for a flush without data and for entries that write nothing.
    pub length: u64,
    /// When this is done, all before it is on the medium, itself included.
    pub is_barrier: bool,
    /// Where its data is in the log.
    data: u64,
}

impl LoggedRequest {
    /// Whether it writes any of these bytes of the card.
    pub fn touches(&self, part: &Range<u64>) -> bool {
        self.length > 0 && self.at < part.end && part.start < self.at + self.length
    }
}

/// A log that was opened.
#[derive(Debug)]
pub struct WriteLog {
    path: PathBuf,
    file: File,
    entries: Vec<LoggedRequest>,
}

impl WriteLog {
    /// Reads which entries there are.
    ///
    /// # Errors
    /// When the file is no such log, or ends within an entry.
    pub fn open(path: &Path) -> Result<Self> {
        let name = path.display();
        let file = File::open(path).with_context(|| format!("cannot open the log of writes {name}"))?;
        let entries = entries(&file).with_context(|| format!("{name} is not a whole log of writes"))?;
        Ok(Self { path: path.to_owned(), file, entries })
    }

    /// All of them, in their order.
    pub fn entries(&self) -> &[LoggedRequest] {
        &self.entries
    }

    /// What an entry wrote.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub fn content(&self, entry: &LoggedRequest) -> Result<Vec<u8>> {
        let mut content = vec![0; usize::try_from(entry.length)?];
        let read = self.file.read_exact_at(&mut content, entry.data);
        read.with_context(|| format!("cannot read the log of writes {}", self.path.display()))?;
        Ok(content)
    }

    /// Does again what an entry did, on `card`.
    ///
    /// # Errors
    /// When the log cannot be read or the card not written.
    pub fn replay(&self, entry: &LoggedRequest, card: &File) -> Result<()> {
        if entry.length == 0 {
            return Ok(());
        }
        card.write_all_at(&self.content(entry)?, entry.at).context("cannot write the card")
    }

    /// The moments within `part` of the log at which a cut is tested: how many entries are on the card then. After each
    /// barrier; where `each_of` these bytes of the card is written, after each entry; and at the end.
    pub fn cuts(&self, part: Range<usize>, each_of: &Range<u64>) -> Vec<usize> {
        let entries = &self.entries[part.clone()];
        let is_cut = |(_, entry): &(usize, &LoggedRequest)| entry.is_barrier || entry.touches(each_of);
        let mut cuts: Vec<_> =
            entries.iter().enumerate().filter(is_cut).map(|(at, _)| part.start + at + 1).collect();
        if !part.is_empty() && cuts.last() != Some(&part.end) {
            cuts.push(part.end);
        }
        cuts
    }

    /// The entries between two barriers, by their numbers in `part`, those before the first and after the last
    /// included. Each stretch excludes the barrier that ends it.
    pub fn stretches(&self, part: Range<usize>) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut begin = part.start;
        for (at, entry) in self.entries.iter().enumerate().take(part.end).skip(part.start) {
            if entry.is_barrier {
                found.push(begin..at);
                begin = at + 1;
            }
        }
        found.push(begin..part.end);
        found.retain(|stretch| !stretch.is_empty());
        found
    }
}

/// Chooses what of a stretch without a barrier is lost, the same for the same seed.
#[derive(Debug)]
pub struct Lost(u64);

impl Lost {
    /// A sequence of choices.
    pub fn of_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// How many bytes of this entry are on the card: all, none or, of one in eight, a part that ends with a sector.
    pub fn kept(&mut self, entry: &LoggedRequest) -> u64 {
        match self.below(8) {
            0 => self.below(entry.length / SECTOR + 1) * SECTOR,
            1..=3 => 0,
            _ => entry.length,
        }
    }

    /// A number below `limit`, by splitmix64.
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }
}

fn entries(file: &File) -> Result<Vec<LoggedRequest>> {
    let size = file.metadata().context("cannot ask for its size")?.len();
    let [magic, version, count, sector] = words(file, 0)?;
    // A word of 32 bits; what follows is padding.
    let sector = sector & 0xffff_ffff;
    ensure!(magic == MAGIC, "it does not begin as one");
    ensure!(version == VERSION, "it has version {version}, and {VERSION} is known");
    ensure!(
        sector.is_power_of_two() && (SECTOR..=1 << 20).contains(&sector),
        "it has sectors of {sector} bytes"
    );
    let mut found = Vec::new();
    let mut at = sector;
    for number in 0..count {
        let read = words(file, at).with_context(|| format!("entry {number} of {count}"))?;
        let [first, sectors, flags, mark] = read;
        at += sector;
        let bytes = |sectors: u64| {
            let bytes = sectors.checked_mul(sector).filter(|bytes| *bytes <= 1 << 40);
            bytes.with_context(|| format!("entry {number} of {count} is beyond any card"))
        };
        // A discard has a range and no data; QEMU passes none on to the overlay.
        let has_data = flags & (DISCARD | MARK) == 0;
        let length = if has_data { bytes(sectors)? } else { 0 };
        let entry =
            LoggedRequest { at: bytes(first)?, length, is_barrier: flags & (FLUSH | FUA) != 0, data: at };
        at += if flags & MARK == 0 { length } else { mark.div_ceil(sector).saturating_mul(sector) };
        if at > size {
            bail!("it ends within entry {number} of {count}");
        }
        found.push(entry);
    }
    Ok(found)
}

/// Four 64-bit integers, little-endian, as the superblock and each entry begin.
fn words(file: &File, at: u64) -> Result<[u64; 4]> {
    let mut bytes = [0; 32];
    file.read_exact_at(&mut bytes, at).context("it ends before that")?;
    let word =
        |from: usize| bytes[from..from + 8].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    Ok([word(0), word(8), word(16), word(24)])
}

#[cfg(test)]
mod tests;

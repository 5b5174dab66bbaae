//! The card as it was after some entry of the log, and as it may have been where a cut lost what was under way.

use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use weaver_image::boot::card::temporary_dir;
use weaver_image::boot::partition::Partition;

use super::write_log::{LoggedRequest, WriteLog};

/// A card in a sparse file, with its boot partition once more in another: mtools and fsck want that.
pub struct Rebuilt<'a> {
    log: &'a WriteLog,
    boot: Partition,
    card: File,
    fat: File,
    done: usize,
    dir: TempDir,
}

impl<'a> Rebuilt<'a> {
    /// The card before the first entry, written by `start`.
    pub fn new(log: &'a WriteLog, boot: Partition, start: impl FnOnce(&Path)) -> Self {
        let dir = temporary_dir().unwrap();
        let open = |name: &str| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(dir.path().join(name))
                .unwrap()
        };
        start(&dir.path().join("card"));
        let (card, fat) = (open("card"), open("fat"));
        fat.set_len(boot.length).unwrap();
        let mut block = vec![0; 1 << 20];
        for at in (0..boot.length).step_by(block.len()) {
            card.read_exact_at(&mut block, boot.offset + at).unwrap();
            if block.iter().any(|byte| *byte != 0) {
                fat.write_all_at(&block, at).unwrap();
            }
        }
        Self { log, boot, card, fat, done: 0, dir }
    }

    pub fn card(&self) -> PathBuf {
        self.dir.path().join("card")
    }

    pub fn fat(&self) -> PathBuf {
        self.dir.path().join("fat")
    }

    /// The bytes of the card that are the boot partition.
    pub fn boot(&self) -> Range<u64> {
        self.boot.offset..self.boot.offset + self.boot.length
    }

    /// Continues until so many entries are done.
    pub fn advance(&mut self, to: usize) {
        assert!(to >= self.done, "writes are not taken back");
        for entry in &self.log.entries()[self.done..to] {
            self.write(entry, &self.log.content(entry).unwrap());
        }
        self.done = to;
    }

    /// Looks at the card on which so many bytes were `kept` of each of the entries from here up to `end`; then
    /// takes them back.
    pub fn with_lost<T>(
        &mut self,
        end: usize,
        mut kept: impl FnMut(&LoggedRequest) -> u64,
        look: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let log = self.log;
        let entries = &log.entries()[self.done..end];
        let mut before = Vec::new();
        for entry in entries {
            let mut content = log.content(entry).unwrap();
            content.truncate(usize::try_from(kept(entry)).unwrap());
            let mut old = vec![0; content.len()];
            self.card.read_exact_at(&mut old, entry.at).unwrap();
            before.push(old);
            self.write(entry, &content);
        }
        let seen = look(self);
        for (entry, old) in entries.iter().zip(before).rev() {
            self.write(entry, &old);
        }
        seen
    }

    fn write(&self, entry: &LoggedRequest, content: &[u8]) {
        self.card.write_all_at(content, entry.at).unwrap();
        if entry.touches(&self.boot()) {
            assert!(entry.at >= self.boot.offset && entry.at + entry.length <= self.boot().end);
            self.fat.write_all_at(content, entry.at - self.boot.offset).unwrap();
        }
    }
}

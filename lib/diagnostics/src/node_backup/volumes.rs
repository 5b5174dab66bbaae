//! What of the local-path volumes a backup takes. A pod writes whatever it likes into its volume, so each bound may be
//! reached on purpose: what is beyond it is left out, and the backup is made all the same. Pure.

use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Members of local-path volumes begin with this.
pub const VOLUMES: &str = "k3s/storage/";
/// Files, directories and links of one volume.
pub const MOST_ENTRIES: usize = 100_000;
/// Bytes of a path: a restore writes it below a longer directory, and Linux takes none of 4096.
pub const LONGEST_PATH: usize = 3072;
/// Bytes that the files of all volumes may have in the manifest; those of the node need some, too. One volume alone has
/// no more while it is read, so that its names do not fill the memory.
pub const MOST_LISTED: u64 = 32 << 20;
/// Bytes of a member in the manifest in addition to its name: its hash, quotes and spaces.
const HASH: u64 = 96;
/// Bytes that a volume may have in the archive beyond twice what it holds on its disk.
const SLACK: u128 = 256 << 20;

/// A file, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileSize {
    pub length: u64,
    /// What it holds on its disk. Another name of the same file holds nothing.
    pub held: u64,
}

impl FileSize {
    const fn holes(self) -> u64 {
        self.length.saturating_sub(self.held)
    }

    /// Why it is left out as one of [`hollow`].
    pub fn why(self) -> String {
        let Self { length, held } = self;
        format!("it has {} MiB, and holds {} MiB of its own on the disk", mib(length), held >> 20)
    }
}

/// Which files of a volume are left out: those with the most holes, until the archive gets at most twice what the
/// volume holds. A file of terabytes costs a pod nothing, nor do a thousand names of one file.
pub fn hollow(files: &[FileSize]) -> BTreeSet<usize> {
    let sum = |of: fn(FileSize) -> u64| files.iter().map(|file| u128::from(of(*file))).sum::<u128>();
    let allowed = sum(|file| file.held) + SLACK;
    let mut holes = sum(FileSize::holes);
    let mut largest_first: Vec<_> = files.iter().map(|file| file.holes()).enumerate().collect();
    largest_first.sort_by_key(|(_, holes)| Reverse(*holes));
    let mut left_out = BTreeSet::new();
    for (at, of_one) in largest_first {
        if holes <= allowed {
            break;
        }
        holes -= u128::from(of_one);
        left_out.insert(at);
    }
    left_out
}

/// The bytes of a file's line in the manifest, at most.
pub fn listed(name: &str) -> u64 {
    // JSON writes `\u001b` for such a byte.
    let is_escaped = |byte: &u8| *byte < b' ' || matches!(byte, b'"' | b'\\');
    name.len() as u64 + 5 * name.bytes().filter(is_escaped).count() as u64 + HASH
}

/// What a volume takes, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VolumeSize {
    /// Of the archive.
    pub bytes: u64,
    /// Of the manifest.
    pub listed: u64,
}

/// What there is for all volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeRoom {
    /// Bytes of the archive; `None` where the system does not say.
    bytes: Option<u64>,
}

impl VolumeRoom {
    pub const fn new(bytes: Option<u64>) -> Self {
        Self { bytes }
    }

    /// Which of these volumes is left out next, and why; `None` where all of them fit. It is the largest: a pod that fills
    /// its volume on purpose takes the place of no smaller one, whatever their names.
    pub fn surplus(&self, volumes: &[VolumeSize]) -> Option<(usize, String)> {
        let largest = |of: fn(VolumeSize) -> u64, room: u64| {
            let sizes = || volumes.iter().copied().map(of);
            let is_too_much = sizes().fold(0, u64::saturating_add) > room;
            sizes().enumerate().max_by_key(|(_, size)| *size).filter(|_| is_too_much)
        };
        let why = |what: &str, (at, size): (usize, u64), room: u64| {
            let (size, room) = (mib(size), room >> 20);
            (at, format!("{what} {size} MiB, and all volumes together have room for {room} MiB"))
        };
        let by_names = largest(|volume| volume.listed, MOST_LISTED)
            .map(|found| why("its names in the manifest take", found, MOST_LISTED));
        by_names.or_else(|| {
            let room = self.bytes?;
            largest(|volume| volume.bytes, room).map(|found| why("it takes", found, room))
        })
    }
}

pub(super) const fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn file(length: u64, held: u64) -> FileSize {
        FileSize { length: length * MIB, held: held * MIB }
    }

    #[test]
    fn a_volume_gets_at_most_twice_what_it_holds_and_its_most_hollow_files_go() {
        let terabytes = file(8 << 20, 0);
        for (files, want) in [
            (vec![], vec![]),
            (vec![file(5000, 5000)], vec![]),
            // Written and not yet on its disk, a little prepared in advance, or allocated beyond its end.
            (vec![file(200, 0), file(1, 9)], vec![]),
            (vec![file(1000, 1), terabytes, file(900, 900)], vec![1]),
            (vec![file(1000, 1), terabytes, file(700, 700)], vec![0, 1]),
            // The second and third are other names of the first.
            (vec![file(1000, 1000), file(1000, 0), file(1000, 0)], vec![1]),
            (vec![FileSize { length: u64::MAX, held: 0 }; 3], vec![0, 1, 2]),
        ] {
            assert_eq!(hollow(&files).into_iter().collect::<Vec<_>>(), want, "{files:?}");
        }
        assert_eq!(terabytes.why(), "it has 8388608 MiB, and holds 0 MiB of its own on the disk");
    }

    #[test]
    fn a_volume_takes_the_place_of_no_smaller_one() {
        let mib = |bytes, listed| VolumeSize { bytes: bytes * MIB, listed: listed * MIB };
        let room = VolumeRoom::new(Some(10 * MIB));
        let most = MOST_LISTED / MIB;
        for (volumes, at) in [
            (vec![], None),
            (vec![mib(10, most)], None),
            (vec![mib(11, 0)], Some(0)),
            (vec![mib(1, 0), mib(6, 0), mib(4, 0)], Some(1)),
            // Names first, however small the rest of it is.
            (vec![mib(9, 1), mib(0, most), mib(9, 1)], Some(1)),
        ] {
            assert_eq!(room.surplus(&volumes).map(|(at, _)| at), at, "{volumes:?}");
        }
        let whys = [mib(11, 0), mib(0, 33)].map(|volume| room.surplus(&[volume]).unwrap().1);
        assert_eq!(
            whys,
            [
                "it takes 11 MiB, and all volumes together have room for 10 MiB",
                "its names in the manifest take 33 MiB, and all volumes together have room for 32 MiB",
            ]
        );
        let endless = VolumeSize { bytes: u64::MAX, listed: 0 };
        assert_eq!(VolumeRoom::new(None).surplus(&[endless; 2]), None);
    }

    #[test]
    fn no_name_takes_more_of_the_manifest_than_is_counted() {
        for name in ["k3s/storage/pvc-1/data", "\u{1b}\"\\\n\u{7f}\u{202e}é"] {
            let json = serde_json::to_string_pretty(&BTreeMap::from([(name, "f".repeat(64))]));
            assert!(json.unwrap().len() as u64 <= listed(name), "{name:?}");
        }
    }
}

//! Where the boot partition is in a card image.
//!
//! Reads the first sector only. Failure: names the image and what to do.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};

const SECTOR: usize = 512;

/// A range of bytes of the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    pub offset: u64,
    /// How many bytes it has.
    pub length: u64,
}

/// The FAT partition of a raw card image: the first one of its MBR.
///
/// # Errors
/// When the file is no raw image with an MBR whose first partition is FAT and lies within it.
pub fn boot_partition(image: &Path) -> Result<Partition> {
    let name = image.display();
    let mut file = File::open(image)
        .with_context(|| format!("cannot open the card image {name}; `make image K3S=testbed` builds one"))?;
    let size = file.metadata().with_context(|| format!("cannot ask for the size of {name}"))?.len();
    let mut sector = [0; SECTOR];
    let mut got = 0;
    while got < sector.len() {
        match file.read(&mut sector[got..]).with_context(|| format!("cannot read {name}"))? {
            0 => break,
            count => got += count,
        }
    }
    first_fat(&sector[..got], size).with_context(|| format!("{name} cannot be booted"))
}

fn first_fat(start: &[u8], size: u64) -> Result<Partition> {
    if start.starts_with(b"\xfd7zXZ") {
        bail!("it is compressed; unpack it with `xz -dk`");
    }
    if start.starts_with(b"QFI\xfb") {
        bail!("it is a qcow2 file; convert it with `qemu-img convert -O raw`");
    }
    let Some(table) = start.get(446..512).filter(|table| table.ends_with(&[0x55, 0xaa])) else {
        bail!("it has no partition table; is it a whole card image?");
    };
    let word = |at: usize| table[at..at + 4].iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let (kind, offset, length) = (table[4], word(8) * SECTOR as u64, word(12) * SECTOR as u64);
    match kind {
        0x0b | 0x0c | 0x0e | 0x06 | 0x04 => {}
        0xee => bail!("its partition table is GPT, which a Pi 3 cannot read; build it with an MBR"),
        other => bail!("its first partition has type {other:#04x}; the firmware wants FAT, 0x0c"),
    }
    if length == 0 || offset == 0 || offset + length > size {
        bail!("its first partition ends beyond the file; it was cut off, build or download it again");
    }
    Ok(Partition { offset, length })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sector(kind: u8, start: u32, count: u32) -> Vec<u8> {
        let mut sector = vec![0; 512];
        sector[450] = kind;
        sector[454..458].copy_from_slice(&start.to_le_bytes());
        sector[458..462].copy_from_slice(&count.to_le_bytes());
        sector[510..].copy_from_slice(&[0x55, 0xaa]);
        sector
    }

    #[test]
    fn finds_the_first_partition() {
        let found = first_fat(&sector(0x0c, 8192, 1024), 16 << 20).unwrap();
        assert_eq!(found, Partition { offset: 4 << 20, length: 512 << 10 });
    }

    #[test]
    fn what_is_no_card_image_is_named() {
        for (start, size, want) in [
            (Vec::new(), 0, "no partition table"),
            (vec![0; 512], 512, "no partition table"),
            (b"\xfd7zXZ\0\0".to_vec(), 9, "xz -dk"),
            (b"QFI\xfb\0\0".to_vec(), 9, "qemu-img convert"),
            (sector(0xee, 1, 9), 1 << 20, "GPT"),
            (sector(0x83, 8192, 9), 16 << 20, "type 0x83"),
            (sector(0x0c, 8192, 1024), 4 << 20, "cut off"),
            (sector(0x0c, 8192, 0), 16 << 20, "beyond the file"),
        ] {
            let error = first_fat(&start, size).unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }

    #[test]
    fn a_missing_image_is_named_with_the_command_that_builds_one() {
        let error = format!("{:#}", boot_partition(Path::new("/nowhere/card.img")).unwrap_err());
        assert!(error.contains("/nowhere/card.img") && error.contains("make image"), "{error}");
    }

    proptest! {
        #[test]
        fn any_sector_is_read_without_a_panic(start: Vec<u8>, kind: u8, first: u32, count: u32, size: u64) {
            let _ = first_fat(&start, size);
            if let Ok(found) = first_fat(&sector(kind, first, count), size) {
                prop_assert!(found.offset + found.length <= size);
            }
        }
    }
}

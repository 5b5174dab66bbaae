//! Whether the root fills its card already. Then `weaver-grow-root.service` need not start: k3s waits for it, and at
//! all boots but the first its start takes longer than its work.
//!
//! Guarantees: the mark is written only where kernel and superblock agree. Failure: where something cannot be read, or
//! is no ext4 on a partition, the unit checks by itself, and reports what is wrong.

use std::{fs::File, os::unix::fs::FileExt as _};

use crate::facts::{mounts::Mounts, node::BLOCK_DEVICES};
use crate::host_root::HostRoot;

/// A condition of the unit; in memory, so that each boot checks again.
pub const MARK: &str = "/run/weaver/root-grown";

/// Sectors between the partition and the end of the disk that `grow-root` leaves alone, as growpart does.
const FREE: u64 = 2048;
/// Bytes. resize2fs leaves out a last group that is too small for its own tables and the reserve of its descriptors,
/// which are some 6 MiB.
const GROUP: u64 = 16 << 20;
/// Bytes, in sysfs whatever the disk has.
const SECTOR: u64 = 512;

const SUPERBLOCK_AT: u64 = 1024;
type Superblock = [u8; 1024];

/// Whether nothing is left to grow.
pub fn is_grown(root: &HostRoot) -> bool {
    read(root).is_some_and(|(partition, superblock)| fills(&partition, &superblock))
}

#[derive(Debug, Clone, Copy)]
struct Partition {
    start: u64,
    size: u64,
    disk: u64,
}

fn read(root: &HostRoot) -> Option<(Partition, Superblock)> {
    let device = Mounts::read(root)?.root_device(root)?;
    let number = |file: &str| -> Option<u64> {
        root.read_if_possible(format!("{BLOCK_DEVICES}/{device}/{file}"))?.text.trim().parse().ok()
    };
    let partition = Partition { start: number("start")?, size: number("size")?, disk: number("../size")? };
    let mut superblock = [0; 1024];
    let device = File::open(root.real(format!("/dev/{device}"))).ok()?;
    device.read_exact_at(&mut superblock, SUPERBLOCK_AT).ok()?;
    Some((partition, superblock))
}

fn fills(partition: &Partition, superblock: &Superblock) -> bool {
    let Some(has) = ext4_size(superblock) else { return false };
    let Partition { start, size, disk } = *partition;
    let free = disk.checked_sub(start).and_then(|room| room.checked_sub(size));
    let lacks = size.saturating_mul(SECTOR).saturating_sub(has);
    free.is_some_and(|free| free <= FREE) && lacks <= GROUP
}

/// Bytes of an ext4; offsets of the kernel's `Documentation/filesystems/ext4/super.rst`.
fn ext4_size(superblock: &Superblock) -> Option<u64> {
    let u32_at = |at: usize| {
        let bytes = superblock.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    };
    let magic = u32_at(0x38)? & 0xffff;
    let is_64bit = u32_at(0x60)? & 0x80 != 0;
    let high = if is_64bit { u32_at(0x150)? } else { 0 };
    let blocks = u64::from(high) << 32 | u64::from(u32_at(0x4)?);
    let block = 1024_u64.checked_shl(u32_at(0x18)?)?;
    (magic == 0xef53).then(|| blocks.checked_mul(block)).flatten()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::host_root::fixture;
    use weaver_diagnostics::host::storage::MOUNTS;

    /// The size of a card of 8 GiB, in sectors.
    const DISK: u64 = 16 << 21;
    const START: u64 = 1 << 20;
    const WHOLE: Partition = Partition { start: START, size: DISK - START, disk: DISK };
    /// In blocks of 4 KiB.
    const BLOCKS: u64 = (DISK - START) / 8;

    fn superblock_of(blocks: u64) -> Superblock {
        let mut superblock = [0; 1024];
        let mut put = |at: usize, value: u32| superblock[at..at + 4].copy_from_slice(&value.to_le_bytes());
        put(0x4, u32::try_from(blocks & 0xffff_ffff).unwrap());
        put(0x150, u32::try_from(blocks >> 32).unwrap());
        put(0x18, 2);
        put(0x38, 0x0001_ef53);
        put(0x60, 0x2c2);
        superblock
    }

    #[test]
    fn a_root_has_grown_when_it_fills_its_disk() {
        let part = |less: u64| Partition { size: WHOLE.size - less, ..WHOLE };
        for (partition, blocks, grown, why) in [
            (WHOLE, BLOCKS, true, "all of it"),
            (part(2048), BLOCKS - 256, true, "growpart leaves a MiB"),
            (part(2049), BLOCKS - 257, false, "the partition can grow"),
            (part(DISK / 2), BLOCKS, false, "a copy on a larger card"),
            (WHOLE, BLOCKS - 1600, true, "resize2fs left the last group out"),
            (WHOLE, BLOCKS / 4, false, "cut between the partition and the file system"),
            (WHOLE, BLOCKS - (5 << 10), false, "cut in the midst of resize2fs"),
            (WHOLE, 0, false, "nothing that could be grown"),
            (Partition { disk: DISK / 2, ..WHOLE }, BLOCKS, false, "past the end of the disk"),
        ] {
            assert_eq!(fills(&partition, &superblock_of(blocks)), grown, "{why}");
        }
        assert!(!fills(&WHOLE, &[0; 1024]), "no ext4");
        assert!(!fills(&WHOLE, &[0xff; 1024]), "no ext4");
        let huge = superblock_of(3 << 32);
        assert_eq!(ext4_size(&huge), Some(3 << 44));
    }

    #[test]
    fn read_from_sysfs_and_the_device() {
        assert!(!is_grown(&fixture::host(&[]).1), "nothing is known");
        let mounts = "25 1 179:2 / / rw,noatime shared:1 - ext4 /dev/mmcblk0p2 rw\n";
        let (dir, root) = fixture::host(&[(MOUNTS, mounts)]);
        assert!(!is_grown(&root), "there is no such partition");
        let disk = dir.path().join("sys/devices/mmcblk0");
        let partition = disk.join("mmcblk0p2");
        fs::create_dir_all(&partition).unwrap();
        let block = root.real(BLOCK_DEVICES);
        fs::create_dir_all(&block).unwrap();
        std::os::unix::fs::symlink(&partition, block.join("mmcblk0p2")).unwrap();
        fs::write(disk.join("size"), format!("{DISK}\n")).unwrap();
        for (file, text) in [("start", format!("{START}\n")), ("size", format!("{}\n", WHOLE.size))] {
            fs::write(partition.join(file), text).unwrap();
        }
        assert!(!is_grown(&root), "there is no device");
        let device = dir.path().join("dev/mmcblk0p2");
        fs::create_dir_all(device.parent().unwrap()).unwrap();
        let mut start = vec![0; 1024];
        fs::write(&device, &start).unwrap();
        assert!(!is_grown(&root), "it ends too early");
        start.extend(superblock_of(BLOCKS));
        fs::write(&device, &start).unwrap();
        assert!(is_grown(&root));
        fs::write(disk.join("size"), format!("{}\n", DISK * 2)).unwrap();
        assert!(!is_grown(&root), "a larger card");
        fs::write(disk.join("size"), "much\n").unwrap();
        assert!(!is_grown(&root), "no number");
    }
}

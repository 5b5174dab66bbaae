//! The card's partitions, written into one file without loop devices.
//!
//! A pure MBR, since the Pi 3's ROM reads no GPT: a FAT that the firmware reads and an ext4 root, both found by label.
//! Guarantees: same input, same bytes (fixed ids, clamped times). Failure: the log of the tool, or that the root does
//! not fit.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::tar_merge::{self, Layer};
use super::tools::{BuildLogs, cannot_start};

/// The disk's signature in the MBR.
const DISK_ID: &str = "0x57ea7e12";
/// The FAT's volume id.
const FAT_ID: &str = "57ea7e13";
/// UUID and hash seed of the root.
const ROOT_ID: &str = "57ea7e14-c0f1-4c0d-9e0a-57ea7e140001";
/// Labels, as /etc/fstab and cmdline.txt have them.
pub const FAT_LABEL: &str = "WEAVERBOOT";
pub const ROOT_LABEL: &str = "weaver-root";

const MIB: u64 = 1 << 20;
const SECTOR: u64 = 512;
// QEMU's raspi3b accepts powers of two only: the image must fit into 4 GiB.
const _: () = assert!(ROOT_START + ROOT_SIZE <= 4096 * MIB);
/// Where the FAT begins.
pub const FAT_START: u64 = 4 * MIB;
/// How large it is, in bytes.
pub const FAT_SIZE: u64 = 512 * MIB;
/// Where the root begins.
pub const ROOT_START: u64 = FAT_START + FAT_SIZE;
/// It grows to the card at boot; until then there must be space for that boot.
const ROOT_SIZE: u64 = 2048 * MIB;

/// Makes the image from the boot files below `boot` and the root in `base` with `layer` on top.
///
/// # Errors
/// A tool that is missing or fails, a root that does not fit.
pub fn assemble(
    image: &Path,
    boot: &Path,
    base: &Path,
    layer: &Layer,
    epoch: u64,
    logs: &BuildLogs,
) -> Result<()> {
    let file = File::create(image).with_context(|| format!("cannot write {}", image.display()))?;
    file.set_len(ROOT_START + ROOT_SIZE).context("making room for the image")?;
    partition(image, logs)?;
    fat(image, boot, epoch, logs)?;
    root(image, base, layer, epoch, logs)?;
    file.sync_all().context("writing the image to the disk")
}

fn table() -> String {
    let (fat, root) = (FAT_START / SECTOR, ROOT_START / SECTOR);
    let (fat_size, root_size) = (FAT_SIZE / SECTOR, ROOT_SIZE / SECTOR);
    format!(
        "label: dos\nlabel-id: {DISK_ID}\nstart={fat}, size={fat_size}, type=c\nstart={root}, size={root_size}, type=83\n"
    )
}

fn partition(image: &Path, logs: &BuildLogs) -> Result<()> {
    let mut script = tempfile::tempfile().context("making a temporary file")?;
    script.write_all(table().as_bytes()).context("writing sfdisk's script")?;
    std::io::Seek::rewind(&mut script)?;
    let log = logs.create("partition table")?;
    let mut command = Command::new("sfdisk");
    command.args(["--quiet", "--no-tell-kernel"]).arg(image);
    command.stdin(script).stdout(log.try_clone()?).stderr(log);
    let status = command.status().map_err(|error| cannot_start(&command, error))?;
    if status.success() { Ok(()) } else { Err(logs.failed("partition table", &status)) }
}

fn fat(image: &Path, boot: &Path, epoch: u64, logs: &BuildLogs) -> Result<()> {
    let mut command = Command::new("mkfs.vfat");
    command
        .args(["--invariant", "-F", "32", "-n", FAT_LABEL, "-i", FAT_ID])
        .arg(format!("--offset={}", FAT_START / SECTOR))
        .arg(image)
        .arg((FAT_SIZE / 1024).to_string());
    logs.run("boot partition", &mut command)?;
    copy_into_fat(image, boot, "/", epoch, logs)
}

/// Directory by directory and in order: by itself, mcopy copies nested files in the order of the disk's listing.
fn copy_into_fat(image: &Path, from: &Path, to: &str, epoch: u64, logs: &BuildLogs) -> Result<()> {
    let mut entries: Vec<_> = fs::read_dir(from)
        .with_context(|| format!("cannot read {}", from.display()))?
        .collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    let (directories, files): (Vec<_>, Vec<_>) = entries.iter().partition(|entry| entry.path().is_dir());
    let mtools = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.env("SOURCE_DATE_EPOCH", epoch.to_string()).env("TZ", "UTC").args(arguments).arg("-i");
        command.arg(format!("{}@@{FAT_START}", image.display()));
        command
    };
    if !files.is_empty() {
        let mut copy = mtools("mcopy", &["-m", "-Q"]);
        copy.args(files.iter().map(|entry| entry.path())).arg(format!("::{to}"));
        logs.run("boot files", &mut copy)?;
    }
    for directory in directories {
        let to = format!("{to}{}/", directory.file_name().to_string_lossy());
        logs.run("boot files", mtools("mmd", &[]).arg(format!("::{}", to.trim_end_matches('/'))))?;
        copy_into_fat(image, &directory.path(), &to, epoch, logs)?;
    }
    Ok(())
}

fn root(image: &Path, base: &Path, layer: &Layer, epoch: u64, logs: &BuildLogs) -> Result<()> {
    let step = "root partition";
    let log = logs.create(step)?;
    let mut command = Command::new("mke2fs");
    command
        // With plain C it stops at the first name in UTF-8.
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .env("SOURCE_DATE_EPOCH", epoch.to_string())
        .env("E2FSPROGS_FAKE_TIME", epoch.to_string())
        .args(["-q", "-F", "-t", "ext4", "-d", "-", "-L", ROOT_LABEL, "-U", ROOT_ID, "-m", "1", "-E"])
        .arg(format!(
            "offset={ROOT_START},hash_seed={ROOT_ID},lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0"
        ))
        .arg(image)
        .arg(format!("{}k", ROOT_SIZE / 1024))
        .stdin(Stdio::piped())
        .stdout(log.try_clone()?)
        .stderr(log);
    let mut child = command.spawn().map_err(|error| cannot_start(&command, error))?;
    let pipe = child.stdin.take().context("mke2fs has no standard input")?;
    let base = File::open(base).with_context(|| format!("cannot read {}", base.display()))?;
    let merged = tar_merge::merge(std::io::BufReader::new(base), layer, epoch, std::io::BufWriter::new(pipe));
    let status = child.wait().context("waiting for mke2fs")?;
    // Its own message says more than a broken pipe: a full disk, most of all.
    if !status.success() {
        return Err(logs.failed(step, &status));
    }
    merged.context("merging the root file system")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_what_the_firmware_reads() {
        let lines: Vec<_> = table().lines().map(str::to_owned).collect();
        assert_eq!(
            lines,
            [
                "label: dos",
                "label-id: 0x57ea7e12",
                "start=8192, size=1048576, type=c",
                "start=1056768, size=4194304, type=83"
            ]
        );
    }
}

//! Where a build writes: with enough free space, and with no other build.

use std::collections::BTreeMap;
use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use weaver_devstack::files;
use weaver_devstack::steps::say;

/// How files and directories begin that are being made.
pub const PARTIAL: &str = ".partial-";

/// Refuses to continue where less space is free than is needed; directories on one file system share their free space.
///
/// # Errors
/// Names the directory, what is free, what is needed and the remedy.
pub fn require(needs: &[(&Path, u64)]) -> Result<()> {
    let mut disks: BTreeMap<u64, (&Path, u64)> = BTreeMap::new();
    for (path, bytes) in needs {
        let disk = path.metadata().with_context(|| format!("cannot find {}", path.display()))?.dev();
        disks.entry(disk).or_insert((path, 0)).1 += bytes;
    }
    disks.into_values().try_for_each(|(path, bytes)| files::require_space(path, bytes))
}

/// Keeps every other build out of a directory for as long as the value lives.
///
/// # Errors
/// Another build is in it.
pub fn alone(directory: &Path) -> Result<File> {
    match lock(directory)? {
        Some(lock) => Ok(lock),
        None => bail!(
            "another build writes to {}; wait until it has ended, or use another --out",
            directory.display()
        ),
    }
}

/// Like [`alone`], and waits for the other.
///
/// # Errors
/// The directory cannot be locked.
pub fn wait_alone(directory: &Path) -> Result<File> {
    if let Some(lock) = lock(directory)? {
        return Ok(lock);
    }
    say(format_args!("            another build is at work in {}; waiting for it", directory.display()));
    let file = open(directory)?;
    file.lock().with_context(|| format!("cannot lock {}", directory.display()))?;
    Ok(file)
}

/// Keeps a directory from being removed by another build for as long as the value lives.
///
/// # Errors
/// The directory cannot be locked.
pub fn in_use(directory: &Path) -> Result<File> {
    let file = open(directory)?;
    file.lock_shared().with_context(|| format!("cannot lock {}", directory.display()))?;
    Ok(file)
}

/// Removes a directory that no build uses; returns whether it did.
///
/// # Errors
/// It cannot be removed.
pub fn remove_unused(directory: &Path) -> Result<bool> {
    let Some(_lock) = lock(directory)? else { return Ok(false) };
    std::fs::remove_dir_all(directory).with_context(|| format!("cannot remove {}", directory.display()))?;
    Ok(true)
}

/// The kernel's lock, which ends with the process, however that ends.
fn lock(directory: &Path) -> Result<Option<File>> {
    let file = open(directory)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", directory.display()))
        }
    }
}

fn open(directory: &Path) -> Result<File> {
    File::open(directory).with_context(|| format!("cannot open {}", directory.display()))
}

/// Removes the partial files that an ended build has left in a directory.
///
/// # Errors
/// They cannot be removed.
pub fn clear(directory: &Path) -> Result<()> {
    let entries =
        std::fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let is_left =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PARTIAL));
    for path in entries.flatten().map(|entry| entry.path()).filter(is_left) {
        let removed =
            if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        removed.with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_on_one_disk_share_its_room() {
        let home = tempfile::tempdir().unwrap();
        let free = files::free_bytes(home.path()).unwrap();
        let half = free / 2 + (64 << 20);
        require(&[(home.path(), half)]).unwrap();
        let other = home.path().join("other");
        std::fs::create_dir(&other).unwrap();
        let error = require(&[(home.path(), half), (&other, half)]).unwrap_err().to_string();
        assert!(error.contains(home.path().to_str().unwrap()) && error.contains("is full"), "{error}");
    }

    #[test]
    fn two_builds_do_not_write_to_one_place() {
        let home = tempfile::tempdir().unwrap();
        let first = alone(home.path()).unwrap();
        let error = alone(home.path()).unwrap_err().to_string();
        assert!(error.contains("another build writes to") && error.contains("--out"), "{error}");
        drop(first);
        alone(home.path()).unwrap();
    }

    #[test]
    fn what_is_in_use_stays() {
        let home = tempfile::tempdir().unwrap();
        let entry = home.path().join("entry");
        std::fs::create_dir(&entry).unwrap();
        let (one, two) = (in_use(&entry).unwrap(), in_use(&entry).unwrap());
        drop(one);
        assert!(!remove_unused(&entry).unwrap() && entry.exists());
        drop(two);
        assert!(remove_unused(&entry).unwrap() && !entry.exists());
    }

    #[test]
    fn only_what_is_half_made_is_cleared() {
        let home = tempfile::tempdir().unwrap();
        for name in [".partial-a", "image.img"] {
            std::fs::write(home.path().join(name), "").unwrap();
        }
        std::fs::create_dir_all(home.path().join(".partial-b/boot")).unwrap();
        clear(home.path()).unwrap();
        let left: Vec<_> = std::fs::read_dir(home.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, ["image.img"]);
    }
}

//! Files of the stack, written whole or not at all.
//!
//! Guarantee: a reader, and a machine that stops at any instant, sees the old
//! content or the new, never a part. Failure: the message names the path, and
//! for a full disk what to do about it.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use nix::sys::statvfs::{FsFlags, statvfs};
use weaver_host::durable_file;

/// Below this the stack does not start: the API server's database alone grows
/// to some tens of megabytes, and SQLite on a full disk stops every write.
pub const SPACE_NEEDED: u64 = 128 << 20;

/// Eight servers of tests, with what is kept of each request.
const SCRATCH_NEEDED: u64 = 4 << 30;

/// Replaces `path` by `content`.
///
/// # Errors
/// Names the path, and the remedy where the disk is full.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> Result<()> {
    durable_file::replace(path, content, mode).map_err(|error| explained(path, error.source))
}

/// Makes a directory and its parents.
///
/// # Errors
/// Names the path, and the remedy where the disk is full.
pub fn make_dir(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| explained(path, error))
}

/// Removes a file; that there is none is fine.
///
/// # Errors
/// Names the path.
pub fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(explained(path, error)),
        _ => Ok(()),
    }
}

/// Reads a file; `None` when there is none.
///
/// # Errors
/// Names the path when it exists and cannot be read.
pub fn read_if_there(path: &Path) -> Result<Option<String>> {
    match fs::read(path) {
        // Invalid UTF-8 is left to the parser, which knows what was expected.
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// A word for a shell.
pub fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// An I/O error with its path, and the remedy for the one that has one.
pub fn explained(path: &Path, error: io::Error) -> anyhow::Error {
    let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let shown = path.display().to_string();
    let explained = anyhow!(error).context(format!("cannot write {shown}"));
    if full { explained.context(full_disk(path.parent().unwrap_or(path), None)) } else { explained }
}

/// Refuses to continue where the file system of `dir` has less than `needed` bytes.
///
/// # Errors
/// Names the directory, what is free, what is needed and the remedy.
pub fn require_space(dir: &Path, needed: u64) -> Result<()> {
    let free = free_bytes(dir)?;
    if free < needed {
        bail!("{}", full_disk(dir, Some((free, needed))));
    }
    Ok(())
}

/// Bytes free for us on the file system of `dir`.
///
/// # Errors
/// When the file system does not say.
pub fn free_bytes(dir: &Path) -> Result<u64> {
    let stat = statvfs(dir).with_context(|| format!("cannot ask how much room {} has", dir.display()))?;
    Ok(stat.blocks_available() * stat.fragment_size())
}

/// Where what a test writes and drops lies: in memory where there is space and programs may run, since the
/// commits of a dozen databases keep a disk busier than the tests keep the processors.
pub fn scratch() -> &'static Path {
    let memory = Path::new("/dev/shm");
    let fits = statvfs(memory).is_ok_and(|stat| {
        stat.blocks_available() * stat.fragment_size() >= SCRATCH_NEEDED
            && !stat.flags().contains(FsFlags::ST_NOEXEC)
    });
    if fits { memory } else { Path::new("/tmp") }
}

fn full_disk(dir: &Path, sizes: Option<(u64, u64)>) -> String {
    let dir = dir.display();
    let sizes = sizes.map_or(String::new(), |(free, needed)| {
        format!(": {} MiB are free, {} MiB are needed", free >> 20, needed >> 20)
    });
    format!(
        "the disk under {dir} is full{sizes}. Nothing was lost. Free some space (see `df -h {dir}`) \
         and run the command again, or go elsewhere: WEAVER_RUN_DIR=DIR moves the stack, XDG_CACHE_HOME=DIR the \
         cache, TMPDIR=DIR what is temporary, `--out DIR` an image"
    )
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn replaces_whole_with_the_mode_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        replace(&path, b"one", 0o600).unwrap();
        replace(&path, b"two", 0o640).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn a_full_disk_is_named_with_its_remedy() {
        // The kernel's own "no space left" on every write.
        let error =
            fs::OpenOptions::new().write(true).open("/dev/full").unwrap().write_all(b"x").unwrap_err();
        let text = format!("{:#}", explained(Path::new("stack/pids/server"), error));
        assert!(text.contains("the disk under stack/pids is full"), "{text}");
        assert!(text.contains("WEAVER_RUN_DIR"), "{text}");
        assert!(text.contains("cannot write stack/pids/server"), "{text}");
    }

    #[test]
    fn too_little_room_is_refused_before_anything_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let text = require_space(dir.path(), u64::MAX).unwrap_err().to_string();
        assert!(text.contains("MiB are free"), "{text}");
        assert!(require_space(dir.path(), 1).is_ok());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn other_errors_do_not_speak_of_the_disk() {
        let error = replace(Path::new("/dev/null/x"), b"", 0o600).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.contains("cannot write /dev/null/x"), "{text}");
        assert!(!text.contains("full"), "{text}");
    }
}

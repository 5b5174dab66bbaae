//! Replaces a file whole: a reader sees the old content or the new, after a
//! power cut too.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use anyhow::Context as _;

/// Writes `content` to a file beside `path`, flushes it, renames it and flushes
/// the directory. On failure the old file is untouched.
///
/// The file beside it always has the same name, so that a killed agent leaves
/// at most one; the lock on the runtime directory keeps it ours alone.
///
/// # Errors
/// A step failed; the message names the file.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> anyhow::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let steps = || -> io::Result<()> {
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        file.write_all(content)?;
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        File::open(directory)?.sync_all()
    };
    steps()
        // What could not be written whole is of no use to anyone.
        .inspect_err(|_| drop(fs::remove_file(&beside)))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn content_and_mode_are_replaced_and_nothing_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        replace(&path, b"one", 0o640).unwrap();
        replace(&path, b"two", 0o640).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o640);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failure_names_the_file_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        // A directory in the place of the file: the rename is refused.
        let path = dir.path().join("d");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inner"), "x").unwrap();
        let error = replace(&path, b"x", 0o640).unwrap_err();
        assert!(error.to_string().contains("/d"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

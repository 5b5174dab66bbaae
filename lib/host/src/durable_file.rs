//! Replaces a file whole: a reader sees the old content or the new, after a power cut too.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::platform;

/// The file could not be replaced; the old one is as it was.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub struct WriteError {
    /// The file that was to be replaced.
    pub path: PathBuf,
    pub source: io::Error,
}

/// What was written may be lost in a power cut.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {} to its disk", path.display())]
pub struct FlushError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// How a file is written.
#[derive(Debug, Clone, Copy)]
pub struct WriteOptions<'a> {
    pub mode: u32,
    /// Its owner; the caller where there is none.
    pub uid: Option<u32>,
    /// Its group; that of the caller, or of the directory, where there is none.
    pub gid: Option<u32>,
    /// What is added to its name for the file next to it.
    pub suffix: &'a str,
}

impl WriteOptions<'_> {
    /// With these permissions, for the caller.
    pub const fn mode(mode: u32) -> Self {
        Self { mode, uid: None, gid: None, suffix: ".new" }
    }
}

/// Writes `content` to a file next to `path`, flushes it, renames it and flushes the directory. On failure the
/// old file is untouched.
///
/// The file next to it always has the same name, so that a killed writer leaves at most one, which the next
/// writer removes. Two writers at once need a lock between them, or one of them fails.
///
/// # Errors
/// A step failed; the message names the file.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> Result<(), WriteError> {
    replace_as(path, content, &WriteOptions::mode(mode))
}

/// The same, with more to say about how.
///
/// # Errors
/// As [`replace`]; also if the caller may not give the file to that owner or group.
pub fn replace_as(path: &Path, content: &[u8], how: &WriteOptions<'_>) -> Result<(), WriteError> {
    let temporary = with_suffix(path, how.suffix);
    write_temporary(path, &temporary, content, how)
        // What could not be written whole is of no use to anyone.
        .inspect_err(|_| drop(fs::remove_file(&temporary)))
        .map_err(|source| WriteError { path: path.to_owned(), source })
}

fn write_temporary(path: &Path, temporary: &Path, content: &[u8], how: &WriteOptions<'_>) -> io::Result<()> {
    platform::possible(path)?;
    // Made again rather than emptied: what was left behind may be open to more readers than a key should be.
    if_there(fs::remove_file(temporary))?;
    create(temporary, content, how)?;
    platform::rename(temporary, path)?;
    flush_directory_of(path)
}

/// Flushes the directory of a path, so that a name in it is there, or gone, after a power cut.
///
/// # Errors
/// It cannot be opened or flushed.
pub fn flush_directory_of(path: &Path) -> io::Result<()> {
    platform::flush(directory_of(path))
}

/// Flushes the content of a file, or the names in a directory.
///
/// # Errors
/// It cannot be opened or flushed.
pub fn flush(path: &Path) -> Result<(), FlushError> {
    platform::flush(path).map_err(|source| FlushError { path: path.to_owned(), source })
}

/// Makes a file that is not there yet, and flushes it. A failure may leave a part of it.
///
/// # Errors
/// It exists, or a step failed.
pub fn create(path: &Path, content: &[u8], how: &WriteOptions<'_>) -> io::Result<()> {
    let mut file = platform::create_new(path)?;
    file.write_all(content)?;
    let made = platform::owner(&file.metadata()?);
    // Not asked for where nothing changes: some file systems refuse even that.
    let uid = how.uid.filter(|uid| Some(*uid) != made.uid);
    let gid = how.gid.filter(|gid| Some(*gid) != made.gid);
    if uid.is_some() || gid.is_some() {
        platform::give(&file, uid, gid)?;
    }
    platform::set_mode(&file, how.mode)?;
    file.sync_all()
}

/// What became of a removal: it is done where there is nothing to be removed.
///
/// # Errors
/// It failed for any other reason.
pub fn if_there(removed: io::Result<()>) -> io::Result<()> {
    found(removed).map(drop)
}

/// What was read of a path, or done with it; `None` where there is nothing.
///
/// # Errors
/// It failed for any other reason.
pub fn found<T>(done: io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        done => done.map(Some),
    }
}

/// The same path with `suffix` behind its name.
pub fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Of a bare file name that is the working directory.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    #[test]
    fn content_and_mode_are_replaced_and_nothing_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        replace(&path, b"one", 0o640).unwrap();
        replace(&path, b"two", 0o640).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        let mode = platform::owner(&fs::metadata(&path).unwrap()).mode;
        assert_eq!(mode, cfg!(unix).then_some(0o640));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failure_names_the_file_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        // A directory instead of the file: the rename is refused.
        let path = dir.path().join("d");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("inner"), "x").unwrap();
        let error = replace(&path, b"x", 0o640).unwrap_err();
        assert!(error.to_string().ends_with(&path.display().to_string()), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_and_a_directory_are_flushed_and_what_is_not_there_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let error = flush(&path).unwrap_err().to_string();
        assert_eq!(error, format!("cannot write {} to its disk", path.display()));
        fs::write(&path, "x").unwrap();
        flush(&path).unwrap();
        flush(dir.path()).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn what_a_killed_writer_left_is_neither_used_nor_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (path, left) = (dir.path().join("f"), dir.path().join("f.new"));
        fs::write(&left, "half of an old ke").unwrap();
        fs::set_permissions(&left, fs::Permissions::from_mode(0o666)).unwrap();
        let inode = fs::metadata(&left).unwrap().ino();
        // Held open, so that the number is not given to the new file.
        let _held = fs::File::open(&left).unwrap();
        replace(&path, b"new", 0o600).unwrap();
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!((fs::read(&path).unwrap(), metadata.mode() & 0o7777), (b"new".to_vec(), 0o600));
        assert_ne!(metadata.ino(), inode);
        assert!(!left.exists());
    }

    #[cfg(unix)]
    #[test]
    fn the_group_is_the_one_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let own = fs::metadata(dir.path()).unwrap().gid();
        replace_as(&path, b"x", &WriteOptions { gid: Some(own), ..WriteOptions::mode(0o640) }).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().gid(), own);
    }

    #[test]
    fn a_name_with_spaces_and_letters_beyond_ascii_is_replaced_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("J\u{f6} Doe \u{1f347}.yaml");
        replace(&path, b"one", 0o600).unwrap();
        replace(&path, b"two", 0o600).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
    }

    /// As an editor or a virus scanner has it.
    #[cfg(windows)]
    #[test]
    fn a_file_that_another_program_holds_for_a_moment_is_replaced() {
        use std::os::windows::fs::OpenOptionsExt as _;

        let dir = tempfile::tempdir().unwrap();
        let (path, new) = (dir.path().join("f"), dir.path().join("f.new"));
        fs::write(&path, "old").unwrap();
        // Others may read it, and not replace it.
        let held = fs::OpenOptions::new().read(true).share_mode(1).open(&path).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let held = held;
                while !new.exists() {
                    std::thread::yield_now();
                }
                drop(held);
            });
            replace(&path, b"new", 0o600).unwrap();
        });
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[cfg(windows)]
    #[test]
    fn a_device_a_stream_or_a_name_that_windows_changes_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["NUL", "con.yaml", "pi:6443.yaml", "pi.", "pi "] {
            let error = replace(&dir.path().join(name), b"x", 0o600).unwrap_err();
            assert_eq!(error.source.kind(), io::ErrorKind::InvalidFilename, "{name}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_file_next_to_it_has_the_suffix_asked_for_and_a_created_file_was_not_there() {
        let dir = tempfile::tempdir().unwrap();
        let (path, left) = (dir.path().join("f"), dir.path().join("f.mine"));
        fs::create_dir(&left).unwrap();
        let how = WriteOptions { suffix: ".mine", ..WriteOptions::mode(0o600) };
        assert!(replace_as(&path, b"x", &how).is_err(), "a directory is in the way");
        create(&path, b"one", &how).unwrap();
        assert_eq!(create(&path, b"two", &how).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"one");
    }
}

//! What becomes a member of a backup, and how it is opened.
//!
//! Guarantees: of a volume only what was listed is read. A pod may replace that by a link or a pipe, or a directory
//! above it by a link, so that root would read something else.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::readlinkat;
use nix::libc::{O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_PATH};
use weaver_diagnostics::node_backup::volumes::VOLUMES;

/// What becomes a member.
#[derive(Debug, Clone)]
pub struct ArchiveInput {
    /// Its name in the archive.
    pub name: String,
    pub path: PathBuf,
    pub kind: EntryKind,
    /// Bytes that are read of a file at most.
    pub most: u64,
}

impl ArchiveInput {
    /// Whether a pod writes it, while it is read and however it likes.
    pub fn is_of_pod(&self) -> bool {
        self.name.starts_with(VOLUMES)
    }

    /// Opens a file.
    ///
    /// # Errors
    /// It cannot be opened, or is something else by now.
    pub fn open(&self) -> io::Result<File> {
        if !self.is_of_pod() {
            return File::open(&self.path);
        }
        let file = open_listed(&self.path, 0)?;
        if file.metadata()?.is_file() { Ok(file) } else { Err(replaced()) }
    }

    /// What is known of a directory; or of a link, with what it leads to.
    ///
    /// # Errors
    /// It cannot be read, or is something else by now.
    pub fn look(&self) -> io::Result<(Metadata, Option<OsString>)> {
        if !self.is_of_pod() {
            return fs::symlink_metadata(&self.path).map(|metadata| (metadata, None));
        }
        let is_link = self.kind == EntryKind::Link;
        let entry = open_listed(&self.path, O_PATH | if is_link { 0 } else { O_DIRECTORY })?;
        let metadata = entry.metadata()?;
        if metadata.is_symlink() != is_link {
            return Err(replaced());
        }
        let link = is_link.then(|| readlinkat(&entry, "")).transpose()?;
        Ok((metadata, link))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
    Link,
}

/// Opens what was listed of a volume.
///
/// # Errors
/// It cannot be opened, or was replaced.
pub fn open_listed(path: &Path, flags: i32) -> io::Result<File> {
    let flags = O_NOFOLLOW | O_NONBLOCK | flags;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if fs::read_link(by_descriptor(&opened))? == path { Ok(opened) } else { Err(replaced()) }
}

/// A path of what is open, whatever its own leads to by now.
pub fn by_descriptor(opened: &File) -> String {
    format!("/proc/self/fd/{}", opened.as_raw_fd())
}

fn replaced() -> io::Error {
    io::Error::other("it was replaced meanwhile")
}

//! A directory with all that is in it: copied, measured, and compared with its copy.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

use super::disks::output;

/// What a copy must have, too.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    /// Its type and its permissions.
    mode: u32,
    owner: (u32, u32),
    /// Of a file.
    size: Option<u64>,
    /// Of a device: containerd marks what a layer of an image removes by one.
    device: u64,
    /// Of a link.
    target: Option<PathBuf>,
}

/// What is in a directory, by path. Sockets are left out: who listens there makes them again.
#[derive(Debug, Default)]
pub struct Tree {
    entries: BTreeMap<PathBuf, Entry>,
    /// Bytes on the disk.
    pub bytes: u64,
}

impl Tree {
    /// Reads it; a directory that is missing is an empty one.
    pub fn read(top: &Path) -> anyhow::Result<Self> {
        let mut tree = Self::default();
        let (mut linked, mut below) = (BTreeSet::new(), vec![PathBuf::new()]);
        while let Some(directory) = below.pop() {
            let real = top.join(&directory);
            let listed = match fs::read_dir(&real) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && directory.as_os_str().is_empty() => {
                    return Ok(tree);
                }
                listed => listed.with_context(|| format!("cannot read {}", real.display()))?,
            };
            for found in listed {
                let found = found.with_context(|| format!("cannot read {}", real.display()))?;
                let path = directory.join(found.file_name());
                let what = || format!("cannot read {}", found.path().display());
                let metadata = found.metadata().with_context(what)?;
                if metadata.file_type().is_socket() {
                    continue;
                }
                if metadata.nlink() == 1
                    || metadata.is_dir()
                    || linked.insert((metadata.dev(), metadata.ino()))
                {
                    tree.bytes += metadata.blocks() * 512;
                }
                tree.entries.insert(path.clone(), Entry::of(&found.path(), &metadata).with_context(what)?);
                if metadata.is_dir() {
                    below.push(path);
                }
            }
        }
        Ok(tree)
    }

    /// The names of what is directly in it.
    pub fn names(&self) -> Vec<String> {
        let top = self.entries.keys().filter(|path| path.components().count() == 1);
        top.map(|path| path.to_string_lossy().into_owned()).collect()
    }

    /// How many files, directories and links it has.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// The first path at which a copy differs.
    pub fn difference<'t>(&'t self, copy: &'t Self) -> Option<&'t Path> {
        let paths = self.entries.keys().chain(copy.entries.keys());
        let mut differing = paths.filter(|path| self.entries.get(*path) != copy.entries.get(*path));
        differing.next().map(PathBuf::as_path)
    }
}

impl Entry {
    fn of(path: &Path, metadata: &Metadata) -> io::Result<Self> {
        Ok(Self {
            mode: metadata.mode(),
            owner: (metadata.uid(), metadata.gid()),
            size: metadata.is_file().then_some(metadata.len()),
            device: metadata.rdev(),
            target: metadata.is_symlink().then(|| fs::read_link(path)).transpose()?,
        })
    }
}

/// Copies what is in a directory, with owners, times, hard links, devices, holes and extended attributes.
///
/// # Errors
/// Something could not be copied whole; `cp` says what.
pub fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir(to).with_context(|| format!("cannot make {}", to.display()))?;
    if !from.is_dir() {
        return Ok(());
    }
    let mut cp = Command::new("cp");
    // Not `-a`, which ignores extended attributes that cannot be set: layers of images have some.
    cp.args(["-dRx", "--preserve=mode,ownership,timestamps,links,xattr", "--"]);
    output(cp.arg(from.join(".")).arg(to)).map(drop)
}

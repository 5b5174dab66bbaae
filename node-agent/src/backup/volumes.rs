//! The local-path volumes, as a backup takes them.
//!
//! Guarantees: nothing that a pod has in its volume ends the backup, or makes it larger than there is room for.
//! Failure: none; what cannot be saved is left out, and listed with the reason.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use weaver_diagnostics::node_backup::left_out::LeftOut;
use weaver_diagnostics::node_backup::volumes::{
    FileSize, LONGEST_PATH, MOST_ENTRIES, MOST_LISTED, VOLUMES, VolumeRoom, VolumeSize, hollow, listed,
};
use weaver_host::durable_file;

use super::archive::OVERHEAD;
use super::input::{ArchiveInput, EntryKind, by_descriptor, open_listed};

/// The unit in which a file system says what a file holds, in bytes.
const BLOCK: u64 = 512;

/// A name in the archive, and the path that it is of.
type Entry = (String, PathBuf);

/// The members of all volumes.
#[derive(Debug, Default)]
pub struct VolumeMembers {
    pub inputs: Vec<ArchiveInput>,
    /// What they take in the archive.
    pub bytes: u64,
    pub left_out: LeftOut,
}

/// Lists the volumes in a directory, without the largest where there is no room for all.
pub fn list(directory: &Path, room: &VolumeRoom) -> VolumeMembers {
    // Without a link in its path, so that one that a pod makes below is seen.
    let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let mut top = Walk::new();
    let volumes = top.below(VOLUMES.trim_end_matches('/'), &directory).unwrap_or_else(|why| {
        top.left_out.push(VOLUMES, &why);
        None
    });
    let mut all = VolumeMembers { left_out: top.left_out, ..VolumeMembers::default() };
    let (mut walks, mut sizes) = (Vec::new(), Vec::new());
    for volume in volumes.unwrap_or_default().into_iter().rev() {
        let name = volume.0.clone();
        let mut walk = Walk::new();
        match walk.all(volume) {
            Ok(()) => {
                walk.leave_out_hollow();
                sizes.push(walk.needed());
                walks.push((name, walk));
            }
            Err(why) => all.left_out.push(&name, &why),
        }
        // After each, so that no more of them are in memory than a backup takes.
        while let Some((at, why)) = room.surplus(&sizes) {
            sizes.remove(at);
            let (name, _) = walks.remove(at);
            all.left_out.push(&name, &why);
        }
    }
    all.bytes = sizes.iter().map(|size| size.bytes).fold(0, u64::saturating_add);
    for (_, walk) in walks {
        all.inputs.extend(walk.found.into_iter().map(|(input, _)| input));
        all.left_out.join(walk.left_out);
    }
    all
}

/// What was found in one volume.
struct Walk {
    found: Vec<(ArchiveInput, FileSize)>,
    left_out: LeftOut,
    /// Device and inode of each file that has several names.
    inodes: HashSet<(u64, u64)>,
    /// How many more entries there may be.
    most: usize,
    /// How many more bytes they may have in the manifest.
    most_listed: u64,
}

impl Walk {
    fn new() -> Self {
        Self {
            found: Vec::new(),
            left_out: LeftOut::default(),
            inodes: HashSet::new(),
            most: MOST_ENTRIES,
            most_listed: MOST_LISTED,
        }
    }

    /// Finds all of a volume, or says why none of it is taken. Not by calling itself: a pod may make directories as
    /// deep as a path is long, and a thread has no stack for that.
    fn all(&mut self, volume: Entry) -> Result<(), String> {
        let mut next = vec![volume];
        while let Some((name, path)) = next.pop() {
            let Some(metadata) = self.readable(&name, fs::symlink_metadata(&path)) else { continue };
            let kind = metadata.file_type();
            if kind.is_dir() {
                let Some(below) = self.below(&name, &path)? else { continue };
                self.add(name, path, EntryKind::Directory, FileSize::default());
                next.extend(below);
            } else if kind.is_file() {
                let size = self.size(&metadata);
                self.add(name, path, EntryKind::File, size);
            } else if kind.is_symlink() {
                let size = FileSize { length: metadata.len(), held: metadata.len() };
                self.add(name, path, EntryKind::Link, size);
            }
            // A socket, a pipe and a device have no content: the pod makes them again.
        }
        Ok(())
    }

    fn add(&mut self, name: String, path: PathBuf, kind: EntryKind, size: FileSize) {
        self.found.push((ArchiveInput { name, path, kind, most: size.length }, size));
    }

    /// What is in a directory, the last name first; `None` where it cannot be read, or has gone.
    fn below(&mut self, name: &str, path: &Path) -> Result<Option<Vec<Entry>>, String> {
        let names = match self.readable(name, children(path, self.most)) {
            Some(Some(names)) => names,
            Some(None) => {
                return Err(format!("it has more than {MOST_ENTRIES} files, directories and links"));
            }
            None => return Ok(None),
        };
        self.most = self.most.saturating_sub(names.len());
        let mut below = Vec::new();
        for own in names.into_iter().rev() {
            let path = path.join(&own);
            let Some(own) = own.to_str() else {
                let shown = format!("{name}/{}", own.as_bytes().escape_ascii());
                self.left_out.push(&shown, "its name is not UTF-8");
                continue;
            };
            let name = format!("{name}/{own}");
            if path.as_os_str().len() > LONGEST_PATH {
                self.left_out.push(&name, &format!("its path has more than {LONGEST_PATH} bytes"));
            } else {
                // Before the next name is kept: a deep directory makes each a hundred times as long as it is.
                let left = self.most_listed.checked_sub(listed(&name));
                self.most_listed = left.ok_or_else(|| {
                    format!("its names in the manifest take more than {} MiB", MOST_LISTED >> 20)
                })?;
                below.push((name, path));
            }
        }
        Ok(Some(below))
    }

    /// What was read; `None` where it is left out, or has gone meanwhile.
    fn readable<T>(&mut self, name: &str, read: io::Result<T>) -> Option<T> {
        durable_file::found(read).unwrap_or_else(|error| {
            self.left_out.push(name, &format!("it cannot be read: {error}"));
            None
        })
    }

    fn size(&mut self, file: &Metadata) -> FileSize {
        let is_known = file.nlink() > 1 && !self.inodes.insert((file.dev(), file.ino()));
        let held = if is_known { 0 } else { file.blocks().saturating_mul(BLOCK) };
        FileSize { length: file.len(), held }
    }

    fn leave_out_hollow(&mut self) {
        let sizes: Vec<_> = self.found.iter().map(|(_, size)| *size).collect();
        let hollow = hollow(&sizes);
        let mut at = 0;
        let Self { found, left_out, .. } = self;
        found.retain(|(input, size)| {
            let is_kept = !hollow.contains(&at);
            at += 1;
            if !is_kept {
                left_out.push(&input.name, &size.why());
            }
            is_kept
        });
    }

    fn needed(&self) -> VolumeSize {
        let listed: u64 = self.found.iter().map(|(input, _)| listed(&input.name)).sum();
        // A name and a link that a header has no room for take a header each, and padding.
        let of = |(input, size): &(ArchiveInput, FileSize)| {
            size.length.saturating_add(5 * OVERHEAD / 2 + input.name.len() as u64)
        };
        VolumeSize { bytes: self.found.iter().map(of).fold(listed, u64::saturating_add), listed }
    }
}

/// The names in a directory; `None` where there are more than so many.
fn children(directory: &Path, most: usize) -> io::Result<Option<Vec<OsString>>> {
    let opened = open_listed(directory, nix::libc::O_DIRECTORY)?;
    let mut names = Vec::new();
    for entry in fs::read_dir(by_descriptor(&opened))? {
        if names.len() == most {
            return Ok(None);
        }
        names.push(entry?.file_name());
    }
    Ok(Some(each_once(names)))
}

/// Sorted. A file that is removed and made again while its directory is read may be listed twice, and a restore would
/// refuse to write it twice.
fn each_once<T: Ord>(mut names: Vec<T>) -> Vec<T> {
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests;

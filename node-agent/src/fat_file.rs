//! Replaces a file of the boot partition so that fsck.vfat keeps it whole after a power cut.
//!
//! During a rename two directory entries of a FAT point to the same clusters. After a power cut fsck.vfat empties the
//! second one, so that must be the entry to delete. The new file therefore gets an entry behind the old one: free
//! entries before it, which the kernel would fill first, are filled with empty files meanwhile. The old content is
//! freed only once the new entry is on the card, or a card that kept the old entry would have it point to free
//! clusters.
//!
//! Guarantees: those of [`durable_file::replace`]; on other file systems it does nothing else. Failure: the same; if
//! the directory has more free entries than are filled, the file is replaced anyway.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use nix::sys::statfs::{MSDOS_SUPER_MAGIC, statfs};
use weaver_host::durable_file::{self, FlushError, WriteError, if_there};

/// The most holes ahead of a file that are filled.
const HOLES: usize = 64;

/// Replaces `path` whole.
///
/// # Errors
/// It cannot be written; the old one is as it was.
pub fn replace(path: &Path, content: &[u8], mode: u32) -> Result<(), WriteError> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let is_fat = statfs(directory).is_ok_and(|about| about.filesystem_type() == MSDOS_SUPER_MAGIC);
    if !is_fat {
        return durable_file::replace(path, content, mode);
    }
    // A failure here, such as a full directory, is no reason not to write.
    let filled = fill_holes(path, names_in_order);
    if let Err(error) = filled {
        tracing::warn!("sparse parts of {} were not allocated: {error}", directory.display());
    }
    // The kernel frees its clusters when the last user closes it: here, after the directory is on the card.
    let old = File::open(path);
    let replaced = durable_file::replace(path, content, mode);
    drop(old);
    (0..HOLES).for_each(|number| drop(fs::remove_file(filler(path, number))));
    replaced
}

/// Writes all of the file system of a path to its disk: without that a rename on a FAT is not there.
pub fn flush_file_system(path: &Path) -> Result<(), FlushError> {
    let flushed = File::open(path).and_then(|opened| Ok(nix::unistd::syncfs(&opened)?));
    flushed.map_err(|source| FlushError { path: path.to_owned(), source })
}

/// Fills each hole before the file that is big enough for its `.new`, and leaves one behind it.
fn fill_holes(path: &Path, order: impl Fn(&Path) -> io::Result<Vec<PathBuf>>) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    // The remains of a killed writer may be in a hole and are removed by the next write anyway: removed here, the hole
    // counts.
    if_there(fs::remove_file(durable_file_next_to(path)))?;
    for number in 0..HOLES {
        let filler = filler(path, number);
        match OpenOptions::new().write(true).create_new(true).open(&filler) {
            // An earlier writer left it: in a hole it does its work, and behind the file it does not matter.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            made => drop(made?),
        }
        let order = order(directory)?;
        let place = |of: &Path| order.iter().position(|name| name == of);
        if place(path) < place(&filler) {
            return if_there(fs::remove_file(&filler));
        }
    }
    Ok(())
}

fn names_in_order(directory: &Path) -> io::Result<Vec<PathBuf>> {
    // vfat lists them in the order of the directory.
    fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect()
}

fn durable_file_next_to(path: &Path) -> PathBuf {
    path.with_added_extension("new")
}

/// As long as the `.new`, so that it occupies as many entries of the directory.
fn filler(path: &Path, number: usize) -> PathBuf {
    path.with_added_extension(format!("g{number:02}"))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// The entries of a directory as vfat keeps them: a deleted one is a hole, which the next new one fills.
    struct Entries(RefCell<Vec<Option<PathBuf>>>);

    impl Entries {
        fn of(directory: &Path, names: &[&str]) -> Self {
            let made = |name: &&str| (!name.is_empty()).then(|| directory.join(name));
            let entries: Vec<_> = names.iter().map(made).collect();
            entries.iter().flatten().for_each(|path| fs::write(path, "old").unwrap());
            Self(RefCell::new(entries))
        }

        fn reported(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
            let mut entries = self.0.borrow_mut();
            entries.iter_mut().for_each(|entry| *entry = entry.take().filter(|path| path.exists()));
            for path in names_in_order(directory)? {
                if entries.iter().flatten().any(|known| *known == path) {
                    continue;
                }
                match entries.iter_mut().find(|entry| entry.is_none()) {
                    Some(hole) => *hole = Some(path),
                    None => entries.push(Some(path)),
                }
            }
            Ok(entries.iter().flatten().cloned().collect())
        }
    }

    /// Seen with fsck.vfat 4.2: a cmdline.txt behind a hole was empty after a cut in the middle of its rename.
    #[test]
    fn the_new_file_stands_behind_the_old_one_whatever_was_deleted_before() {
        for names in [
            &["cmdline.txt"][..],
            &["config.txt", "cmdline.txt", "", "start.elf"],
            &["", "cmdline.txt"],
            &["", "", "config.txt", "", "cmdline.txt", "", "start.elf"],
            &["cmdline.txt.g00", "", "cmdline.txt", "cmdline.txt.g07"],
            &["", "cmdline.txt", "cmdline.txt.g00"],
            &["cmdline.txt.g00", "", "cmdline.txt", "cmdline.txt.g01"],
            &["cmdline.txt.new", "cmdline.txt"],
        ] {
            let dir = tempfile::tempdir().unwrap();
            let entries = Entries::of(dir.path(), names);
            let file = dir.path().join("cmdline.txt");
            fill_holes(&file, |directory| entries.reported(directory)).unwrap();
            let before = entries.reported(dir.path()).unwrap();
            fs::write(durable_file_next_to(&file), "").unwrap();
            let after = entries.reported(dir.path()).unwrap();
            let place = |of: &Path| after.iter().position(|name| name == of).unwrap();
            assert!(place(&file) < place(&durable_file_next_to(&file)), "{names:?}: {before:?}, {after:?}");
            assert_eq!(fs::read(&file).unwrap(), b"old");
        }
    }

    #[test]
    fn elsewhere_than_on_a_fat_a_file_is_replaced_and_nothing_is_left_next_to_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("cmdline.txt");
        replace(&file, b"one", 0o644).unwrap();
        replace(&file, b"two", 0o644).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}

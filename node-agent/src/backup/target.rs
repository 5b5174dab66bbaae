//! Where a backup is written: under a temporary name next to its own, and renamed when it is whole and was read back.
//!
//! Guarantees: a file with the name is a whole backup; after a failure nothing of a new one is left, after a kill one
//! file that the next backup to the same name removes. Failure: names the file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};
use nix::sys::statfs::{FsType, MSDOS_SUPER_MAGIC, TMPFS_MAGIC, statfs};
use weaver_diagnostics::node_backup::name;
pub use weaver_diagnostics::node_backup::target::{BackupTarget, DatastoreCopy, Disk};
use weaver_host::durable_file::if_there;

use super::archive::Hashing;
use super::common::{counted, names};
use crate::facts::storage::space;
use crate::fat_file::flush_file_system;

/// Bytes of a file on a FAT at most.
const LARGEST_ON_FAT: u64 = (4 << 30) - 1;

/// Where a backup goes.
#[derive(Debug)]
pub struct BackupFile {
    pub directory: PathBuf,
    /// The name of the file.
    pub name: String,
    /// Whether a directory was named, which may contain older ones.
    pub is_directory: bool,
    temporary: PathBuf,
}

impl BackupFile {
    /// The name in a directory, or that of a file.
    ///
    /// # Errors
    /// There is neither.
    pub fn of(target: &Path, owner: &str, stamp: &str, is_encrypted: bool) -> anyhow::Result<Self> {
        let shown = target.display();
        if target.is_dir() {
            let name = name::of(owner, stamp, is_encrypted);
            let temporary = target.join(format!(".weaver-backup-{owner}.part"));
            return Ok(Self { directory: target.to_owned(), name, is_directory: true, temporary });
        }
        ensure!(
            !shown.to_string().ends_with('/'),
            "there is no directory {shown}: create it, or mount the disk there"
        );
        let name = target.file_name().and_then(|name| name.to_str());
        let name = name.with_context(|| format!("{shown} is not a file name"))?.to_owned();
        if let Ok(metadata) = fs::metadata(target) {
            let kind = metadata.file_type();
            let what = if kind.is_block_device() {
                "a disk: mount it and name a directory on it"
            } else {
                "no file"
            };
            ensure!(kind.is_file(), "{shown} is {what}");
        }
        let directory =
            target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        ensure!(
            directory.is_dir(),
            "there is no directory {}: create it, or mount the disk there",
            directory.display()
        );
        let temporary = directory.join(format!(".{name}.part"));
        Ok(Self { directory: directory.to_owned(), name, is_directory: false, temporary })
    }

    pub fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }

    /// What is known of it; `cards` are the paths whose loss the backup must survive. Of the archive `needed` bytes are
    /// known, and the datastore, of `copied` bytes, is copied to the state directory first.
    pub fn look(
        &self,
        cards: &[PathBuf],
        boot_dir: &Path,
        needed: u64,
        (state_dir, copied): (&Path, u64),
    ) -> BackupTarget {
        let device = |path: &Path| fs::metadata(path).ok().map(|metadata| metadata.dev());
        let own = device(&self.directory);
        let is_card = cards.iter().any(|card| own == device(card)) || is_of(&self.directory, TMPFS_MAGIC);
        let real = |path: &Path| fs::canonicalize(path).ok();
        let is_below =
            real(&self.directory).zip(real(boot_dir)).is_some_and(|(own, boot)| own.starts_with(boot));
        // A path on the same file system is the same disk, unless nothing is mounted there.
        let is_boot = is_below || own == device(boot_dir) && own.is_some() && !is_card;
        let disk = match (is_boot, is_card) {
            (true, _) => Disk::Boot,
            (false, true) => Disk::Card,
            (false, false) => Disk::Other,
        };
        let (size, free) = space(&self.directory).unzip();
        BackupTarget {
            shown: self.directory.display().to_string(),
            disk,
            needed,
            free,
            size: size.unwrap_or_default(),
            largest: is_of(&self.directory, MSDOS_SUPER_MAGIC).then_some(LARGEST_ON_FAT),
            copy: DatastoreCopy {
                shown: state_dir.display().to_string(),
                needed: copied,
                free: space(state_dir).map(|(_, free)| free),
                is_on_target: own.is_some() && own == device(state_dir),
            },
            ..BackupTarget::default()
        }
    }

    /// The file, empty. Until [`Self::take`] it is removed with the guard.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn begin(&self) -> anyhow::Result<(File, Unfinished)> {
        let what = || format!("cannot write {}", self.temporary.display());
        if_there(fs::remove_file(&self.temporary)).with_context(what)?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.temporary);
        Ok((file.with_context(what)?, Unfinished(self.temporary.clone())))
    }

    /// Reads the written file from its disk, and compares it with the expected hash.
    ///
    /// # Errors
    /// It is something else, or cannot be read.
    pub fn read_back(&self, written: &str) -> anyhow::Result<()> {
        let what = || format!("cannot read {} back", self.temporary.display());
        let file = self.written()?;
        // From the disk, and not from memory.
        posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).with_context(what)?;
        let mut hashing = Hashing::new(io::sink());
        io::copy(&mut counted(file, "reading back from its disk"), &mut hashing).with_context(what)?;
        let (_, read) = hashing.into_parts();
        if read != written {
            bail!(
                "what was read back from {} is not what was written: use another disk",
                self.directory.display()
            );
        }
        Ok(())
    }

    /// The file that was read back, to be read again.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn written(&self) -> anyhow::Result<File> {
        File::open(&self.temporary).with_context(|| format!("cannot read {} back", self.temporary.display()))
    }

    /// Gives the file its name, which says where it is not complete: such a one replaces none that is.
    ///
    /// # Errors
    /// It cannot be renamed; the old file keeps its name, and the new one its temporary one.
    pub fn take(&mut self, unfinished: Unfinished, is_complete: bool) -> anyhow::Result<()> {
        if !is_complete {
            self.name = name::incomplete(&self.name);
        }
        let path = self.path();
        // It was read back: it may lack its name, and not be lost.
        std::mem::forget(unfinished);
        let what = || format!("cannot name it {}: it is {}", path.display(), self.temporary.display());
        fs::rename(&self.temporary, &path).with_context(what)?;
        Ok(flush_file_system(&self.directory)?)
    }

    /// Removes the oldest ones of this node; returns their names.
    ///
    /// # Errors
    /// One cannot be removed.
    pub fn thin_out(&self, owner: &str, keep: usize, since: &str) -> anyhow::Result<Vec<String>> {
        let names = names(&self.directory)?;
        let surplus = name::surplus(&names, owner, &self.name, since, keep);
        for name in &surplus {
            let path = self.directory.join(name);
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        Ok(surplus.into_iter().map(str::to_owned).collect())
    }
}

/// Whether it is on a file system of this type: the content of a tmpfs is lost when the power is off.
fn is_of(directory: &Path, file_system: FsType) -> bool {
    statfs(directory).is_ok_and(|found| found.filesystem_type() == file_system)
}

/// Removes a file that was not finished.
#[derive(Debug)]
pub struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // What remains is removed by the next backup.
        let _ = fs::remove_file(&self.0);
    }
}

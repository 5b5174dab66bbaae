//! What making, showing and restoring a backup have in common.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use weaver_diagnostics::exit_code;
use weaver_diagnostics::k3s_upgrade::plan::UpgradeRefusal;
use weaver_diagnostics::node_backup::manifest::{BackupRoot, Damage};
use weaver_host::durable_file::if_there;
use weaver_host::progress::{Progress, Reading};

use super::archive::RestoreTargets;
use crate::upgrade::say;

/// Where the copy of the datastore is while the archive is written.
const SCRATCH: &str = "backup.part";

/// The reasons against it; nothing was written.
#[derive(Debug, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct Refused(pub Vec<UpgradeRefusal>);

fn lines(refusals: &[UpgradeRefusal]) -> String {
    refusals.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Prints what was refused, or is damaged; returns the exit code.
///
/// # Errors
/// Anything else.
pub fn refused(error: anyhow::Error, after: &str) -> anyhow::Result<u8> {
    if let Some(Refused(refusals)) = error.downcast_ref() {
        for refusal in refusals {
            say(&format!("refused: {refusal}"));
        }
    } else if error.downcast_ref::<Damage>().is_some() {
        say(&format!("refused: {error:#}"));
    } else {
        return Err(error);
    }
    say(after);
    Ok(exit_code::KNOWN_BAD)
}

/// Names the disk in an error about a full disk.
pub fn full(directory: &Path) -> impl Fn(anyhow::Error) -> anyhow::Error {
    move |error| {
        let is_full = error.chain().any(|cause| {
            let by_system = cause.downcast_ref::<io::Error>().is_some_and(|error| {
                matches!(
                    error.kind(),
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
                )
            });
            let code = cause.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code);
            by_system || code == Some(rusqlite::ErrorCode::DiskFull)
        });
        if is_full {
            let what = format!(
                "there is no space left in {}: free some, or name another directory",
                directory.display()
            );
            error.context(what)
        } else {
            error
        }
    }
}

/// A file that is read to its end, with its progress.
pub fn counted(file: File, what: &str) -> Reading<File> {
    let length = file.metadata().ok().map(|metadata| metadata.len());
    Progress::of_bytes(what, length).reading(file)
}

/// With its parents, for root alone.
///
/// # Errors
/// It cannot be made.
pub fn make_private(directory: &Path) -> anyhow::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.with_context(|| format!("cannot make {}", directory.display()))
}

/// The names in a directory.
///
/// # Errors
/// It cannot be read.
pub fn names(directory: &Path) -> anyhow::Result<Vec<String>> {
    let what = || format!("cannot read {}", directory.display());
    let entries = fs::read_dir(directory).with_context(what)?;
    entries.map(|entry| Ok(entry.with_context(what)?.file_name().to_string_lossy().into_owned())).collect()
}

/// A directory that only root reads, gone with this.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// Makes it, empty.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn make(state_dir: &Path) -> anyhow::Result<Self> {
        let path = state_dir.join(SCRATCH);
        if_there(fs::remove_dir_all(&path)).with_context(|| format!("cannot remove {}", path.display()))?;
        make_private(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What remains is removed by the next one.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Reads a backup only.
pub struct Nowhere;

impl RestoreTargets for Nowhere {
    fn target(&self, _: BackupRoot, _: &str) -> Option<(PathBuf, PathBuf)> {
        None
    }
}

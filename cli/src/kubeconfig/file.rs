//! Kubeconfigs on disk.
//!
//! Guarantees: a written file has mode 0600 and is there whole or not at all, after a crash too; a file that is
//! replaced keeps its owner and, in a merge, leaves a copy next to it; a symlink stays and its target is replaced. One
//! that another user may have put there, to be given the key, is refused. A merge takes the lock that kubectl takes for
//! its own changes, and checks for entries that it would take from other contexts, and for a CA that is not trusted
//! yet, before it writes. Failure: the file and the remedy, never its content.

use std::env;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use weaver_diagnostics::kubeconfig_export::K3S_KUBECONFIG;
use weaver_diagnostics::kubeconfig_export::authority::{NewAuthority, new_authority};
use weaver_diagnostics::kubeconfig_export::collision::{Collision, collision};
use weaver_diagnostics::kubeconfig_export::document::{Document, NotAKubeconfig};
use weaver_diagnostics::kubeconfig_export::merge::merge;
use weaver_diagnostics::text_file::{TextFile, decoded};
use weaver_host::durable_file::{self, WriteOptions, directory_of, with_suffix};
use weaver_host::platform::{self, FileOwner};

use super::authority;

/// More than any kubeconfig has.
pub const LARGEST: u64 = 4 << 20;

#[derive(Clone, Copy)]
pub struct MergeOptions {
    /// Make its context the current one.
    pub switch: bool,
    /// Replace entries that are not an earlier export of the same server with the same CA.
    pub force: bool,
}

pub fn default_kubeconfig() -> Option<PathBuf> {
    default_kubeconfigs().into_iter().next()
}

/// All that kubectl reads as the user's kubeconfig, in its order.
pub fn default_kubeconfigs() -> Vec<PathBuf> {
    let named = env::var_os("KUBECONFIG").unwrap_or_default();
    let named: Vec<_> = env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect();
    if !named.is_empty() {
        return named;
    }
    platform::home().map(|home| home.join(".kube").join("config")).into_iter().collect()
}

/// Why a kubeconfig was not read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("cannot read {}: {source}; {remedy}", path.display())]
    Read {
        path: PathBuf,
        remedy: &'static str,
        /// The operating system's error.
        source: io::Error,
    },
    /// k3s does not run on this system: the origin of that file is not known.
    #[error("{} is a file of k3s, which runs on Linux only: fetch one, `weaver kubeconfig fetch USER@HOST`, or name one with --kubeconfig", path.display())]
    NoNode { path: PathBuf },
    /// It is too large to be one.
    #[error("{} is larger than 4 MiB, too large for a kubeconfig", path.display())]
    TooLarge { path: PathBuf },
    /// It is not a kubeconfig.
    #[error("{0}; it was left as it is")]
    Content(#[from] NotAKubeconfig),
    /// An entry that the merge would take from another context.
    #[error("{}: {collision}; nothing was written", path.display())]
    Collision {
        path: PathBuf,
        /// The entry, and the remedy.
        collision: Collision,
    },
    /// The merge would have kubectl trust a CA that it does not yet trust for this server.
    #[error("{}", authority::refused(path, new).join("\n  "))]
    Authority { path: PathBuf, new: Box<NewAuthority> },
    /// There is something that may not be replaced.
    #[error("{} exists: name another file, or replace it with --force", path.display())]
    Exists { path: PathBuf },
    /// There is something that is not a file.
    #[error("{} is not a regular file: name one, or leave the flag out and redirect", path.display())]
    NotRegular { path: PathBuf },
    /// A symlink without its target.
    #[error("{} is a symlink that points to nothing: name its target", path.display())]
    Dangling { path: PathBuf },
    /// Another user may have put it there to be given the key.
    #[error("{} belongs to another user, in a directory where others can write: that user could read the key; remove it, or name another file", path.display())]
    Planted { path: PathBuf },
    /// kubectl or another export changes it.
    #[error("{} is locked by another program; if none is running, remove {}", path.display(), lock.display())]
    Locked { path: PathBuf, lock: PathBuf },
    /// A step of writing failed.
    #[error("cannot write {}: {source}; {}, the file is as it was", path.display(), way_out(source))]
    Write {
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl FileError {
    /// Whether trying again cannot help.
    pub const fn is_refusal(&self) -> bool {
        !matches!(self, Self::Read { .. } | Self::Write { .. } | Self::Locked { .. })
    }
}

fn way_out(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied if cfg!(windows) => {
            "close what has it open and make it writable, or name another file"
        }
        ErrorKind::PermissionDenied => "run this as the owner of its directory, or name another file",
        ErrorKind::NotFound => "create its directory first",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free space, or name a file elsewhere",
        ErrorKind::InvalidFilename => "name another file",
        _ => "name a file elsewhere",
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct MergeOutcome {
    /// The copy of the old file; none where there was none or nothing changed.
    pub backup: Option<PathBuf>,
    /// Whether anything was written.
    pub changed: bool,
}

/// Reads a kubeconfig as text. `denied` is the remedy where the caller may not.
pub fn read(path: &Path, denied: &'static str) -> Result<TextFile, FileError> {
    let fault = |source: io::Error| FileError::Read {
        path: path.to_owned(),
        remedy: match source.kind() {
            // The error of Windows for a directory.
            ErrorKind::PermissionDenied if !path.is_dir() => denied,
            ErrorKind::NotFound if path.ends_with("k3s.yaml") => {
                "k3s writes it when it starts; is it running here, or is there another file?"
            }
            ErrorKind::NotFound => {
                "name one that is there, or fetch one: `weaver kubeconfig fetch USER@HOST`"
            }
            ErrorKind::InvalidData => "a kubeconfig is text: name one",
            _ => "name a kubeconfig",
        },
        source,
    };
    if path == Path::new(K3S_KUBECONFIG) && !platform::CAN_BE_NODE {
        return Err(FileError::NoNode { path: path.to_owned() });
    }
    let file = File::open(path).map_err(fault)?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(fault)?;
    if bytes.len() as u64 > LARGEST {
        return Err(FileError::TooLarge { path: path.to_owned() });
    }
    let text = decoded(&bytes).ok_or_else(|| fault(ErrorKind::InvalidData.into()))?;
    Ok(TextFile::new(path.display().to_string(), text))
}

/// Reads those of several kubeconfigs that exist, as kubectl does; where none does, the error is of the first.
pub fn read_all(paths: &[PathBuf], denied: &'static str) -> Result<Vec<TextFile>, FileError> {
    // What cannot be looked up is not missing.
    let is_there = |path: &&PathBuf| path.try_exists().unwrap_or(true);
    let there: Vec<_> = paths.iter().filter(is_there).collect();
    let wanted = if there.is_empty() { paths.iter().take(1).collect() } else { there };
    wanted.into_iter().map(|path| read(path, denied)).collect()
}

/// Writes a kubeconfig to a file of its own. One that exists is replaced only with `force`.
pub fn write(path: &Path, document: &Document, force: bool) -> Result<(), FileError> {
    let (target, old) = target(path)?;
    if old.is_some() && !force {
        return Err(FileError::Exists { path: path.to_owned() });
    }
    replace(&target, &document.to_yaml(), old.as_ref())
}

/// Merges a kubeconfig into the one at `path`, which need not exist. `next_to` are the files that kubectl
/// reads with it.
pub fn merge_into(
    path: &Path,
    exported: &Document,
    how: MergeOptions,
    next_to: &[PathBuf],
    now: Timestamp,
) -> Result<MergeOutcome, FileError> {
    let failed = |source| FileError::Write { path: path.to_owned(), source };
    platform::create_directories(directory_of(path), 0o700).map_err(failed)?;
    let _lock = KubeconfigLock::take(path)?;
    let (target, old) = target(path)?;
    let text = old.as_ref().map(|_| read(path, "run this as its owner, or name another file")).transpose()?;
    let theirs = text.as_ref().map_or_else(|| Ok(Document::empty()), Document::parse)?;
    let mut whole = theirs.clone();
    for file in next_to.iter().filter(|file| file.exists()) {
        whole = whole.next_to(&Document::parse(&read(file, "run this as its owner")?)?);
    }
    // Before anything else that --force allows: anyone who passes it must have seen this first.
    if let Some(new) = new_authority(&whole, exported).filter(|_| !how.force) {
        return Err(FileError::Authority { path: path.to_owned(), new: Box::new(new) });
    }
    if let Some(collision) = collision(&whole, exported, how.force) {
        return Err(FileError::Collision { path: path.to_owned(), collision });
    }
    let merged = merge(&theirs, exported, how.switch);
    let (Some(metadata), Some(text)) = (old, text) else {
        replace(&target, &merged.to_yaml(), None)?;
        return Ok(MergeOutcome { backup: None, changed: true });
    };
    let is_private = platform::owner(&metadata).mode.is_none_or(|mode| mode & 0o777 & !0o700 == 0);
    if merged == theirs && is_private {
        return Ok(MergeOutcome { backup: None, changed: false });
    }
    let backup = back_up(&target, &text.text, &metadata, now)?;
    replace(&target, &merged.to_yaml(), Some(&metadata))
        // It would be one more copy of the keys, and of no use.
        .inspect_err(|_| drop(fs::remove_file(&backup)))?;
    Ok(MergeOutcome { backup: Some(backup), changed: true })
}

/// The file behind symlinks, and what is there.
fn target(path: &Path) -> Result<(PathBuf, Option<Metadata>), FileError> {
    let failed = |source| FileError::Write { path: path.to_owned(), source };
    platform::possible(path).map_err(failed)?;
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {
            let target = platform::canonicalize(path).map_err(failed)?;
            let first = fs::symlink_metadata(path).map_err(failed)?;
            let link = platform::canonicalize(directory_of(path)).map_err(failed)?;
            for (found, directory) in [(&first, link.as_path()), (&metadata, directory_of(&target))] {
                if may_be_planted(found, directory).map_err(failed)? {
                    return Err(FileError::Planted { path: path.to_owned() });
                }
            }
            Ok((target, Some(metadata)))
        }
        Ok(_) => Err(FileError::NotRegular { path: path.to_owned() }),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(error)),
        Err(_) if fs::symlink_metadata(path).is_ok() => Err(FileError::Dangling { path: path.to_owned() }),
        Err(_) => Ok((path.to_owned(), None)),
    }
}

/// May another user have put the file there that was `found` in a directory, or a directory on the way to it?
fn may_be_planted(found: &Metadata, directory: &Path) -> io::Result<bool> {
    let mut owner = platform::owner(found);
    for directory in directory.ancestors() {
        let of_directory = platform::owner(&fs::metadata(directory)?);
        if is_planted(owner, of_directory, platform::caller()) {
            return Ok(true);
        }
        owner = of_directory;
    }
    Ok(false)
}

/// May another user than the caller have put a file into this directory? Not where only the owner of the directory can
/// write, as in a home, and not that owner.
fn is_planted(file: FileOwner, directory: FileOwner, caller: Option<u32>) -> bool {
    let is_shared = directory.mode.is_some_and(|mode| mode & 0o022 != 0);
    file.uid != caller && file.uid != directory.uid && is_shared
}

/// Readable by its owner only: the caller or, with sudo in a home or in a directory that sets the group, the owner of
/// the old file.
fn private(old: Option<&Metadata>) -> WriteOptions<'static> {
    let owner = old.map(platform::owner);
    WriteOptions {
        uid: owner.and_then(|owner| owner.uid),
        gid: owner.and_then(|owner| owner.gid),
        suffix: ".weaver-new",
        ..WriteOptions::mode(0o600)
    }
}

fn replace(path: &Path, text: &str, old: Option<&Metadata>) -> Result<(), FileError> {
    durable_file::replace_as(path, text.as_bytes(), &private(old))
        .map_err(|error| FileError::Write { path: error.path, source: error.source })
}

fn back_up(path: &Path, text: &str, old: &Metadata, now: Timestamp) -> Result<PathBuf, FileError> {
    let name = with_suffix(path, &format!(".bak-{}", now.strftime("%Y%m%dT%H%M%SZ")));
    // Two merges in one second keep two copies.
    let mut names =
        std::iter::once(name.clone()).chain((1..100).map(|n| with_suffix(&name, &format!(".{n}"))));
    loop {
        let Some(backup) = names.next() else {
            return Err(FileError::Write { path: name, source: ErrorKind::AlreadyExists.into() });
        };
        match durable_file::create(&backup, text.as_bytes(), &private(Some(old))) {
            Ok(()) => return Ok(backup),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(source) => {
                drop(fs::remove_file(&backup));
                return Err(FileError::Write { path: backup, source });
            }
        }
    }
}

/// kubectl's lock for changes of a kubeconfig; gone when dropped.
struct KubeconfigLock(PathBuf);

impl KubeconfigLock {
    fn take(path: &Path) -> Result<Self, FileError> {
        let lock = with_suffix(path, ".lock");
        match platform::create_new(&lock) {
            Ok(_) => Ok(Self(lock)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Err(FileError::Locked { path: path.to_owned(), lock })
            }
            Err(source) => Err(FileError::Write { path: path.to_owned(), source }),
        }
    }
}

impl Drop for KubeconfigLock {
    fn drop(&mut self) {
        // The next run names it, should it stay.
        drop(fs::remove_file(&self.0));
    }
}

#[cfg(test)]
mod tests;

//! The file of a backup: a tar archive whose last member is the manifest.
//!
//! Guarantees: nothing is written outside of the directories named; what is read to the end has the hashes of its
//! manifest. Failure: names the member.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{
    DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown, lchown, symlink,
};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use sha2::{Digest as _, Sha256};
use tar::{Builder, Entry, EntryType, Header};
use weaver_diagnostics::finding_text::clean;
use weaver_diagnostics::node_backup::left_out::LeftOut;
use weaver_diagnostics::node_backup::manifest::{BackupManifest, BackupRoot, Damage, MANIFEST};
use weaver_host::durable_file;
use weaver_host::progress::Progress;
use weaver_host::tar_headers::HeadersLimit;

pub use super::input::{ArchiveInput, EntryKind};

/// Bytes of a manifest; one of a file that was tampered with must not fill the memory.
const MANIFEST_LIMIT: u64 = 64 << 20;
/// Bytes of a member in addition to its content: a header, and the padding of a block.
pub const OVERHEAD: u64 = 1024;

/// An archive while it is written.
pub struct ArchiveWriter<W: Write> {
    archive: Builder<W>,
    hashes: BTreeMap<String, String>,
    left_out: LeftOut,
    progress: Progress,
}

impl<W: Write> ArchiveWriter<W> {
    pub fn new(to: W, progress: Progress) -> Self {
        Self { archive: Builder::new(to), hashes: BTreeMap::new(), left_out: LeftOut::default(), progress }
    }

    /// Adds a member. What of a volume has gone since it was listed is none, and what cannot be read is left out.
    ///
    /// # Errors
    /// It cannot be read and is of the node itself, or the archive cannot be written.
    pub fn add(&mut self, source: &ArchiveInput) -> anyhow::Result<()> {
        self.progress.more(OVERHEAD);
        let added =
            if source.kind == EntryKind::File { self.add_file(source) } else { self.add_entry(source) };
        added.with_context(|| format!("cannot add {}", shown(&source.path)))
    }

    fn add_file(&mut self, source: &ArchiveInput) -> io::Result<()> {
        let opened = source.open().and_then(|file| Ok((file.metadata()?, file)));
        let Some((metadata, file)) = self.found(source, opened)? else { return Ok(()) };
        let mut header = Header::new_gnu();
        header.set_metadata(&metadata);
        // A file of a volume may grow or shrink meanwhile: the archive gets as many bytes as the header says, and
        // no more than there was room for.
        let length = metadata.len().min(source.most);
        header.set_size(length);
        let mut failed = None;
        let read = UntilError { inner: file, error: source.is_of_pod().then_some(&mut failed) };
        let read = self.progress.reading(read.chain(io::repeat(0)));
        let mut exact = Hashing::new(read.take(length));
        self.archive.append_data(&mut header, &source.name, &mut exact)?;
        self.hashes.insert(source.name.clone(), exact.hash());
        if let Some(error) = failed {
            self.left_out.push(&source.name, &format!("its end, which cannot be read: {error}"));
        }
        Ok(())
    }

    fn add_entry(&mut self, source: &ArchiveInput) -> io::Result<()> {
        let Some((metadata, link)) = self.found(source, source.look())? else { return Ok(()) };
        let mut header = Header::new_gnu();
        header.set_metadata(&metadata);
        header.set_size(0);
        if let Some(to) = link {
            header.set_entry_type(EntryType::Symlink);
            return self.archive.append_link(&mut header, &source.name, to);
        }
        header.set_entry_type(EntryType::Directory);
        self.archive.append_data(&mut header, format!("{}/", source.name), io::empty())
    }

    /// What was found of a member; `None` where it is left out, or has gone from its volume.
    fn found<T>(&mut self, source: &ArchiveInput, found: io::Result<T>) -> io::Result<Option<T>> {
        if !source.is_of_pod() {
            return found.map(Some);
        }
        Ok(durable_file::found(found).unwrap_or_else(|error| {
            self.left_out.push(&source.name, &format!("it cannot be read: {error}"));
            None
        }))
    }

    /// Adds the manifest with the hashes of all members, and ends the archive.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end(mut self, manifest: BackupManifest) -> anyhow::Result<(W, BackupManifest)> {
        let mut manifest = BackupManifest { members: self.hashes, ..manifest };
        manifest.left_out.join(self.left_out);
        let text = serde_json::to_string_pretty(&manifest).context("writing the manifest as JSON")? + "\n";
        ensure!(
            text.len() as u64 <= MANIFEST_LIMIT,
            "it would have {} files, which is too many for one backup: remove those that k3s does not need",
            manifest.members.len()
        );
        let mut header = Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        self.archive
            .append_data(&mut header, MANIFEST, text.as_bytes())
            .context("cannot add the manifest")?;
        let to = self.archive.into_inner().context("cannot end the archive")?;
        Ok((to, manifest))
    }
}

/// Reads to the end, or to the first error where there is a variable to keep it in.
pub struct UntilError<'e, R> {
    pub inner: R,
    pub error: Option<&'e mut Option<io::Error>>,
}

impl<R: Read> Read for UntilError<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match (self.inner.read(buffer), &mut self.error) {
            (Err(error), Some(kept)) if error.kind() != io::ErrorKind::Interrupted => {
                **kept = Some(error);
                Ok(0)
            }
            (read, _) => read,
        }
    }
}

/// Where members are put.
pub trait RestoreTargets {
    /// The directory of the part, and the member's path below; `None` for one that is only read.
    fn target(&self, part: BackupRoot, below: &str) -> Option<(PathBuf, PathBuf)>;
    /// Whether members keep their owners.
    fn keeps_owners(&self) -> bool {
        false
    }
}

/// Reads a backup to its end, writes its members to their targets, and checks all of it.
///
/// # Errors
/// [`Damage`], or a member cannot be written.
pub fn read(from: impl Read, targets: &impl RestoreTargets) -> anyhow::Result<BackupManifest> {
    let limit = HeadersLimit::default();
    let mut archive = tar::Archive::new(limit.over(from));
    let mut hashes = FileHashes::default();
    let mut entries = archive.entries().context("reading a backup from its beginning")?;
    while let Some(entry) = limit.next_of(&mut entries) {
        let mut entry = entry.map_err(|error| damage(&error, hashes.by_name.is_empty()))?;
        let name = entry.path_bytes().into_owned();
        let name = String::from_utf8(name).map_err(|_| Damage::Path("that is not UTF-8".to_owned()))?;
        if name == MANIFEST {
            let mut text = Vec::new();
            let size = entry.size();
            let read = (&mut entry).take(MANIFEST_LIMIT).read_to_end(&mut text);
            read.map_err(|error| damage(&error, false))?;
            if (text.len() as u64) < size {
                bail!(Damage::CutShort);
            }
            let manifest = BackupManifest::parse(&text)?;
            manifest.agrees_with(&hashes.by_name)?;
            return Ok(manifest);
        }
        let (part, below) = BackupRoot::of(&name)
            .map_err(|why| if hashes.by_name.is_empty() { Damage::NoBackup } else { why })?;
        let target = targets.target(part, below);
        match entry.header().entry_type() {
            EntryType::Directory => {
                if let Some((root, path)) = target {
                    make_directory(&root, &path, entry.header(), targets.keeps_owners())?;
                }
            }
            EntryType::Symlink if part == BackupRoot::Volumes => {
                if let Some((root, path)) = target {
                    link(&root, &path, &entry, targets.keeps_owners())?;
                }
            }
            EntryType::Regular => {
                let hash = file(target, &mut entry, targets.keeps_owners())?;
                hashes.add(name, hash)?;
            }
            _ => bail!(Damage::Path(name.escape_debug().to_string())),
        }
    }
    bail!(if hashes.by_name.is_empty() { Damage::NoBackup } else { Damage::CutShort })
}

/// The hashes of the files of an archive: no more than a manifest can list, for they are in memory.
struct FileHashes {
    by_name: BTreeMap<String, String>,
    /// Bytes that are left of the manifest.
    left: u64,
}

impl Default for FileHashes {
    fn default() -> Self {
        Self { by_name: BTreeMap::new(), left: MANIFEST_LIMIT }
    }
}

impl FileHashes {
    fn add(&mut self, name: String, hash: String) -> Result<(), Damage> {
        let listed = (name.len() + hash.len()) as u64;
        let too_many = || Damage::Broken("it has more files than a manifest can list".to_owned());
        self.left = self.left.checked_sub(listed).ok_or_else(too_many)?;
        self.by_name.insert(name, hash);
        Ok(())
    }
}

fn damage(error: &io::Error, is_first: bool) -> Damage {
    let said = error.to_string();
    match error.kind() {
        _ if is_first => Damage::NoBackup,
        io::ErrorKind::UnexpectedEof => Damage::CutShort,
        // The error of `tar` for a truncated header.
        _ if said.contains("entire block") => Damage::CutShort,
        _ => Damage::Broken(said),
    }
}

/// Reads a file to its end, writes it where it has a target, and returns its hash.
fn file(
    target: Option<(PathBuf, PathBuf)>,
    entry: &mut Entry<'_, impl Read>,
    keeps_owners: bool,
) -> anyhow::Result<String> {
    let header = entry.header().clone();
    let size = entry.size();
    let mut content = Hashing::new(entry);
    let read = if let Some((root, path)) = target {
        let path = within(&root, &path)?;
        let what = || format!("cannot write {}", shown(&path));
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let mut made = made.with_context(what)?;
        let read = copy(&mut content, &mut made).with_context(what)?;
        settle(&made, &header, keeps_owners).with_context(what)?;
        read
    } else {
        copy(&mut content, &mut io::sink()).context("cannot read the backup")?
    };
    if read < size {
        bail!(Damage::CutShort);
    }
    Ok(content.hash())
}

/// Distinguishes a backup that cannot be read from a target that cannot be written.
fn copy(from: &mut impl Read, to: &mut impl Write) -> anyhow::Result<u64> {
    let mut buffer = vec![0; 1 << 18];
    let mut all = 0;
    loop {
        let count = from.read(&mut buffer).map_err(|error| damage(&error, false))?;
        if count == 0 {
            return Ok(all);
        }
        to.write_all(&buffer[..count])?;
        all += count as u64;
    }
}

fn make_directory(root: &Path, path: &Path, header: &Header, keeps_owners: bool) -> anyhow::Result<()> {
    let path = within(root, path)?;
    let what = || format!("cannot make {}", shown(&path));
    match fs::create_dir(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.with_context(what)?,
    }
    let flags = nix::libc::O_DIRECTORY | nix::libc::O_NOFOLLOW;
    let made = OpenOptions::new().read(true).custom_flags(flags).open(&path).with_context(what)?;
    settle(&made, header, keeps_owners).with_context(what)
}

fn link(root: &Path, path: &Path, entry: &Entry<'_, impl Read>, keeps_owners: bool) -> anyhow::Result<()> {
    let path = within(root, path)?;
    let what = || format!("cannot make {}", shown(&path));
    let to = entry.link_name().with_context(what)?.with_context(what)?;
    symlink(to, &path).with_context(what)?;
    if keeps_owners {
        let (user, group) = owner(entry.header()).with_context(what)?;
        lchown(&path, Some(user), Some(group)).with_context(what)?;
    }
    Ok(())
}

/// The path below `root`, whose directory is made; no link leads out of it, and nothing is made before that is known.
fn within(root: &Path, below: &Path) -> anyhow::Result<PathBuf> {
    let path = root.join(below);
    let parent = path.parent().unwrap_or(root);
    let make = |directory: &Path| {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        made.with_context(|| format!("cannot make {}", shown(directory)))
    };
    make(root)?;
    let real_root = fs::canonicalize(root)?;
    let is_there = |path: &&Path| path.symlink_metadata().is_ok();
    let deepest = parent.ancestors().find(is_there).unwrap_or(root);
    if !fs::canonicalize(deepest).is_ok_and(|real| real.starts_with(real_root)) {
        bail!(Damage::Path(below.display().to_string()));
    }
    make(parent)?;
    Ok(path)
}

/// Sets the owner, where wanted, and the mode that it had, of what is open: a path may lead elsewhere by now.
fn settle(made: &File, header: &Header, keeps_owners: bool) -> io::Result<()> {
    if keeps_owners {
        let (user, group) = owner(header)?;
        fchown(made, Some(user), Some(group))?;
    }
    made.set_permissions(Permissions::from_mode(header.mode()? & 0o7777))
}

/// A path in an error: pods have named the files of their volumes.
fn shown(path: &Path) -> String {
    clean(&path.display().to_string())
}

fn owner(header: &Header) -> io::Result<(u32, u32)> {
    let id = |id: io::Result<u64>| id.and_then(|id| u32::try_from(id).map_err(io::Error::other));
    Ok((id(header.uid())?, id(header.gid())?))
}

/// Hashes what passes through it.
pub struct Hashing<T> {
    inner: T,
    hash: Sha256,
}

impl<T> Hashing<T> {
    pub fn new(inner: T) -> Self {
        Self { inner, hash: Sha256::new() }
    }

    /// The hash of what has passed.
    pub fn hash(self) -> String {
        format!("{:x}", self.hash.finalize())
    }

    /// What is behind it, and the hash.
    pub fn into_parts(self) -> (T, String) {
        (self.inner, format!("{:x}", self.hash.finalize()))
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(bytes)?;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_no_more_files_than_a_manifest_can_list() {
        let mut hashes = FileHashes { left: 2 * 70 + 69, ..FileHashes::default() };
        let hash = || "0".repeat(64);
        for name in ["k3s/1a", "k3s/1b"] {
            hashes.add(name.to_owned(), hash()).unwrap();
        }
        let error = hashes.add("k3s/1c".to_owned(), hash()).unwrap_err();
        assert!(error.to_string().contains("more files than a manifest can list"), "{error}");
        assert_eq!(hashes.by_name.len(), 2);
    }
}

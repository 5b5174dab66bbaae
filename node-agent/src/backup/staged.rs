//! A backup that is unpacked next to what it replaces.
//!
//! Guarantees: until it is put in place only root reaches it; nothing is written outside of the directories that a
//! restore replaces. Failure: names the file; what was there is unchanged.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use weaver_diagnostics::node_backup::manifest::{BackupManifest, BackupRoot, printed};
use weaver_diagnostics::node_backup::record::{PathReturn, PathSwap, RestorePhase, RestoreRecord};

use super::archive::{self, RestoreTargets};
use super::journal::boot;
use super::members::BackupLayout;
use super::seal::DecryptionArgs;
use super::show::open;
use super::{datastore, swap};
use crate::fat_file::flush_file_system;
use crate::host_root::HostRoot;

const RESTORED: &str = "restored";
const KEPT: &str = "before-restore";
/// What the kubelet showed to the cluster that was here.
const STALE: &str = "agent/client-kubelet.crt";

/// The manifest of a whole backup, and the parts of which there is anything, were it a directory alone.
///
/// # Errors
/// It is damaged, or cannot be read.
pub fn contents(
    file: &Path,
    keys: &DecryptionArgs,
) -> anyhow::Result<(BackupManifest, BTreeSet<BackupRoot>)> {
    let parts = PartsSeen::default();
    let manifest = archive::read(open(file, keys)?, &parts).with_context(|| file.display().to_string())?;
    Ok((manifest, parts.0.into_inner()))
}

/// Reads a backup only, and notes its parts.
#[derive(Default)]
struct PartsSeen(RefCell<BTreeSet<BackupRoot>>);

impl RestoreTargets for PartsSeen {
    fn target(&self, part: BackupRoot, _: &str) -> Option<(PathBuf, PathBuf)> {
        self.0.borrow_mut().insert(part);
        None
    }
}

/// A backup next to what is there.
#[derive(Clone)]
pub struct Laid {
    pub layout: BackupLayout,
    pub root: HostRoot,
}

impl Laid {
    /// The moves that will be made for a backup of these parts.
    pub fn record(&self, manifest: &BackupManifest, parts: &BTreeSet<BackupRoot>) -> RestoreRecord {
        let mut swaps = Vec::new();
        for part in parts.iter().copied() {
            let directory = self.layout.directory(part);
            let next_to = |path: &Path, is_on_fat| PathSwap {
                target: path.display().to_string(),
                restored: self.next_to(part, path, RESTORED),
                kept: self.next_to(part, path, KEPT),
                is_on_fat,
            };
            match part {
                BackupRoot::State | BackupRoot::WeaverToml => {
                    let files = manifest.members.keys().filter_map(|name| name.strip_prefix(part.prefix()));
                    let is_on_fat = part == BackupRoot::WeaverToml;
                    swaps.extend(files.map(|name| next_to(&directory.join(name), is_on_fat)));
                }
                _ => swaps.push(next_to(&directory, false)),
            }
        }
        RestoreRecord {
            begun: Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            node: printed(&manifest.node),
            made: printed(&manifest.made),
            returns: self.returns(manifest, &swaps),
            swaps,
            stale: vec![self.layout.data_dir.join(STALE).display().to_string()],
            boot: boot(&self.root),
            phase: RestorePhase::Swap,
        }
    }

    /// The volumes of this node that the backup has left out as a whole: without them k3s would make them again, empty.
    fn returns(&self, manifest: &BackupManifest, swaps: &[PathSwap]) -> Vec<PathReturn> {
        let volumes = self.layout.directory(BackupRoot::Volumes);
        let Some(swap) = swaps.iter().find(|swap| Path::new(&swap.target) == volumes) else {
            return Vec::new();
        };
        // The manifest may be another's: no name leads elsewhere.
        let is_name = |name: &&String| {
            !name.contains('/') && BackupRoot::of(&format!("{}{name}", BackupRoot::Volumes.prefix())).is_ok()
        };
        let returns = manifest.left_out.whole.keys().filter(is_name).map(|name| PathReturn {
            target: format!("{}/{name}", swap.target),
            kept: format!("{}/{name}", swap.kept),
        });
        returns.filter(|volume| self.root.exists(&volume.target)).collect()
    }

    /// On the same file system, where a rename copies nothing; a file of the boot partition goes to the state
    /// directory.
    fn next_to(&self, part: BackupRoot, path: &Path, suffix: &str) -> String {
        let own = path.with_added_extension(suffix);
        let path = match (part, own.file_name()) {
            (BackupRoot::WeaverToml, Some(name)) => self.layout.state_dir.join(name),
            _ => own,
        };
        path.display().to_string()
    }

    /// Writes all of the backup next to what is there, onto the disk, and checks it.
    ///
    /// # Errors
    /// It is damaged, or cannot be written.
    pub fn stage(&self, file: &Path, keys: &DecryptionArgs, record: &RestoreRecord) -> anyhow::Result<()> {
        self.discard(record);
        let manifest = archive::read(open(file, keys)?, self).context("nothing was changed")?;
        let restored = |path: &str| {
            let swap = record.swaps.iter().find(|swap| swap.target == path);
            swap.map(|swap| self.root.real(&swap.restored))
        };
        let server = restored(&self.layout.directory(BackupRoot::Server).display().to_string());
        let server = server.context("the backup holds no server")?;
        let found = datastore::check(&server.join("db/state.db"))?;
        if found.revision != manifest.revision {
            bail!(
                "its datastore has revision {}, and its manifest says {}",
                found.revision,
                manifest.revision
            );
        }
        let configuration = self.layout.directory(BackupRoot::Configuration);
        if let Some(staged) = restored(&configuration.display().to_string()) {
            // Others than root read a kubeconfig in it, where its owner has it so.
            let present = fs::metadata(self.root.real(&configuration));
            let mode = present.map_or(0o755, |metadata| metadata.permissions().mode() & 0o7777);
            fs::set_permissions(&staged, Permissions::from_mode(mode))
                .with_context(|| format!("cannot set the mode of {}", staged.display()))?;
        }
        for swap in &record.swaps {
            flush_file_system(&self.root.real(&swap.restored))?;
        }
        Ok(())
    }

    /// Removes the staged files; what remains is removed before the next are staged.
    pub fn discard(&self, record: &RestoreRecord) {
        for swap in &record.swaps {
            let _ = swap::remove(&self.root.real(&swap.restored));
        }
    }
}

impl RestoreTargets for Laid {
    fn target(&self, part: BackupRoot, below: &str) -> Option<(PathBuf, PathBuf)> {
        let directory = self.layout.directory(part);
        Some(match part {
            BackupRoot::State | BackupRoot::WeaverToml => {
                let path = PathBuf::from(self.next_to(part, &directory.join(below), RESTORED));
                let (parent, name) = (path.parent()?, path.file_name()?);
                (self.root.real(parent), PathBuf::from(name))
            }
            _ => {
                let path = self.next_to(part, &directory, RESTORED);
                let root = self.root.real(&path);
                make_for_root(&root).ok()?;
                (root, PathBuf::from(below))
            }
        })
    }

    fn keeps_owners(&self) -> bool {
        nix::unistd::geteuid().is_root()
    }
}

/// A directory that no other account reaches: what is in it may be open to all, as volumes are, and no one may put a
/// link into its way while it is written. k3s makes `server` and `storage` like that, too.
fn make_for_root(directory: &Path) -> io::Result<()> {
    if let Some(parent) = directory.parent() {
        fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

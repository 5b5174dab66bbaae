//! `backup` and `restore`: the state of a server's k3s in one file, and back onto a card.
//!
//! `weaver_diagnostics::node_backup` decides what may be written and restored; this module collects the facts and
//! acts. Guarantees: the datastore in a backup is one whole state of it, opened and checked before it is archived; a
//! file that has the name of a backup was read back from its disk; k3s runs on; what a pod has in its volume ends no
//! backup. Failure: nothing of the new backup is left, and the error names the file.

mod archive;
pub mod args;
pub mod command;
mod common;
mod datastore;
mod input;
pub mod journal;
mod members;
pub mod restore;
pub mod schedule;
mod seal;
mod show;
mod staged;
mod swap;
mod target;
mod volumes;

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use weaver_diagnostics::k3s_upgrade::Role;
use weaver_diagnostics::k3s_upgrade::plan::UpgradeRefusal;
use weaver_diagnostics::node_backup::manifest::{BackupManifest, BackupRoot, DATASTORE, FORMAT};
use weaver_diagnostics::node_backup::name;
use weaver_host::progress::Progress;

use crate::facts::identity;
use crate::host::Host;
use crate::k3s_version::version_of;
use crate::node_lock::NodeLock;

use archive::{ArchiveWriter, Hashing};
use common::{Nowhere, Scratch, counted, full, make_private};
pub use common::{Refused, names};
use datastore::DatastoreContents;
use journal::ensure_whole;
use members::BackupLayout;
use seal::Seal;
use target::{BackupFile, BackupTarget};
use volumes::VolumeMembers;

/// What holds the lock of the node.
const WHAT: &str = "a backup";
/// Where the backups are that are made before k3s is upgraded.
const BEFORE_UPGRADE: &str = "backups";
/// The form of a stamp in a name.
const STAMP: &str = "%Y%m%dT%H%M%SZ";
/// How many of these stay.
const KEPT_BEFORE_UPGRADE: usize = 2;

/// The options of a backup.
#[derive(Debug, Clone)]
pub struct BackupRequest {
    pub host: Host,
    /// The path as the host names it.
    pub state_dir: PathBuf,
    /// The installed k3s, as it really is.
    pub program: PathBuf,
    /// A file or a directory, as it really is.
    pub target: PathBuf,
    /// Whether local-path volumes are wanted, too.
    pub volumes: bool,
    /// How many of this node stay in the directory.
    pub keep: Option<usize>,
    /// The stamp of the first that may be removed; `None`: the oldest.
    pub since: Option<String>,
    pub must_be_mounted: bool,
    /// For whom it is encrypted.
    pub seal: Seal,
}

#[derive(Debug)]
pub struct MadeBackup {
    pub path: PathBuf,
    /// The file that was named, where the backup is not complete and so has another name.
    pub renamed: Option<PathBuf>,
    pub bytes: u64,
    pub manifest: BackupManifest,
    /// The directory in which no volume was found, where they are wanted.
    pub no_volumes: Option<PathBuf>,
    /// The names of older ones that were removed.
    pub removed: Vec<String>,
    /// Why one was not.
    pub not_removed: Option<String>,
}

/// Makes a backup of this node.
///
/// # Errors
/// [`Refused`], or a step failed; nothing of it is left.
pub async fn to(request: BackupRequest) -> anyhow::Result<MadeBackup> {
    within(None, request).await
}

/// The same within work that holds the lock of the node.
async fn within(held: Option<NodeLock>, request: BackupRequest) -> anyhow::Result<MadeBackup> {
    let k3s = version_of(&request.program).await.ok().map(|version| version.to_string());
    tokio::task::spawn_blocking(move || make(&request, k3s, held)).await.context("making a backup")?
}

/// Makes one before k3s is upgraded or updated, on this card: it protects against the upgrade and not against the
/// card's failure. Returns the message: where it is, or why this node has nothing to save. The upgrade holds the lock.
///
/// # Errors
/// As [`to`].
pub async fn before_upgrade(
    held: &NodeLock,
    host: &Host,
    state_dir: &Path,
    program: &Path,
) -> anyhow::Result<String> {
    let layout = BackupLayout::of(host, state_dir);
    let never_ran = || (!host.root.exists(layout.datastore())).then(|| "there is none yet".to_owned());
    let nothing = of_the_node(host, &layout).map(|refusal| refusal.to_string());
    if let Some(why) = nothing.or_else(never_ran) {
        return Ok(format!("The state of k3s is not saved: {why}"));
    }
    let target = host.root.real(state_dir).join(BEFORE_UPGRADE);
    let is_made = make_private(&target);
    let request = BackupRequest {
        host: host.clone(),
        state_dir: state_dir.to_owned(),
        program: program.to_owned(),
        target,
        volumes: false,
        keep: Some(KEPT_BEFORE_UPGRADE),
        since: None,
        must_be_mounted: false,
        seal: Seal::Open,
    };
    let made = match is_made.and_then(|()| held.share()) {
        Ok(held) => within(Some(held), request).await,
        Err(error) => Err(error),
    };
    let made = made.context("no backup could be made, and nothing was changed: `--no-backup` skips it")?;
    Ok(format!("The state of k3s is saved in {}", made.path.display()))
}

fn make(request: &BackupRequest, k3s: Option<String>, held: Option<NodeLock>) -> anyhow::Result<MadeBackup> {
    let BackupRequest { host, state_dir, target, volumes, keep, since, seal, .. } = request;
    let layout = BackupLayout::of(host, state_dir);
    let of_volumes = || volumes.then(|| members::volumes_elsewhere(host, &layout)).flatten();
    if let Some(refusal) = of_the_node(host, &layout).or_else(of_volumes) {
        bail!(Refused(vec![refusal]));
    }
    let node =
        host.node_name().context("cannot determine the name of this node: does the host have a hostname?")?;
    let state_dir = host.root.real(state_dir);
    let now = Timestamp::now();
    let ca = identity::ca_fingerprint(&host.root, &layout.data_dir);
    let owner = name::owner(&node, ca.as_deref());
    let mut backup = BackupFile::of(target, &owner, &now.strftime(STAMP).to_string(), seal.is_closed())?;
    ensure!(
        keep.is_none() || backup.is_directory,
        "--keep counts the backups in a directory, and {} is not one: create it, or mount the disk there",
        target.display()
    );
    let _lock = held.map_or_else(|| NodeLock::take(&state_dir, WHAT), Ok)?;
    ensure_whole(&state_dir)?;
    let scratch = Scratch::make(&state_dir)?;
    let copy = scratch.0.join("state.db");
    let live = host.root.real(layout.datastore());
    let sources = members::list(host, &layout, &live)?;
    let target = fitting(request, &layout, &backup, members::size(&sources), &live)?;
    let taken = if *volumes {
        volumes::list(&host.root.real(layout.directory(BackupRoot::Volumes)), &target.room())
    } else {
        VolumeMembers::default()
    };
    let has_volumes = !taken.inputs.is_empty() || !taken.left_out.is_empty();
    let no_volumes = (*volumes && !has_volumes).then(|| layout.directory(BackupRoot::Volumes));
    let DatastoreContents { revision, rows } = {
        let _progress = Progress::waiting("copying the datastore, and checking the copy");
        datastore::copy(&live, &copy).map_err(full(&state_dir))?;
        datastore::check(&copy)?
    };
    let manifest = BackupManifest {
        format: FORMAT,
        node,
        k3s,
        data_dir: layout.data_dir.display().to_string(),
        made: now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        revision,
        rows,
        volumes: *volumes,
        left_out: taken.left_out,
        members: [].into(),
    };
    let sources = sources.into_iter().chain(taken.inputs).map(|source| {
        if source.name == DATASTORE { archive::ArchiveInput { path: copy.clone(), ..source } } else { source }
    });
    let (file, unfinished) = backup.begin()?;
    if !seal.is_closed() {
        ensure_private(&file, &backup.directory)?;
    }
    let bytes = target.needed.saturating_add(taken.bytes);
    let progress = Progress::of_bytes(&format!("writing {}", backup.path().display()), Some(bytes));
    let manifest =
        write(file, sources, manifest, &backup, seal, progress).map_err(full(&backup.directory))?;
    let bytes = backup.written()?.metadata().map(|metadata| metadata.len()).unwrap_or_default();
    let named = backup.path();
    backup.take(unfinished, manifest.left_out.is_empty())?;
    let renamed = (!backup.is_directory && backup.path() != named).then_some(named);
    let thin_out = |keep| backup.thin_out(&owner, keep, since.as_deref().unwrap_or_default());
    let (removed, not_removed) = match keep.map(thin_out).transpose() {
        Err(error) => (Vec::new(), Some(format!("{error:#}"))),
        Ok(removed) => (removed.unwrap_or_default(), None),
    };
    Ok(MadeBackup { path: backup.path(), renamed, bytes, manifest, no_volumes, removed, not_removed })
}

/// What is known of the target, where there is nothing against it and the state of the node fits.
fn fitting(
    request: &BackupRequest,
    layout: &BackupLayout,
    backup: &BackupFile,
    needed: u64,
    live: &Path,
) -> anyhow::Result<BackupTarget> {
    let BackupRequest { host, state_dir, must_be_mounted, seal, .. } = request;
    let cards = [host.root.real("/"), host.root.real(&layout.data_dir)];
    let boot_dir = host.root.real(&layout.boot_dir);
    let state_dir = host.root.real(state_dir);
    let target = BackupTarget {
        must_be_mounted: *must_be_mounted,
        is_encrypted: seal.is_closed(),
        ..backup.look(&cards, &boot_dir, needed, (&state_dir, datastore::size(live)))
    };
    let refusals = target.refusals();
    if !refusals.is_empty() {
        bail!(Refused(refusals));
    }
    Ok(target)
}

/// FAT, exFAT and NTFS have only the modes of their mount options.
fn ensure_private(file: &File, directory: &Path) -> anyhow::Result<()> {
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        bail!(Refused(vec![UpgradeRefusal {
            what: format!("every user of this machine could read a file in {}", directory.display()),
            remedy: "mount it with umask=077 (FAT, exFAT, NTFS) or file_mode=0600 (CIFS), or encrypt (--recipient, \
                     --passphrase-file)"
                .to_owned(),
        }]));
    }
    Ok(())
}

/// Writes the archive, and reads it back from its disk.
fn write(
    file: File,
    sources: impl Iterator<Item = archive::ArchiveInput>,
    manifest: BackupManifest,
    backup: &BackupFile,
    seal: &Seal,
    progress: Progress,
) -> anyhow::Result<BackupManifest> {
    let to = seal.close(Hashing::new(BufWriter::with_capacity(1 << 18, file)))?;
    let mut writer = ArchiveWriter::new(to, progress);
    for source in sources {
        writer.add(&source)?;
    }
    let (sealing, manifest) = writer.end(manifest)?;
    let hashing = sealing.finish().context("cannot end the archive")?;
    let (buffer, hash) = hashing.into_parts();
    let mut file =
        buffer.into_inner().map_err(io::IntoInnerError::into_error).context("cannot end the archive")?;
    file.flush().and_then(|()| file.sync_all()).context("cannot write the archive to its disk")?;
    drop(file);
    backup.read_back(&hash)?;
    if let Some(again) = seal.open(counted(backup.written()?, "checking each file"))? {
        let read = archive::read(again, &Nowhere)?;
        ensure!(read == manifest, "what was read back is not the manifest that was written");
    }
    Ok(manifest)
}

/// Why this node has nothing to back up.
fn of_the_node(host: &Host, layout: &BackupLayout) -> Option<UpgradeRefusal> {
    if host.role() == Role::Agent {
        let what = "this node has joined another's cluster, whose state is on its server".to_owned();
        let remedy = "make the backup there; of this node keep its weaver.toml".to_owned();
        return Some(UpgradeRefusal::new(what, remedy));
    }
    let what = members::other_datastore(host, layout)?;
    Some(UpgradeRefusal::new(what, "use the backup tools of that datastore"))
}

fn reported(made: &MadeBackup) -> String {
    let MadeBackup { path, renamed, bytes, manifest, no_volumes, removed, not_removed } = made;
    let BackupManifest { node, revision, members, left_out, .. } = manifest;
    let mut text = format!(
        "wrote {}: {node} at revision {revision}, {} files, {} MiB, read back and checked",
        path.display(),
        members.len(),
        bytes.div_ceil(1 << 20)
    );
    if let Some(named) = renamed {
        text = format!("{text}\nnothing was written to {}: this backup is not complete", named.display());
    }
    if let Some(directory) = no_volumes {
        text = text + "\nno volume is in it: there is none in " + &directory.display().to_string();
    }
    for line in left_out.lines() {
        text = text + "\n" + &line;
    }
    for name in removed {
        text = text + "\nremoved " + name;
    }
    if let Some(why) = not_removed {
        text = text + "\nolder ones stay: " + why;
    }
    if let Some(verdict) = left_out.verdict() {
        text = text + "\n" + &verdict;
    }
    text
}

#[cfg(test)]
mod tests;

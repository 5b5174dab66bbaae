//! Moves the data of k3s to a disk: a copy under another name, checked; then a record, from which on the disk is in
//! force; then names, mount point and mount unit.
//!
//! Guarantees: until the record is written the data on the card is as it was, and a copy that was cut off begins
//! again; from then on every step can be repeated, and the next boot makes those that are missing. Nothing on the disk
//! is replaced, and what was on the card is kept under another name. Failure: the error says what to do; before the
//! record k3s continues on the card.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use weaver_diagnostics::data_disk::disk::{BlockDevice, MoveSource, MoveTarget, choose};
use weaver_diagnostics::data_disk::name::DiskName;
use weaver_diagnostics::data_disk::record::DataDiskRecord;
use weaver_diagnostics::data_disk::{KEPT, MOUNT_POINT, UNFINISHED, mount_unit};
use weaver_diagnostics::finding::Code;
use weaver_diagnostics::k3s_config::DEFAULT_DATA_DIR;
use weaver_diagnostics::k3s_upgrade::plan::UpgradeRefusal;
use weaver_host::durable_file::{self, flush_directory_of, if_there};

use super::disks::Disks;
use super::tree::{self, Tree};
use crate::backup::journal::ensure_whole;
use crate::backup::{Refused, names};
use crate::facts::mounts::Mounts;
use crate::host_root::HostRoot;
use crate::k3s_files;
use crate::node_lock::NodeLock;
use crate::upgrade::journal::{self, Recorded};

const POLL: Duration = Duration::from_millis(500);

/// Called before each change; a test cuts the power there.
pub type Cut<'a> = &'a mut dyn FnMut() -> io::Result<()>;

impl Recorded for DataDiskRecord {
    const NAME: &str = "data-disk.json";
    const WHAT: &str = "the move of k3s' data to a disk";
    const INTERRUPTED: Code = Code::DataNotMoved;

    /// Each boot completes it where a part is missing.
    fn has_ended(&self) -> bool {
        false
    }
}

pub struct Mover<'a> {
    pub root: &'a HostRoot,
    /// The real path, below the root directory.
    pub state_dir: PathBuf,
    pub disks: &'a dyn Disks,
    /// How long to wait for the disk.
    pub patience: Duration,
    /// Whether k3s was started in this boot.
    pub k3s_ran: bool,
}

impl Mover<'_> {
    /// Moves the data, or completes a move that was begun; the disk is then ready to be mounted. `None` where there is
    /// nothing to do.
    ///
    /// # Errors
    /// [`Refused`], or a step failed.
    pub fn run(&self, asked: Option<&DiskName>, cut: Cut<'_>) -> anyhow::Result<Option<DataDiskRecord>> {
        let _lock = NodeLock::take(&self.state_dir, DataDiskRecord::WHAT)?;
        ensure_whole(&self.state_dir)?;
        let begun = journal::last::<DataDiskRecord>(&self.state_dir)?;
        if begun.is_none() && asked.is_none() {
            return Ok(None);
        }
        refused(self.source(begun.is_some()).refusal())?;
        let record = match (begun, asked) {
            (Some(record), _) => record,
            (None, Some(asked)) => self.copy(asked, cut)?,
            (None, None) => return Ok(None),
        };
        self.switch(&record, cut)?;
        Ok(Some(record))
    }

    fn source(&self, is_begun: bool) -> MoveSource {
        let data_dir = k3s_files::effective(self.root, None, None).data_dir;
        let mounts = Mounts::read(self.root).unwrap_or_default();
        let mounted_at = mounts.within(Path::new(MOUNT_POINT));
        MoveSource {
            data_dir: data_dir.map_or_else(|| DEFAULT_DATA_DIR.to_owned(), |setting| setting.value),
            is_link: self.root.real(MOUNT_POINT).is_symlink(),
            mounted_at: mounted_at.map(|path| path.display().to_string()).collect(),
            k3s_ran: self.k3s_ran,
            keeps_old: !is_begun && self.root.exists(KEPT),
        }
    }

    /// Copies the data under another name and checks it; then the disk is in force.
    fn copy(&self, asked: &DiskName, cut: Cut<'_>) -> anyhow::Result<DataDiskRecord> {
        let (device, uuid) = self.wait_for(asked)?;
        let disk = self.disks.mount(&device)?;
        let unfinished = disk.path.join(UNFINISHED);
        cut()?;
        if_there(fs::remove_dir_all(&unfinished)).context("cannot remove a copy that was cut off")?;
        let data = Tree::read(&self.root.real(MOUNT_POINT))?;
        let target = MoveTarget {
            shown: format!("{} ({asked})", device.path),
            entries: names(&disk.path)?,
            free: disk.free,
            used: data.bytes,
            moved: data.names(),
        };
        refused(target.refusal())?;
        tracing::info!("copying {} files, {} MiB, to {}", data.count(), data.bytes >> 20, target.shown);
        cut()?;
        tree::copy(&self.root.real(MOUNT_POINT), &unfinished)?;
        cut()?;
        disk.flush()?;
        if let Some(path) = data.difference(&Tree::read(&unfinished)?) {
            bail!("the copy of {} on {} is not what is on the card", path.display(), target.shown);
        }
        disk.close()?;
        let record = DataDiskRecord { asked: asked.to_string(), uuid, entries: data.names() };
        cut()?;
        journal::note(&self.state_dir, &record)?;
        Ok(record)
    }

    /// Takes the steps from the record to a disk that systemd mounts.
    fn switch(&self, record: &DataDiskRecord, cut: Cut<'_>) -> anyhow::Result<()> {
        let (device, _) = self.wait_for(&DiskName::Uuid(record.uuid.clone()))?;
        let disk = self.disks.mount(&device)?;
        give_names(&disk.path, &record.entries, cut)?;
        disk.close()?;
        self.clear_mount_point(cut).with_context(|| format!("cannot free {MOUNT_POINT}"))?;
        self.write_unit(record, cut)
    }

    /// The one disk of this name, and its UUID.
    fn wait_for(&self, name: &DiskName) -> anyhow::Result<(BlockDevice, String)> {
        let until = Instant::now() + self.patience;
        loop {
            let devices = self.disks.list()?;
            if devices.iter().any(|device| device.has(name)) || Instant::now() >= until {
                let chosen = choose(name, &devices).map_err(|refusal| Refused(vec![refusal]));
                return Ok(chosen.map(|(device, uuid)| (device.clone(), uuid.to_owned()))?);
            }
            sleep(POLL);
        }
    }

    /// What the card had is kept under another name.
    fn clear_mount_point(&self, cut: Cut<'_>) -> io::Result<()> {
        let (point, kept) = (self.root.real(MOUNT_POINT), self.root.real(KEPT));
        let has_data = fs::read_dir(&point).is_ok_and(|mut entries| entries.next().is_some());
        if has_data && fs::symlink_metadata(&kept).is_err() {
            cut()?;
            fs::rename(&point, &kept)?;
            flush_directory_of(&kept)?;
        }
        cut()?;
        fs::create_dir_all(&point)?;
        flush_directory_of(&point)
    }

    fn write_unit(&self, record: &DataDiskRecord, cut: Cut<'_>) -> anyhow::Result<()> {
        let (unit, link) = (self.root.real(mount_unit::PATH), self.root.real(mount_unit::LINK));
        cut()?;
        fs::create_dir_all(link.parent().unwrap_or(Path::new("/")))
            .context("cannot make a directory of systemd's")?;
        durable_file::replace(&unit, mount_unit::text(&record.asked, &record.uuid).as_bytes(), 0o644)?;
        cut()?;
        if_there(fs::remove_file(&link))
            .and_then(|()| symlink(mount_unit::PATH, &link))
            .and_then(|()| flush_directory_of(&link))
            .with_context(|| format!("cannot write {}", mount_unit::LINK))
    }
}

fn refused(refusal: Option<UpgradeRefusal>) -> anyhow::Result<()> {
    refusal.map_or(Ok(()), |refusal| Err(Refused(vec![refusal]).into()))
}

/// Gives the copy its names; a name that it has already is left.
fn give_names(disk: &Path, entries: &[String], cut: Cut<'_>) -> anyhow::Result<()> {
    let unfinished = disk.join(UNFINISHED);
    for name in entries {
        let (copy, named) = (unfinished.join(name), disk.join(name));
        if fs::symlink_metadata(&copy).is_ok() {
            cut()?;
            fs::rename(&copy, &named).with_context(|| format!("cannot put {name} in its place"))?;
        }
        ensure!(
            fs::symlink_metadata(&named).is_ok(),
            "the data was moved to this disk, and has no {name} any more"
        );
    }
    cut()?;
    if_there(fs::remove_dir(&unfinished)).context("cannot remove the directory of the copy")
}

#[cfg(test)]
mod tests;

//! The disks of a machine: listed by `lsblk`, and mounted for the move alone.
//!
//! Guarantees: a disk is mounted nowhere any more when the program ends, also after a kill: the unit has mounts of its
//! own. Failure: names the device.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use weaver_diagnostics::data_disk::disk::{BlockDevice, FILE_SYSTEM};
use weaver_diagnostics::data_disk::lsblk::{self, COLUMNS};
use weaver_diagnostics::finding_text;
use weaver_host::durable_file::FlushError;

use crate::facts::mounts::Mounts;
use crate::facts::storage::space;
use crate::fat_file::flush_file_system;
use crate::host_root::HostRoot;

/// Where a disk is mounted while its data is written.
const POINT: &str = "/run/weaver/data-disk";
/// The most characters of a program's own message that are shown.
const LONGEST: usize = 300;

/// What a test replaces by directories.
pub trait Disks {
    /// The disks and partitions of this machine.
    fn list(&self) -> anyhow::Result<Vec<BlockDevice>>;

    /// Mounts a disk for writing.
    fn mount(&self, device: &BlockDevice) -> anyhow::Result<OpenDisk>;
}

/// A disk that is mounted until this is dropped.
#[derive(Debug)]
pub struct OpenDisk {
    pub path: PathBuf,
    /// Free bytes.
    pub free: u64,
    /// Whether it is unmounted then.
    pub unmounts: bool,
}

impl OpenDisk {
    /// Waits until all that was written is on the disk.
    pub fn flush(&self) -> Result<(), FlushError> {
        flush_file_system(&self.path)
    }

    /// Flushes and unmounts it.
    ///
    /// # Errors
    /// Not everything could be written, or it is in use.
    pub fn close(mut self) -> anyhow::Result<()> {
        self.flush()?;
        if self.unmounts {
            umount2(&self.path, MntFlags::empty()).context("cannot unmount the disk")?;
            self.unmounts = false;
        }
        Ok(())
    }
}

impl Drop for OpenDisk {
    fn drop(&mut self) {
        if self.unmounts {
            // After a failure, which is what is reported.
            let _ = umount2(&self.path, MntFlags::MNT_DETACH);
        }
    }
}

/// Those of this machine.
pub struct MachineDisks<'a>(pub &'a HostRoot);

impl Disks for MachineDisks<'_> {
    fn list(&self) -> anyhow::Result<Vec<BlockDevice>> {
        ensure!(self.0.host().is_some(), "a directory that replaces `/` has no disks");
        let output = output(Command::new("lsblk").args(["--json", "--list", "--output", COLUMNS]))?;
        let root_device = Mounts::read(self.0).and_then(|mounts| mounts.root_device(self.0));
        lsblk::parse(&output, root_device.as_deref()).context("cannot read what lsblk prints")
    }

    fn mount(&self, device: &BlockDevice) -> anyhow::Result<OpenDisk> {
        let path = self.0.real(POINT);
        fs::create_dir_all(&path).with_context(|| format!("cannot make {POINT}"))?;
        mount(Some(device.path.as_str()), &path, Some(FILE_SYSTEM), MsFlags::MS_NOATIME, None::<&str>)
            .with_context(|| format!("cannot mount {}", device.path))?;
        let free = space(&path).map_or(0, |(_, free)| free);
        Ok(OpenDisk { path, free, unmounts: true })
    }
}

/// Runs a program of the system to its end; returns what it prints.
///
/// # Errors
/// It cannot be started, or fails; its own message is in the error.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.env("LC_ALL", "C").stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    let message = finding_text::cut(String::from_utf8_lossy(&output.stderr).trim(), LONGEST);
    ensure!(output.status.success(), "{program} failed ({}): {message}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

//! `data-disk`: the data of k3s on a disk of its own, moved there once, before k3s starts.
//!
//! `weaver_diagnostics::data_disk` decides which disk is fit and what the node says of it. Guarantees: those of
//! [`mover`]. Failure: what was refused or failed is a finding of this boot, which preflight reports; k3s starts with
//! the data on the card, unless the disk is in force already.

mod args;
mod disks;
mod mover;
mod tree;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use weaver_diagnostics::data_disk::name::DiskName;
use weaver_diagnostics::data_disk::record::{DataDisk, DataDiskRecord, not_moved};
use weaver_diagnostics::data_disk::{KEPT, MOUNT_POINT, mount_unit};
use weaver_diagnostics::exit_code;
use weaver_diagnostics::finding::{Finding, Place};
use weaver_diagnostics::host::storage::Mount;
use weaver_diagnostics::k3s_upgrade::Role;
use weaver_diagnostics::k3s_upgrade::plan::UpgradeRefusal;
use weaver_diagnostics::weaver_toml::plan::{DATA_DISK, DATA_DISK_KEY};
use weaver_host::durable_file::{self, if_there};

pub use args::DataDiskArgs;

use crate::backup::Refused;
use crate::facts::mounts::Mounts;
use crate::host_args::STATE_DIR;
use crate::host_root::HostRoot;
use crate::node_lock::Busy;
use crate::report;
use crate::systemctl::Systemctl;
use crate::upgrade::{journal, say};
use disks::MachineDisks;
use mover::Mover;

/// The record of a move.
pub const RECORD: &str = "/var/lib/weaver/data-disk.json";
/// Why this boot did not move the data.
pub const FAILURE: &str = "/run/weaver/data-disk-failure.json";
/// The file system is checked before it is mounted, and a large one takes its time.
const MOUNTING: Duration = Duration::from_mins(10);
const POLL: Duration = Duration::from_millis(200);

/// Runs `data-disk`; returns the exit code of the process.
///
/// # Errors
/// The result could not be written for preflight.
pub async fn run(args: DataDiskArgs) -> anyhow::Result<u8> {
    let DataDiskArgs { disk, wait, root, state_dir, systemctl } = args;
    let root = HostRoot::new(root);
    let systemctl = Systemctl::new(systemctl);
    let failure = root.real(FAILURE);
    match moved(&root, &root.real(state_dir), &systemctl, disk, Duration::from_secs(wait)).await {
        Ok(said) => {
            if_there(fs::remove_file(&failure)).with_context(|| format!("cannot remove {FAILURE}"))?;
            say(&said);
            Ok(exit_code::FINE)
        }
        Err(error) => {
            let finding = not_moved(reason(&error));
            report::log(&finding);
            let text = serde_json::to_string(&finding).context("writing the finding as JSON")?;
            durable_file::replace(&failure, text.as_bytes(), 0o640)?;
            Ok(exit_code::KNOWN_BAD)
        }
    }
}

/// Moves the data and mounts the disk; returns the message.
async fn moved(
    root: &HostRoot,
    state_dir: &Path,
    systemctl: &Systemctl,
    disk: Option<DiskName>,
    patience: Duration,
) -> anyhow::Result<String> {
    let units = [Role::Server.unit(), Role::Agent.unit()];
    let k3s_ran = systemctl.times(&units).await?.values().any(|times| times.begun.is_some());
    let (own_root, state_dir) = (root.clone(), state_dir.to_owned());
    let move_all = move || {
        let disks = MachineDisks(&own_root);
        let mover = Mover { root: &own_root, state_dir, disks: &disks, patience, k3s_ran };
        mover.run(disk.as_ref(), &mut || Ok(()))
    };
    let record = tokio::task::spawn_blocking(move_all).await.context("moving the data of k3s")??;
    let Some(DataDiskRecord { asked, .. }) = record else {
        return Ok("no disk is asked for, and no move was begun: nothing had to be done".to_owned());
    };
    systemctl.reload().await?;
    systemctl.start(mount_unit::NAME).await?;
    let until = Instant::now() + MOUNTING;
    while mount(root) != Some(Mount::Writable) {
        let is_over = Instant::now() >= until || systemctl.state(mount_unit::NAME).await?.active == "failed";
        ensure!(!is_over, "{} does not mount the disk: `journalctl -b -u {0}` says why", mount_unit::NAME);
        tokio::time::sleep(POLL).await;
    }
    Ok(format!("the data of k3s is on {asked}"))
}

fn reason(error: &anyhow::Error) -> UpgradeRefusal {
    if let Some(Busy(what)) = error.downcast_ref() {
        return UpgradeRefusal::new(what, "reboot when it has finished: the next boot tries again");
    }
    let refusal = error.downcast_ref::<Refused>().and_then(|Refused(refusals)| refusals.first());
    refusal.cloned().unwrap_or_else(|| {
        let remedy = "check the disk, its cable and its power supply; the next boot tries again";
        UpgradeRefusal::new(format!("{error:#}"), remedy)
    })
}

fn mount(root: &HostRoot) -> Option<Mount> {
    Some(Mounts::read(root)?.at(Path::new(MOUNT_POINT)))
}

/// Another version may have written why, before it was replaced in this boot.
fn unreadable_failure() -> Finding {
    not_moved(UpgradeRefusal::new("this boot could not move it", "read in its log why, and reboot"))
}

/// Whether the data is on a disk that is not mounted: what is at its place belongs to no one.
pub(crate) fn is_away(root: &HostRoot) -> bool {
    root.exists(RECORD) && mount(root) == Some(Mount::Absent)
}

/// What the node says of the disk of k3s' data.
pub(crate) fn finding(root: &HostRoot, mounts: Option<&Mounts>) -> Option<Finding> {
    let asked = root.read_if_possible(DATA_DISK).map(|file| file.text).unwrap_or_default();
    let failure = root.read_if_possible(FAILURE);
    let disk = DataDisk {
        record: journal::last(&root.real(STATE_DIR)).map_err(|error| format!("{error:#}")),
        place: Place::file(RECORD),
        asked: asked.lines().find_map(|line| Some(line.strip_prefix(DATA_DISK_KEY)?.to_owned())),
        mount: mounts.map(|mounts| mounts.at(Path::new(MOUNT_POINT))),
        failed: failure.map(|file| serde_json::from_str(&file.text).unwrap_or_else(|_| unreadable_failure())),
        keeps_old: root.exists(KEPT),
    };
    disk.judge()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use weaver_diagnostics::finding::Code;
    use weaver_diagnostics::host::storage::MOUNTS;

    use super::*;
    use crate::host_root::fixture::host;
    use crate::node_lock::NodeLock;

    const RECORDED: &str = r#"{"asked": "LABEL=ssd", "uuid": "0a1b", "entries": ["k3s"]}"#;
    const ROOT: &str = "25 1 179:2 / / rw - ext4 /dev/mmcblk0p2 rw\n";

    #[test]
    fn the_node_says_where_its_data_is_and_boot_config_knows_when_it_is_away() {
        let mounted = format!("{ROOT}26 25 8:1 / {MOUNT_POINT} rw - ext4 /dev/sda1 rw\n");
        let asked = format!("{DATA_DISK_KEY}LABEL=ssd\n");
        let failure = serde_json::to_string(&not_moved(reason(&anyhow::anyhow!("no disk")))).unwrap();
        for (files, code, away) in [
            (vec![(MOUNTS, ROOT)], None, false),
            (vec![(MOUNTS, ROOT), (RECORD, RECORDED)], Some(Code::DataDiskMissing), true),
            (vec![(MOUNTS, &*mounted), (RECORD, RECORDED)], Some(Code::DataOnDisk), false),
            (vec![(RECORD, RECORDED)], None, false),
            (vec![(MOUNTS, ROOT), (RECORD, "{")], Some(Code::DataDiskMissing), true),
            (vec![(MOUNTS, ROOT), (DATA_DISK, &*asked)], Some(Code::DataNotMoved), false),
            (
                vec![(MOUNTS, ROOT), (DATA_DISK, &*asked), (FAILURE, &*failure)],
                Some(Code::DataNotMoved),
                false,
            ),
            // Of another version.
            (
                vec![(MOUNTS, ROOT), (FAILURE, r#"{"severity": "warn", "code": "Z-99", "message": "m"}"#)],
                Some(Code::DataNotMoved),
                false,
            ),
        ] {
            let (_dir, root) = host(&files);
            let mounts = Mounts::read(&root);
            let found = finding(&root, mounts.as_ref()).map(|finding| finding.code);
            assert_eq!((found, is_away(&root)), (code, away), "{files:?}");
        }
    }

    fn args(root: &Path) -> DataDiskArgs {
        let systemctl = root.join("systemctl");
        fs::write(&systemctl, "#!/bin/sh\necho Id=k3s.service\n").unwrap();
        fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).unwrap();
        DataDiskArgs {
            disk: Some("LABEL=ssd".parse().unwrap()),
            wait: 0,
            root: root.to_owned(),
            state_dir: STATE_DIR.into(),
            systemctl,
        }
    }

    #[tokio::test]
    async fn what_failed_is_left_for_preflight_and_removed_when_all_is_done() {
        let (dir, root) = host(&[("/run/weaver/x", "")]);
        let args = args(dir.path());
        assert_eq!(run(args.clone()).await.unwrap(), exit_code::KNOWN_BAD);
        let failure = root.read_if_possible(FAILURE).unwrap().text;
        assert!(failure.contains("H-30") && failure.contains("has no disks"), "{failure}");
        assert_eq!(run(DataDiskArgs { disk: None, ..args }).await.unwrap(), exit_code::FINE);
        assert!(!root.exists(FAILURE));
    }

    #[tokio::test]
    async fn a_move_that_meets_another_change_of_the_node_is_left_for_the_next_boot() {
        let (dir, root) = host(&[("/run/weaver/x", "")]);
        let _held = NodeLock::take(&root.real(STATE_DIR), "a backup").unwrap();
        assert_eq!(run(args(dir.path())).await.unwrap(), exit_code::KNOWN_BAD);
        let failure = root.read_if_possible(FAILURE).unwrap().text;
        for part in ["H-30", "a backup is running on this node", "reboot when it has finished"] {
            assert!(failure.contains(part), "{part}: {failure}");
        }
    }
}

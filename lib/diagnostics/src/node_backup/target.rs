//! Whether a backup may be written somewhere.

use super::volumes::{VolumeRoom, mib};
use crate::host::storage::LEAST_FREE;
use crate::k3s_upgrade::plan::{MARGIN, UpgradeRefusal};

/// On which file system a directory is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Disk {
    /// The boot partition, which any computer reads.
    Boot,
    /// That of `/` or of k3s, or none that outlives the power.
    Card,
    #[default]
    Other,
}

/// The copy of the datastore, which is on a disk until the archive is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DatastoreCopy {
    /// What its directory is called.
    pub shown: String,
    /// Bytes that are needed, and bytes that are free.
    pub needed: u64,
    pub free: Option<u64>,
    /// Whether that is the file system of the target, too.
    pub is_on_target: bool,
}

/// What is known of the target directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackupTarget {
    /// What it is called.
    pub shown: String,
    pub disk: Disk,
    /// Whether it must be on another disk.
    pub must_be_mounted: bool,
    pub is_encrypted: bool,
    /// Bytes that are needed without the volumes, and bytes that are free.
    pub needed: u64,
    pub free: Option<u64>,
    /// Bytes of its file system.
    pub size: u64,
    /// Bytes of the largest file there, where that is limited.
    pub largest: Option<u64>,
    pub copy: DatastoreCopy,
}

impl BackupTarget {
    /// Bytes that are needed there at the same time.
    fn needed(&self) -> u64 {
        let copied = if self.copy.is_on_target { self.copy.needed } else { 0 };
        self.needed.saturating_add(copied)
    }

    /// What the volumes may have. On a card they leave what keeps the kubelet from evicting pods.
    pub fn room(&self) -> VolumeRoom {
        let margin = if self.disk == Disk::Card { self.size / 100 * LEAST_FREE } else { MARGIN << 20 };
        let on_disk = self.free.map(|free| free.saturating_sub(self.needed()).saturating_sub(margin));
        let in_file =
            self.largest.map(|largest| largest.saturating_sub(self.needed).saturating_sub(MARGIN << 20));
        VolumeRoom::new(on_disk.into_iter().chain(in_file).min())
    }

    /// All reasons against it.
    pub fn refusals(&self) -> Vec<UpgradeRefusal> {
        let Self { shown, .. } = self;
        let mut refusals = Vec::new();
        let mut refuse = |what: String, remedy: &str| refusals.push(UpgradeRefusal::new(what, remedy));
        if self.disk == Disk::Boot && !self.is_encrypted {
            let what =
                format!("{shown} is on the boot partition, where any computer reads the keys of the cluster");
            refuse(what, "name another place, or encrypt it with --recipient or --passphrase-file");
        }
        if self.must_be_mounted && self.disk == Disk::Card {
            let what =
                format!("no other disk is mounted at {shown}: a backup there would die with this card");
            refuse(what, "plug in and mount the disk or share, and try again");
        }
        if let Some(free) = self.free.filter(|free| *free < self.needed()) {
            let what =
                format!("{} MiB are needed at {shown}, and {} MiB are free", mib(self.needed()), free >> 20);
            refuse(what, "make room there, or name another place");
        }
        let copied = self.copy.needed.saturating_add(MARGIN << 20);
        if let Some(free) = self.copy.free.filter(|free| *free < copied) {
            let what = format!(
                "the datastore is copied to {} first: {} MiB are needed there, and {} MiB are free",
                self.copy.shown,
                mib(copied),
                free >> 20
            );
            refuse(what, "make room: `sudo du -xh / | sort -h | tail -n 20` shows what fills it");
        }
        refusals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In MiB.
    fn copy(needed: u64, free: Option<u64>) -> DatastoreCopy {
        DatastoreCopy {
            shown: "/var/lib/weaver".to_owned(),
            needed: needed << 20,
            free: free.map(|free| free << 20),
            is_on_target: false,
        }
    }

    #[test]
    fn the_volumes_get_what_the_rest_leaves() {
        let disk = BackupTarget {
            needed: 100 << 20,
            free: Some(1000 << 20),
            size: 8000 << 20,
            copy: copy(50, Some(1000)),
            ..BackupTarget::default()
        };
        let on_target = DatastoreCopy { is_on_target: true, ..disk.copy.clone() };
        for (target, mib) in [
            (disk.clone(), Some(1000 - 100 - MARGIN)),
            (BackupTarget { copy: on_target.clone(), ..disk.clone() }, Some(1000 - 100 - 50 - MARGIN)),
            (
                BackupTarget { disk: Disk::Card, copy: on_target, ..disk.clone() },
                Some(1000 - 100 - 50 - 8000 / 100 * LEAST_FREE),
            ),
            (BackupTarget { largest: Some(400 << 20), ..disk.clone() }, Some(400 - 100 - MARGIN)),
            (BackupTarget { needed: 2000 << 20, ..disk.clone() }, Some(0)),
            (BackupTarget { free: None, ..disk }, None),
        ] {
            assert_eq!(target.room(), VolumeRoom::new(mib.map(|mib| mib << 20)), "{target:?}");
        }
    }

    #[test]
    fn what_is_refused_and_why() {
        let good = BackupTarget {
            shown: "/mnt/usb".to_owned(),
            needed: 9,
            free: Some(9),
            ..BackupTarget::default()
        };
        for (target, want) in [
            (good.clone(), None),
            (BackupTarget { free: None, ..good.clone() }, None),
            (
                BackupTarget { free: Some(8), ..good.clone() },
                Some("1 MiB are needed at /mnt/usb, and 0 MiB are free"),
            ),
            (BackupTarget { disk: Disk::Boot, ..good.clone() }, Some("is on the boot partition")),
            (BackupTarget { disk: Disk::Boot, is_encrypted: true, ..good.clone() }, None),
            (BackupTarget { disk: Disk::Card, ..good.clone() }, None),
            (
                BackupTarget { disk: Disk::Card, must_be_mounted: true, ..good.clone() },
                Some("no other disk is mounted at /mnt/usb"),
            ),
            (BackupTarget { must_be_mounted: true, ..good.clone() }, None),
            (BackupTarget { copy: copy(1, Some(65)), ..good.clone() }, None),
            (BackupTarget { copy: copy(1, None), ..good.clone() }, None),
            (
                BackupTarget { copy: copy(1, Some(64)), ..good.clone() },
                Some("copied to /var/lib/weaver first: 65 MiB are needed there, and 64 MiB are free"),
            ),
            (
                BackupTarget {
                    copy: DatastoreCopy { is_on_target: true, ..copy(1, Some(65)) },
                    ..good.clone()
                },
                Some("2 MiB are needed at /mnt/usb, and 0 MiB are free"),
            ),
        ] {
            let refusals = target.refusals();
            assert_eq!(refusals.len(), usize::from(want.is_some()), "{target:?}");
            assert!(
                refusals.iter().all(|refusal| refusal.what.contains(want.unwrap_or_default())),
                "{refusals:?}"
            );
        }
    }
}

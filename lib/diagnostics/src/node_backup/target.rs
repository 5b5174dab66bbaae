//! Whether a backup may be written somewhere.

use crate::k3s_upgrade::plan::UpgradeRefusal;

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

/// What is known of the target directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackupTarget {
    /// What it is called.
    pub shown: String,
    pub disk: Disk,
    /// Whether it must be on another disk.
    pub must_be_mounted: bool,
    pub is_encrypted: bool,
    /// Bytes that are needed, and bytes that are free.
    pub needed: u64,
    pub free: Option<u64>,
}

impl BackupTarget {
    /// All reasons against it.
    #[must_use]
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
        if let Some(free) = self.free.filter(|free| *free < self.needed) {
            let what =
                format!("{} MiB are needed at {shown}, and {} MiB are free", mib(self.needed), free >> 20);
            refuse(what, "make room there, or name another place");
        }
        refusals
    }
}

const fn mib(bytes: u64) -> u64 {
    bytes.div_ceil(1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

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
            (BackupTarget { must_be_mounted: true, ..good }, None),
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

//! Whether the data of k3s can be moved, and onto which disk.

use crate::k3s_upgrade::plan::UpgradeRefusal;

use super::name::DiskName;
use super::{KEPT, MOUNT_POINT};

/// What mkfs.ext4 makes. k3s' snapshotter needs more of a file system than most have, and only this one was tried.
pub const FILE_SYSTEM: &str = "ext4";
/// Bytes that k3s takes with its images, and bytes that are left for more.
const LEAST: u64 = 3 << 30;
const RESERVE: u64 = 1 << 30;

/// A disk or a partition, as `lsblk` lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockDevice {
    /// `/dev/sda1`
    pub path: String,
    pub label: Option<String>,
    pub uuid: Option<String>,
    pub partuuid: Option<String>,
    pub file_system: Option<String>,
    pub is_read_only: bool,
    pub mounted_at: Vec<String>,
    /// Whether it is on the disk that the system runs from.
    pub is_card: bool,
}

impl BlockDevice {
    /// Whether this is its name.
    pub fn has(&self, name: &DiskName) -> bool {
        let is = |has: &Option<String>, asked: &str| {
            has.as_ref().is_some_and(|has| has.eq_ignore_ascii_case(asked))
        };
        match name {
            DiskName::Label(label) => self.label.as_ref() == Some(label),
            DiskName::Uuid(uuid) => is(&self.uuid, uuid),
            DiskName::PartUuid(uuid) => is(&self.partuuid, uuid),
        }
    }
}

/// The disk of this name, or why its file system cannot be used; the UUID of that one, which no label can change.
///
/// # Errors
/// There is no such disk, more than one, or it is unfit.
pub fn choose<'d>(
    name: &DiskName,
    devices: &'d [BlockDevice],
) -> Result<(&'d BlockDevice, &'d str), UpgradeRefusal> {
    let named: Vec<_> = devices.iter().filter(|device| device.has(name)).collect();
    let device = match named.as_slice() {
        [] => {
            let remedy = "plug it in, or give its file system that name";
            return Err(UpgradeRefusal::new(format!("no disk has {name}"), remedy));
        }
        [device] => *device,
        several => {
            let paths: Vec<_> = several.iter().map(|device| device.path.as_str()).collect();
            let what = format!("{} file systems have {name}: {}", several.len(), paths.join(", "));
            return Err(UpgradeRefusal::new(what, "unplug all but one, or write the UUID= of the right one"));
        }
    };
    let BlockDevice { path, .. } = device;
    let mounted: Vec<_> = device.mounted_at.iter().map(String::as_str).collect();
    let unfit = match (&device.file_system, &device.uuid) {
        _ if device.is_card => UpgradeRefusal::new(
            format!("{path} ({name}) is on the disk that the system runs from"),
            "name another disk, or leave `data` out",
        ),
        _ if device.is_read_only => UpgradeRefusal::new(
            format!("{path} ({name}) is write-protected"),
            "remove the write protection of the disk",
        ),
        _ if !mounted.is_empty() => UpgradeRefusal::new(
            format!("{path} ({name}) is mounted at {}", mounted.join(", ")),
            "remove its line from /etc/fstab and reboot",
        ),
        (Some(file_system), Some(uuid)) if file_system == FILE_SYSTEM => {
            return Ok((device, uuid.as_str()));
        }
        (file_system, _) => UpgradeRefusal::new(
            format!(
                "{path} ({name}) has {}, and k3s needs {FILE_SYSTEM}",
                file_system.as_deref().unwrap_or("no file system")
            ),
            "copy what is on it to another disk, then format it with mkfs.ext4, which deletes everything on it",
        ),
    };
    Err(unfit)
}

/// What is to be moved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MoveSource {
    /// Where k3s keeps its data.
    pub data_dir: String,
    /// Whether the directory that is moved is a link.
    pub is_link: bool,
    /// What is mounted at it and below.
    pub mounted_at: Vec<String>,
    /// Whether k3s was started in this boot.
    pub k3s_ran: bool,
    /// Whether the data of an earlier move is still on the card.
    pub keeps_old: bool,
}

impl MoveSource {
    /// Why it cannot be moved, whatever the disk is.
    pub fn refusal(&self) -> Option<UpgradeRefusal> {
        let Self { data_dir, is_link, mounted_at, k3s_ran, keeps_old } = self;
        let is_below = data_dir.strip_prefix(MOUNT_POINT).is_some_and(|rest| rest.starts_with('/'));
        Some(if !is_below {
            UpgradeRefusal::new(
                format!("k3s keeps its data in {data_dir}, and not below {MOUNT_POINT}"),
                "remove `data-dir` from k3s' configuration, or leave `data` out",
            )
        } else if *is_link {
            UpgradeRefusal::new(format!("{MOUNT_POINT} is a link"), "replace the link by what it leads to")
        } else if let Some(mounted_at) = mounted_at.first() {
            UpgradeRefusal::new(
                format!("another file system is mounted at {mounted_at}"),
                "remove its line from /etc/fstab and reboot, or leave `data` out",
            )
        } else if *k3s_ran {
            UpgradeRefusal::new(
                "k3s was started in this boot and may be writing",
                "reboot: it is moved before k3s starts",
            )
        } else if *keeps_old {
            UpgradeRefusal::new(
                format!("{KEPT} is still there, from an earlier move"),
                format!("move it away, or remove it with `sudo rm -rf {KEPT}`, and reboot"),
            )
        } else {
            return None;
        })
    }
}

/// A disk that is mounted for the move.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MoveTarget {
    /// The device, and the name by which it was asked for.
    pub shown: String,
    /// Names of what is on it.
    pub entries: Vec<String>,
    /// Free bytes.
    pub free: u64,
    /// Bytes of the data.
    pub used: u64,
    /// Names of what is moved.
    pub moved: Vec<String>,
}

impl MoveTarget {
    /// Why the data cannot go there.
    pub fn refusal(&self) -> Option<UpgradeRefusal> {
        let Self { shown, entries, free, used, moved } = self;
        let is_taken = |name: &&String| *name == "k3s" || moved.contains(name);
        if let Some(name) = entries.iter().find(is_taken) {
            let what = format!("{shown} already has a directory `{name}`, which this card did not put there");
            let remedy = "if it is another node's, use another disk; otherwise mount the disk, rename the directory \
                          and reboot";
            return Some(UpgradeRefusal::new(what, remedy));
        }
        let needed = (*used).max(LEAST).saturating_add(RESERVE);
        let mib = |bytes: u64| bytes >> 20;
        (*free < needed).then(|| {
            let what =
                format!("{shown} is too small: {} MiB are needed, {} are free", mib(needed), mib(*free));
            UpgradeRefusal::new(what, "free space on it, or use a larger disk")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ssd() -> BlockDevice {
        BlockDevice {
            path: "/dev/sda1".to_owned(),
            label: Some("ssd".to_owned()),
            uuid: Some("0a1b".to_owned()),
            file_system: Some("ext4".to_owned()),
            ..BlockDevice::default()
        }
    }

    #[test]
    fn a_label_is_one_as_it_is_written_and_the_others_in_either_case() {
        let device = BlockDevice { partuuid: Some("8f2b-01".to_owned()), ..ssd() };
        for (name, want) in [
            ("LABEL=ssd", true),
            ("LABEL=SSD", false),
            ("UUID=0A1B", true),
            ("UUID=ssd", false),
            ("PARTUUID=8F2B-01", true),
            ("PARTUUID=8f2b-02", false),
        ] {
            let name: DiskName = name.parse().unwrap();
            assert_eq!(device.has(&name), want, "{name}");
            assert!(!BlockDevice::default().has(&name), "{name}");
        }
    }

    #[test]
    fn the_disk_of_that_name_is_chosen_where_it_is_fit() {
        let other = BlockDevice { label: Some("usb".to_owned()), ..ssd() };
        let two = BlockDevice { path: "/dev/sdb1".to_owned(), ..ssd() };
        let of = |file_system: &str| BlockDevice { file_system: Some(file_system.to_owned()), ..ssd() };
        let mounted_at = vec!["/mnt/usb".to_owned()];
        for (devices, want) in [
            (vec![ssd()], Ok("0a1b")),
            (vec![other.clone(), ssd()], Ok("0a1b")),
            (vec![], Err("no disk has LABEL=ssd")),
            (vec![other], Err("no disk has LABEL=ssd")),
            (vec![ssd(), two], Err("2 file systems have LABEL=ssd: /dev/sda1, /dev/sdb1")),
            (vec![of("vfat")], Err("has vfat, and k3s needs ext4")),
            (vec![of("exfat")], Err("has exfat, and k3s needs ext4")),
            (vec![of("ntfs")], Err("has ntfs, and k3s needs ext4")),
            (vec![of("crypto_LUKS")], Err("has crypto_LUKS, and k3s needs ext4")),
            (vec![BlockDevice { file_system: None, uuid: None, ..ssd() }], Err("has no file system")),
            (vec![BlockDevice { is_card: true, ..ssd() }], Err("is on the disk that the system runs from")),
            (vec![BlockDevice { is_read_only: true, ..ssd() }], Err("is write-protected")),
            (vec![BlockDevice { mounted_at, ..ssd() }], Err("is mounted at /mnt/usb")),
        ] {
            let chosen = choose(&"LABEL=ssd".parse().unwrap(), &devices);
            match (&chosen, want) {
                (Ok((_, uuid)), Ok(want)) => assert_eq!(*uuid, want),
                (Err(UpgradeRefusal { what, remedy }), Err(want)) => {
                    assert!(what.contains(want) && !remedy.is_empty(), "{what}");
                }
                (chosen, want) => panic!("{devices:?}: {chosen:?}, and not {want:?}"),
            }
        }
    }

    #[test]
    fn what_is_not_moved_and_why() {
        let good = MoveSource { data_dir: "/var/lib/rancher/k3s".to_owned(), ..MoveSource::default() };
        let of = |data_dir: &str| MoveSource { data_dir: data_dir.to_owned(), ..good.clone() };
        for (source, want) in [
            (good.clone(), None),
            (of("/data"), Some("k3s keeps its data in /data")),
            (of("/var/lib/rancher2/k3s"), Some("and not below")),
            (MoveSource { is_link: true, ..good.clone() }, Some("is a link")),
            (
                MoveSource { mounted_at: vec!["/var/lib/rancher/k3s".to_owned()], ..good.clone() },
                Some("mounted at /var/lib/rancher/k3s"),
            ),
            (MoveSource { k3s_ran: true, ..good.clone() }, Some("was started in this boot")),
            (MoveSource { keeps_old: true, ..good }, Some("/var/lib/rancher.on-card is still there")),
        ] {
            let refusal = source.refusal();
            assert_eq!(refusal.is_some(), want.is_some(), "{source:?}");
            assert!(refusal.is_none_or(|refusal| refusal.what.contains(want.unwrap())), "{source:?}");
        }
    }

    #[test]
    fn the_data_goes_where_there_is_space_and_no_other_data() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let target = |entries: &[&str], free, used| MoveTarget {
            shown: "/dev/sda1 (LABEL=ssd)".to_owned(),
            entries: names(entries),
            free,
            used,
            moved: names(&["k3s", "own"]),
        };
        for (target, want) in [
            (target(&["lost+found", "photos"], 4 << 30, 0), None),
            (target(&[], (4 << 30) - 1, 0), Some("4096 MiB are needed, 4095 are free")),
            (target(&[], 11 << 30, 10 << 30), None),
            (target(&[], 10 << 30, 10 << 30), Some("11264 MiB are needed")),
            (target(&[], 10 << 30, u64::MAX), Some("is too small")),
            (target(&["k3s"], 9 << 30, 0), Some("already has a directory `k3s`")),
            (target(&["own"], 9 << 30, 0), Some("already has a directory `own`")),
        ] {
            let refusal = target.refusal();
            assert_eq!(refusal.is_some(), want.is_some(), "{target:?}");
            assert!(refusal.is_none_or(|refusal| refusal.what.contains(want.unwrap())), "{target:?}");
        }
    }
}

//! What is recorded of a move, and what a node says of it.

use serde::{Deserialize, Serialize};

use super::{KEPT, MOUNT_POINT, mount_unit};
use crate::finding::{Code, Finding, Place, Remedy};
use crate::host::storage::{MOUNTS, Mount};
use crate::k3s_upgrade::plan::UpgradeRefusal;
use crate::weaver_toml::plan::DATA_DISK;

const LOG: &str = "journalctl -b -u weaver-data-disk";

/// The disk that is in force. It is written when the copy is whole and checked, before anything is renamed: from then
/// on k3s does not start without the disk, and what is left to do is done at the next boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataDiskRecord {
    /// As `weaver.toml` named it.
    pub asked: String,
    /// Of its file system.
    pub uuid: String,
    /// Names of what was moved.
    pub entries: Vec<String>,
}

/// The move was refused, or failed, and k3s runs on the card.
pub fn not_moved(refusal: UpgradeRefusal) -> Finding {
    let UpgradeRefusal { what, remedy } = refusal;
    let remedy = Remedy::new(remedy).command("lsblk -f").command(LOG).command("sudo reboot");
    Finding::new(Code::DataNotMoved, format!("k3s' data stays where it is: {what}")).remedy(remedy)
}

/// What is known of the disk of k3s' data.
#[derive(Debug, Clone)]
pub struct DataDisk {
    /// The record, or why it cannot be read.
    pub record: Result<Option<DataDiskRecord>, String>,
    /// The file of the record.
    pub place: Place,
    /// The disk that `weaver.toml` asks for.
    pub asked: Option<String>,
    /// What is mounted where k3s keeps its data; `None` where the kernel does not say.
    pub mount: Option<Mount>,
    /// Why this boot did not move the data, or not to the end.
    pub failed: Option<Finding>,
    /// Whether the data of before is still on the card.
    pub keeps_old: bool,
}

impl DataDisk {
    /// A failure where the data was moved and its disk is missing; good news where it is there.
    pub fn judge(self) -> Option<Finding> {
        let Self { record, place, asked, mount, failed, keeps_old } = self;
        let is_mounted = mount? != Mount::Absent;
        let record = match record {
            Err(why) => {
                let message = "k3s' data was moved to a disk, and the record of it cannot be read";
                let remedy = Remedy::new(format!(
                    "mount the disk at {MOUNT_POINT} by a line in /etc/fstab, remove the file, and reboot"
                ));
                return (!is_mounted)
                    .then(|| Finding::new(Code::DataDiskMissing, message).saw(place, why).remedy(remedy));
            }
            Ok(None) => {
                let not_yet = |asked: String| if is_mounted { taken() } else { pending(&asked) };
                return failed.or_else(|| asked.map(not_yet));
            }
            Ok(Some(record)) => record,
        };
        if !is_mounted {
            return Some(missing(&record, place, failed, keeps_old));
        }
        Some(match asked.filter(|asked| *asked != record.asked) {
            None => moved(&record, keeps_old),
            Some(asked) => not_moved(UpgradeRefusal::new(
                format!("it was moved to {}, and is moved only once", record.asked),
                format!("write `data = \"{}\"` again", record.asked),
            ))
            .saw(Place::file(DATA_DISK), asked),
        })
    }
}

fn taken() -> Finding {
    not_moved(UpgradeRefusal::new(
        format!("another file system is mounted at {MOUNT_POINT}"),
        "remove its line from /etc/fstab, or `data` from weaver.toml",
    ))
}

fn pending(asked: &str) -> Finding {
    not_moved(UpgradeRefusal::new(
        format!("it is not on {asked} yet"),
        "reboot: it is moved before k3s starts. If this boot has tried already, its log says how far it came",
    ))
}

fn missing(record: &DataDiskRecord, place: Place, failed: Option<Finding>, keeps_old: bool) -> Finding {
    let DataDiskRecord { asked, uuid, .. } = record;
    let message =
        format!("k3s' data is on the disk {asked}, which is not mounted: k3s does not start without it");
    let mut remedy = Remedy::new("plug the disk in and reboot").command("lsblk -f");
    if keeps_old {
        remedy.explain += "; if it is lost, remove `data` from weaver.toml and type the other commands too: k3s \
                           starts with what the card had before the move";
        remedy = remedy
            .command(format!("sudo rm -f {} {} {}", mount_unit::LINK, mount_unit::PATH, place.file))
            .command(format!("sudo mv -T {KEPT} {MOUNT_POINT}"));
    }
    let remedy = remedy.command("sudo reboot");
    let finding = Finding::new(Code::DataDiskMissing, message)
        .saw(place, format!("UUID={uuid}"))
        .saw(Place::file(MOUNTS), format!("nothing is mounted at {MOUNT_POINT}"))
        .remedy(remedy);
    match failed {
        None => finding,
        Some(failed) => finding.saw(Place::file(mount_unit::PATH), failed.message),
    }
}

fn moved(record: &DataDiskRecord, keeps_old: bool) -> Finding {
    let asked = &record.asked;
    if !keeps_old {
        return Finding::new(Code::DataOnDisk, format!("k3s' data is on the disk {asked}"));
    }
    let message = format!("k3s' data is on the disk {asked}; what the card had before is kept in {KEPT}");
    let remedy = Remedy::new("when all runs, remove what is kept").command(format!("sudo rm -rf {KEPT}"));
    Finding::new(Code::DataOnDisk, message).remedy(remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    fn record() -> DataDiskRecord {
        DataDiskRecord {
            asked: "LABEL=ssd".to_owned(),
            uuid: "0a1b".to_owned(),
            entries: vec!["k3s".to_owned()],
        }
    }

    fn disk() -> DataDisk {
        DataDisk {
            record: Ok(Some(record())),
            place: Place::file("/var/lib/weaver/data-disk.json"),
            asked: Some("LABEL=ssd".to_owned()),
            mount: Some(Mount::Writable),
            failed: None,
            keeps_old: false,
        }
    }

    #[test]
    fn what_a_node_says_of_its_disk() {
        let failed = || {
            let refusal = UpgradeRefusal { what: "no disk".to_owned(), remedy: "plug it in".to_owned() };
            Some(not_moved(refusal))
        };
        let (absent, damaged) = (Some(Mount::Absent), || Err("it is binary".to_owned()));
        let on_card = || DataDisk { record: Ok(None), mount: absent, ..disk() };
        for (what, disk, want) in [
            ("on its disk", disk(), Some((Code::DataOnDisk, Severity::Ok))),
            (
                "on its disk, the line gone",
                DataDisk { asked: None, ..disk() },
                Some((Code::DataOnDisk, Severity::Ok)),
            ),
            (
                "on its disk, and on the card",
                DataDisk { keeps_old: true, ..disk() },
                Some((Code::DataOnDisk, Severity::Ok)),
            ),
            (
                "another one is asked for",
                DataDisk { asked: Some("LABEL=nvme".to_owned()), ..disk() },
                Some((Code::DataNotMoved, Severity::Warn)),
            ),
            (
                "its disk is missing",
                DataDisk { mount: absent, ..disk() },
                Some((Code::DataDiskMissing, Severity::Fail)),
            ),
            ("the kernel does not say", DataDisk { mount: None, ..disk() }, None),
            (
                "the record is damaged",
                DataDisk { record: damaged(), mount: absent, ..disk() },
                Some((Code::DataDiskMissing, Severity::Fail)),
            ),
            ("the record is damaged, the disk there", DataDisk { record: damaged(), ..disk() }, None),
            ("nothing was asked for", DataDisk { asked: None, ..on_card() }, None),
            ("asked for, and not tried yet", on_card(), Some((Code::DataNotMoved, Severity::Warn))),
            (
                "refused",
                DataDisk { failed: failed(), ..on_card() },
                Some((Code::DataNotMoved, Severity::Warn)),
            ),
            (
                "the owner's own mount",
                DataDisk { record: Ok(None), ..disk() },
                Some((Code::DataNotMoved, Severity::Warn)),
            ),
            ("the owner's own mount alone", DataDisk { record: Ok(None), asked: None, ..disk() }, None),
        ] {
            let found = disk.judge().map(|finding| (finding.code, finding.severity()));
            assert_eq!(found, want, "{what}");
        }
    }

    #[test]
    fn a_disk_that_is_lost_leaves_what_the_card_had_where_that_is_still_there() {
        let unmounted = "sudo rm -f /etc/systemd/system/local-fs.target.wants/var-lib-rancher.mount \
                         /etc/systemd/system/var-lib-rancher.mount /var/lib/weaver/data-disk.json";
        let put_back = "sudo mv -T /var/lib/rancher.on-card /var/lib/rancher";
        for (keeps_old, commands) in [
            (false, vec!["lsblk -f", "sudo reboot"]),
            (true, vec!["lsblk -f", unmounted, put_back, "sudo reboot"]),
        ] {
            let disk = DataDisk { mount: Some(Mount::Absent), keeps_old, ..disk() };
            let remedy = disk.judge().unwrap().remedy.unwrap();
            assert_eq!(remedy.commands, commands);
            assert_eq!(remedy.explain.contains("before the move"), keeps_old);
        }
        let kept = DataDisk { keeps_old: true, ..disk() }.judge().unwrap();
        assert_eq!(kept.remedy.unwrap().commands, ["sudo rm -rf /var/lib/rancher.on-card"]);
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let text = serde_json::to_string(&record()).unwrap();
        assert_eq!(serde_json::from_str::<DataDiskRecord>(&text).unwrap(), record());
    }
}

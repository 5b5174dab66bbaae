//! What `lsblk --json` lists.

use serde::Deserialize;

use super::disk::BlockDevice;

/// Columns to ask for.
pub const COLUMNS: &str = "PATH,LABEL,UUID,PARTUUID,FSTYPE,RO,MOUNTPOINTS,PKNAME";

#[derive(Deserialize)]
struct Listing {
    blockdevices: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    path: String,
    label: Option<String>,
    uuid: Option<String>,
    partuuid: Option<String>,
    fstype: Option<String>,
    ro: bool,
    /// One that is not mounted has `null` in it.
    mountpoints: Vec<Option<String>>,
    /// The disk of a partition.
    pkname: Option<String>,
}

/// The disks and partitions, each once. `root` is the device of `/`, such as `mmcblk0p2`.
///
/// # Errors
/// It is not what lsblk prints.
pub fn parse(text: &str, root: Option<&str>) -> Result<Vec<BlockDevice>, serde_json::Error> {
    let Listing { blockdevices: rows } = serde_json::from_str(text)?;
    let disk = |row: &Row| row.pkname.clone().unwrap_or_else(|| row.path.replace("/dev/", ""));
    let is_root = |row: &&Row| {
        row.mountpoints.iter().flatten().any(|point| point == "/")
            || root.is_some_and(|root| row.path.strip_prefix("/dev/") == Some(root))
    };
    let card = rows.iter().find(is_root).map(disk);
    let mut devices: Vec<BlockDevice> = Vec::new();
    for row in rows {
        // One that is made of several disks is below each.
        if devices.iter().any(|device| device.path == row.path) {
            continue;
        }
        devices.push(BlockDevice {
            is_card: card.is_some() && card == Some(disk(&row)),
            path: row.path,
            label: row.label,
            uuid: row.uuid,
            partuuid: row.partuuid,
            file_system: row.fstype,
            is_read_only: row.ro,
            mounted_at: row.mountpoints.into_iter().flatten().collect(),
        });
    }
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = r#"{
   "blockdevices": [
      {"path": "/dev/sda", "label": null, "uuid": null, "partuuid": null, "fstype": null, "ro": false,
       "mountpoints": [null], "pkname": null},
      {"path": "/dev/mmcblk0", "label": null, "uuid": null, "partuuid": null, "fstype": null, "ro": false,
       "mountpoints": [null], "pkname": null},
      {"path": "/dev/sda1", "label": "ssd", "uuid": "0a1b", "partuuid": "8f2b-01", "fstype": "ext4", "ro": true,
       "mountpoints": [null], "pkname": "sda"},
      {"path": "/dev/mmcblk0p1", "label": "WEAVERBOOT", "uuid": "1-2", "partuuid": "1", "fstype": "vfat",
       "ro": false, "mountpoints": ["/boot/firmware"], "pkname": "mmcblk0"},
      {"path": "/dev/mmcblk0p2", "label": "weaver-root", "uuid": "3", "partuuid": "2", "fstype": "ext4",
       "ro": false, "mountpoints": ["ROOT"], "pkname": "mmcblk0"},
      {"path": "/dev/sda1", "label": "ssd", "uuid": "0a1b", "partuuid": "8f2b-01", "fstype": "ext4", "ro": true,
       "mountpoints": [null], "pkname": "sdb"}
   ]
}"#;

    #[test]
    fn each_device_once_and_those_of_the_card() {
        for (mounted, root, card) in [
            ("\"/\"", None, vec!["/dev/mmcblk0", "/dev/mmcblk0p1", "/dev/mmcblk0p2"]),
            ("null", Some("mmcblk0p2"), vec!["/dev/mmcblk0", "/dev/mmcblk0p1", "/dev/mmcblk0p2"]),
            ("null", None, vec![]),
        ] {
            let devices = parse(&PRINTED.replace("\"ROOT\"", mounted), root).unwrap();
            let of_card: Vec<_> = devices.iter().filter(|device| device.is_card).collect();
            assert_eq!(of_card.iter().map(|device| device.path.as_str()).collect::<Vec<_>>(), card);
            assert_eq!(devices.len(), 5);
            let ssd = BlockDevice {
                path: "/dev/sda1".to_owned(),
                label: Some("ssd".to_owned()),
                uuid: Some("0a1b".to_owned()),
                partuuid: Some("8f2b-01".to_owned()),
                file_system: Some("ext4".to_owned()),
                is_read_only: true,
                ..BlockDevice::default()
            };
            assert_eq!(devices[2], ssd);
            assert_eq!(devices[3].mounted_at, ["/boot/firmware"]);
        }
    }

    /// As `weaver.toml` would name a disk without partitions.
    #[test]
    fn a_system_on_a_disk_without_partitions_is_on_that_disk() {
        let text = PRINTED.replace("[null], \"pkname\": null", "[\"/\"], \"pkname\": null");
        let devices = parse(&text, None).unwrap();
        assert!(devices[0].is_card && devices[2].is_card, "{devices:?}");
    }

    #[test]
    fn what_is_no_listing_is_an_error() {
        for text in ["", "{}", "{\"blockdevices\": [{\"path\": 3}]}"] {
            parse(text, None).unwrap_err();
        }
    }
}

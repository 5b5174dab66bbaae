//! The unit with which systemd mounts the disk at each boot.

use super::{MOUNT_POINT, disk::FILE_SYSTEM};

/// systemd has its name from the directory. boot-config, and so k3s, is ordered after it.
pub const NAME: &str = "var-lib-rancher.mount";
pub const PATH: &str = "/etc/systemd/system/var-lib-rancher.mount";
/// With this link it is mounted at each boot.
pub const LINK: &str = "/etc/systemd/system/local-fs.target.wants/var-lib-rancher.mount";

/// By its UUID: a second disk that gets the same label is not mounted in its place.
///
/// `nofail`: without the disk the board boots, and says so.
pub fn text(asked: &str, uuid: &str) -> String {
    let fsck = format!("systemd-fsck@dev-disk-by\\x2duuid-{}.service", uuid.replace('-', "\\x2d"));
    format!(
        "# Written by weaver-node-agent data-disk, when it moved the data of k3s there.\n\
         [Unit]\n\
         Description=Data of k3s on {asked}\n\
         Wants={fsck}\n\
         After={fsck}\n\
         \n\
         [Mount]\n\
         What=/dev/disk/by-uuid/{uuid}\n\
         Where={MOUNT_POINT}\n\
         Type={FILE_SYSTEM}\n\
         Options=noatime,nofail\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_unit() {
        let fsck =
            r"systemd-fsck@dev-disk-by\x2duuid-0a1b2c3d\x2d0001\x2d4000\x2d8000\x2d00000000000f.service";
        let want = format!(
            "# Written by weaver-node-agent data-disk, when it moved the data of k3s there.\n[Unit]\n\
             Description=Data of k3s on LABEL=ssd\nWants={fsck}\nAfter={fsck}\n\n[Mount]\n\
             What=/dev/disk/by-uuid/0a1b2c3d-0001-4000-8000-00000000000f\nWhere=/var/lib/rancher\n\
             Type=ext4\nOptions=noatime,nofail\n"
        );
        assert_eq!(text("LABEL=ssd", "0a1b2c3d-0001-4000-8000-00000000000f"), want);
    }
}

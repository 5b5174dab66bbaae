//! Reads the facts about the node itself for its `NodeReport`, and which readers there are for its health.

use std::path::{Path, PathBuf};

use weaver_api::v1beta1::{NodeBootStep, NodeServing, NodeSystem};
use weaver_diagnostics::{host::storage::Mount, power::Power};

use crate::{
    clock_wait,
    facts::{board, kernel, mounts::Mounts, system},
    host_root::HostRoot,
};

const OS_RELEASE: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];
pub(crate) const BLOCK_DEVICES: &str = "/sys/class/block";

/// What was seen of the API server's certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ServingSeen {
    /// Nothing was seen: the earlier state stays.
    #[default]
    Nothing,
    Certificate(NodeServing),
    /// The API server is another node's.
    Elsewhere,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// The board, as its device tree names it.
    pub board: Option<String>,
    /// The operating system's name.
    pub os: Option<String>,
    /// Release of the running kernel.
    pub kernel: Option<String>,
    /// The medium of the root file system: `sd`, `emmc`, `usb`, `nvme`, `virtio`.
    pub boot_medium: Option<&'static str>,
    /// What was measured; `None` where nothing can be.
    pub system: Option<NodeSystem>,
    /// What the API server shows.
    pub serving: ServingSeen,
    /// The steps of this boot, as systemd has them now.
    pub boot: Vec<NodeBootStep>,
    /// Whether the clock was set.
    pub clock_is_set: bool,
    /// Whether it is known what is mounted.
    pub storage_is_seen: bool,
    /// Whether the kernel reports the state of the board's power supply.
    pub power_is_seen: bool,
}

/// What can be read of the host's files.
pub fn read(root: &HostRoot, data_dir: &Path) -> NodeFacts {
    let mounts = Mounts::read(root).unwrap_or_default();
    NodeFacts {
        board: root.device_model(),
        os: OS_RELEASE.iter().find_map(|path| pretty_name(&root.read_if_possible(path)?.text)),
        kernel: kernel::release(root),
        boot_medium: mounts.root_device(root).and_then(|device| medium(root, &device)),
        system: system::measured(root, data_dir),
        clock_is_set: clock_wait::is_synchronised(root),
        storage_is_seen: mounts.at(Path::new("/")) != Mount::Absent,
        power_is_seen: matches!(board::power(root), Some(Power::Flags(..) | Power::Alarm(..))),
        ..NodeFacts::default()
    }
}

fn pretty_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim().trim_matches(['"', '\'']).to_owned()).filter(|name| !name.is_empty())
}

fn medium(root: &HostRoot, device: &str) -> Option<&'static str> {
    if device.starts_with("mmcblk") {
        let disk = device.split('p').next()?;
        let kind = root.read_if_possible(format!("{BLOCK_DEVICES}/{disk}/device/type"))?.text;
        return Some(if kind.trim() == "MMC" { "emmc" } else { "sd" });
    }
    if device.starts_with("nvme") {
        return Some("nvme");
    }
    if device.starts_with("vd") {
        return Some("virtio");
    }
    // The sysfs path of a disk: `…/usb1/1-1/…`.
    let path: PathBuf = std::fs::read_link(root.real(format!("{BLOCK_DEVICES}/{device}"))).ok()?;
    path.iter().any(|part| part.to_string_lossy().starts_with("usb")).then_some("usb")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;
    use weaver_diagnostics::host::{board::CLOCK_MARK, storage::MOUNTS};

    #[test]
    fn each_medium() {
        for (device, files, want) in [
            ("mmcblk0p2", vec![("/sys/class/block/mmcblk0/device/type", "SD\n")], Some("sd")),
            ("mmcblk0p2", vec![("/sys/class/block/mmcblk0/device/type", "MMC\n")], Some("emmc")),
            ("mmcblk0p2", vec![], None),
            ("nvme0n1p2", vec![], Some("nvme")),
            ("vda2", vec![], Some("virtio")),
            ("sda2", vec![], None),
        ] {
            let (_dir, root) = host(&files);
            assert_eq!(medium(&root, device), want, "{files:?}");
        }
        let (dir, root) = host(&[]);
        let block = dir.path().join("sys/class/block");
        std::fs::create_dir_all(&block).unwrap();
        for (device, path) in [
            ("sda2", "../../devices/pci0/usb2/2-1/host0/sda/sda2"),
            ("sdb2", "../../devices/pci0/ata1/sdb/sdb2"),
        ] {
            std::os::unix::fs::symlink(path, block.join(device)).unwrap();
        }
        assert_eq!((medium(&root, "sda2"), medium(&root, "sdb2")), (Some("usb"), None));
    }

    #[test]
    fn what_no_one_tells_is_not_made_up() {
        let (_dir, root) = host(&[]);
        assert_eq!(read(&root, Path::new("/")), NodeFacts::default());
    }

    #[test]
    fn a_pi_with_the_image() {
        let (_dir, root) = host(&[
            ("/proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.5\0"),
            ("/etc/os-release", "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 13 (trixie)\"\n"),
            ("/proc/sys/kernel/osrelease", "6.12.57+deb13-arm64\n"),
            (MOUNTS, "25 1 179:2 / / rw,noatime shared:1 - ext4 /dev/mmcblk0p2 rw\n"),
            ("/sys/class/block/mmcblk0/device/type", "SD\n"),
            (CLOCK_MARK, ""),
        ]);
        let facts = NodeFacts {
            board: Some("Raspberry Pi 4 Model B Rev 1.5".into()),
            os: Some("Debian GNU/Linux 13 (trixie)".into()),
            kernel: Some("6.12.57+deb13-arm64".into()),
            boot_medium: Some("sd"),
            clock_is_set: true,
            storage_is_seen: true,
            ..NodeFacts::default()
        };
        assert_eq!(read(&root, Path::new("/")), facts);
    }
}

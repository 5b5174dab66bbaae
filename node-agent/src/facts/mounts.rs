//! What is mounted where.

use std::path::{Path, PathBuf};

use procfs_core::process::MountInfo;
use weaver_diagnostics::host::storage::{MOUNTS, Mount};

use crate::host_root::{HostRoot, ReadError};

/// The mounts, in the kernel's order.
#[derive(Debug, Default)]
pub(crate) struct Mounts(Vec<MountInfo>);

impl Mounts {
    /// `None` where the kernel does not say.
    pub(crate) fn read(root: &HostRoot) -> Option<Self> {
        Self::try_read(root).ok().flatten()
    }

    /// `None` where there is no such list.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub(crate) fn try_read(root: &HostRoot) -> Result<Option<Self>, ReadError> {
        Ok(root.read(MOUNTS)?.map(|file| Self::parse(&file.text)))
    }

    fn parse(text: &str) -> Self {
        let mounts = text.lines().filter_map(|line| MountInfo::from_line(line).ok());
        Self(mounts.map(|mount| MountInfo { mount_point: unescaped(&mount.mount_point), ..mount }).collect())
    }

    pub(crate) fn at(&self, directory: &Path) -> Mount {
        // The last one covers the others.
        let Some(mount) = self.0.iter().rfind(|mount| mount.mount_point == directory) else {
            return Mount::Absent;
        };
        // ext4 after a fault: `ro`, and from Linux 6.12 on `rw,emergency_ro`.
        let refuses = ["ro", "emergency_ro", "shutdown"].into_iter().any(|option| {
            mount.mount_options.contains_key(option) || mount.super_options.contains_key(option)
        });
        if refuses { Mount::ReadOnly } else { Mount::Writable }
    }

    /// The mount points at a path and below it.
    pub(crate) fn within(&self, path: &Path) -> impl Iterator<Item = &Path> {
        self.0
            .iter()
            .map(|mount| mount.mount_point.as_path())
            .filter(move |mount_point| mount_point.starts_with(path))
    }

    /// The mount point of the file system that contains a path, and how it is mounted.
    pub(crate) fn holding(&self, path: &Path) -> Option<(PathBuf, Mount)> {
        let mut ancestors = path.ancestors().map(|ancestor| (ancestor.to_owned(), self.at(ancestor)));
        ancestors.find(|(_, state)| *state != Mount::Absent)
    }

    /// The type of the file system that contains a path.
    pub(crate) fn type_under(&self, path: &Path) -> Option<&str> {
        let (mount_point, _) = self.holding(path)?;
        let mount = self.0.iter().rfind(|mount| mount.mount_point == mount_point)?;
        Some(mount.fs_type.as_str())
    }

    /// The device of the file system that contains a path.
    pub(crate) fn device_under(&self, path: &str) -> Option<&str> {
        let holding = self.0.iter().filter(|mount| Path::new(path).starts_with(&mount.mount_point));
        let nearest = holding.max_by_key(|mount| mount.mount_point.components().count());
        nearest?.mount_source.as_deref()
    }

    /// The mount points of file systems that the firmware of a board can read.
    pub(crate) fn fats(&self) -> impl Iterator<Item = &Path> {
        let fats = self.0.iter().filter(|mount| mount.fs_type == "vfat");
        fats.map(|mount| mount.mount_point.as_path())
    }

    /// The device that is mounted at a path.
    pub(crate) fn device_at(&self, directory: &str) -> Option<&str> {
        let mount = self.0.iter().rfind(|mount| mount.mount_point == Path::new(directory))?;
        mount.mount_source.as_deref()
    }

    /// The device whose file system is `/`, such as `mmcblk0p2`. Without an initramfs the kernel calls it `/dev/root`,
    /// and its device numbers show which it is.
    pub(crate) fn root_device(&self, root: &HostRoot) -> Option<String> {
        let mount = self.0.iter().rfind(|mount| mount.mount_point == Path::new("/"))?;
        let source = mount.mount_source.as_deref()?.strip_prefix("/dev/")?;
        if source != "root" {
            return Some(source.to_owned());
        }
        let device = std::fs::read_link(root.real(format!("/sys/dev/block/{}", mount.majmin))).ok()?;
        Some(device.file_name()?.to_string_lossy().into_owned())
    }

    /// Whether cgroups of version 1 are mounted, and whether the memory controller is with one of them.
    pub(crate) fn cgroup_version_1(&self) -> Option<bool> {
        let mut of_version_1 = self.0.iter().filter(|mount| mount.fs_type == "cgroup").peekable();
        of_version_1.peek()?;
        Some(of_version_1.any(|mount| mount.super_options.contains_key("memory")))
    }
}

/// The kernel and fstab write a blank in a path as `\040`, and procfs-core leaves it.
pub(crate) fn unescaped(path: &Path) -> PathBuf {
    path.to_string_lossy().replace(r"\040", " ").replace(r"\011", "\t").replace(r"\134", r"\").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;

    #[test]
    fn what_is_mounted_in_a_place() {
        const RW: &str =
            "36 25 254:1 / /boot/firmware rw,noatime shared:1 - vfat /dev/vda1 rw,fmask=0077,dirsync\n";
        for (text, want) in [
            ("", Mount::Absent),
            ("25 1 254:2 / / rw - ext4 /dev/vda2 rw\n", Mount::Absent),
            ("36 25 254:1 / /boot/firmware2 rw - vfat /dev/vda1 rw\n", Mount::Absent),
            ("36 25 254:1 / /boot/firmware\n", Mount::Absent),
            (RW, Mount::Writable),
            (&format!("nothing that a kernel writes\n{RW}"), Mount::Writable),
            ("36 25 254:1 / /boot/firmware ro,noatime - vfat /dev/vda1 rw\n", Mount::ReadOnly),
            ("36 25 254:1 / /boot/firmware rw - vfat /dev/vda1 ro,errors=remount-ro\n", Mount::ReadOnly),
            ("36 25 254:1 / /boot/firmware rw - vfat /dev/vda1 rw,errors=remount-ro\n", Mount::Writable),
            ("36 25 254:1 / /boot/firmware rw - ext4 /dev/vda1 rw,emergency_ro\n", Mount::ReadOnly),
            (
                "36 25 0:1 / /boot/firmware ro - autofs x rw\n37 36 254:1 / /boot/firmware rw - vfat x rw\n",
                Mount::Writable,
            ),
        ] {
            assert_eq!(Mounts::parse(text).at(Path::new("/boot/firmware")), want, "{text}");
        }
        let blank = Mounts::parse(r"36 25 254:1 / /mnt/a\040b rw - vfat x rw");
        assert_eq!(blank.at(Path::new("/mnt/a b/")), Mount::Writable);
    }

    #[test]
    fn the_file_system_that_holds_a_path() {
        let mounts = Mounts::parse(
            "25 1 179:2 / / rw - ext4 /dev/mmcblk0p2 rw\n26 25 8:1 / /mnt/ssd ro - ext4 /dev/sda1 ro\n\
             27 25 0:9 / /mnt/none rw - tmpfs none rw\n",
        );
        let holding = |path| mounts.holding(Path::new(path));
        assert_eq!(holding("/mnt/ssd/k3s"), Some(("/mnt/ssd".into(), Mount::ReadOnly)));
        assert_eq!(holding("/mnt/ssd2/k3s"), Some(("/".into(), Mount::Writable)));
        assert_eq!(Mounts::default().holding(Path::new("/")), None);
        assert_eq!(mounts.device_under("/mnt/ssd/swap"), Some("/dev/sda1"));
        assert_eq!(mounts.device_under("/var/swap"), Some("/dev/mmcblk0p2"));
        assert_eq!(mounts.device_under("/mnt/none/swap"), None);
    }

    #[test]
    fn the_device_of_the_root() {
        let mounted =
            |device: &str| Mounts::parse(&format!("25 1 179:2 / / rw shared:1 - ext4 /dev/{device} rw\n"));
        let (dir, root) = host(&[]);
        assert_eq!(mounted("sda2").root_device(&root).as_deref(), Some("sda2"));
        assert_eq!(mounted("root").root_device(&root), None);
        let numbers = dir.path().join("sys/dev/block");
        std::fs::create_dir_all(&numbers).unwrap();
        std::os::unix::fs::symlink("../../devices/x/mmcblk0/mmcblk0p2", numbers.join("179:2")).unwrap();
        assert_eq!(mounted("root").root_device(&root).as_deref(), Some("mmcblk0p2"));
    }

    #[test]
    fn cgroups_of_version_1() {
        for (text, want) in [
            ("36 25 0:31 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", None),
            ("36 25 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n", Some(false)),
            ("36 25 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", Some(true)),
        ] {
            assert_eq!(Mounts::parse(text).cgroup_version_1(), want, "{text}");
        }
    }
}

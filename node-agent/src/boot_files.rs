//! Reads what determines the next boot: the boot partition, the configuration of other boot loaders, the stub that
//! nothing reads, and what Debian's generator adds. [`next_boot`] decides which of it counts.

use std::{fs, path::Path};

use weaver_diagnostics::{
    config_txt::{BOOT_DIR, Hardware, OLD_BOOT_DIR, OLD_CMDLINE},
    finding::Place,
    host::storage::Mount,
    kernel_cmdline::is_moved_stub,
    memory_cgroup::{EXTRA_CMDLINE, PROC_CMDLINE},
    next_boot::{self, BootFile, BootFileContent, FatFiles, MachineFacts, NextBoot},
    text_file::TextFile,
};

use crate::{facts::mounts::Mounts, host_root::HostRoot};

#[derive(Debug)]
pub struct BootFiles {
    /// What the next boot uses.
    pub next: NextBoot,
    /// The stub in the old directory, if there is one.
    pub stub: Option<TextFile>,
    /// `/etc/default/raspi-extra-cmdline`.
    pub extra: Option<TextFile>,
    /// Whether the generator that appends it is there, and the file can be read. Raspberry Pi OS has a hook of
    /// the same name that does not.
    pub generator: bool,
    /// Where the boot partition is mounted, if it is mounted read-only.
    pub read_only_at: Option<String>,
}

/// Run at each change of a kernel.
const HOOK: &str = "/etc/kernel/postinst.d/z50-raspi-firmware";
/// The firmware's record of this boot.
const BOOTLOADER: &str = "/proc/device-tree/chosen/bootloader";
/// `boot-mode` of a start from a network, and of one from a web server.
const NETWORK: [u32; 2] = [2, 7];

/// Depth of the directories below the boot partition that are read: `os_prefix` may contain a directory.
const DEPTH: usize = 2;
/// The most files on it that are read; Ubuntu with both slots has some 150.
const MOST_FILES: usize = 5000;
/// Hundreds of files, and none that counts here.
const OVERLAYS: &str = "overlays";
/// Ends of names of what is no text.
const NO_TEXT: [&str; 10] = ["dtb", "dtbo", "elf", "dat", "img", "bin", "gz", "efi", "fd", "sig"];
const NO_TEXT_START: [&str; 4] = ["vmlinuz", "initrd", "initramfs", "System.map"];

/// Reads them all; never fails: what cannot be read is recorded as such.
#[must_use]
pub fn read(root: &HostRoot) -> BootFiles {
    let stub = root.read_if_possible(OLD_CMDLINE).filter(|file| is_moved_stub(&file.text));
    let extra = root.read(EXTRA_CMDLINE);
    let hook = root.read_if_possible(HOOK).is_some_and(|hook| hook.text.contains(EXTRA_CMDLINE));
    // What cannot be read cannot be added to either.
    let generator = hook && extra.is_ok();
    let next = next(root);
    let read_only_at = read_only_at(root, &next);
    BootFiles { next, stub, generator, extra: extra.ok().flatten(), read_only_at }
}

/// Where the file of the next boot is mounted, if that is read-only.
fn read_only_at(root: &HostRoot, next: &NextBoot) -> Option<String> {
    let BootFile::Read(file) = &next.file else { return None };
    match Mounts::read(root)?.holding(Path::new(&file.path))? {
        (mount_point, Mount::ReadOnly) => Some(mount_point.display().to_string()),
        _ => None,
    }
}

fn next(root: &HostRoot) -> NextBoot {
    let mut files = FatFiles::default();
    let mut left = MOST_FILES;
    for directory in [BOOT_DIR, OLD_BOOT_DIR] {
        let depth = if directory == BOOT_DIR { DEPTH } else { 0 };
        if let Err(why) = walk(root, directory, depth, &mut left, &mut files) {
            let file = BootFile::Undecided { place: Place::file(directory), why };
            return NextBoot::only(file);
        }
    }
    for path in next_boot::FILES {
        if root.exists(path) {
            files.insert(path, content(root, path));
        }
    }
    for directory in next_boot::DIRECTORIES {
        for name in root.list(directory).unwrap_or_default() {
            let path = format!("{directory}/{name}");
            files.insert(path.clone(), content(root, &path));
        }
    }
    next_boot::forecast(&files, &machine(root))
}

/// All files of a directory and of those below it.
fn walk(
    root: &HostRoot,
    directory: &str,
    depth: usize,
    left: &mut usize,
    files: &mut FatFiles,
) -> Result<(), String> {
    let names = root.list(directory).map_err(|error| format!("{directory} cannot be listed: {error}"))?;
    for name in names {
        let path = format!("{directory}/{name}");
        if root.is_dir(&path) {
            // A directory where a file is expected is found as one that cannot be read.
            files.insert(path.clone(), BootFileContent::Unreadable("it is not a regular file".to_owned()));
            if depth > 0 && name != OVERLAYS {
                walk(root, &path, depth - 1, left, files)?;
            }
            continue;
        }
        *left = left.checked_sub(1).ok_or_else(|| format!("there are more than {MOST_FILES} files on it"))?;
        let is_text = !NO_TEXT_START.iter().any(|start| name.starts_with(start))
            && !NO_TEXT
                .iter()
                .any(|end| name.rsplit_once('.').is_some_and(|(_, it)| it.eq_ignore_ascii_case(end)));
        let content = if is_text { content(root, &path) } else { BootFileContent::Named };
        files.insert(path, content);
    }
    Ok(())
}

fn content(root: &HostRoot, path: &str) -> BootFileContent {
    match root.read_lossy(path) {
        Ok(Some((text, damage))) => {
            BootFileContent::Text { text, damage: damage.map(|error| error.to_string()) }
        }
        Ok(None) => BootFileContent::Unreadable("it leads nowhere".to_owned()),
        Err(error) => BootFileContent::Unreadable(error.to_string()),
    }
}

/// A number that the firmware left of this boot.
fn left_by_firmware(root: &HostRoot, name: &str) -> Option<u32> {
    let bytes = fs::read(root.real(format!("{BOOTLOADER}/{name}"))).ok()?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// Whether this boot is one on trial, where the firmware says.
#[must_use]
pub fn is_trial(root: &HostRoot) -> Option<bool> {
    left_by_firmware(root, "tryboot").map(|flag| flag != 0)
}

fn machine(root: &HostRoot) -> MachineFacts {
    let number = |name: &str| left_by_firmware(root, name);
    let model = root.device_model();
    let mounts = Mounts::read(root);
    let device =
        |directory| mounts.as_ref().and_then(|mounts| mounts.device_at(directory).map(str::to_owned));
    let (new, old) = (device(BOOT_DIR), device(OLD_BOOT_DIR));
    MachineFacts {
        hardware: Hardware { model, serial: root.device_serial(), is_tryboot: false },
        running: root.read_if_possible(PROC_CMDLINE).map(|file| file.text),
        is_trial: is_trial(root),
        booted_partition: number("partition").filter(|partition| *partition > 0),
        mounted_partition: new.as_deref().and_then(partition),
        is_from_network: number("boot-mode").is_some_and(|mode| NETWORK.contains(&mode)),
        other_device: number("boot-mode").and_then(|mode| other_device(mode, new.as_deref()?)),
        // A vfat is that of the firmware; a /boot of its own is ext4 mostly.
        is_mounted_at_old: new.is_none()
            && old.is_some()
            && root.exists(format!("{OLD_BOOT_DIR}/config.txt"))
            && root.exists(format!("{OLD_BOOT_DIR}/cmdline.txt")),
    }
}

/// Why the firmware of this boot mode has not read the partition that is mounted.
fn other_device(mode: u32, mounted: &str) -> Option<String> {
    let (name, start) = match mode {
        1 => ("an SD card", "/dev/mmcblk"),
        6 => ("an NVMe disk", "/dev/nvme"),
        _ => return None,
    };
    let is_known = ["/dev/mmcblk", "/dev/nvme", "/dev/sd"].iter().any(|start| mounted.starts_with(start));
    let differs = is_known && !mounted.starts_with(start);
    differs.then(|| format!("the firmware booted from {name}, and {mounted} is mounted at {BOOT_DIR}"))
}

/// The number of a partition: `/dev/mmcblk0p1`, `/dev/nvme0n1p1`, `/dev/sda1`.
fn partition(device: &str) -> Option<u32> {
    let name = device.strip_prefix("/dev/")?;
    let number = if ["mmcblk", "nvme"].iter().any(|start| name.starts_with(start)) {
        name.rsplit_once('p')?.1
    } else {
        name.trim_start_matches(|c: char| !c.is_ascii_digit())
    };
    number.parse().ok().filter(|number| *number > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;

    #[test]
    fn the_device_that_the_firmware_booted_from() {
        for (mode, mounted, want) in [
            (6, "/dev/mmcblk0p1", true),
            (6, "/dev/nvme0n1p1", false),
            (1, "/dev/mmcblk0p1", false),
            (1, "/dev/sda1", true),
            (4, "/dev/mmcblk0p1", false),
            (6, "/dev/mapper/boot", false),
        ] {
            assert_eq!(other_device(mode, mounted).is_some(), want, "{mode} {mounted}");
        }
    }

    #[test]
    fn the_file_in_force() {
        const STUB: &str = "DO NOT EDIT THIS FILE\n\nmoved to /boot/firmware/cmdline.txt\n";
        const MODEL: (&str, &str) = ("/proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.5\0");
        for (files, want) in [
            (vec![], None),
            (vec![("/boot/cmdline.txt", "a")], Some("/boot/cmdline.txt")),
            (vec![("/boot/cmdline.txt", STUB)], None),
            (
                vec![("/boot/cmdline.txt", STUB), ("/boot/firmware/cmdline.txt", "a")],
                Some("/boot/firmware/cmdline.txt"),
            ),
            // There is no evidence that the firmware reads it.
            (vec![("/boot/firmware/current/cmdline.txt", "a")], None),
            (
                vec![
                    ("/boot/config.txt", "cmdline=old.txt\n"),
                    ("/boot/cmdline.txt", "a"),
                    ("/boot/old.txt", "b"),
                ],
                Some("/boot/old.txt"),
            ),
            (
                vec![
                    MODEL,
                    ("/boot/firmware/config.txt", "[pi5]\ncmdline=five.txt\n[pi4]\ncmdline=four.txt\n"),
                    ("/boot/firmware/cmdline.txt", "a"),
                    ("/boot/firmware/four.txt", "b"),
                    ("/boot/firmware/five.txt", "c"),
                ],
                Some("/boot/firmware/four.txt"),
            ),
            (
                vec![
                    ("/boot/firmware/config.txt", "os_prefix=current/\n"),
                    ("/boot/firmware/cmdline.txt", "a"),
                    ("/boot/firmware/current/cmdline.txt", "b"),
                    ("/boot/firmware/current/kernel8.img", ""),
                    ("/boot/firmware/current/bcm2711-rpi-4-b.dtb", ""),
                ],
                Some("/boot/firmware/current/cmdline.txt"),
            ),
            // Without a kernel there the firmware drops the prefix.
            (
                vec![
                    ("/boot/firmware/config.txt", "os_prefix=current/\n"),
                    ("/boot/firmware/kernel8.img", ""),
                    ("/boot/firmware/cmdline.txt", "a"),
                    ("/boot/firmware/current/cmdline.txt", "b"),
                ],
                Some("/boot/firmware/cmdline.txt"),
            ),
            (
                vec![
                    ("/proc/device-tree/serial-number", "1000000012345678\0"),
                    ("/boot/firmware/config.txt", "include mine.txt\n[0x1]\ncmdline=other.txt\n"),
                    ("/boot/firmware/mine.txt", "[0x12345678]\ncmdline=serial.txt\n"),
                    ("/boot/firmware/cmdline.txt", "a"),
                    ("/boot/firmware/serial.txt", "b"),
                ],
                Some("/boot/firmware/serial.txt"),
            ),
            // Blanks and comments as the firmware treats them: ` a.txt` and `b.txt # mine` are no files of this card.
            (
                vec![
                    ("/boot/firmware/config.txt", "cmdline = a.txt\n"),
                    ("/boot/firmware/cmdline.txt", "a"),
                    ("/boot/firmware/a.txt", "b"),
                ],
                Some("/boot/firmware/cmdline.txt"),
            ),
            (
                vec![
                    ("/boot/firmware/config.txt", "cmdline=b.txt # mine\n"),
                    ("/boot/firmware/cmdline.txt", "a"),
                    ("/boot/firmware/b.txt", "b"),
                ],
                None,
            ),
        ] {
            let (_dir, root) = host(&files);
            let path = match read(&root).next.file {
                BootFile::Read(file) => Some(file.path),
                _ => None,
            };
            assert_eq!(path.as_deref(), want, "{files:?}");
        }
    }

    #[test]
    fn a_file_that_only_the_firmware_can_tell_is_none() {
        for (config, at, because) in [
            ("[gpio4=1]\ncmdline=a.txt\n", "/boot/firmware/config.txt:2", "the level of a pin"),
            ("[pi4]\ncmdline=a.txt\n", "/boot/firmware/config.txt:2", "the model, which is unknown here"),
            ("include ../a.txt\n", "/boot/firmware/config.txt:1", "outside of the boot partition"),
            ("include dir\n", "/boot/firmware/config.txt:1", "not a regular file"),
        ] {
            let (_dir, root) = host(&[
                ("/boot/firmware/config.txt", config),
                ("/boot/firmware/cmdline.txt", "a"),
                ("/boot/firmware/a.txt", "b"),
                ("/boot/firmware/dir/c.txt", ""),
            ]);
            let BootFile::Undecided { place, why } = read(&root).next.file else { panic!("{config}") };
            assert_eq!(place.to_string(), at, "{config}");
            assert!(why.contains(because), "{why}");
        }
        let (_dir, root) = host(&[("/boot/firmware/config.txt/x", ""), ("/boot/firmware/cmdline.txt", "a")]);
        assert!(matches!(read(&root).next.file, BootFile::Undecided { .. }), "config.txt cannot be read");
    }

    #[test]
    fn hostile_partitions_are_read_to_an_end() {
        let undecided = |root: &HostRoot| match read(root).next.file {
            BootFile::Undecided { why, .. } | BootFile::Unreadable { why, .. } => why,
            other => panic!("{other:?}"),
        };
        let large = "a".repeat(10 * 1024 * 1024);
        let (_dir, root) = host(&[("/boot/firmware/cmdline.txt", &large)]);
        assert_eq!(undecided(&root), "it is larger than 256 KiB");
        let (_dir, root) =
            host(&[("/boot/firmware/config.txt", &large), ("/boot/firmware/cmdline.txt", "a")]);
        assert!(undecided(&root).contains("larger than"), "{}", undecided(&root));
        let (_dir, root) = host(&[("/boot/firmware/cmdline.txt", "a\0b\n")]);
        assert_eq!(undecided(&root), "it is binary, not text");
        let (dir, root) = host(&[("/boot/firmware/config.txt", "include mine.txt\n")]);
        let boot = dir.path().join("boot/firmware");
        std::os::unix::fs::symlink("mine.txt", boot.join("mine.txt")).unwrap();
        assert!(undecided(&root).contains("mine.txt"), "{}", undecided(&root));
        // Directories within each other, and more files than any card has.
        let (dir, root) = host(&[("/boot/firmware/cmdline.txt", "a")]);
        let boot = dir.path().join("boot/firmware");
        std::os::unix::fs::symlink(".", boot.join("again")).unwrap();
        assert!(matches!(read(&root).next.file, BootFile::Read(_)));
        (0..=MOST_FILES).for_each(|number| fs::write(boot.join(format!("{number}.dtbo")), "").unwrap());
        assert_eq!(undecided(&root), "there are more than 5000 files on it");
    }

    #[test]
    fn what_the_firmware_says_of_this_boot() {
        let (dir, root) = host(&[
            ("/proc/device-tree/chosen/bootloader/tryboot", "\0\0\0\u{1}"),
            ("/proc/device-tree/chosen/bootloader/partition", "\0\0\0\u{2}"),
            ("/proc/device-tree/chosen/bootloader/boot-mode", "\0\0\0\u{2}"),
            ("/proc/self/mountinfo", "36 25 179:3 / /boot/firmware rw - vfat /dev/mmcblk0p3 rw\n"),
        ]);
        let found = machine(&root);
        assert_eq!(
            (found.is_trial, found.booted_partition, found.mounted_partition),
            (Some(true), Some(2), Some(3))
        );
        assert!(found.is_from_network);
        fs::write(dir.path().join("proc/device-tree/chosen/bootloader/tryboot"), "short").unwrap();
        assert_eq!(machine(&root).is_trial, None);
        for (device, want) in [
            ("/dev/mmcblk0p12", Some(12)),
            ("/dev/nvme0n1p1", Some(1)),
            ("/dev/sda2", Some(2)),
            ("/dev/mmcblk0", None),
            ("/dev/nvme0n1", None),
            ("/dev/sda", None),
            ("/dev/", None),
            ("tmpfs", None),
        ] {
            assert_eq!(partition(device), want, "{device}");
        }
    }

    #[test]
    fn the_stub_is_kept_apart() {
        let (_dir, root) = host(&[("/boot/cmdline.txt", "DO NOT EDIT THIS FILE\ncgroup_enable=memory\n")]);
        assert!(read(&root).stub.is_some());
    }
}

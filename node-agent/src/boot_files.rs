//! Reads what determines the next boot: the boot partition, the configuration of other boot loaders, the stub that
//! nothing reads, and what Debian's generator adds. [`next_boot`] decides which of it counts.

use std::{fs, path::Path};

use weaver_diagnostics::{
    config_txt::{BOOT_DIR, Hardware, OLD_BOOT_DIR, OLD_CMDLINE},
    finding::Place,
    host::storage::{MOUNTS, Mount},
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
    /// The file in the old directory that the firmware does not read, if there is one.
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
/// The disks that the kernel has.
const DISKS: &str = "/sys/block";

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
pub fn read(root: &HostRoot) -> BootFiles {
    let extra = root.read(EXTRA_CMDLINE);
    let hook = root.read_if_possible(HOOK).is_some_and(|hook| hook.text.contains(EXTRA_CMDLINE));
    // What cannot be read cannot be added to either.
    let generator = hook && extra.is_ok();
    let next = next(root);
    // Guides have users write there where there was no such file, too.
    let is_in_new = matches!(&next.file, BootFile::Read(file) if file.path.starts_with(BOOT_DIR));
    let stub = root.read_if_possible(OLD_CMDLINE).filter(|file| is_in_new || is_moved_stub(&file.text));
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
    let machine = machine(root);
    let mut files = FatFiles::default();
    let mut left = MOST_FILES;
    for directory in [BOOT_DIR, OLD_BOOT_DIR].into_iter().chain(machine.mounted_elsewhere.as_deref()) {
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
    next_boot::forecast(&files, &machine)
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
pub fn is_trial(root: &HostRoot) -> Option<bool> {
    left_by_firmware(root, "tryboot").map(|flag| flag != 0)
}

/// The number of the partition that is mounted as the one with the boot files.
pub(crate) fn mounted_partition(root: &HostRoot) -> Option<u32> {
    Mounts::read(root)?.device_at(BOOT_DIR).and_then(partition)
}

fn machine(root: &HostRoot) -> MachineFacts {
    let number = |name: &str| left_by_firmware(root, name);
    let model = root.device_model();
    let mounts = Mounts::read(root);
    let device =
        |directory: &str| mounts.as_ref().and_then(|mounts| mounts.device_at(directory).map(str::to_owned));
    let is_pi = model.as_deref().is_some_and(|model| model.starts_with("Raspberry Pi"));
    let mounted_elsewhere = mounts.as_ref().filter(|_| is_pi).and_then(|mounts| elsewhere(root, mounts));
    let directory = mounted_elsewhere.as_deref().unwrap_or(BOOT_DIR);
    let (mounted, old) = (device(directory), device(OLD_BOOT_DIR));
    let mounted_partition = mounted.as_deref().and_then(partition);
    let boot_mode = number("boot-mode");
    let by_mode = boot_mode.and_then(|mode| other_device(mode, mounted.as_deref()?, directory));
    let doubt = mounts.as_ref().filter(|_| mounted_elsewhere.is_some() && by_mode.is_none());
    let doubt = doubt.and_then(|mounts| unproven(root, mounts, boot_mode, mounted.as_deref()?, directory));
    let by_mode = by_mode.map(|why| (Place::file(format!("{BOOTLOADER}/boot-mode")), why));
    MachineFacts {
        hardware: Hardware {
            model,
            serial: root.device_serial(),
            is_tryboot: false,
            partition: mounted_partition,
        },
        running: root.read_if_possible(PROC_CMDLINE).map(|file| file.text),
        is_trial: is_trial(root),
        booted_partition: number("partition").filter(|partition| *partition > 0),
        mounted_partition,
        is_from_network: boot_mode.is_some_and(|mode| NETWORK.contains(&mode)),
        other_device: by_mode.or_else(|| doubt.map(|why| (Place::file(MOUNTS), why))),
        // A vfat is that of the firmware; a /boot of its own is ext4 mostly.
        is_mounted_at_old: mounted.is_none()
            && old.is_some()
            && root.exists(format!("{OLD_BOOT_DIR}/config.txt"))
            && root.exists(format!("{OLD_BOOT_DIR}/cmdline.txt")),
        mounted_elsewhere,
    }
}

/// Where the only partition with the files of the firmware is mounted, if the usual directories have none of them.
/// snapd has its own below /run, with a copy for each kernel.
fn elsewhere(root: &HostRoot, mounts: &Mounts) -> Option<String> {
    let has = |directory: &str, name: &str| root.exists(format!("{directory}/{name}"));
    let usual = |directory: &&str| has(directory, "config.txt") || has(directory, "cmdline.txt");
    if [BOOT_DIR, OLD_BOOT_DIR].iter().any(usual) {
        return None;
    }
    let directories = mounts.fats().filter(|path| !path.starts_with("/run")).filter_map(Path::to_str);
    let mut found = directories.filter(|path| has(path, "config.txt") && has(path, "cmdline.txt"));
    let first = found.next()?;
    found.next().is_none().then(|| first.to_owned())
}

/// Why the firmware of this boot mode has not read the partition that is mounted.
fn other_device(mode: u32, mounted: &str, directory: &str) -> Option<String> {
    let (name, start) = match mode {
        1 => ("an SD card", "/dev/mmcblk"),
        6 => ("an NVMe disk", "/dev/nvme"),
        _ => return None,
    };
    let is_known = ["/dev/mmcblk", "/dev/nvme", "/dev/sd"].iter().any(|start| mounted.starts_with(start));
    let differs = is_known && !mounted.starts_with(start);
    differs.then(|| format!("the firmware booted from {name}, and {mounted} is mounted at {directory}"))
}

/// Why a partition that is mounted elsewhere may be another machine's, such as a card in a reader that a desktop has
/// mounted: the usual directories are the boot partition by fstab, and this one is by its files only.
fn unproven(
    root: &HostRoot,
    mounts: &Mounts,
    boot_mode: Option<u32>,
    mounted: &str,
    directory: &str,
) -> Option<String> {
    let is_read_first = match boot_mode {
        // A board that does not say has no other order: first the card in its slot.
        None | Some(1) => mounted.starts_with("/dev/mmcblk"),
        Some(6) => mounted.starts_with("/dev/nvme"),
        Some(_) => false,
    };
    let has_card = || {
        let disks = root.list(DISKS).unwrap_or_default();
        disks.iter().any(|disk| disk.starts_with("mmcblk"))
    };
    let disk = |device: &str| on_disk(device).map(|(disk, _)| disk.to_owned());
    let is_of_system = || {
        let system = system_device(root, mounts).and_then(|device| disk(device.as_str()));
        system.is_some() && system == disk(mounted) && (boot_mode.is_some() || !has_card())
    };
    (!is_read_first && !is_of_system()).then(|| {
        format!(
            "{mounted} is mounted at {directory}, and nothing shows that this machine starts from it: it may be another's"
        )
    })
}

/// The partition of the running system: that of `/` or, where that is an overlay, the one that the kernel was given.
fn system_device(root: &HostRoot, mounts: &Mounts) -> Option<String> {
    if let Some(device) = mounts.root_device(root) {
        return Some(format!("/dev/{device}"));
    }
    let cmdline = root.read_if_possible(PROC_CMDLINE)?.text;
    let given = cmdline.split_whitespace().rev().find_map(|parameter| parameter.strip_prefix("root="))?;
    let Some((kind, id)) = given.split_once('=') else { return Some(given.to_owned()) };
    let link = format!("/dev/disk/by-{}/{id}", kind.to_ascii_lowercase());
    let target = fs::read_link(root.real(link)).ok()?;
    Some(format!("/dev/{}", target.file_name()?.to_string_lossy()))
}

/// The number of a partition.
fn partition(device: &str) -> Option<u32> {
    on_disk(device).map(|(_, number)| number)
}

/// The disk of a partition, and its number there: `/dev/mmcblk0p1`, `/dev/nvme0n1p1`, `/dev/sda1`.
fn on_disk(device: &str) -> Option<(&str, u32)> {
    let name = device.strip_prefix("/dev/")?;
    let (disk, number) = if ["mmcblk", "nvme"].iter().any(|start| name.starts_with(start)) {
        name.rsplit_once('p')?
    } else {
        name.split_at(name.find(|c: char| c.is_ascii_digit())?)
    };
    let number = number.parse::<u32>().ok().filter(|number| *number > 0)?;
    Some((disk, number))
}

#[cfg(test)]
mod tests;

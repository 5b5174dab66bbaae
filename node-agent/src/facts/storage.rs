//! Reads how the storage is mounted, how much is free, and how fast it is.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::statvfs::statvfs;
use weaver_diagnostics::finding::Finding;
use weaver_diagnostics::host::storage::{
    self, BootMount, CardSpeed, DataMount, FSTAB, Mount, RootSpace, SWAPS, Swap,
};
use weaver_diagnostics::k3s_config::Effective;

use super::mounts::{Mounts, unescaped};
use crate::host_root::HostRoot;
use crate::publish::page;

/// How the file system of k3s' data is mounted; a link may lead to another disk.
pub(crate) fn data_mount(root: &HostRoot, mounts: Option<&Mounts>, data_dir: &Path) -> Option<DataMount> {
    let (mount_point, state) = mounts?.holding(&really(root, data_dir)?)?;
    let (data_dir, mount_point) = (data_dir.display().to_string(), mount_point.display().to_string());
    Some(DataMount { data_dir, mount_point, state })
}

/// What k3s' containerd finds where its own data is below k3s'.
pub(crate) fn snapshots(
    root: &HostRoot,
    mounts: Option<&Mounts>,
    data_dir: &Path,
    effective: &Effective,
) -> Option<Finding> {
    if effective.other_runtime.is_some() {
        return None;
    }
    let (mounts, path) = (mounts?, really(root, &data_dir.join("agent/containerd"))?);
    let (mount_point, _) = mounts.holding(&path).filter(|_| mounts.type_under(&path) == Some("overlay"))?;
    let (data_dir, mount_point) = (data_dir.display().to_string(), mount_point.display().to_string());
    storage::on_overlay(&data_dir, &mount_point, effective.snapshotter.as_ref())
}

/// The nearest directory of a path that exists, without links.
fn really(root: &HostRoot, path: &Path) -> Option<PathBuf> {
    path.ancestors().find_map(|path| without_links(root, path))
}

/// A path that exists, without links.
fn without_links(root: &HostRoot, path: &Path) -> Option<PathBuf> {
    let (top, existing) = (fs::canonicalize(root.real("/")).ok()?, fs::canonicalize(root.real(path)).ok()?);
    Some(Path::new("/").join(existing.strip_prefix(top).ok()?))
}

/// Where fstab mounts a file system that holds this path, and none is mounted yet: it will hide what is written there.
pub(crate) fn awaited_mount(root: &HostRoot, mounts: Option<&Mounts>, path: &Path) -> Option<PathBuf> {
    let mounts = mounts?;
    let fstab = root.read_if_possible(FSTAB)?.text;
    let really = really(root, path);
    let mut directories = path.ancestors().chain(really.as_deref().into_iter().flat_map(Path::ancestors));
    let is_free = |directory: &Path| mounts.at(directory) == Mount::Absent;
    let is_awaited = |directory: &&Path| {
        let is_root = directory.parent().is_none();
        !is_root
            && is_free(directory)
            && listed(&fstab, directory).is_some()
            // fstab may name it by a link, the kernel does not.
            && without_links(root, directory).is_none_or(|directory| is_free(&directory))
            // systemd has unmounted for this process what is below.
            && !root.hides(directory)
    };
    directories.find(is_awaited).map(Path::to_owned)
}

/// How the boot partition is mounted; `None` where fstab mounts none: another computer than a Pi, or its
/// owner's setting.
pub(crate) fn boot_mount(root: &HostRoot, mounts: Option<&Mounts>, boot_dir: &Path) -> Option<BootMount> {
    let fstab = root.read_if_possible(FSTAB)?.text;
    let (fstab_line, is_for_writing) = listed(&fstab, boot_dir)?;
    let state = mounts?.at(boot_dir);
    let free = || Some(space(&root.host()?.join(boot_dir.strip_prefix("/").ok()?))?.1);
    Some(BootMount {
        boot_dir: boot_dir.display().to_string(),
        fstab_line,
        is_for_writing,
        state,
        free: (state == Mount::Writable).then(free).flatten(),
        // A page may need its limit twice, in both forms, while the old ones are still there.
        needed: 4 * page::LIMIT as u64,
    })
}

/// The line that mounts it at each boot, and whether it is mounted writable.
fn listed(fstab: &str, boot_dir: &Path) -> Option<(u64, bool)> {
    (1..).zip(fstab.lines()).find_map(|(number, line)| {
        let mut fields = line.split_whitespace();
        let (source, mount_point) = (fields.next()?, fields.next()?);
        let options = fields.nth(1).unwrap_or_default();
        let is_it = !source.starts_with('#') && unescaped(Path::new(mount_point)) == boot_dir;
        let has = |wanted| options.split(',').any(|option| option == wanted);
        (is_it && !has("noauto")).then(|| (number, !has("ro")))
    })
}

/// The space of this machine's root; `None` for a directory that replaces one, which is on another disk.
pub(crate) fn root_space(root: &HostRoot) -> Option<RootSpace> {
    let (size, free) = space(root.host()?)?;
    Some(RootSpace { size: size >> 20, free: free >> 20 })
}

/// Size and free bytes of the file system that contains a path. Only that file system is queried, not all, as sysinfo
/// does: one on the network or on FUSE may never answer.
pub(crate) fn space(path: &Path) -> Option<(u64, u64)> {
    let seen = statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(seen.fragment_size());
    Some((bytes(seen.blocks()), bytes(seen.blocks_available())))
}

/// The swap in use.
pub(crate) fn swaps(root: &HostRoot, mounts: Option<&Mounts>) -> Vec<Swap> {
    // procfs-core has no reader for it: `Filename Type Size Used Priority`.
    let text = root.read_if_possible(SWAPS).map(|file| file.text).unwrap_or_default();
    let lines = (1..).zip(text.lines()).skip(1);
    lines
        .filter_map(|(line, text)| {
            let mut fields = text.split_whitespace();
            let (path, kind) = (fields.next()?.to_owned(), fields.next()?);
            let source = mounts.filter(|_| kind == "file").and_then(|mounts| mounts.device_under(&path));
            let source = source.map(str::to_owned);
            Some(Swap { line, path, source })
        })
        .collect()
}

/// Writes of one measurement, of which the third slowest is the 99th percentile.
const WRITES: usize = 200;
/// Bytes of each.
const BLOCK: usize = 4096;
/// No measurement takes longer: a card that fails can take seconds for each write.
const LIMIT: Duration = Duration::from_secs(20);

/// Measures small writes in the directory, or in the nearest existing one above it. Only on request (`check --disk`):
/// it writes, and an idle agent writes nothing.
pub(crate) fn card_speed(directory: &Path) -> CardSpeed {
    let existing = existing(directory);
    let times = existing.map_or_else(
        || Err("it is not there".to_owned()),
        |existing| measure(existing).map_err(|error| error.to_string()),
    );
    let directory = existing.unwrap_or(directory).display().to_string();
    CardSpeed { directory, planned: WRITES, times }
}

/// The directory, or the nearest one above it that is there.
pub(crate) fn existing(directory: &Path) -> Option<&Path> {
    directory.ancestors().find(|path| path.is_dir())
}

/// A file that is removed when it is dropped.
struct Probe(PathBuf, File);

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn measure(directory: &Path) -> std::io::Result<Vec<Duration>> {
    let path = directory.join(format!(".weaver-disk-{}", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
    let mut probe = Probe(path, file);
    let begun = Instant::now();
    let mut times = Vec::with_capacity(WRITES);
    while times.len() < WRITES && begun.elapsed() < LIMIT {
        let since = Instant::now();
        probe.1.write_all(&[0x5a; BLOCK])?;
        probe.1.sync_data()?;
        times.push(since.elapsed());
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;
    use weaver_diagnostics::finding::Place;
    use weaver_diagnostics::host::storage::MOUNTS;
    use weaver_diagnostics::k3s_config::Setting;

    const ROOT: &str = "25 1 254:2 / / rw,noatime shared:1 - ext4 /dev/mmcblk0p2 rw,errors=remount-ro\n";

    #[test]
    fn the_mount_of_the_data() {
        let failed = ROOT.replace("rw,", "ro,");
        let data = "30 25 8:1 / /var/lib/rancher rw shared:2 - ext4 /dev/sda1 rw\n";
        for (mounts, want) in [
            (String::new(), None),
            (ROOT.to_owned(), Some(("/", Mount::Writable))),
            (failed.clone(), Some(("/", Mount::ReadOnly))),
            // A root that is read-only on purpose, and a disk for the data.
            (format!("{failed}{data}"), Some(("/var/lib/rancher", Mount::Writable))),
        ] {
            let (_dir, root) = host(&[(MOUNTS, &mounts), ("/var/lib/rancher/x", "")]);
            let read = data_mount(&root, Mounts::read(&root).as_ref(), Path::new("/var/lib/rancher/k3s"));
            let read = read.as_ref().map(|read| (read.mount_point.as_str(), read.state));
            assert_eq!(read, want, "{mounts}");
        }
    }

    #[test]
    fn an_overlay_below_containerd() {
        let overlay = "20 1 0:40 / / rw - overlay overlay rw,lowerdir=/lower,upperdir=/upper/data\n";
        let disk = "21 20 8:1 / /var/lib/rancher rw - ext4 /dev/sda1 rw\n";
        let setting = |value: &str| Some(Setting { value: value.into(), origin: Place::line("/c.yaml", 1) });
        let native = Effective { snapshotter: setting("native"), ..Effective::default() };
        let docker = Effective { other_runtime: setting("true"), ..Effective::default() };
        let usual = Effective::default();
        for (mounts, effective, want) in [
            (
                overlay.to_owned(),
                &usual,
                Some("/var/lib/rancher/k3s is on an overlay, which is mounted at /:"),
            ),
            (overlay.to_owned(), &native, None),
            (overlay.to_owned(), &docker, None),
            (format!("{overlay}{disk}"), &usual, None),
            (ROOT.to_owned(), &usual, None),
        ] {
            let (_dir, root) = host(&[(MOUNTS, &mounts), ("/var/lib/rancher/x", "")]);
            let read = Mounts::read(&root);
            let found = snapshots(&root, read.as_ref(), Path::new("/var/lib/rancher/k3s"), effective);
            assert_eq!(found.is_some(), want.is_some(), "{mounts}: {found:?}");
            assert!(found.is_none_or(|found| found.message.starts_with(want.unwrap())), "{mounts}");
        }
    }

    #[test]
    fn a_link_leads_to_the_disk_that_counts() {
        let mounts = format!("{ROOT}26 25 8:1 / /mnt/ssd ro - ext4 /dev/sda1 ro\n");
        let (dir, root) = host(&[(MOUNTS, &mounts), ("/var/lib/x", ""), ("/mnt/ssd/rancher/x", "")]);
        std::os::unix::fs::symlink(dir.path().join("mnt/ssd/rancher"), dir.path().join("var/lib/rancher"))
            .unwrap();
        let read =
            data_mount(&root, Mounts::read(&root).as_ref(), Path::new("/var/lib/rancher/k3s")).unwrap();
        assert_eq!((read.mount_point.as_str(), read.state), ("/mnt/ssd", Mount::ReadOnly));
        assert_eq!(read.data_dir, "/var/lib/rancher/k3s");
    }

    #[test]
    fn a_mount_that_fstab_has_is_awaited_until_it_is_there() {
        const FILE_SYSTEMS: &str = "LABEL=r / ext4 defaults 0 1\n#LABEL=x /mnt ext4 defaults 0 2\n\
             LABEL=ssd /mnt/ssd/ ext4 nofail 0 2\nLABEL=old /mnt/old ext4 noauto 0 2\n";
        let mounted = format!("{ROOT}26 25 8:1 / /mnt/ssd rw - ext4 /dev/sda1 rw\n");
        for (mounts, path, want) in [
            (ROOT, "/mnt/ssd/k3s", Some("/mnt/ssd")),
            (ROOT, "/mnt/ssd", Some("/mnt/ssd")),
            (&mounted, "/mnt/ssd/k3s", None),
            (ROOT, "/mnt/ssd2/k3s", None),
            (ROOT, "/mnt/old/k3s", None),
            (ROOT, "/var/lib/rancher/k3s", None),
            (ROOT, "/link/k3s", Some("/mnt/ssd")),
            ("", "/mnt/old/k3s", None),
        ] {
            let (dir, root) = host(&[(FSTAB, FILE_SYSTEMS), (MOUNTS, mounts), ("/mnt/ssd/x", "")]);
            std::os::unix::fs::symlink(dir.path().join("mnt/ssd"), dir.path().join("link")).unwrap();
            let awaited = awaited_mount(&root, Mounts::read(&root).as_ref(), Path::new(path));
            assert_eq!(awaited.as_deref(), want.map(Path::new), "{path}: {mounts}");
        }
    }

    #[test]
    fn a_mount_point_with_a_blank_is_awaited() {
        let (_dir, root) = host(&[(FSTAB, "LABEL=ssd /mnt/my\\040ssd ext4 nofail 0 2\n"), (MOUNTS, ROOT)]);
        let awaited = awaited_mount(&root, Mounts::read(&root).as_ref(), Path::new("/mnt/my ssd/k3s"));
        assert_eq!(awaited.as_deref(), Some(Path::new("/mnt/my ssd")));
    }

    #[test]
    fn a_mount_is_not_awaited_that_has_another_name_or_that_a_unit_of_ours_does_not_see() {
        const FILE_SYSTEMS: &str = "LABEL=ssd /data ext4 nofail 0 2\nLABEL=usb /home/ssd ext4 nofail 0 2\n";
        let by_another_name = format!("{ROOT}26 25 8:1 / /mnt/ssd rw - ext4 /dev/sda1 rw\n");
        let hidden = format!("{ROOT}31 25 0:26 /systemd/inaccessible/dir /home ro - tmpfs tmpfs rw\n");
        for (mounts, path, want) in [
            (ROOT, "/data/k3s", Some("/data")),
            (&by_another_name, "/data/k3s", None),
            (ROOT, "/home/ssd/k3s", Some("/home/ssd")),
            (&hidden, "/home/ssd/k3s", None),
        ] {
            let (dir, root) = host(&[(FSTAB, FILE_SYSTEMS), (MOUNTS, mounts), ("/mnt/ssd/x", "")]);
            std::os::unix::fs::symlink("mnt/ssd", dir.path().join("data")).unwrap();
            fs::create_dir(dir.path().join("home")).unwrap();
            let awaited = awaited_mount(&root, Mounts::read(&root).as_ref(), Path::new(path));
            assert_eq!(awaited.as_deref(), want.map(Path::new), "{path}: {mounts}");
        }
    }

    #[test]
    fn the_boot_partition_by_fstab() {
        let boot = Path::new("/boot/firmware");
        for (fstab, want) in [
            ("# boot\nLABEL=BOOT /boot/firmware vfat nofail,dirsync 0 2\n", Some((2, true))),
            ("LABEL=BOOT /boot/firmware vfat nofail,ro 0 2\n", Some((1, false))),
            // No board starts from it, or its owner wants it so.
            ("", None),
            ("#LABEL=BOOT /boot/firmware vfat defaults 0 2\n", None),
            ("LABEL=BOOT /boot vfat defaults 0 2\n", None),
            ("LABEL=BOOT /boot/firmware vfat rw,noauto 0 2\n", None),
        ] {
            let (_dir, root) = host(&[(FSTAB, fstab)]);
            let read = boot_mount(&root, Some(&Mounts::default()), boot);
            assert_eq!(read.map(|read| (read.fstab_line, read.is_for_writing)), want, "{fstab}");
        }
    }

    #[test]
    fn swap_and_the_device_that_it_is_on() {
        let table = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                     /dev/zram0 partition 1 0 100\n/var/swap file 1 0 -2\n/mnt/ssd/swap file 1 0 -2\n";
        let mounts = format!("{ROOT}27 25 8:1 / /mnt/ssd rw - ext4 /dev/sda1 rw\n");
        let (_dir, root) = host(&[(SWAPS, table), (MOUNTS, &mounts)]);
        let swap = |line, path: &str, source: Option<&str>| Swap {
            line,
            path: path.into(),
            source: source.map(Into::into),
        };
        assert_eq!(
            swaps(&root, Mounts::read(&root).as_ref()),
            [
                swap(2, "/dev/zram0", None),
                swap(3, "/var/swap", Some("/dev/mmcblk0p2")),
                swap(4, "/mnt/ssd/swap", Some("/dev/sda1"))
            ]
        );
        assert_eq!(swaps(&host(&[]).1, None), []);
    }

    #[test]
    fn a_fixture_has_not_the_space_of_the_disk_that_it_lies_on() {
        assert_eq!(root_space(&host(&[]).1), None);
    }

    #[test]
    fn a_measurement_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let speed = card_speed(&dir.path().join("not/yet/there"));
        assert_eq!(speed.directory, dir.path().display().to_string());
        assert!(speed.times.is_ok_and(|times| !times.is_empty()));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert_eq!(card_speed(Path::new("not/there")).times, Err("it is not there".to_owned()));
    }
}

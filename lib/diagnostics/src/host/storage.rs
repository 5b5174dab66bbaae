//! The storage: can k3s write its data, can the boot partition be written, is there space, is it fast, is there swap on
//! the card?

use std::time::Duration;

use crate::finding::{Code, Finding, Place, Remedy, Severity};
use crate::k3s_unit::Setting;
use crate::shell::quoted;

/// What is mounted where.
pub const MOUNTS: &str = "/proc/self/mountinfo";
/// The file systems to mount at each boot.
pub const FSTAB: &str = "/etc/fstab";
/// The swap in use.
pub const SWAPS: &str = "/proc/swaps";

/// What is mounted on a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mount {
    Absent,
    /// A file system that refuses writes.
    ReadOnly,
    /// A file system that takes them.
    Writable,
}

/// The file system of k3s' data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataMount {
    /// Where k3s keeps its data.
    pub data_dir: String,
    /// Where its file system is mounted.
    pub mount_point: String,
    pub state: Mount,
}

impl DataMount {
    /// A failure where it is mounted read-only: a k3s that starts on it ends itself again and again.
    pub fn judge(&self) -> Option<Finding> {
        let Self { data_dir, mount_point, state } = self;
        (*state == Mount::ReadOnly).then(|| {
            let message =
                format!("{mount_point} is mounted read-only: k3s cannot write to {data_dir} and exits");
            Finding::new(Code::CardFailing, message)
                .saw(Place::file(MOUNTS), format!("{mount_point}: ro"))
                .remedy(
                    Remedy::new(
                        "the kernel does this after a card error: read its log, copy your data, and replace the card \
                        and the power supply; if you mounted it read-only yourself, remount it writable",
                    )
                    .command("sudo dmesg --level err,warn"),
                )
        })
    }
}

/// A warning where k3s' data is on an overlay, as of raspi-config's read-only mode: containerd cannot put its own on it.
pub fn on_overlay(data_dir: &str, mount_point: &str, snapshotter: Option<&Setting>) -> Option<Finding> {
    let is_default = snapshotter.is_none_or(|named| matches!(named.value.as_str(), "" | "overlayfs"));
    is_default.then(|| {
        let message = format!(
            "{data_dir} is on an overlay, which is mounted at {mount_point}: containerd cannot put its own on it, and k3s \
             does not start"
        );
        Finding::new(Code::SnapshotterUnusable, message)
            .saw(Place::file(MOUNTS), format!("{mount_point}: overlay"))
            .milder(Severity::Warn)
    })
}

/// A failure: fstab mounts the disk of k3s' data, and nothing is mounted there. A server would begin a
/// new cluster.
pub fn not_mounted(data_dir: &str, mount_point: &str) -> Finding {
    let message = format!(
        "k3s' data is in {data_dir}, and the disk that {FSTAB} mounts at {mount_point} is not mounted: k3s would \
         start without its data"
    );
    let remedy = Remedy::new(format!(
        "plug the disk in and mount it: k3s is then started. If k3s is to run without it, remove its line from {FSTAB}"
    ))
    .command("lsblk -f")
    .command(format!("sudo mount {}", quoted(mount_point)));
    Finding::new(Code::DataDiskMissing, message)
        .saw(Place::file(FSTAB), format!("it mounts a disk at {mount_point}"))
        .saw(Place::file(MOUNTS), format!("nothing is mounted at {mount_point}"))
        .remedy(remedy)
}

/// The boot partition of a host whose fstab has one: the firmware starts the board from it, and repairs and the report
/// for a laptop are written there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootMount {
    /// Where it should be mounted.
    pub boot_dir: String,
    /// The line of fstab that says so.
    pub fstab_line: u64,
    /// Whether that line mounts it for writing.
    pub is_for_writing: bool,
    pub state: Mount,
    /// Free bytes, where it is writable and they are known.
    pub free: Option<u64>,
    /// Bytes that the report takes, with the one that it replaces.
    pub needed: u64,
}

impl BootMount {
    /// A warning where it is not mounted, or where nothing can be written to it.
    pub fn judge(&self) -> Option<Finding> {
        let boot_dir = &self.boot_dir;
        let name = quoted(boot_dir);
        let (place, saw, message, remedy) = match self.state {
            Mount::Absent => (
                Place::line(FSTAB, self.fstab_line),
                "it should be mounted there".to_owned(),
                format!("{boot_dir} is not mounted: the board may not start again"),
                Remedy::new(
                    "find the reason; if the partition is lost, copy your data and flash the card again",
                )
                .command(format!("sudo mount {name}")),
            ),
            Mount::ReadOnly if self.is_for_writing => (
                Place::file(boot_dir),
                "it is read-only".to_owned(),
                format!("{boot_dir} is mounted read-only: no repair and no report can be written"),
                Remedy::new(
                    "the kernel does this after a file system error: power off and check the card in another computer; or",
                )
                .command(remounted(boot_dir)),
            ),
            Mount::ReadOnly => return None,
            Mount::Writable => {
                let free = self.free.filter(|free| *free < self.needed)?;
                (
                    Place::file(boot_dir),
                    format!("{} KiB are free", free >> 10),
                    format!("{boot_dir} is full: no repair and no report can be written"),
                    Remedy::new("remove what is not needed, such as copies of old kernels")
                        .command(format!("ls -lS {name}")),
                )
            }
        };
        Some(Finding::new(Code::BootPartitionUnwritable, message).saw(place, saw).remedy(remedy))
    }
}

/// The space of the root file system, where k3s keeps its images and its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootSpace {
    /// Its size, in MiB.
    pub size: u64,
    /// What is free of it for users, in MiB.
    pub free: u64,
}

/// MiB. k3s with its images takes some 3 GiB; a card of 8 GB has about 7,000 for the root.
const LEAST_SIZE: u64 = 6000;
/// Percent. Below it k3s has the kubelet evict containers (`--eviction-hard` in k3s' `agent_linux.go`).
pub(crate) const LEAST_FREE: u64 = 5;

impl RootSpace {
    /// A warning where it is small or full.
    pub fn judge(self) -> Option<Finding> {
        let Self { size, free } = self;
        let (code, message, remedy) = if size < LEAST_SIZE {
            let message =
                format!("the root file system has {size} MiB, k3s with its containers needs {LEAST_SIZE}");
            (Code::CardTooSmall, message, Remedy::new("write the image to a card of 8 GB or more"))
        } else if free.saturating_mul(100) < size.saturating_mul(LEAST_FREE) {
            // Free space is not part of the message: each change would be another write to the card.
            let message =
                format!("less than {LEAST_FREE} % of the root file system is free: the kubelet evicts pods");
            let remedy = Remedy::new("find what fills it, and remove what is not needed:")
                .command("sudo du -xh / | sort -h | tail -n 20");
            (Code::DiskPressure, message, remedy)
        } else {
            return None;
        };
        let saw = format!("{free} MiB of {size} are free");
        // k3s runs, and does what it can.
        Some(Finding::new(code, message).milder(Severity::Warn).saw(Place::file("/"), saw).remedy(remedy))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swap {
    /// Its line in [`SWAPS`].
    pub line: u64,
    /// The device or the file.
    pub path: String,
    /// Of a file, the device of its file system.
    pub source: Option<String>,
}

/// An SD card or an eMMC.
const CARD: &str = "/dev/mmcblk";

impl Swap {
    /// A warning where it is on the card: it wears the card, and k3s' database waits behind it. Swap in compressed
    /// memory is fine.
    pub fn judge(&self) -> Option<Finding> {
        let Self { line, path, source } = self;
        let is_on_card = |device: &str| device.starts_with(CARD);
        (is_on_card(path) || source.as_deref().is_some_and(is_on_card)).then(|| {
            Finding::new(Code::SwapOnCard, format!("{path} is swap on the card"))
                .saw(Place::line(SWAPS, *line), path)
                .remedy(Code::SwapOnCard.row().remedy_for("PATH", &quoted(path)))
        })
    }
}

/// A measurement of small writes: k3s' database waits until each one is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CardSpeed {
    /// Where it was made.
    pub directory: String,
    /// Writes of a whole measurement.
    pub planned: usize,
    /// How long each write took, or why none was made.
    pub times: Result<Vec<Duration>, String>,
}

/// What k3s' documentation asks for, at the 99th percentile; where it takes longer, leases are lost under load
/// (k3s-io/k3s#1850).
const FAST_ENOUGH: Duration = Duration::from_millis(10);

impl CardSpeed {
    /// How fast it is; a warning where that is slower than k3s needs.
    pub fn judge(&self) -> Finding {
        let Self { directory, planned, times } = self;
        let mut times = match times {
            Ok(times) => times.clone(),
            Err(why) => return self.unknown(why),
        };
        times.sort();
        let Some(&worst) = times.last() else { return self.unknown("no write completed in time") };
        let p99 = times[(times.len() * 99).div_ceil(100) - 1];
        let median = times[times.len() / 2];
        let figures = format!(
            "fsync of {} writes of 4 KiB: median {median:.1?}, p99 {p99:.1?}, slowest {worst:.1?}",
            times.len()
        );
        if p99 <= FAST_ENOUGH && times.len() == *planned {
            let message = format!("the storage under {directory} is fast enough for k3s: {figures}");
            return Finding::new(Code::CardSlow, message).milder(Severity::Ok);
        }
        let message = format!(
            "the storage under {directory} is slower than k3s needs ({FAST_ENOUGH:.0?} at the 99th percentile): {figures}"
        );
        Finding::new(Code::CardSlow, message).saw(Place::file(directory), figures)
    }

    fn unknown(&self, why: &str) -> Finding {
        let message = format!("the speed of {} could not be measured: {why}", self.directory);
        Finding::new(Code::CardSlow, message).milder(Severity::Unknown)
    }
}

/// The command that makes a file system writable again. Not by the mount point alone: mount(8) then adds the options of
/// fstab, and the kernel refuses `dirsync` on a remount of vfat.
pub fn remounted(path: &str) -> String {
    let path = quoted(path);
    format!("sudo mount -o remount,rw \"$(findmnt -no SOURCE {path})\" {path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_on_a_file_system_that_refuses_writes() {
        let of = |state| DataMount { data_dir: "/data/k3s".into(), mount_point: "/data".into(), state };
        assert_eq!(of(Mount::Writable).judge(), None);
        let found = of(Mount::ReadOnly).judge().unwrap();
        assert_eq!((found.code, found.severity()), (Code::CardFailing, Severity::Fail));
        assert!(
            found.message.starts_with("/data is mounted read-only: k3s cannot write to /data/k3s"),
            "{found:?}"
        );
        assert_eq!(found.evidence[0].to_string(), "/proc/self/mountinfo: /data: ro");
    }

    const NEEDED: u64 = 65_536;

    fn boot(state: Mount, is_for_writing: bool, free: Option<u64>) -> Option<Finding> {
        let boot_dir = "/boot/firmware".into();
        BootMount { boot_dir, fstab_line: 2, is_for_writing, state, free, needed: NEEDED }.judge()
    }

    #[test]
    fn a_boot_partition_that_cannot_be_written() {
        for (state, is_for_writing, free, want) in [
            (Mount::Absent, true, None, Some("is not mounted")),
            (Mount::Absent, false, None, Some("is not mounted")),
            (Mount::ReadOnly, true, None, Some("is mounted read-only")),
            (Mount::ReadOnly, false, None, None),
            (Mount::Writable, true, None, None),
            (Mount::Writable, true, Some(NEEDED), None),
            (Mount::Writable, true, Some(NEEDED - 1), Some("is full")),
            (Mount::Writable, true, Some(0), Some("is full")),
        ] {
            let found = boot(state, is_for_writing, free);
            assert_eq!(found.is_some(), want.is_some(), "{state:?} {is_for_writing} {free:?}");
            assert!(found.is_none_or(|found| found.message.contains(want.unwrap())), "{state:?} {free:?}");
        }
        let lost = boot(Mount::Absent, true, None).unwrap();
        assert_eq!(lost.evidence[0].to_string(), "/etc/fstab:2: it should be mounted there");
    }

    /// Seen on the card: with the mount point alone mount(8) passes on fstab's `dirsync`, which vfat refuses on a
    /// remount.
    #[test]
    fn the_remount_that_is_printed_names_the_device() {
        let remedy = boot(Mount::ReadOnly, true, None).unwrap().remedy.unwrap();
        let line = r#"sudo mount -o remount,rw "$(findmnt -no SOURCE /boot/firmware)" /boot/firmware"#;
        assert_eq!(remedy.commands, [line]);
    }

    #[test]
    fn a_root_that_is_small_or_full() {
        let judged = |size, free| RootSpace { size, free }.judge();
        for (size, free, code) in [
            (3500, 900, Some(Code::CardTooSmall)),
            (3500, 0, Some(Code::CardTooSmall)),
            (0, 0, Some(Code::CardTooSmall)),
            (LEAST_SIZE - 1, 5000, Some(Code::CardTooSmall)),
            (LEAST_SIZE, 300, None),
            (LEAST_SIZE, 299, Some(Code::DiskPressure)),
            (29_000, 1449, Some(Code::DiskPressure)),
            (29_000, 1450, None),
            (u64::MAX, u64::MAX, None),
            (29_000, 26_000, None),
        ] {
            let found = judged(size, free);
            assert_eq!(found.as_ref().map(|f| f.code), code, "{size} {free}");
            assert!(found.is_none_or(|f| f.severity() == Severity::Warn && f.remedy.is_some()));
        }
        let small = judged(3500, 900).unwrap();
        assert!(small.message.contains("3500 MiB") && small.message.contains("6000"), "{small:?}");
        assert_eq!(small.evidence[0].to_string(), "/: 900 MiB of 3500 are free");
        assert_eq!(judged(29_000, 1).unwrap().message, judged(29_000, 2).unwrap().message, "no news");
    }

    #[test]
    fn swap_on_the_card_is_a_warning_and_in_memory_it_is_not() {
        for (path, source, is_bad) in [
            ("/dev/zram0", None, false),
            ("/dev/mmcblk0p3", None, true),
            ("/dev/sda3", None, false),
            ("/var/swap", Some("/dev/mmcblk0p2"), true),
            ("/var/swap", Some("/dev/sda2"), false),
            ("/var/swap", None, false),
        ] {
            let swap = Swap { line: 2, path: path.into(), source: source.map(Into::into) };
            let found = swap.judge();
            assert_eq!(found.is_some(), is_bad, "{swap:?}");
            let Some(found) = found else { continue };
            assert_eq!(found.evidence[0].to_string(), format!("/proc/swaps:2: {path}"));
            assert_eq!(&*found.remedy.unwrap().commands[0], format!("sudo swapoff {path}"));
        }
    }

    #[test]
    fn a_storage_is_judged_by_its_slow_writes() {
        const PLANNED: usize = 200;
        let ms = Duration::from_millis;
        let judged = |times| CardSpeed { directory: "/var".into(), planned: PLANNED, times }.judge();
        for (slow, count, severity) in [
            (ms(11), 0, Severity::Ok),
            (ms(500), 2, Severity::Ok),
            (ms(11), 3, Severity::Warn),
            (ms(10), 200, Severity::Ok),
        ] {
            let times = (0..PLANNED).map(|n| if n < count { slow } else { ms(1) }).collect();
            assert_eq!(judged(Ok(times)).severity(), severity, "{slow:?} {count}");
        }
        // So slow that the time was over.
        assert_eq!(judged(Ok(vec![ms(900); 22])).severity(), Severity::Warn);
        assert_eq!(judged(Ok(Vec::new())).severity(), Severity::Unknown);
        let unknown = judged(Err("it is not there".into()));
        assert_eq!(unknown.severity(), Severity::Unknown);
        assert_eq!(unknown.message, "the speed of /var could not be measured: it is not there");
    }
}

//! Why a host cannot try a kernel.

use super::BY_HAND;
use super::trial_files::{DIRECTORY, kept_text};
use crate::config_txt::BOOT_DIR;
use crate::next_boot::{BootFile, NextBoot};
use crate::package_update::plan::UpgradeRefusal;

/// MiB that are left free on the boot partition.
const MARGIN: u64 = 8;

/// What decides about it.
#[derive(Debug, Clone, Copy)]
pub struct SeenBoot<'a> {
    /// The name of the board.
    pub model: Option<&'a str>,
    pub next: &'a NextBoot,
    /// Where the boot partition is mounted, if that is read-only.
    pub read_only_at: Option<&'a str>,
    /// The text of `config.txt`.
    pub config: &'a str,
    pub has_autoboot: bool,
    /// The text of `tryboot.txt`, where there is one.
    pub tryboot: Option<&'a str>,
}

/// All reasons against a trial on this host.
pub fn refusals(seen: &SeenBoot<'_>) -> Vec<UpgradeRefusal> {
    if !seen.model.is_some_and(|model| model.contains("Raspberry Pi")) {
        let what = "this is no Raspberry Pi, whose firmware alone starts a kernel on trial";
        return vec![UpgradeRefusal::new(what, BY_HAND)];
    }
    let mut refusals: Vec<_> = loader(&seen.next.file).into_iter().collect();
    if let Some(staged) = &seen.next.staged {
        let (place, saw) = &staged.because;
        let what = format!("Ubuntu tries its kernels itself ({place}: {saw})");
        refusals.push(UpgradeRefusal::new(what, "sudo apt-get upgrade, as Ubuntu describes it"));
    }
    if let Some(mount_point) = seen.read_only_at {
        let what = format!("{mount_point} is mounted read-only");
        refusals.push(UpgradeRefusal::new(what, format!("sudo mount -o remount,rw {mount_point}")));
    }
    if seen.has_autoboot {
        let what = format!("{BOOT_DIR}/autoboot.txt decides about starts on trial");
        refusals.push(UpgradeRefusal::new(what, BY_HAND));
    }
    // Of ours it is what an earlier trial wrote.
    if seen.tryboot.is_some_and(|text| kept_text(text).is_none()) {
        let what = format!("{BOOT_DIR}/tryboot.txt is there, and `weaver` did not write it");
        refusals.push(UpgradeRefusal::new(what, "remove it if nothing needs it"));
    }
    let mut lines = seen.config.lines().map(str::trim);
    if let Some(line) = lines.find(|line| line.starts_with("os_prefix=") || *line == "[tryboot]") {
        let what = format!("`{line}` in {BOOT_DIR}/config.txt already chooses between kernels");
        refusals.push(UpgradeRefusal::new(what, BY_HAND));
    }
    refusals
}

/// Why the firmware does not start the kernel with files next to `config.txt`.
fn loader(file: &BootFile) -> Option<UpgradeRefusal> {
    let (what, remedy) = match file {
        BootFile::Read(file) => {
            let name = file.path.strip_prefix(BOOT_DIR).and_then(|rest| rest.strip_prefix('/'));
            if name.is_some_and(|name| !name.contains('/')) {
                return None;
            }
            (
                format!("the next start reads {}, which is not next to {BOOT_DIR}/config.txt", file.path),
                BY_HAND,
            )
        }
        BootFile::Missing => {
            (format!("{BOOT_DIR} has no cmdline.txt"), "mount the boot partition: sudo mount /boot/firmware")
        }
        BootFile::Unreadable { path, why } => (format!("{path}: {why}"), "sudo weaver-node-agent check"),
        BootFile::Undecided { place, why } => (format!("{place}: {why}"), BY_HAND),
        BootFile::Loader(loader) => (format!("{} starts the kernel of this host", loader.name), BY_HAND),
    };
    Some(UpgradeRefusal::new(what, remedy))
}

/// Whether the files of a trial, and those of them that get another name afterwards, have room on the boot partition;
/// in bytes.
pub fn boot_space(free: u64, trial: u64, renamed: u64) -> Option<UpgradeRefusal> {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let needed = mib(trial + renamed) + MARGIN;
    (free >> 20 < needed).then(|| {
        let what = format!("{} MiB are free on {BOOT_DIR}, and a trial needs {needed}", free >> 20);
        UpgradeRefusal::new(
            what,
            format!("remove what is not needed there, and see: sudo du -ah {BOOT_DIR} | sort -h"),
        )
    })
}

/// Whether the packages, what they are unpacked to and an initramfs have room on the root file system; in KiB.
pub fn root_space(free: u64, packages: u64) -> Option<UpgradeRefusal> {
    // Packed, unpacked for the trial, and unpacked by dpkg; an initramfs takes what its modules do.
    let needed = packages * 3 / 1024 + 256;
    (free / 1024 < needed).then(|| {
        let what = format!("{} MiB are free below /var/lib/weaver, and a trial needs {needed}", free / 1024);
        UpgradeRefusal::new(what, "sudo apt-get clean, or see what takes it: sudo du -xh / | sort -h | tail")
    })
}

/// Whether apt also installs what writes to the boot partition: that must not happen out of its sight.
pub fn also(installed: &[String]) -> Option<UpgradeRefusal> {
    let firmware = installed.iter().find(|package| package.starts_with("raspi-firmware"))?;
    let what =
        format!("apt would also install {firmware}, which replaces files in {BOOT_DIR} next to {DIRECTORY}");
    Some(UpgradeRefusal::new(what, "install it first: sudo apt-get install --only-upgrade raspi-firmware"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Place;
    use crate::kernel_trial::trial_files::trial_text;
    use crate::next_boot::StagedFile;
    use crate::text_file::TextFile;

    const MODEL: &str = "Raspberry Pi 4 Model B Rev 1.5";

    fn read(path: &str) -> BootFile {
        BootFile::Read(TextFile::new(path, "root=x"))
    }

    fn fine(next: &NextBoot) -> SeenBoot<'_> {
        SeenBoot {
            model: Some(MODEL),
            next,
            read_only_at: None,
            config: "kernel=a\n",
            has_autoboot: false,
            tryboot: None,
        }
    }

    fn said(seen: &SeenBoot<'_>) -> String {
        refusals(seen).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn what_else_decides_about_a_start_is_left_alone() {
        let next = NextBoot::only(read("/boot/firmware/cmdline.txt"));
        let fine = fine(&next);
        assert_eq!(said(&fine), "");
        let ours = trial_text("", "a", "b");
        assert_eq!(said(&SeenBoot { tryboot: Some(&ours), ..fine }), "");
        for (words, seen) in [
            ("this is no Raspberry Pi", SeenBoot { model: None, ..fine }),
            ("this is no Raspberry Pi", SeenBoot { model: Some("QEMU"), ..fine }),
            ("sudo mount -o remount,rw /boot/firmware", SeenBoot { read_only_at: Some(BOOT_DIR), ..fine }),
            ("autoboot.txt decides", SeenBoot { has_autoboot: true, ..fine }),
            ("`weaver` did not write it", SeenBoot { tryboot: Some("kernel=a\n"), ..fine }),
            ("`os_prefix=a/` in", SeenBoot { config: "[pi4]\n os_prefix=a/\n", ..fine }),
            ("`[tryboot]` in", SeenBoot { config: "[tryboot]\r\nkernel=b\n", ..fine }),
        ] {
            let found = said(&seen);
            assert!(found.contains(words) && found.lines().count() == 1, "{words}: {found}");
        }
    }

    #[test]
    fn what_does_not_start_by_the_firmware_is_refused_by_name() {
        let place = || Place::line("/boot/firmware/config.txt", 3);
        let undecided = BootFile::Undecided { place: place(), why: "`boot_ramdisk` has".to_owned() };
        let unreadable = BootFile::Unreadable { path: "/boot/firmware/c".to_owned(), why: "gone".to_owned() };
        for (file, words) in [
            (read("/boot/cmdline.txt"), "the next start reads /boot/cmdline.txt"),
            (read("/boot/firmware/current/cmdline.txt"), "reads /boot/firmware/current/cmdline.txt"),
            (BootFile::Missing, "sudo mount /boot/firmware"),
            (unreadable, "/boot/firmware/c: gone"),
            (undecided, "/boot/firmware/config.txt:3: `boot_ramdisk` has"),
        ] {
            let next = NextBoot::only(file);
            let found = said(&fine(&next));
            assert!(found.contains(words), "{words}: {found}");
        }
        let because = (place(), "unknown: the next boot tries new/".to_owned());
        let staged = StagedFile { file: BootFile::Missing, because, is_certain: true };
        let next = NextBoot { staged: Some(staged), ..NextBoot::only(read("/boot/firmware/cmdline.txt")) };
        let found = said(&fine(&next));
        assert!(found.starts_with("Ubuntu tries its kernels itself"), "{found}");
    }

    #[test]
    fn room_is_asked_for_first() {
        assert_eq!(boot_space(100 << 20, 60 << 20, 32 << 20), None);
        let refusal = boot_space((100 << 20) - 1, 60 << 20, 32 << 20).unwrap();
        assert!(
            refusal.what.starts_with("99 MiB are free") && refusal.what.ends_with("needs 100"),
            "{refusal}"
        );
        assert_eq!(root_space(556 << 10, 100 << 10), None);
        assert!(root_space(555 << 10, 100 << 10).unwrap().what.ends_with("a trial needs 556"));
    }

    #[test]
    fn firmware_is_not_installed_out_of_sight() {
        assert_eq!(also(&["kmod 34".to_owned()]), None);
        let refusal = also(&["kmod 34".to_owned(), "raspi-firmware 1:1.2025".to_owned()]).unwrap();
        assert!(refusal.what.contains("raspi-firmware 1:1.2025"), "{refusal}");
    }
}

//! Can the boot partition be read and written? The firmware starts the board from it, repairs go there, and so does
//! the report that a laptop reads. A partition that nobody mounts by fstab is none: another computer than a Pi.

use std::path::Path;

use nix::sys::statvfs::statvfs;
use weaver_diagnostics::finding::{Code, Finding, Place, Remedy};
use weaver_diagnostics::shell::quoted;

use crate::host_root::HostRoot;
use crate::publish::card::{MOUNTS, Mount, mount};
use crate::publish::page;

const FSTAB: &str = "/etc/fstab";

/// A warning where the partition is to be mounted and is not, or where nothing can be written to it.
#[must_use]
pub fn finding(root: &HostRoot, boot_dir: &Path) -> Option<Finding> {
    let fstab = root.read_if_possible(FSTAB)?.text;
    let (line, is_writable) = listed(&fstab, boot_dir)?;
    let mounts = root.read_if_possible(MOUNTS)?.text;
    let free = || {
        let told = statvfs(&root.host()?.join(boot_dir.strip_prefix("/").ok()?)).ok()?;
        Some(told.blocks_available().saturating_mul(told.fragment_size()))
    };
    let state = mount(&mounts, boot_dir);
    let (what, saw, remedy) = judge(boot_dir, state, is_writable, free)?;
    let place = if state == Mount::Absent {
        Place::line(FSTAB, line)
    } else {
        Place::file(boot_dir.display().to_string())
    };
    Some(Finding::new(Code::BootPartitionUnwritable, what).saw(place, saw).remedy(remedy))
}

fn judge(
    boot_dir: &Path,
    state: Mount,
    is_writable: bool,
    free: impl FnOnce() -> Option<u64>,
) -> Option<(String, String, Remedy)> {
    let place = boot_dir.display();
    let name = quoted(&place.to_string());
    match state {
        Mount::Absent => Some((
            format!("{place} is not mounted: the board may not start again"),
            "it is to be mounted there".to_owned(),
            Remedy::new("see why; where the partition is lost, save the data, and write the card again")
                .command(format!("sudo mount {name}")),
        )),
        Mount::ReadOnly if is_writable => Some((
            format!("{place} is mounted read-only: no repair and no report can be written"),
            "it is read-only".to_owned(),
            // Not by the place alone: mount then adds what fstab says, and the kernel refuses `dirsync` on a remount.
            Remedy::new("the kernel does so after a fault of its file system: power off and check the card in another computer; or")
                .command(format!("sudo mount -o remount,rw \"$(findmnt -no SOURCE {name})\" {name}")),
        )),
        Mount::ReadOnly => None,
        // A page may take its limit twice, in both forms, while the old ones are still there.
        Mount::Writable => free().filter(|free| *free < 4 * page::LIMIT as u64).map(|free| {
            (
                format!("{place} is full: no repair and no report can be written"),
                format!("{} KiB are free", free >> 10),
                Remedy::new("remove what is not needed, such as copies of old kernels").command(format!("ls -lS {name}")),
            )
        }),
    }
}

/// The line that mounts it at each boot, and whether it is to be writable.
fn listed(fstab: &str, boot_dir: &Path) -> Option<(u64, bool)> {
    (1..).zip(fstab.lines()).find_map(|(number, line)| {
        let mut fields = line.split_whitespace();
        let (source, place) = (fields.next()?, fields.next()?);
        let options = fields.nth(1).unwrap_or_default();
        let is_it = !source.starts_with('#') && Path::new(place) == boot_dir;
        let has = |wanted| options.split(',').any(|option| option == wanted);
        (is_it && !has("noauto")).then(|| (number, !has("ro")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;

    const BOOT: &str = "/boot/firmware";
    const LISTED: &str = "# boot\nLABEL=BOOT /boot/firmware vfat nofail,dirsync 0 2\n";
    const MOUNTED: &str = "36 25 254:1 / /boot/firmware rw,noatime shared:1 - vfat /dev/vda1 rw,dirsync\n";

    fn found(fstab: &str, mounts: &str) -> Option<Finding> {
        let (_dir, root) = host(&[(FSTAB, fstab), (MOUNTS, mounts)]);
        finding(&root, Path::new(BOOT))
    }

    #[test]
    fn one_that_is_listed_and_not_mounted_or_read_only_is_a_warning() {
        assert_eq!(found(LISTED, MOUNTED), None);
        let lost = found(LISTED, "").unwrap();
        assert!(lost.message.contains("is not mounted"), "{lost:?}");
        assert_eq!(lost.evidence[0].to_string(), "/etc/fstab:2: it is to be mounted there");
        let read_only = found(LISTED, &MOUNTED.replace("rw,", "ro,")).unwrap();
        assert!(read_only.message.contains("read-only"), "{read_only:?}");
    }

    #[test]
    fn where_no_board_starts_from_it_or_its_owner_wants_it_so_nothing_is_said() {
        for fstab in [
            "",
            "#LABEL=BOOT /boot/firmware vfat defaults 0 2\n",
            "LABEL=BOOT /boot vfat defaults 0 2\n",
            "LABEL=BOOT /boot/firmware vfat rw,noauto 0 2\n",
        ] {
            assert_eq!(found(fstab, ""), None, "{fstab}");
        }
        assert_eq!(found(&LISTED.replace("nofail", "ro"), &MOUNTED.replace("rw,", "ro,")), None);
    }

    /// Seen on the card: with the place alone mount(8) hands on fstab's `dirsync`, which vfat refuses on a remount.
    #[test]
    fn the_remount_that_is_printed_names_the_device() {
        let remedy = found(LISTED, &MOUNTED.replace("rw,", "ro,")).unwrap().remedy.unwrap();
        let line = r#"sudo mount -o remount,rw "$(findmnt -no SOURCE /boot/firmware)" /boot/firmware"#;
        assert_eq!(remedy.commands, [line]);
    }

    #[test]
    fn one_without_room_for_the_report_is_a_warning() {
        let judged = |free| judge(Path::new(BOOT), Mount::Writable, true, || free);
        assert!(judged(Some(0)).unwrap().0.contains("is full"));
        assert!(judged(Some(4 * page::LIMIT as u64 - 1)).is_some());
        assert!(judged(Some(4 * page::LIMIT as u64)).is_none() && judged(None).is_none());
    }
}

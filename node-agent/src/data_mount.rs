//! Can k3s write its data? The kernel stops the writes to a card with faults, and a k3s that starts on it ends itself
//! again and again.

use std::fs;
use std::path::Path;

use weaver_diagnostics::finding::{Code, Finding, Place, Remedy};

use crate::host_root::HostRoot;
use crate::publish::card::{MOUNTS, Mount, mount};

/// A failure where the file system that holds `data_dir` is mounted read-only; what nobody tells is not judged.
#[must_use]
pub fn finding(root: &HostRoot, data_dir: &Path) -> Option<Finding> {
    let mounts = root.read_if_possible(MOUNTS)?.text;
    // A link may lead to another disk.
    let top = fs::canonicalize(root.real("/")).ok()?;
    let existing = root.real(data_dir).ancestors().find_map(|path| fs::canonicalize(path).ok())?;
    let existing = Path::new("/").join(existing.strip_prefix(top).ok()?);
    let mut mounted = existing.ancestors().map(|place| (place, mount(&mounts, place)));
    let (place, state) = mounted.find(|(_, state)| *state != Mount::Absent)?;
    (state == Mount::ReadOnly).then(|| {
        let message = format!(
            "{} is mounted read-only: k3s cannot write to {}, and ends itself",
            place.display(),
            data_dir.display()
        );
        Finding::new(Code::CardFails, message)
            .saw(Place::file(MOUNTS), format!("{}: ro", place.display()))
            .remedy(
                Remedy::new(
                    "the kernel does so after a fault of the card; see what it says, save what you need, and use another \
                     card and supply; where it was done on purpose, mount it writable",
                )
                .command("sudo dmesg --level err,warn"),
            )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        const ROOT: &str = "25 1 254:2 / / rw,noatime shared:1 - ext4 /dev/vda2 rw,errors=remount-ro\n";
        const FAILED: &str = "25 1 254:2 / / ro,noatime shared:1 - ext4 /dev/vda2 ro,errors=remount-ro\n";
        const DATA: &str = "30 25 8:1 / /var/lib/rancher rw shared:2 - ext4 /dev/sda1 rw\n";
        const BOOT: &str = "36 25 254:1 / /boot/firmware ro shared:1 - vfat /dev/vda1 ro\n";
        for (mounts, place) in [
            (String::new(), None),
            (ROOT.to_owned(), None),
            (FAILED.to_owned(), Some("/ is mounted read-only")),
            // From Linux 6.12 on.
            (ROOT.replace("rw,errors", "rw,emergency_ro,errors"), Some("/ is mounted read-only")),
            (format!("{ROOT}{BOOT}"), None),
            // A root that is read-only on purpose, and a disk for the data.
            (format!("{FAILED}{DATA}"), None),
            (format!("{ROOT}{}", DATA.replace("rw", "ro")), Some("/var/lib/rancher is mounted read-only")),
        ] {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join("proc/self")).unwrap();
            fs::create_dir_all(dir.path().join("var/lib/rancher")).unwrap();
            fs::write(dir.path().join("proc/self/mountinfo"), &mounts).unwrap();
            let root = HostRoot::new(dir.path().to_owned());
            let found = finding(&root, Path::new("/var/lib/rancher/k3s"));
            assert_eq!(found.is_some(), place.is_some(), "{mounts}");
            assert!(found.is_none_or(|found| found.message.starts_with(place.unwrap())), "{mounts}");
        }
    }

    #[test]
    fn a_link_leads_to_the_disk_that_counts() {
        let dir = tempfile::tempdir().unwrap();
        for made in ["proc/self", "var/lib", "mnt/ssd/rancher"] {
            fs::create_dir_all(dir.path().join(made)).unwrap();
        }
        std::os::unix::fs::symlink(dir.path().join("mnt/ssd/rancher"), dir.path().join("var/lib/rancher"))
            .unwrap();
        let root = HostRoot::new(dir.path().to_owned());
        for (card, ssd, is_bad) in [("ro", "rw", false), ("rw", "ro", true)] {
            let mounts = format!(
                "25 1 254:2 / / {card} - ext4 /dev/vda2 {card}\n26 25 8:1 / /mnt/ssd {ssd} - ext4 /dev/sda1 {ssd}\n"
            );
            fs::write(dir.path().join("proc/self/mountinfo"), mounts).unwrap();
            assert_eq!(finding(&root, Path::new("/var/lib/rancher/k3s")).is_some(), is_bad, "{card} {ssd}");
        }
    }
}

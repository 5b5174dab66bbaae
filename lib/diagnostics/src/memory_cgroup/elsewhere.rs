//! What to do where the file that decides is not among those that are mounted.

use super::facts::CgroupFacts;
use crate::{
    finding::{Command, Finding, Place, Remedy},
    host::storage::MOUNTS,
    kernel_cmdline::{lines, parameters},
    text_file::TextFile,
};

/// What helps where the next boot's file is elsewhere than here, by what says so.
pub(super) fn remedy(place: &Place, why: &str) -> Option<String> {
    let then = "add cgroup_enable=memory to the end of the first line of cmdline.txt there, then reboot";
    if place.file.ends_with("/boot-mode") || place.file == MOUNTS {
        return Some(if why.contains("network") {
            format!("on the server that this machine boots from (TFTP or HTTP): {then}")
        } else {
            format!("mount the boot partition of the device that the firmware starts from: {then}")
        });
    }
    if place.file.ends_with("autoboot.txt") && why.contains("partition") {
        return Some(format!(
            "mount the partition that {place} has the firmware start: {then}; or correct {place}"
        ));
    }
    // Not where it is only unknown whether the setting applies.
    if why.starts_with("`boot_ramdisk` has") {
        return Some(
            "add cgroup_enable=memory to cmdline.txt in boot.img, which only its author can, then reboot"
                .to_owned(),
        );
    }
    None
}

/// snapd keeps the boot partition elsewhere, with a copy of the command line for each kernel.
pub(super) fn of_ubuntu_core(facts: &CgroupFacts) -> Option<Remedy> {
    let running = facts.running.as_deref()?;
    parameters(lines(running)[0], 1).iter().any(|parameter| parameter.text.starts_with("snapd_recovery_mode=")).then(|| {
        Remedy::new(
            "Ubuntu Core has the boot partition at /run/mnt/ubuntu-seed: add cgroup_enable=memory to the end of the first line \
             of each cmdline.txt below it, then reboot",
        )
        .command("sudo find /run/mnt/ubuntu-seed -name cmdline.txt")
    })
}

/// The file is right, and has another root than the running kernel got: it may not be the one that was booted.
pub(super) fn doubted(finding: Finding, file: &TextFile, facts: &CgroupFacts) -> Finding {
    let root = |line: &str| {
        let found = parameters(line, 1).into_iter().rfind(|parameter| parameter.text.starts_with("root="));
        found.map(|parameter| parameter.text.to_owned())
    };
    let running = facts.running.as_deref().and_then(|text| root(lines(text)[0]));
    let (Some(here), Some(running)) = (root(lines(&file.text)[0]), running) else { return finding };
    // A label or an id can be passed to the kernel in several ways, and a reboot shows which.
    let kind = |text: &str| text.split('=').nth(1).map(|kind| kind.starts_with("/dev/"));
    if here == running || kind(&here) != kind(&running) {
        return finding;
    }
    let explain = format!(
        "reboot; if the finding is still there afterwards, the firmware reads another boot partition than that of {}: its \
         root is not that of the running system. Mount that one, and check again",
        file.path
    );
    finding
        .saw(Place::line(&file.path, 1), format!("{here}, while the running kernel got {running}"))
        .remedy(Remedy::new(explain).command(Command::Reboot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_helps_by_what_says_where_the_file_is() {
        let mode = Place::file("/proc/device-tree/chosen/bootloader/boot-mode");
        let autoboot = Place::line("/boot/firmware/autoboot.txt", 2);
        let config = Place::line("/boot/firmware/config.txt", 9);
        let mounts = Place::file(MOUNTS);
        for (place, why, want) in [
            (&mode, "this boot came over the network", Some("on the server that this machine boots from")),
            (&mode, "the firmware booted from NVMe", Some("mount the boot partition of the device")),
            (&mounts, "it may be another's", Some("mount the boot partition of the device")),
            (
                &autoboot,
                "`boot_partition=2` has the next boot start partition 2",
                Some("mount the partition that"),
            ),
            (
                &config,
                "`boot_ramdisk` has the firmware take",
                Some("add cgroup_enable=memory to cmdline.txt in boot.img"),
            ),
            (&config, "whether `boot_ramdisk=1` applies is unknown: [gpio4=1] depends on a pin", None),
            (&config, "whether `cmdline=comment.txt` applies is unknown: [gpio4=1] depends on a pin", None),
        ] {
            let found = remedy(place, why);
            assert_eq!(found.is_some(), want.is_some(), "{why}");
            assert!(found.unwrap_or_default().starts_with(want.unwrap_or_default()), "{why}");
        }
    }

    #[test]
    fn where_ubuntu_core_has_its_boot_partition() {
        use crate::memory_cgroup::{CgroupFacts, Controller};
        use crate::next_boot::{BootFile, NextBoot};
        let facts = |running: &str| CgroupFacts {
            kernel_release: None,
            controller: Controller::Unknown(String::new()),
            running: Some(running.to_owned()),
            next: NextBoot::only(BootFile::Missing),
            stub: None,
            extra: None,
            generator: false,
            read_only_at: None,
        };
        let of_core =
            of_ubuntu_core(&facts("cgroup_disable=memory snapd_recovery_mode=run console=tty1")).unwrap();
        assert!(of_core.explain.contains("/run/mnt/ubuntu-seed"), "{of_core:?}");
        assert_eq!(of_ubuntu_core(&facts("cgroup_disable=memory console=tty1")), None);
    }
}

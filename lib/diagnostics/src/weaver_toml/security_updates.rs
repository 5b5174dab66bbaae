//! `[update]`: whether Debian's security updates are installed by themselves, and when the board may reboot for them.
//! `unattended-upgrades` does it; what is ours is its configuration.

use std::fmt::Write as _;

use super::{
    fault::{Faults, Mistake, shown},
    section::Section,
};

const WINDOW: &str = "write a time of the night such as \"03:30-04:30\", or false for no reboot";
const DAY: u16 = 24 * 60;

/// What the board boots from, and what makes its initramfs again. Debian's hook overwrites the files on the boot
/// partition, so that a power cut meanwhile, or a kernel that does not start on this board, leaves one that does not
/// boot.
pub const HELD_BACK: [&str; 8] = [
    "linux-",
    "raspi-firmware$",
    "firmware-",
    "initramfs-tools",
    "klibc-utils$",
    "kmod$",
    "udev$",
    "e2fsprogs$",
];
const REBOOT_TIME: &str = "Unattended-Upgrade::Automatic-Reboot-Time";

/// Security updates that are installed by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecurityUpdates {
    /// When the board may reboot for them; `None` for never.
    pub reboot: Option<RebootWindow>,
}

/// A time of the day, by the host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RebootWindow {
    /// Its begin, in minutes since midnight.
    pub from: u16,
    /// Its length in minutes, at least one. It may end on the next day.
    pub length: u16,
}

impl RebootWindow {
    /// The minute in which this machine reboots: the same each time, and another one than that of most others, so that
    /// the nodes of a cluster are not all away at once.
    pub fn minute(self, machine_id: Option<&str>) -> u16 {
        let id = machine_id.and_then(|id| u128::from_str_radix(id, 16).ok()).unwrap_or_default();
        let later = u16::try_from(id % u128::from(self.length.max(1))).unwrap_or_default();
        (self.from + later) % DAY
    }
}

pub(super) fn read(section: &Section<'_>, faults: &mut Faults<'_>) -> Option<SecurityUpdates> {
    let is_on = section.truth("security", faults).unwrap_or_default();
    let place = section.place_of("reboot");
    let mut reboot = None;
    if section.is("reboot", true) {
        faults.add_at(place.as_ref(), "`reboot` is true, which says no time", WINDOW);
    } else if !section.is("reboot", false) {
        let text = section.text("reboot", faults);
        reboot = text.and_then(|text| faults.take(text.span.as_ref(), window(text.value)));
    }
    if reboot.is_some() && section.place_of("security").is_none() {
        let message = "`reboot` needs `security` below [update]";
        faults.add_at(place.as_ref(), message, "write security = true, or remove the line");
    }
    is_on.then_some(SecurityUpdates { reboot })
}

fn window(text: &str) -> Result<RebootWindow, Mistake> {
    let wrong = |why: &str| Mistake::new(format!("`reboot` is {}, {why}", shown(text)), WINDOW);
    let times = text.split_once('-').and_then(|(from, to)| Some((minutes(from)?, minutes(to)?)));
    let (from, to) = times.ok_or_else(|| wrong("not two times of 24 hours"))?;
    if from == to {
        return Err(wrong("which ends when it begins"));
    }
    Ok(RebootWindow { from, length: (to + DAY - from) % DAY })
}

/// Minutes since midnight.
fn minutes(time: &str) -> Option<u16> {
    let (hour, minute) = time.split_once(':')?;
    let number = |text: &str, end: u16| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number: &u16| is_number && *number < end)
    };
    Some(number(hour, 24)? * 60 + number(minute, 60)?)
}

/// apt's configuration. It is read after Debian's own files, so that this one alone says what happens; an owner's file
/// of a later name has the last word.
pub(super) fn apt_conf(updates: SecurityUpdates, machine_id: Option<&str>) -> String {
    let held_back: String = HELD_BACK.iter().fold(String::new(), |mut lines, name| {
        let _ = writeln!(lines, "  \"{name}\";");
        lines
    });
    let reboot = updates.reboot.map(|window| window.minute(machine_id));
    let time = reboot.map_or_else(String::new, |minute| {
        format!("{REBOOT_TIME} \"{:02}:{:02}\";\n", minute / 60, minute % 60)
    });
    format!(
        "APT::Periodic::Update-Package-Lists \"1\";\n\
         APT::Periodic::Unattended-Upgrade \"1\";\n\
         // Nothing but Debian's security updates.\n\
         #clear Unattended-Upgrade::Allowed-Origins;\n\
         #clear Unattended-Upgrade::Origins-Pattern;\n\
         Unattended-Upgrade::Origins-Pattern {{\n  \
         \"origin=Debian,codename=${{distro_codename}}-security,label=Debian-Security\";\n}};\n\
         // What the board boots from, and what writes it, waits for the owner.\n\
         Unattended-Upgrade::Package-Blacklist {{\n{held_back}}};\n\
         Unattended-Upgrade::Remove-Unused-Kernel-Packages \"false\";\n\
         Unattended-Upgrade::Automatic-Reboot \"{}\";\n{time}\
         // Asks for a reboot where a service still uses a library that was replaced; Debian's packages do not.\n\
         DPkg::Post-Invoke {{ \"test ! -x {REBOOT_CHECK} || {REBOOT_CHECK} || true\"; }};\n",
        reboot.is_some()
    )
}

/// Of the package config-weaver-card.
const REBOOT_CHECK: &str = "/usr/lib/weaver/reboot-required";

/// When this configuration has the board reboot.
pub fn reboot_time(apt_conf: &str) -> Option<&str> {
    apt_conf.lines().find_map(|line| line.strip_prefix(REBOOT_TIME)?.split('"').nth(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::weaver_toml::{Fault, parse};

    fn read(text: &str) -> Result<Option<SecurityUpdates>, String> {
        let reported = |fault: &Fault| format!("{}: {}; {}", fault.line, fault.message, fault.remedy);
        match parse(format!("[update]\n{text}\n").as_bytes()) {
            Ok(read) => Ok(read.config.security),
            Err(faults) => Err(faults.iter().map(reported).collect::<Vec<_>>().join("\n")),
        }
    }

    #[test]
    fn a_board_reboots_only_in_a_window_that_was_set() {
        let window = |from, length| Some(RebootWindow { from, length });
        for (text, want) in [
            ("", None),
            ("security = false", None),
            ("reboot = false", None),
            ("security = false\nreboot = \"03:30-04:30\"", None),
            ("security = true", Some(None)),
            ("security = true\nreboot = false", Some(None)),
            ("security = true\nreboot = \"03:30-04:30\"", Some(window(210, 60))),
            ("security = true\nreboot = \"23:30-00:15\"", Some(window(1410, 45))),
            ("security = true\nreboot = \"00:00-23:59\"", Some(window(0, 1439))),
        ] {
            assert_eq!(read(text), Ok(want.map(|reboot| SecurityUpdates { reboot })), "{text}");
        }
        let both = "security = true\nsource = \"file:/a\"\nkey = \"a.asc\"";
        assert!(read(both).unwrap().is_some(), "next to our own updates");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_what_to_write() {
        for (text, says) in [
            (
                "security = \"yes\"",
                "2: `security` is a string, not true or false; write it like security = true",
            ),
            ("security = 1", "2: `security` is a number, not true or false"),
            ("securty = true", "2: unknown key `securty`; did you mean `security`?"),
            (
                "reboot = \"03:30-04:30\"",
                "2: `reboot` needs `security` below [update]; write security = true",
            ),
            ("security = true\nreboot = true", "3: `reboot` is true, which says no time; write a time of"),
            ("security = true\nreboot = 3", "3: `reboot` is a number, not a string in quotes; write it like"),
            ("security = true\nreboot = \"\"", "3: `reboot` is ``, not two times of 24 hours"),
            ("security = true\nreboot = \"03:30\"", "`reboot` is `03:30`, not two times of 24 hours"),
            ("security = true\nreboot = \"3:30-4:30\"", "not two times of 24 hours"),
            ("security = true\nreboot = \"03:30-24:00\"", "not two times of 24 hours"),
            ("security = true\nreboot = \"03:60-04:00\"", "not two times of 24 hours"),
            ("security = true\nreboot = \"03:30-04:30-05:30\"", "not two times of 24 hours"),
            ("security = true\nreboot = \"+3:30-04:30\"", "not two times of 24 hours"),
            ("security = true\nreboot = \"٠٣:30-04:30\"", "not two times of 24 hours"),
            ("security = true\nreboot = \"03:30 - 04:30\"", "not two times of 24 hours"),
            (
                "security = true\nreboot = \"03:30-03:30\"",
                "3: `reboot` is `03:30-03:30`, which ends when it begins",
            ),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.contains(says), "{text}: {found}");
            assert_eq!(found.lines().count(), 1, "{text}: {found}");
        }
    }

    #[test]
    fn machines_reboot_at_minutes_of_their_own() {
        let night = RebootWindow { from: 1410, length: 45 };
        for (id, minute) in [
            (None, 1410),
            (Some("no number"), 1410),
            (Some("00000000000000000000000000000000"), 1410),
            (Some("0000000000000000000000000000001d"), 1439),
            (Some("0000000000000000000000000000001e"), 0),
            (Some("0000000000000000000000000000002d"), 1410),
        ] {
            assert_eq!(night.minute(id), minute, "{id:?}");
        }
    }

    proptest! {
        #[test]
        fn the_minute_is_in_the_window(from in 0..DAY, length in 1..DAY, id in any::<u128>()) {
            let minute = RebootWindow { from, length }.minute(Some(&format!("{id:032x}")));
            prop_assert!(minute < DAY && (minute + DAY - from) % DAY < length);
        }
    }

    #[test]
    fn the_time_is_found_again() {
        let window = RebootWindow { from: 210, length: 60 };
        let conf = |reboot| apt_conf(SecurityUpdates { reboot }, Some("0000000000000000000000000000000f"));
        assert_eq!(reboot_time(&conf(Some(window))), Some("03:45"));
        assert_eq!(reboot_time(&conf(None)), None);
    }
}

use super::*;

const NOW: i64 = 1_796_000_000;
const DAY: i64 = 24 * HOUR;
const GOOD: &str = "\
2026-11-28 06:12:03,481 INFO Starting unattended upgrades script
2026-11-28 06:12:03,502 INFO Allowed origins are: origin=Debian,codename=trixie-security,label=Debian-Security
2026-11-28 06:12:09,117 INFO No packages found that can be upgraded unattended and no pending auto-removals
";

/// One that runs each day and has nothing to do.
fn well() -> SecurityState {
    SecurityState {
        is_installed: true,
        log: Some(GOOD.to_owned()),
        made: Some(NOW - 6 * HOUR),
        list_until: Some(NOW + 5 * DAY),
        kept_back: None,
        now: NOW,
        uptime: 30 * DAY,
    }
}

fn log(lines: &str) -> String {
    format!("{GOOD}2026-11-29 06:12:03,481 INFO Starting unattended upgrades script\n{lines}")
}

#[test]
fn what_is_well_is_silent() {
    let old_error = format!("2026-11-27 06:12:03,481 ERROR Cache has broken packages, exiting\n{GOOD}");
    for state in [
        well(),
        SecurityState { log: None, ..well() },
        SecurityState { log: Some(old_error), ..well() },
        SecurityState { log: Some("2026-11-27 06:00:00,000 ERROR of no run".to_owned()), ..well() },
        SecurityState { log: Some(log("a line that says ERROR itself\n")), ..well() },
        SecurityState { kept_back: Some(String::new()), ..well() },
        SecurityState { kept_back: Some("$(reboot) --purge".to_owned()), ..well() },
        // The clock was wrong.
        SecurityState { made: Some(NOW + DAY), ..well() },
        // The board was off, or is new.
        SecurityState { made: None, list_until: None, uptime: HOUR, ..well() },
        SecurityState {
            made: Some(NOW - 90 * DAY),
            list_until: Some(NOW - 80 * DAY),
            uptime: HOUR,
            ..well()
        },
    ] {
        assert_eq!(state.judge(), None, "{state:?}");
    }
}

#[test]
fn what_is_not_well_says_why_and_what_to_type() {
    for (state, message, remedy) in [
        (
            SecurityState { is_installed: false, ..SecurityState::default() },
            "unattended-upgrades is not installed",
            "sudo apt-get install --no-install-recommends unattended-upgrades",
        ),
        (
            SecurityState {
                log: Some(log(
                    "2026-11-29 06:12:03,900 ERROR Lock could not be acquired (another package manager running?)\n",
                )),
                ..well()
            },
            "were not installed: another program is installing packages (Lock could not be acquired",
            "wait until it has finished",
        ),
        (
            SecurityState {
                log: Some(log("2026-11-29 06:12:09,000 ERROR Apt returned an error, exiting\n\
                                   2026-11-29 06:12:09,001 ERROR error message: E:x\n")),
                ..well()
            },
            "were not installed: it failed (error message: E:x)",
            "see all of it",
        ),
        (
            SecurityState {
                log: Some(log(
                    "2026-11-29 06:20:00,000 WARNING Package openssh-server has conffile prompt and needs to be upgraded manually\n",
                )),
                ..well()
            },
            "wait, since a file of theirs was changed here: openssh-server",
            "sudo apt-get install --only-upgrade openssh-server",
        ),
        (
            SecurityState { list_until: Some(NOW - HOUR), ..well() },
            "has expired: this host does not reach its source",
            "sudo apt-get update",
        ),
        (SecurityState { list_until: None, ..well() }, "apt has no list", "sources.list.d"),
        (SecurityState { made: None, ..well() }, "for more than a week", "journalctl"),
        (SecurityState { made: Some(NOW - 8 * DAY), ..well() }, "for more than a week", "journalctl"),
        (
            SecurityState { kept_back: Some("linux-image-arm64 libudev1:arm64 udev\n".to_owned()), ..well() },
            "security updates wait for you: linux-image-arm64 libudev1:arm64 udev",
            "sudo apt-get install --only-upgrade linux-image-arm64 libudev1:arm64 udev",
        ),
    ] {
        let found = state.judge().unwrap_or_else(|| panic!("{message}"));
        assert_eq!((found.code, found.severity()), (Code::SecurityUpdatesMissing, Severity::Warn));
        assert!(found.message.contains(message), "{}", found.message);
        let said = format!("{:?}", found.remedy);
        assert!(said.contains(remedy), "{message}: {said}");
    }
}

#[test]
fn a_list_is_one_of_security_updates_or_none() {
    let list = |label: &str| {
        format!("Origin: Debian\nLabel: {label}\nValid-Until: Thu, 03 Dec 2026 21:03:36 UTC\nSHA256:\n")
    };
    assert_eq!(valid_until(&list("Debian-Security")), Some("Thu, 03 Dec 2026 21:03:36 UTC"));
    for other in [&list("Debian"), "", "Label: Debian-Security\n"] {
        assert_eq!(valid_until(other), None, "{other}");
    }
}

#[test]
fn a_pending_reboot_is_a_warning_until_it_has_its_time() {
    for (why, packages, at, severity, message, saw) in [
        ("", "", None, Severity::Warn, "a reboot is pending: until then", "it is there"),
        (
            "\n",
            "linux-image-6.12\nlibc6\n",
            None,
            Severity::Warn,
            "pending for linux-image-6.12, libc6",
            "it is there",
        ),
        (
            "ssh.service uses …\n",
            "",
            Some("03:45"),
            Severity::Ok,
            "this host reboots at 03:45",
            "ssh.service uses …",
        ),
    ] {
        let (why, packages, at) = (why.to_owned(), packages.to_owned(), at.map(str::to_owned));
        let found = PendingReboot { why, packages, at }.judge();
        assert_eq!((found.severity(), found.remedy.is_some()), (severity, severity == Severity::Warn));
        assert!(found.message.contains(message), "{}", found.message);
        assert_eq!(found.evidence[0].saw, saw);
    }
}

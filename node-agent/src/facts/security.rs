//! Reads what unattended-upgrades has left behind, and whether a reboot is pending.

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use weaver_diagnostics::host::security::{
    KEPT_BACK, LISTS, LOG, PROGRAM, PendingReboot, REBOOT_PACKAGES, REBOOT_REQUIRED, STAMP, SecurityState,
    valid_until,
};
use weaver_diagnostics::weaver_toml::plan::SECURITY_UPDATES;
use weaver_diagnostics::weaver_toml::security_updates::reboot_time;

use super::system::uptime;
use crate::host_root::HostRoot;

/// `None` where they are not asked for.
pub(crate) fn updates(root: &HostRoot) -> Option<SecurityState> {
    root.read_if_possible(SECURITY_UPDATES)?;
    Some(SecurityState {
        is_installed: root.exists(PROGRAM),
        log: root.read_lossy(LOG).ok().flatten().map(|(text, _)| text),
        made: modified(root, STAMP),
        list_until: list_until(root),
        kept_back: root.read_if_possible(KEPT_BACK).map(|file| file.text),
        now: Timestamp::now().as_second(),
        uptime: uptime(root)?,
    })
}

/// `None` where none is pending.
pub(crate) fn reboot(root: &HostRoot) -> Option<PendingReboot> {
    let text = |path: &str| root.read_if_possible(path).map(|file| file.text);
    let why = text(REBOOT_REQUIRED)?;
    let at = text(SECURITY_UPDATES).and_then(|conf| reboot_time(&conf).map(str::to_owned));
    Some(PendingReboot { why, packages: text(REBOOT_PACKAGES).unwrap_or_default(), at })
}

fn modified(root: &HostRoot, path: &str) -> Option<i64> {
    let time = std::fs::metadata(root.real(path)).and_then(|metadata| metadata.modified()).ok()?;
    Some(Timestamp::try_from(time).ok()?.as_second())
}

/// The latest of all lists of security updates.
fn list_until(root: &HostRoot) -> Option<i64> {
    let names = root.list(LISTS).ok()?;
    let lists = names.iter().filter(|name| name.ends_with("Release") && name.contains("security"));
    let seconds = |name: &String| {
        let text = root.read_if_possible(format!("{LISTS}/{name}"))?.text;
        // Debian's word for it is none of the mails' standard.
        let date = valid_until(&text)?.replace("UTC", "GMT");
        Some(rfc2822::parse(&date).ok()?.timestamp().as_second())
    };
    lists.filter_map(seconds).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_root::fixture::host;

    const ASKED: (&str, &str) = (SECURITY_UPDATES, "Unattended-Upgrade::Automatic-Reboot-Time \"03:45\";\n");
    const UPTIME: (&str, &str) = ("/proc/uptime", "360000.12 700000.00\n");

    #[test]
    fn nothing_is_read_where_they_are_not_asked_for() {
        let (_dir, root) = host(&[UPTIME, (LOG, "…"), (KEPT_BACK, "udev")]);
        assert_eq!((updates(&root), reboot(&root)), (None, None));
    }

    #[test]
    fn everything_there_is() {
        let list = |label: &str, day: u32| {
            format!("Label: {label}\nValid-Until: Thu, {day:02} Dec 2026 21:03:36 UTC\nSHA256:\n")
        };
        let (_dir, root) = host(&[
            ASKED,
            UPTIME,
            (PROGRAM, "#!/usr/bin/python3\n"),
            (LOG, "2026-11-29 …\u{1}\n"),
            (STAMP, ""),
            (KEPT_BACK, "udev"),
            (
                &format!("{LISTS}/deb_debian-security_dists_trixie-security_InRelease"),
                &list("Debian-Security", 3),
            ),
            (
                &format!("{LISTS}/other_debian-security_dists_trixie-security_Release"),
                &list("Debian-Security", 10),
            ),
            (&format!("{LISTS}/security.example.com_InRelease"), &list("Other", 17)),
            (&format!("{LISTS}/deb_debian-security_dists_trixie-security_main_binary-arm64_Packages"), "x"),
            (REBOOT_REQUIRED, "ssh.service uses a library\n"),
            (REBOOT_PACKAGES, "libc6\n"),
        ]);
        let state = updates(&root).unwrap();
        assert_eq!(
            (state.is_installed, state.uptime, state.kept_back.as_deref()),
            (true, 360_000, Some("udev"))
        );
        assert!(state.log.unwrap().starts_with("2026-11-29"), "damage hides no failure");
        assert_eq!(state.list_until, Some(1_796_936_616));
        let age = state.now - state.made.unwrap();
        assert!((0..60).contains(&age), "{age}");
        let want = PendingReboot {
            why: "ssh.service uses a library\n".to_owned(),
            packages: "libc6\n".to_owned(),
            at: Some("03:45".to_owned()),
        };
        assert_eq!(reboot(&root), Some(want));
    }
}

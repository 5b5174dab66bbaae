//! `reboot-required` of the card, on a machine of files.

use std::fs;
use std::path::Path;
use std::process::Command;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/card/usr/lib/weaver/reboot-required");
const MAPS: &str = "aaaad0000000-aaaad0100000 r-xp 00000000 b3:02 1234   /usr/sbin/sshd\n";

/// What is asked for on a machine where this is in the maps of a process of that unit.
fn asked_for(unit: &str, line: &str, earlier: Option<&str>) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let at = |path: &str| dir.path().join(path);
    let write = |path: &str, text: &str| {
        fs::create_dir_all(at(path).parent().unwrap()).unwrap();
        fs::write(at(path), text).unwrap();
    };
    write(&format!("cgroup/{unit}/cgroup.procs"), "8\n7\n");
    write("cgroup/avahi-daemon.service/cgroup.procs", "");
    // 8 has ended meanwhile.
    write("proc/7/maps", &format!("{MAPS}{line}\n"));
    write("run/x", "");
    if let Some(earlier) = earlier {
        write("run/reboot-required", earlier);
    }
    let output = Command::new(SCRIPT)
        .env("WEAVER_PROC", at("proc"))
        .env("WEAVER_CGROUPS", at("cgroup"))
        .env("WEAVER_RUN", at("run"))
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    fs::read_to_string(at("run/reboot-required")).ok()
}

#[test]
fn a_reboot_is_asked_for_where_a_service_still_uses_a_library_that_was_replaced() {
    let mapped = |path: &str| format!("ffff90000000-ffff90180000 r-xp 00000000 b3:02 99   {path}");
    let library = mapped("/usr/lib/aarch64-linux-gnu/libcrypto.so.3 (deleted)");
    let says = Some("ssh.service uses a library that was replaced\n".to_owned());
    assert_eq!(asked_for("ssh.service", &library, None), says);
    let python =
        mapped("/usr/lib/python3/dist-packages/_dbus_bindings.cpython-313-aarch64-linux-gnu.so (deleted)");
    assert_eq!(asked_for("ssh.service", &python, None), says);
    assert_eq!(asked_for("ssh.service", &library, Some("before\n")).as_deref(), Some("before\n"));
    for unit in ["apt-daily-upgrade.service", "unattended-upgrades.service", "apt-daily.service", "x.scope"] {
        assert_eq!(asked_for(unit, &library, None), None, "{unit}");
    }
    for line in [
        "",
        &mapped("/usr/lib/aarch64-linux-gnu/libcrypto.so.3"),
        // Restarted by their own packages, or of no package.
        &mapped("/usr/bin/weaver-node-agent (deleted)"),
        &mapped("/memfd:x (deleted)"),
        &mapped("/tmp/usr/lib/x.so (deleted)"),
        &mapped("/usr/lib/locale/locale-archive (deleted)"),
    ] {
        assert_eq!(asked_for("ssh.service", line, None), None, "{line}");
    }
}

#[test]
fn a_machine_without_services_needs_none() {
    let dir = tempfile::tempdir().unwrap();
    let output = Command::new(Path::new(SCRIPT))
        .env("WEAVER_CGROUPS", dir.path())
        .env("WEAVER_RUN", dir.path())
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

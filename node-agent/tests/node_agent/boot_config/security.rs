//! `security` and `reboot` of `[update]`. Needs apt-config, of the Debian package apt.

use std::process::Command;

use super::card::CardHost;

const FILE: &str = "/etc/apt/apt.conf.d/90-weaver-security";
const GOLDEN: &str = include_str!("90-weaver-security");
const ASKED: &str = "[update]\nsecurity = true\nreboot = \"03:30-04:30\"\n";
/// As Debian's package has it, with what its owner has added.
const DEBIANS: &str = r#"Unattended-Upgrade::Origins-Pattern {
        "origin=Debian,codename=${distro_codename},label=Debian";
        "origin=Debian,codename=${distro_codename}-security,label=Debian-Security";
};
Unattended-Upgrade::Package-Blacklist { "openssh-server$"; };
Unattended-Upgrade::Automatic-Reboot "true";
Unattended-Upgrade::Automatic-Reboot-Time "12:00";
"#;

/// What apt makes of all its files.
fn values(host: &CardHost, name: &str) -> Vec<String> {
    host.write("apt.conf", format!("Dir \"{}\";\n", host.path("/").display()));
    let mut apt = Command::new("apt-config");
    let output =
        apt.args(["dump", "--no-empty", "--format=%F %v%n", name]).env("APT_CONFIG", host.path("apt.conf"));
    let output =
        output.output().unwrap_or_else(|error| panic!("needs apt-config, of the package apt: {error}"));
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
}

fn card() -> CardHost {
    let host = CardHost::new();
    host.write("/etc/machine-id", "0000000000000000000000000000000f\n");
    host.write("/etc/apt/apt.conf.d/50unattended-upgrades", DEBIANS);
    host
}

#[test]
fn apt_gets_what_to_install_and_when_the_board_reboots() {
    let host = card();
    let said = host.configure(ASKED).exits(0);
    assert!(said.finds("B-00", "ok")["message"].as_str().unwrap().ends_with("was applied: security updates"));
    assert_eq!(host.read(FILE), GOLDEN);
    let before = host.state();
    host.run().exits(0);
    assert_eq!(host.state(), before);

    assert_eq!(
        values(&host, "Unattended-Upgrade::Origins-Pattern"),
        ["origin=Debian,codename=${distro_codename}-security,label=Debian-Security"],
        "no point release, and nothing of another origin"
    );
    let held_back = values(&host, "Unattended-Upgrade::Package-Blacklist");
    for name in ["openssh-server$", "linux-", "udev$"] {
        assert!(held_back.iter().any(|held| held == name), "{name}: {held_back:?}");
    }
    for (name, value) in [
        ("APT::Periodic::Update-Package-Lists", "1"),
        ("APT::Periodic::Unattended-Upgrade", "1"),
        ("Unattended-Upgrade::Remove-Unused-Kernel-Packages", "false"),
        ("Unattended-Upgrade::Automatic-Reboot", "true"),
        ("Unattended-Upgrade::Automatic-Reboot-Time", "03:45"),
    ] {
        assert!(values(&host, name).contains(&value.to_owned()), "{name}");
    }
    assert_eq!(values(&host, "DPkg::Post-Invoke").len(), 1);
}

#[test]
fn no_board_reboots_unasked_and_without_the_key_apt_is_as_before() {
    let host = card();
    host.configure("[update]\nsecurity = true\n").exits(0);
    assert_eq!(values(&host, "Unattended-Upgrade::Automatic-Reboot")[0], "false");
    host.configure(&ASKED.replace("03:30", "4:30")).exits(0).finds("B-01", "warn");
    assert!(host.exists(FILE), "a file with a fault changes nothing");
    for off in ["[update]\nsecurity = false\nreboot = \"03:30-04:30\"\n", ""] {
        host.configure(ASKED).exits(0);
        host.configure(off).exits(0);
        assert!(!host.exists(FILE));
        assert!(values(&host, "APT::Periodic::Unattended-Upgrade").is_empty());
        assert_eq!(host.read("/etc/apt/apt.conf.d/50unattended-upgrades"), DEBIANS);
    }
}

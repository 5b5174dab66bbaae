//! `[update] security` on a running card: Debian's unattended-upgrades with an archive of security updates on the card.

use std::time::Duration;

use weaver_image::booted::machine;

/// Python under emulation.
const COMMAND: Duration = Duration::from_mins(5);

/// Two packages are installed, and the archive has newer versions: of one that no board boots from, and of one that is
/// named like a kernel.
const ARCHIVE: &str = r"set -e
mkdir /run/security && cd /run/security
for name in probe linux-probe; do
    mkdir -p $name/DEBIAN
    for version in 1 2; do
        printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: x <x@x.test>\nDescription: x\n' \
            $name $version > $name/DEBIAN/control
        dpkg-deb --build $name ${name}_$version.deb
    done
    dpkg --install ${name}_1.deb
    file=${name}_2.deb
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' $file $(stat -c %s $file) $(sha256sum < $file | cut -c-64) |
        cat $name/DEBIAN/control - >> Packages
done
printf 'Origin: Debian\nLabel: Debian-Security\nCodename: trixie-security\nSHA256:\n %s %s Packages\n' \
    $(sha256sum < Packages | cut -c-64) $(stat -c %s Packages) > Release
rm -f /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/run/security ./' > /etc/apt/sources.list.d/security.list
apt-get update";

const ASKED: &str = r"printf '\n[update]\nsecurity = true\n' >> /boot/firmware/weaver.toml
weaver-node-agent boot-config";

#[test]
#[ignore = "needs the booted image: make image-smoke"]
fn debians_security_updates_are_installed_and_what_the_board_boots_from_waits_for_its_owner() {
    let machine = machine().unwrap();
    machine.run_within(ARCHIVE, COMMAND).unwrap();
    let versions = || machine.run("dpkg-query --show probe linux-probe").unwrap();
    assert_eq!(versions(), "linux-probe\t1\nprobe\t1\n");
    // Debian's default is to install them; a card's is not to.
    let off = machine.run("apt-config dump --no-empty --format '%f %v%n' APT::Periodic").unwrap();
    assert!(!off.contains("Unattended-Upgrade"), "{off}");

    machine.run_within(ASKED, COMMAND).unwrap();
    let dry = machine.run_within("unattended-upgrade --dry-run --verbose 2>&1", COMMAND).unwrap();
    assert!(dry.contains("Packages that will be upgraded: probe\n"), "{dry}");
    assert_eq!(versions(), "linux-probe\t1\nprobe\t1\n", "that was a dry run");
    let done = machine.run_within("unattended-upgrade --verbose 2>&1", COMMAND).unwrap();
    assert_eq!(versions(), "linux-probe\t1\nprobe\t2\n", "{done}");
    assert_eq!(machine.run("dpkg --audit").unwrap(), "");

    let said = machine.run_within("weaver-node-agent check || true", COMMAND).unwrap();
    for words in [
        "H-32",
        "security updates wait for you: linux-probe",
        "$ sudo apt-get install --only-upgrade linux-probe",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

use super::*;

/// Words of apt 3.0 (Debian 13) and 2.6 (Debian 12), and of dpkg 1.22.
const SAID: &[(&str, &str)] = &[
    (
        "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 812 (unattended-upgr)",
        "another program is installing",
    ),
    (
        "dpkg: error: dpkg frontend lock was locked by another process with pid 812",
        "another program is installing",
    ),
    ("Lock could not be acquired (another package manager running?)", "another program is installing"),
    (
        "E: dpkg was interrupted, you must manually run 'sudo dpkg --configure -a' to correct the problem.",
        "interrupted earlier",
    ),
    (
        "raspi-firmware: missing /boot/firmware, did you forget to mount it?",
        "the boot partition is not mounted",
    ),
    ("cp: error writing '/boot/firmware/initrd.img': No space left on device", "the boot partition is full"),
    (
        "dpkg: error processing archive (--unpack): cannot copy extracted data for './usr/bin/weaver': failed to write (No space left on device)",
        "the disk is full",
    ),
    ("E: You don't have enough free space in /var/cache/apt/archives/.", "the disk is full"),
    (
        "E: Release file for file:/srv/apt/dists/stable/InRelease is not valid yet (invalid for another 2d 3h). Updates for this repository will not be applied.",
        "clock is before",
    ),
    (
        "W: OpenPGP signature verification failed: http://10.0.2.2:18080 stable InRelease: Sub-process /usr/bin/sqv returned an error code (1), error message is: Signature by FDC8 was created after the --not-after date.",
        "clock is before",
    ),
    (
        "E: Release file for file:/srv/apt/dists/stable/InRelease is expired (invalid since 1d 2h 3min 4s). Updates for this repository will not be applied.",
        "the repository has expired",
    ),
    (
        "W: OpenPGP signature verification failed: file:/srv/apt stable InRelease: Sub-process /usr/bin/sqv returned an error code (1), error message is: Error: Failed to parse keyring \"/etc/apt/keyrings/config-weaver.asc\"  Caused by: …\nE: The repository 'file:/srv/apt stable InRelease' is not signed.",
        "the key of the repository cannot be read",
    ),
    (
        "W: OpenPGP signature verification failed: file:/srv/apt stable InRelease: Sub-process /usr/bin/sqv returned an error code (1), error message is: Missing key 3D2D, which is needed to verify signature.\nE: The repository 'file:/srv/apt stable InRelease' is not signed.",
        "signed with another key",
    ),
    (
        "W: GPG error: file:/srv/apt stable InRelease: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY C175",
        "signed with another key",
    ),
    (
        "W: GPG error: file:/srv/apt stable InRelease: The following signatures were invalid: EXPKEYSIG C175 Test",
        "the key that signs the repository has expired",
    ),
    (
        "W: OpenPGP signature verification failed: file:/srv/apt stable InRelease: Sub-process /usr/bin/sqv returned an error code (1), error message is: Verifying signature:            Message has been manipulated",
        "the signature of the repository is wrong",
    ),
    (
        "W: GPG error: file:/srv/apt stable InRelease: The following signatures were invalid: BADSIG C175 Test",
        "the signature of the repository is wrong",
    ),
    (
        "Err:2 file:/srv/apt stable Release\n  File not found - /srv/apt/dists/stable/Release (2: No such file or directory)\nE: The repository 'file:/srv/apt stable Release' does not have a Release file.",
        "there is no repository at this address",
    ),
    (
        "E: Failed to fetch file:/srv/apt/dists/stable/main/binary-amd64/Packages.xz  Hash Sum mismatch",
        "incomplete, or one of its files",
    ),
    (
        "E: Failed to fetch http://10.0.0.2/apt/pool/weaver_0.1.0_amd64.deb  404  Not Found [IP: 10.0.0.2 80]",
        "a file that it lists is missing",
    ),
    (
        "E: Failed to fetch file:/srv/apt/pool/weaver_0.1.0_amd64.deb  File not found - /srv/apt/pool/weaver_0.1.0_amd64.deb (2: No such file or directory)",
        "a file that it lists is missing",
    ),
    (
        "E: Failed to fetch http://nowhere.invalid/apt/dists/stable/InRelease  Could not resolve 'nowhere.invalid'",
        "no network or no DNS",
    ),
    (
        "W: Failed to fetch https://a/InRelease  Certificate verification failed: The certificate is NOT trusted.",
        "is not trusted",
    ),
    (
        "E: Failed to fetch http://127.0.0.1:9/apt/dists/stable/InRelease  Unable to connect to 127.0.0.1:9:",
        "does not answer",
    ),
    (" package architecture (s390x) does not match system (amd64)", "for another architecture"),
    (
        "E: Unmet\nThe following packages have unmet dependencies:\n config-weaver : Depends: iproute2",
        "what the new packages depend on",
    ),
    (
        "The following packages will be REMOVED:\n  other\nE: Packages need to be removed but remove is disabled.",
        "apt would have to remove another package",
    ),
    (
        "dpkg: error: requested operation requires superuser privilege\nE: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)",
        "only root may install",
    ),
    ("W: a\nE: Something else.\nE: more", "it failed (E: Something else.)"),
    ("  only this  \n", "it failed (only this)"),
    ("", "it said nothing"),
];

#[test]
fn each_failure_has_its_meaning() {
    let ours = addresses("URIs: http://10.0.0.2/apt file:///srv/apt/\n");
    for (message, want) in SAID {
        let refusal = explained(message, &ours);
        assert!(refusal.what.contains(want), "{message}: {refusal:?}");
        assert!(!refusal.remedy.is_empty());
    }
}

#[test]
fn what_another_repository_no_longer_has_is_not_for_our_owner() {
    let missing = |address: &str| format!("E: Failed to fetch {address}  404  Not Found [IP: 10.0.0.2 80]");
    for (source, address, is_ours) in [
        ("URIs: http://10.0.0.2/apt", "http://10.0.0.2/apt/pool/weaver_0.1.0_amd64.deb", true),
        ("URIs: http://10.0.0.2/apt", "http://10.0.0.2/apt-proxy/pool/i/iproute2_6.1.0_amd64.deb", false),
        (
            "URIs: http://10.0.0.2/apt",
            "http://mirror.example.org/debian/pool/i/iproute2_6.1.0_amd64.deb",
            false,
        ),
        ("Types: deb\nuris: a\n b/\n# c\nSuites: d", "b/pool/x.deb", true),
        ("Types: deb\nuris: a\n b/\n# c\nSuites: d", "d/pool/x.deb", false),
        ("", "http://10.0.0.2/apt/pool/weaver_0.1.0_amd64.deb", false),
    ] {
        let refusal = explained(&missing(address), &addresses(source));
        assert_eq!(refusal.remedy == "sudo apt-get update", !is_ours, "{source} {address}: {refusal}");
    }
    let refusal = explained("E: Unable to locate package weaver", &addresses("URIs: http://a"));
    assert_eq!(refusal.remedy, "sudo apt-get update");
}

#[test]
fn their_words_are_no_commands_for_a_terminal() {
    let shown = explained(&format!("E: \u{1b}[31m{}", "x".repeat(9999)), &[]).to_string();
    assert!(!shown.contains('\u{1b}') && shown.len() < 600, "{shown}");
}

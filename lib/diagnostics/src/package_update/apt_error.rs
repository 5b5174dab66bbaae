//! What apt and dpkg say when they fail, and what to do about it.

use super::plan::UpgradeRefusal;
use crate::finding_text::cut;

/// Characters of its output that are shown.
const MAX_MESSAGE: usize = 240;

/// Of a file that a list names.
const MISSING: &[&str] = &["404  Not Found", "File not found", "Unable to locate package"];

/// Their words, what that means, and what to do. The first that matches counts: what follows from another
/// is below it.
const KNOWN: &[(&[&str], &str, &str)] = &[
    (
        &[
            "Could not get lock",
            "Unable to acquire the dpkg frontend lock",
            "frontend lock was locked",
            "Unable to lock",
            // Of unattended-upgrades.
            "Lock could not be acquired",
        ],
        "another program is installing packages",
        "wait until it has finished, and try again; `ps -e | grep -E 'apt|dpkg|unattended'` shows it. Never remove the lock file",
    ),
    (&["dpkg was interrupted"], "an installation was interrupted earlier", "sudo dpkg --configure -a"),
    (
        &["did you forget to mount it"],
        "the boot partition is not mounted, which another package needs",
        "sudo mount /boot/firmware, then sudo dpkg --configure -a",
    ),
    (
        &["/boot/firmware", "No space left on device"],
        "the boot partition is full",
        "ls -l /boot/firmware: remove what you have put there, such as old kernels; then sudo dpkg --configure -a",
    ),
    (
        &["No space left on device", "don't have enough free space", "Not enough free disk space"],
        "the disk is full",
        "run `sudo apt-get clean`; `sudo du -xh / | sort -h | tail` shows what uses the space",
    ),
    (
        &["is not valid yet", "was created after the --not-after"],
        "this host's clock is before the date of the repository",
        "set the clock: timedatectl",
    ),
    (
        &[" is expired (invalid since"],
        "the repository has expired",
        "if the date of this host is right (`date`), have its owner run `make apt` again",
    ),
    (
        &["Failed to parse keyring", "in the keyring", "not readable by user"],
        "the key of the repository cannot be read",
        "put config-weaver.asc, which is next to the packages, where Signed-By in /etc/apt/sources.list.d names it",
    ),
    (
        &["EXPKEYSIG", "KEYEXPIRED", "certificate is expired", "key has expired", "expired on"],
        "the key that signs the repository has expired",
        "have its owner extend it, and take the new config-weaver.asc",
    ),
    (
        &["Certificate verif", "certificate verify failed", "SSL connection failed", "handshake"],
        "the certificate of the repository's server is not trusted",
        "set the clock (`timedatectl`), or add the server's CA: /usr/local/share/ca-certificates, sudo update-ca-certificates",
    ),
    (
        &["NO_PUBKEY", "Missing key"],
        "the repository is signed with another key than the one of this source",
        "take config-weaver.asc of that repository, if it is the one that you mean: compare its fingerprint with its owner's",
    ),
    (
        &[
            "BADSIG",
            "manipulated",
            "verification failed",
            "couldn't be verified",
            "is not signed",
            "Clearsigned file",
        ],
        "the signature of the repository is wrong",
        "nothing was installed. It was changed in transit or not copied completely: copy it again",
    ),
    (
        &["does not have a Release file"],
        "there is no repository at this address",
        "see whether the address is right and, for file:, the stick is mounted: cat /etc/apt/sources.list.d/config-weaver.sources; findmnt",
    ),
    (
        &["Hash Sum mismatch", "File has unexpected size", "Size mismatch"],
        "the repository is incomplete, or one of its files was changed",
        "have its owner copy it again, whole: the packages first, dists last",
    ),
    (
        &["Could not resolve", "Temporary failure resolving"],
        "the name of the repository's server is not known: there is no network or no DNS",
        "ip route; resolvectl query HOST",
    ),
    (
        &[
            "Could not connect",
            "Unable to connect",
            "Cannot initiate the connection",
            "Connection timed out",
            "Connection refused",
            "Network is unreachable",
            "Connection failed",
        ],
        "the repository's server does not answer",
        "see whether it runs and this host reaches it: curl -I ADDRESS, ip route",
    ),
    (
        MISSING,
        "the repository is incomplete: a file that it lists is missing",
        "have its owner copy it again, whole: the packages first, dists last",
    ),
    (
        &["does not match system"],
        "the package is for another architecture",
        "dpkg --print-architecture says what this host needs: `make deb` makes arm64 and amd64",
    ),
    (
        &["Packages need to be removed"],
        "apt would have to remove another package",
        "see which, and whether you need it: sudo apt-get install -s config-weaver",
    ),
    (
        &["unmet dependencies", "held broken packages"],
        "what the new packages depend on is not available",
        "sudo apt-get update, and see what apt says: sudo apt-get install -s config-weaver",
    ),
    (&["Permission denied", "are you root"], "only root may install packages", "run the command with sudo"),
];

/// The addresses of a source of apt, as it names them.
#[must_use]
pub fn addresses(source: &str) -> Vec<String> {
    let mut is_address = false;
    let mut addresses = Vec::new();
    for line in source.lines().filter(|line| !line.starts_with('#')) {
        let field = line.split_once(':').filter(|_| !line.starts_with([' ', '\t']));
        if let Some((name, _)) = field {
            is_address = name.eq_ignore_ascii_case("URIs");
        }
        let values = field.map_or(line, |(_, values)| values).split_whitespace().filter(|_| is_address);
        addresses
            .extend(values.map(|value| value.trim_end_matches('/').replacen("file:///", "file:/", 1) + "/"));
    }
    addresses
}

/// What the words of a failed program mean, where our packages come from these [`addresses`].
#[must_use]
pub fn explained(message: &str, addresses: &[String]) -> UpgradeRefusal {
    let lines = || message.lines().map(str::trim).filter(|line| !line.is_empty());
    for (signs, what, remedy) in KNOWN {
        // Of the boot partition both must be said, in one line.
        let both = *what == "the boot partition is full";
        let is_it = |line: &&str| {
            if both {
                signs.iter().all(|sign| line.contains(sign))
            } else {
                signs.iter().any(|sign| line.contains(sign))
            }
        };
        if let Some(line) = lines().find(is_it) {
            let is_ours = addresses.iter().any(|address| line.contains(address));
            let (what, remedy) = if *signs == MISSING && !is_ours {
                ("the package lists of another apt source are out of date", "sudo apt-get update")
            } else {
                (*what, *remedy)
            };
            return UpgradeRefusal::new(format!("{what} ({})", cut(line, MAX_MESSAGE)), remedy);
        }
    }
    let is_error = |line: &&str| line.starts_with("E:") || line.starts_with("dpkg: error");
    let said = lines().find(is_error).or_else(|| lines().next_back()).unwrap_or("it said nothing");
    let remedy = "see all of it: sudo tail -n 50 /var/log/apt/term.log";
    UpgradeRefusal::new(format!("it failed ({})", cut(said, MAX_MESSAGE)), remedy)
}

#[cfg(test)]
mod tests {
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
        (
            "cp: error writing '/boot/firmware/initrd.img': No space left on device",
            "the boot partition is full",
        ),
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
        let missing =
            |address: &str| format!("E: Failed to fetch {address}  404  Not Found [IP: 10.0.0.2 80]");
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
}
